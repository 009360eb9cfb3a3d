"""RemoveRedundantReshape: of several reshapes in a row the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import is_call_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class RemoveRedundantReshape(FunctionPass):
    """Reshape a value once where it is reshaped several times in a row, and not at all to the shape that it has.

    before:                                  after:
        lv = reshape(x, (6,))                    lv1 = reshape(x, (3, 2))
        lv1 = reshape(lv, (3, 2))
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function, and drop what is not read any more."""
        return mutated(function, _Rewriter())


class _Rewriter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Reshape what the first of several reshapes takes."""
        visited = super().visit_call_(call)
        if not isinstance(visited, Call) or not is_call_of(visited, "relax.reshape"):
            return visited
        source = self._source(visited.args[0])
        if source.struct_info is not None and source.struct_info == call.struct_info:
            return source
        return visited if source is visited.args[0] else Call(visited.op, (source, visited.args[1]), span=call.span)

    def _source(self, value: Expr) -> Expr:
        bound = self.lookup_binding(value)
        while isinstance(bound, Call) and is_call_of(bound, "relax.reshape"):
            value = bound.args[0]
            bound = self.lookup_binding(value)
        return value
