"""What conditions are made of."""

from __future__ import annotations

from eutectic.ir.prim_expr import And, Call, IntImm, PrimExpr, Var
from eutectic.support.deep import deep
from eutectic.tir.expr import Let
from eutectic.tir.statement_mutator import rewrite_expr


@deep
def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The conditions that hold together when `condition` does."""
    if isinstance(condition, And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    if isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely":
        return conjuncts(condition.args[0])
    return [] if isinstance(condition, IntImm) and condition.value else [condition]


def variables(expr: PrimExpr) -> set[Var]:
    """Variables in an expression, without those that it binds itself."""
    mentioned: set[Var] = set()
    bound: set[Var] = set()

    def look(item: PrimExpr) -> None:
        if isinstance(item, Var):
            mentioned.add(item)
        elif isinstance(item, Let):
            bound.add(item.var)

    rewrite_expr(expr, look)
    return mentioned - bound
