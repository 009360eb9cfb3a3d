"""ConvertSSA: every variable is bound in one place."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Var
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Allocate, For, LetStmt
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body


@dataclass(frozen=True)
class ConvertSSA(PrimFuncPass):
    """Give variables that are bound in several places a new variable in each.

    Passes and code generation remember what became of a part of a program, by the object that it is; parts that
    two bindings of one variable share would have the value of the first.

    before:                                          after:
        y[0] = T.Let(v * v, where={v: x[0]})             y[0] = T.Let(v * v, where={v: x[0]})
        y[1] = T.Let(v * v, where={v: x[1]})             y[1] = T.Let(w * w, where={w: x[1]})

    Cost: one walk; a second one where something is bound twice.

    Reference: TVM tir.transform.ConvertSSA.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return convert_ssa(func)


def convert_ssa(func: PrimFunc) -> PrimFunc:
    """`ConvertSSA` of one function."""
    if not _binds_twice(func.body):
        return func
    return with_body(func, Substituter({}, rename=True).stmt(func.body))


def _binds_twice(root: Node) -> bool:
    bound: set[Var] = set()
    for part in post_order(root):
        if isinstance(part, (Let, LetStmt)):
            var = part.var
        elif isinstance(part, For):
            var = part.loop_var
        elif isinstance(part, Allocate):
            var = part.buffer_var
        else:
            continue
        if var in bound:
            return True
        bound.add(var)
    return False
