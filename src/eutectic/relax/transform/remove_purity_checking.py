"""RemovePurityChecking: programs whose purity nobody checks any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.infra import FunctionPass


@dataclass(frozen=True)
class RemovePurityChecking(FunctionPass):
    """Mark pure functions with `relax.force_pure`, and call external functions without saying that they are pure."""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        fresh = _Unwrapped().visit_expr(function)
        assert isinstance(fresh, Function)
        if not fresh.is_pure or fresh.attr("relax.force_pure"):
            return fresh
        marked = fresh.with_attr("relax.force_pure", True)
        assert isinstance(marked, Function)
        return marked


class _Unwrapped(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """A plain call in place of `call_pure_packed`."""
        visited: Any = super().visit_call_(call)
        is_wrapped = isinstance(visited, Call) and isinstance(visited.op, Op)
        if not is_wrapped or visited.op.name != "relax.call_pure_packed":
            return visited
        return Call(visited.args[0], visited.args[1:], None, visited.sinfo_args, visited.span)
