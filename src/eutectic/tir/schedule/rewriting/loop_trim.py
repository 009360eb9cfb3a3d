"""Loops without their last iterations, where a condition on the loop alone keeps all blocks from running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.arith.sets import Region, is_empty
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import GT, LT, IntImm, PrimExpr, Var, compare, logical_and, logical_or
from eutectic.ir.structural import structural_equal
from eutectic.support.deep import deep
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import context_of
from eutectic.tir.analysis.first_points import conjunction_of
from eutectic.tir.analysis.index_facts import loops_of
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.legality.whole_iterations import iterations_with
from eutectic.tir.schedule.rewriting.regions import RegionRecomputer
from eutectic.tir.schedule.state import Site
from eutectic.tir.statement_mutator import is_zero
from eutectic.tir.stmt import For, SeqStmt, Stmt

_TRIMMED: Final = ("serial", "unrolled", "parallel")  # lanes and threads are as many as they are


class Trimming(RegionRecomputer):
    """Ends loops before the iterations in which no block of theirs runs.

    before: for j in range(14): block where j < 13
    after:  for j in range(13): block

    before: for j, k in grid(64, 32): block where j * 32 + k < n
    after:  for j in range((n + 31) // 32): for k in range(32): block where j * 32 + k < n

    The second one is of loops with others inside, where `n` is proved to be at most `64 * 32`: the innermost loops
    become lanes of vectors, which are as many as they are.

    Args:
        site: A place around.
        part: The loop that is there now.
    """

    def __init__(self, site: Site, part: For) -> None:
        self.site, self.inside = site, [part]

    def visit_for(self, stmt: For) -> Stmt:
        """A loop."""
        extent = stmt.static_extent
        if stmt.kind in _TRIMMED and extent is not None and is_zero(stmt.min):
            end = _end(stmt.body, stmt.loop_var)
            if end is not None and 1 <= end < extent:
                body = _without(stmt.body, stmt.loop_var, end)
                stmt = replace(stmt, extent=IntImm(stmt.loop_var.dtype, end), body=body)
            elif end is None and (size := iterations_reached(self.site, self.inside, stmt)) is not None:
                stmt = replace(stmt, extent=size)
        self.inside.append(stmt)
        loop = super().visit_for(stmt)
        self.inside.pop()
        return loop


def iterations_reached(site: Site, inside: Sequence[For], loop: For, *, of_tiles: bool = True) -> PrimExpr | None:
    """Iterations of a loop in which blocks run somewhere, by sizes that are not known; None where it is all.

    Args:
        site: A place around the loop.
        inside: Loops between both.
        loop: A loop from zero on.
        of_tiles: Whether only conditions count that loops inside have a part in.
    """
    blocks = _blocks(loop.body)
    ends = [_reached(site, inside, loop, stmt, of_tiles) for stmt in blocks or ()]
    if not ends or ends[0] is None or not all(end is not None and structural_equal(end, ends[0]) for end in ends):
        return None
    context = context_of([*site.above, *inside])
    wrong = logical_or(compare(LT, ends[0], 0), compare(GT, ends[0], loop.extent))
    return ends[0] if is_empty(Region((ends[0],)), logical_and(context, wrong)) else None


@deep
def _blocks(stmt: Stmt) -> list[BlockRealize] | None:
    """The outermost blocks in a statement; None where something is done outside of them."""
    match stmt:
        case BlockRealize():
            return [stmt]
        case For():
            return _blocks(stmt.body)
        case SeqStmt():
            parts = [_blocks(part) for part in stmt.seq]
            return None if None in parts else [block for part in parts for block in part or ()]
        case _:
            return None


def _reached(site: Site, inside: Sequence[For], loop: For, stmt: BlockRealize, of_tiles: bool) -> PrimExpr | None:
    """The iteration from which on a condition of a block holds nowhere."""
    inner = {item.loop_var for item in loops_of(loop.body)}
    for part in conjuncts(stmt.predicate):
        used = variables(part)
        if loop.loop_var in used and (used & inner or not of_tiles):
            return iterations_with(site, inside, loop, part, at_all_points=False)
    return None


class WithoutConditions(RegionRecomputer):
    """Takes away conditions of blocks on one variable, where they are known to hold.

    Args:
        var: The variable.
    """

    def __init__(self, var: Var) -> None:
        self.var = var

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block."""
        parts = conjuncts(stmt.predicate)
        kept = [part for part in parts if self.var not in variables(part)]
        return super().visit_realize(stmt if len(kept) == len(parts) else replace(stmt, predicate=conjunction_of(kept)))


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
