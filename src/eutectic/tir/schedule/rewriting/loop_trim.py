"""Loops without their last iterations, where a condition on the loop alone keeps all blocks from running."""

from __future__ import annotations

from typing import Final

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import LT, IntImm, PrimExpr, Var
from eutectic.support.deep import deep
from eutectic.tir.analysis.conditions import conjuncts
from eutectic.tir.analysis.first_points import conjunction_of
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.rewriting.regions import RegionRecomputer
from eutectic.tir.statement_mutator import is_zero
from eutectic.tir.stmt import For, SeqStmt, Stmt

_TRIMMED: Final = ("serial", "unrolled", "parallel")  # lanes and threads are as many as they are


class Trimming(RegionRecomputer):
    """Ends loops before the iterations in which no block of theirs runs.

    before: for j in range(14): block where j < 13
    after:  for j in range(13): block
    """

    def visit_for(self, stmt: For) -> Stmt:
        """A loop."""
        extent = stmt.static_extent
        if stmt.kind in _TRIMMED and extent is not None and is_zero(stmt.min):
            end = _end(stmt.body, stmt.loop_var)
            if end is not None and 1 <= end < extent:
                body = _without(stmt.body, stmt.loop_var, end)
                stmt = replace(stmt, extent=IntImm(stmt.loop_var.dtype, end), body=body)
        return super().visit_for(stmt)


@deep
def _end(stmt: Stmt, var: Var) -> int | None:
    """The iteration of a loop from which on no block in a statement runs; None when that is not known."""
    match stmt:
        case BlockRealize():
            ends = [end for part in conjuncts(stmt.predicate) if (end := _bound(part, var)) is not None]
            return min(ends, default=None)
        case For():
            return _end(stmt.body, var)
        case SeqStmt():
            ends = []
            for part in stmt.seq:
                end = _end(part, var)
                if end is None:
                    return None
                ends.append(end)
            return max(ends, default=None)
        case _:
            return None


def _bound(part: PrimExpr, var: Var) -> int | None:
    return part.b.value if isinstance(part, LT) and part.a is var and isinstance(part.b, IntImm) else None


@deep
def _without(stmt: Stmt, var: Var, end: int) -> Stmt:
    """A statement without the conditions that all iterations before `end` meet."""
    match stmt:
        case BlockRealize():
            parts = conjuncts(stmt.predicate)
            kept = [part for part in parts if (bound := _bound(part, var)) is None or bound < end]
            return stmt if len(kept) == len(parts) else replace(stmt, predicate=conjunction_of(kept))
        case For():
            return replace(stmt, body=_without(stmt.body, var, end))
        case SeqStmt():
            return replace(stmt, seq=tuple(_without(part, var, end) for part in stmt.seq))
        case _:
            return stmt
