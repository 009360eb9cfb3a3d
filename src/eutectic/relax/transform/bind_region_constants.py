"""BindRegionConstants: move constants that the caller passes into the regions that use them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.bind_params import bind_params
from eutectic.relax.transform.entry import entry_functions_of


@dataclass(frozen=True)
class BindRegionConstants(Pass):
    """Bind constant arguments of functions with a `Codegen` attribute, so that a backend can pack them once.

    Composites made with `bind_constants=False` get their weights from the caller.
    A region that is called more than once keeps them as parameters, since the
    calls may pass different ones.

    before:                                     after:
        lv = fused_conv_dnnl(x, metadata[0])        lv = fused_conv_dnnl(x)
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Bind in every region that one call reaches."""
        calls = _region_calls(mod)
        once = Counter(call.op.name_hint for call in calls)
        bound = {
            call.op.name_hint: call
            for call in calls
            if once[call.op.name_hint] == 1 and any(isinstance(arg, Constant) for arg in call.args)
        }
        if not bound:
            return mod
        out = mod.clone()
        for name, call in bound.items():
            function = copy_with_new_vars(mod[name])
            pairs = zip(function.params, call.args, strict=True)
            values = {param: arg for param, arg in pairs if isinstance(arg, Constant)}
            out[name] = _bind_inner(bind_params(function, values))
        for gv, function in entry_functions_of(mod, None):
            out.update_func(gv, _DropConstants(out, set(bound)).visit_expr(function))
        return out


def _region_calls(mod: IRModule) -> list[Call]:
    calls = []
    for _, function in entry_functions_of(mod, None):
        for binding in walk_bindings(function):
            call = binding.value
            callee = mod.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
            if isinstance(callee, Function) and callee.attr("Codegen") and isinstance(call, Call):
                calls.append(call)
    return calls


def _bind_inner(region: Function) -> Function:
    """Bind constants that the region passes to a composite called once."""
    counts = Counter(b.value.op for b in walk_bindings(region) if isinstance(b.value, Call))
    fresh = _InnerBinder(region, counts).visit_expr(region)
    assert isinstance(fresh, Function)
    return fresh


class _InnerBinder(PyExprMutator):
    """Rewrites the inner functions of a region, then the calls of them."""

    def __init__(self, region: Function, counts: Counter[Any]) -> None:
        super().__init__()
        self._given = {
            b.value.op: b.value.args
            for b in walk_bindings(region)
            if isinstance(b.value, Call)
            and counts[b.value.op] == 1
            and any(isinstance(a, Constant) for a in b.value.args)
        }

    def visit_var_binding_(self, binding: Any) -> None:
        """Bind the constants of an inner function where it is defined."""
        if binding.var in self._given and isinstance(binding.value, Function):
            pairs = zip(binding.value.params, self._given[binding.var], strict=True)
            values = {param: arg for param, arg in pairs if isinstance(arg, Constant)}
            value = bind_params(binding.value, values)
            fresh = self.with_struct_info(binding.var, value.struct_info)  # type: ignore[arg-type]  # functions have it
            self.set_var_remap(binding.var, fresh)
            self.builder_.emit_normalized(type(binding)(fresh, value))
            return
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Call) -> Any:
        """Drop the constants from the call."""
        if call.op in self._given:
            args = [self.visit_expr(arg) for arg in call.args if not isinstance(arg, Constant)]
            return Call(self.visit_expr(call.op), args, None, (), call.span)
        return super().visit_call_(call)


class _DropConstants(PyExprMutator):
    """Removes the constant arguments of calls whose function has them bound."""

    def __init__(self, mod: IRModule, names: set[str]) -> None:
        super().__init__(mod)
        self._names = names

    def visit_call_(self, call: Call) -> Any:
        """Rewrite one call."""
        if isinstance(call.op, GlobalVar) and call.op.name_hint in self._names:
            args = [self.visit_expr(arg) for arg in call.args if not isinstance(arg, Constant)]
            return Call(call.op, args, None, (), call.span)
        return super().visit_call_(call)
