"""RunCodegen: hand functions with a `Codegen` attribute to their backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.services import Services
from eutectic.ir.transform import Pass, PassContext
from eutectic.ir.visit import post_order
from eutectic.relax.expr import Call, Constant, ExternFunc, Function, Tuple
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.call_packed import call_dps_packed
from eutectic.relax.struct_info import ObjectStructInfo, TupleStructInfo
from eutectic.relax.transform.dead_code_elimination import DeadCodeElimination
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.support.errors import CodegenError


@dataclass(frozen=True)
class RunCodegen(Pass):
    """Compile functions with `Codegen` and call the results by name.

    The backend is the global function `relax.ext.<target>`, called with the functions
    of that target, its options, and a name for every constant. It returns one object
    with a `symbol` for each, kept in the module attribute `external_mods`: what
    registered backends return is data, `LibraryKernel`s, which linking loads.

    Attributes:
        target_options: Options by target.
        entry_functions: Functions to visit; None means all that are not fused.

    Raises:
        CodegenError: no backend is registered for a target.

    Reference: TVM's `relax.transform.RunCodegen`.
    """

    target_options: Mapping[str, Mapping[str, Any]] | None = None
    entry_functions: Sequence[str] | None = field(default=None)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Compile, replace the calls, drop the functions."""
        by_target: dict[str, list[Function]] = {}
        for _, function in mod.functions_items():
            if isinstance(function, Function) and function.attr("Codegen"):
                by_target.setdefault(str(function.attr("Codegen")), []).append(function)
        if not by_target:
            return mod
        names: dict[Constant, str] = {}
        modules: list[Any] = list(mod.attrs.get("external_mods", ()))
        for target, functions in sorted(by_target.items()):
            for function in functions:
                _name_constants(function, target, names)
            modules += _compile(
                ctx.services, target, functions, dict((self.target_options or {}).get(target, {})), names
            )
        out = mod.clone()
        for gv, function in entry_functions_of(mod, self.entry_functions):
            out.update_func(gv, _Replace(mod).visit_expr(function))
        attrs = {"external_mods": tuple(modules), "const_name_to_constant": {n: c.data for c, n in names.items()}}
        out = DeadCodeElimination().run(out, ctx)
        result = IRModule(out.functions, out.attrs, out.global_infos)
        return result.with_attrs(attrs)


def _name_constants(function: Function, target: str, names: dict[Constant, str]) -> None:
    symbol = function.attr("global_symbol")
    for item in post_order(function):
        if isinstance(item, Constant) and item not in names:
            names[item] = f"{symbol}_{target}_const_{len(names)}"


def _compile(
    services: Services, target: str, functions: list[Function], options: dict[str, Any], names: dict[Constant, str]
) -> list[Any]:
    codegen = services.codegen(target)
    if codegen is None:
        raise CodegenError(
            f"Codegen is not found: relax.ext.{target}",
            help="register a backend of that name with eutectic.backend.registry.register_backend",
        )
    return list(codegen(functions, options, names))


class _Replace(PyExprMutator):
    """Calls of codegen functions become calls by name."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def visit_call_(self, call: Call) -> Any:
        """Replace one call."""
        call = self.visit_expr_post_order(call)
        callee = self._mod.get(call.op) if isinstance(call.op, GlobalVar) else None
        if not isinstance(callee, Function) or not callee.attr("Codegen"):
            return call
        info = call.struct_info or callee.ret_struct_info or ObjectStructInfo()
        infos = list(info.fields) if isinstance(info, TupleStructInfo) else info
        return call_dps_packed(ExternFunc(str(callee.attr("global_symbol"))), Tuple(call.args), infos, span=call.span)
