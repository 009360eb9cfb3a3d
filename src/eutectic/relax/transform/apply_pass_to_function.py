"""ApplyPassToFunction: a pass of modules, applied to some of the functions only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import Pass, PassContext, run_pass
from eutectic.relax.expr import BindingBlock, Call, ExternFunc, Function, SeqExpr, Var, VarBinding
from eutectic.support.errors import PassError
from eutectic.support.spelling import did_you_mean

_SYMBOL = "global_symbol"


@dataclass(frozen=True)
class ApplyPassToFunction(Pass):
    """Apply a pass to the functions whose names match, as if nothing were known of the others but their types.

    Attributes:
        transform: The pass.
        func_name_regex: Regular expression of the names, which must match as a whole.
        error_if_no_function_matches_regex: Whether it is an error that no name matches.

    Raises:
        PassError: no name matches, and that is to be an error.

    Reference: TVM relax.transform.ApplyPassToFunction.
    """

    transform: Pass
    func_name_regex: str
    error_if_no_function_matches_regex: bool = False
    opt_level: ClassVar[int] = 0

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply it."""
        pattern = re.compile(self.func_name_regex)
        names = [gv.name_hint for gv in mod.get_global_vars()]
        chosen = {name for name in names if pattern.fullmatch(name)}
        if not chosen:
            if self.error_if_no_function_matches_regex:
                raise PassError(
                    f"no function matches {self.func_name_regex!r}; the module has: {', '.join(names) or 'none'}",
                    help=did_you_mean(self.func_name_regex, names),
                )
            return mod
        before = _seen_from(mod, chosen)
        after = run_pass(self.transform, before, ctx)
        return mod if after is before else _merged(mod, before, after, chosen)


def _seen_from(mod: IRModule, chosen: set[str]) -> IRModule:
    """The chosen functions, public so that none is removed for want of a caller, and the types of the others."""
    functions: dict[GlobalVar, Any] = {}
    for gv, function in mod.functions.items():
        shown = function if gv.name_hint in chosen else _hidden(function, gv.name_hint)
        functions[gv] = _public(shown, gv.name_hint)
    return IRModule(functions, mod.attrs, mod.global_infos)


def _hidden(function: Any, name: str) -> Any:
    """A function of the same type that says nothing; a tensor program as it is."""
    if not isinstance(function, Function):
        return function
    result = function.ret_struct_info
    assert result is not None
    code = ExternFunc(name)
    pure = Call(Op.get("relax.call_pure_packed"), (code, *function.params), None, (result,), struct_info=result)
    call = pure if function.is_pure else Call(code, function.params, None, (result,), struct_info=result)
    var = Var("gv", result)
    body = SeqExpr((BindingBlock((VarBinding(var, call),)),), var)
    return Function(function.params, body, result, function.is_pure, function.attrs)


def _public(function: Any, name: str) -> Any:
    hidden = isinstance(function, Function) and function.attr(_SYMBOL) is None
    return function.with_attr(_SYMBOL, name) if hidden else function


def _merged(mod: IRModule, before: IRModule, after: IRModule, chosen: set[str]) -> IRModule:
    """The result of the pass, with the functions that it did not see, and private ones private again."""
    functions: dict[GlobalVar, Any] = {}
    for gv, function in after.functions.items():
        original = mod.get(gv)
        if original is not None and (gv.name_hint not in chosen or function is before[gv]):
            functions[gv] = original
        elif isinstance(original, Function) and original.attr(_SYMBOL) is None:
            functions[gv] = function.without_attr(_SYMBOL)
        else:
            functions[gv] = function
    lost = {gv: function for gv, function in mod.functions.items() if gv not in after and gv.name_hint not in chosen}
    return IRModule({**functions, **lost}, after.attrs, after.global_infos)
