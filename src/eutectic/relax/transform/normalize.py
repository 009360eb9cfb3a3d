"""Normalize: bring functions that were put together by hand into normal form."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.infra import FunctionPass


@dataclass(frozen=True)
class Normalize(FunctionPass):
    """Give nested calls bindings of their own and fill in struct info.

    before:                         after:
        gv = relu(add(x, y))            lv = add(x, y)
                                        gv = relu(lv)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rebuild one function through the block builder."""
        fresh = PyExprMutator(mod).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh
