"""LambdaLift: functions within functions as functions of the module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import free_vars
from eutectic.relax.expr import Call, Function, Tuple, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.closure import invoke_closure, invoke_pure_closure, make_closure
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.relax.transform.remove_unused_parameters import substituted


@dataclass(frozen=True)
class LambdaLift(Pass):
    """Make every function that is bound within another a private function of the module.

    What it reads from around it becomes its last parameters. Where it is called, these are passed; where it is a value,
    it becomes a closure.

    before::

        @R.function
        def inner(y):
            return R.add(x, y)

        return inner(z)

    after, with `main_inner` among the functions of the module::

        @R.function(private=True)
        def main_inner(y, x):
            return R.add(x, y)

        return cls.main_inner(z, x)
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Lift the functions of all graph functions."""
        lifter = _Lifter(mod.clone())
        changed = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function):
                lifter.prefix = gv.name_hint
                fresh = lifter.visit_expr(function)
                if fresh is not function:
                    changed[gv] = fresh
        if not changed:
            return mod
        out = lifter.builder_.get()
        out.update(changed)
        return out


class _Lifter(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.prefix = ""
        self._lifted: dict[Var, tuple[GlobalVar, Sequence[Var], bool]] = {}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Lift a function that is bound; the binding goes, or makes a closure where the function is a value."""
        if not isinstance(binding.value, Function):
            super().visit_var_binding_(binding)
            return
        function = self.visit_expr(binding.value)
        assert isinstance(function, Function)
        own = [var for var in free_vars(function) if var is not binding.var]
        captured = [self.get_var_remap(var) for var in own]
        params = [Var(var.name_hint, var.struct_info) for var in captured]
        name = self.builder_.get_unique_global(f"{self.prefix}_{binding.var.name_hint}")
        gv = GlobalVar(name)
        self._lifted[binding.var] = gv, captured, function.is_pure
        body = _Recursion(binding.var, gv, params).visit_expr(function)
        whole = Function(
            (*body.params, *params),
            substituted(body, dict(zip(own, params, strict=True))),
            function.ret_struct_info,
            function.is_pure,
            function.attrs,
            function.span,
        )
        lifted = GlobalVar(name, struct_info=whole.struct_info)
        self._lifted[binding.var] = lifted, captured, function.is_pure
        self.builder_.update_func(lifted, whole)

    def visit_var_(self, var: Var) -> Any:
        """A lifted function that is a value: a closure, or the function when it captures nothing."""
        if var not in self._lifted:
            return super().visit_var_(var)
        gv, captured, _ = self._lifted[var]
        return self.builder_.emit(make_closure(gv, Tuple(tuple(captured)))) if captured else gv

    def visit_dataflow_var_(self, var: Any) -> Any:
        """As for plain variables."""
        return self.visit_var_(var) if var in self._lifted else super().visit_dataflow_var_(var)

    def visit_call_(self, call: Call) -> Any:
        """Call a lifted function with what it captured; invoke a closure."""
        if isinstance(call.op, Var) and call.op in self._lifted:
            gv, captured, _ = self._lifted[call.op]
            args = tuple(self.visit_expr(arg) for arg in call.args)
            return Call(gv, (*args, *captured), call.attrs, call.sinfo_args, call.span)
        visited: Any = super().visit_call_(call)
        callee = visited.op if isinstance(visited, Call) else None
        if isinstance(callee, Var) and isinstance(callee.struct_info, ObjectStructInfo):
            invoke = invoke_closure if _impure(call) else invoke_pure_closure
            return invoke(callee, Tuple(visited.args), call.struct_info or ObjectStructInfo(), span=call.span)
        return visited


def _impure(call: Call) -> bool:
    return not getattr(call.op.struct_info, "purity", True)


class _Recursion(PyExprMutator):
    """Calls of a function by itself, as calls of what it is lifted to."""

    def __init__(self, var: Var, gv: GlobalVar, params: Sequence[Var]) -> None:
        super().__init__()
        self._var, self._gv, self._params = var, gv, params

    def visit_call_(self, call: Call) -> Any:
        """Pass on what was captured."""
        visited = super().visit_call_(call)
        if isinstance(visited, Call) and visited.op is self._var:
            info = call.struct_info
            args = (*visited.args, *self._params)
            return Call(self._gv, args, visited.attrs, visited.sinfo_args, call.span, struct_info=info)
        return visited
