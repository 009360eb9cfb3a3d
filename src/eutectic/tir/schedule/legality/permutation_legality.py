"""Whether the points of a nest of loops may be permuted: accesses of an element must stay in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from eutectic.arith.sets import Region, is_empty
from eutectic.ir.prim_expr import EQ, LT, NE, PrimExpr, Var, compare
from eutectic.tir.analysis.accesses import Access, accesses_of
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import Conflict, conjunction, context_of, in_bounds, may_meet, pairs
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, Stmt


def permutation_conflict(
    loops: Sequence[For], order: Sequence[PrimExpr], above: Sequence[Stmt] = ()
) -> Conflict | Stmt | None:
    """What keeps the points of a nest from being run in another order.

    Args:
        loops: Loops directly inside each other, outermost first; bounds do not depend on each other.
        order: Expressions of their variables, in the lexicographic order of which the points are to run; no two points
            have the same.
        above: Statements around the nest.

    Returns:
        Two accesses that could come in one order before and in the other one after; a statement whose accesses are
        not known; or None: all dependences keep their direction.
    """
    accesses = accesses_of(loops[0])
    if accesses.opaque:
        return accesses.opaque[0]
    points = _Points(loops, order, above)
    for a, b in pairs(accesses):
        if not points.stay(a, b) and any(points.turn(*pair) for pair in ((a, b), (b, a))):
            return Conflict(a, b)
    return None


class _Points:
    """Two points of a nest, and proofs about them.

    An order of tuples is taken apart by the first index in which they differ, so that each question is a small one.
    """

    def __init__(self, loops: Sequence[For], order: Sequence[PrimExpr], above: Sequence[Stmt]) -> None:
        self.loops, self.order = loops, order
        self.first: dict[Var, PrimExpr] = {x.loop_var: Var(f"p{k}", x.loop_var.dtype) for k, x in enumerate(loops)}
        self.second: dict[Var, PrimExpr] = {x.loop_var: Var(f"q{k}", x.loop_var.dtype) for k, x in enumerate(loops)}
        bounds = [in_bounds(side[x.loop_var], (x.min, x.extent)) for x in loops for side in (self.first, self.second)]
        self.around = conjunction([context_of(above), *bounds])
        self.apart: dict[tuple[object, ...], frozenset[Var]] = {}
        self.kept: dict[frozenset[Var], bool] = {}

    def stay(self, a: Access, b: Access) -> bool:
        """Whether it is proved by the loops alone in which two accesses of one element can differ."""
        key = (a.buffer, id(a.indices), id(b.indices), tuple(a.iters), tuple(b.iters))
        if key not in self.apart:
            self.apart[key] = self._apart(replace(a, conditions=()), replace(b, conditions=()))
        loops = self.apart[key]
        if loops not in self.kept:
            self.kept[loops] = self._keeps(loops)
        return self.kept[loops]

    def turn(self, earlier: Access, later: Access) -> bool:
        """Whether the access that came first could come last; False is proved."""
        first, second = self.first, self.second
        return any(may_meet(earlier, later, first, second, case) for case in self._cases(self.loops, self.order))

    def _apart(self, a: Access, b: Access) -> frozenset[Var]:
        """Loops that can be in different iterations when both access one element."""
        return frozenset(
            var
            for var in self.first
            if may_meet(
                a,
                b,
                self.first,
                self.second,
                conjunction([self.around, compare(NE, self.first[var], self.second[var])]),
            )
        )

    def _keeps(self, apart: frozenset[Var]) -> bool:
        """Whether points that differ in some loops only stay in their order."""
        loops = [x for x in self.loops if x.loop_var in apart]
        order = [value for value in self.order if variables(value) & apart]
        same = {self.second[x.loop_var]: self.first[x.loop_var] for x in self.loops if x.loop_var not in apart}
        merged: Mapping[Var, PrimExpr] = {var: value for var, value in same.items() if isinstance(var, Var)}
        return all(is_empty(Region((), {}, with_values(case, merged))) for case in self._cases(loops, order))

    def _cases(self, loops: Sequence[For], order: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Ways in which the second point can come after the first in loops, and before it in the new order."""
        old = [[side[x.loop_var] for x in loops] for side in (self.first, self.second)]
        new = [[with_values(value, side) for value in order] for side in (self.first, self.second)]
        both = product(_before(old[0], old[1]), _before(new[1], new[0]))
        return [conjunction([self.around, before, after]) for before, after in both]


def _before(first: Sequence[PrimExpr], second: Sequence[PrimExpr]) -> list[PrimExpr]:
    """One tuple comes before another: a condition for each index that they may differ in first."""
    out: list[PrimExpr] = []
    for number in range(len(first)):
        same = [compare(EQ, a, b) for a, b in zip(first[:number], second[:number], strict=True)]
        out.append(conjunction([*same, compare(LT, first[number], second[number])]))
    return out
