"""Proofs that iterations do not depend on each other, or keep their order where they do.

Two accesses of one element depend on each other when one of them writes. A question names two
iterations by fresh variables, and asks isl whether the accesses of both can meet. Everything that is
not proved counts as a dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from eutectic.arith.sets import Region, covers, disjoint, is_injective
from eutectic.ir.prim_expr import EQ, LT, NE, IntImm, PrimExpr, Var, add, compare, logical_and, logical_or
from eutectic.tir.analysis.accesses import Access, Accesses, Bounds, accesses_of, is_affine
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, Stmt

TRUE: PrimExpr = IntImm("bool", 1)
FALSE: PrimExpr = IntImm("bool", 0)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses whose order matters, and which could not be shown to be of different elements.

    Attributes:
        first: One of them.
        second: The other; the same object when a write meets itself in another iteration.
    """

    first: Access
    second: Access

    def said(self) -> str:
        """The conflict in words."""
        kinds = {access.is_write for access in (self.first, self.second)}
        what = "two iterations write" if kinds == {True} else "one iteration writes what another reads:"
        return f"{what} an element of {self.first.buffer.name}"


def conjunction(conditions: Sequence[PrimExpr]) -> PrimExpr:
    """All of several conditions."""
    out = TRUE
    for condition in conditions:
        out = logical_and(out, condition)
    return out


def in_bounds(value: PrimExpr, bounds: Bounds) -> PrimExpr:
    """`value` is one of the integers of a loop."""
    low, extent = bounds
    return conjunction([compare(LT, value, add(low, extent)), compare(LT, low, add(value, 1))])


def context_of(above: Sequence[Stmt]) -> PrimExpr:
    """What holds of the variables of the statements around a place."""
    out: list[PrimExpr] = []
    for stmt in above:
        if isinstance(stmt, For) and is_affine(stmt.min) and is_affine(stmt.extent):
            out.append(in_bounds(stmt.loop_var, (stmt.min, stmt.extent)))
        elif isinstance(stmt, BlockRealize):
            for axis in stmt.block.iter_vars:
                if axis.dom is not None and is_affine(axis.dom.min) and is_affine(axis.dom.extent):
                    out.append(in_bounds(axis.var, (axis.dom.min, axis.dom.extent)))
    return conjunction(out)


def region_of(access: Access, fixed: Mapping[Var, PrimExpr] | None = None, axes: Sequence[int] | None = None) -> Region:
    """The elements of an access.

    Args:
        access: The access.
        fixed: Loops that stand for one iteration each.
        axes: The axes to be looked at; None for all, which must all be known.
    """
    fixed = fixed or {}

    def at(expr: PrimExpr) -> PrimExpr:
        return with_values(expr, fixed)

    chosen = range(len(access.indices)) if axes is None else axes
    indices = tuple(at(index) for k in chosen if (index := access.indices[k]) is not None)
    iters = {var: (at(low), at(extent)) for var, (low, extent) in access.iters.items() if var not in fixed}
    return Region(indices, iters, conjunction([at(condition) for condition in access.conditions]))


def may_meet(
    a: Access,
    b: Access,
    at_a: Mapping[Var, PrimExpr] | None = None,
    at_b: Mapping[Var, PrimExpr] | None = None,
    assumption: PrimExpr = TRUE,
) -> bool:
    """Whether two accesses, each in some iteration, could be of one element; False is proved."""
    if a.buffer.data is not b.buffer.data:
        return False
    if a.buffer is not b.buffer or len(a.indices) != len(b.indices):
        return True
    known = [k for k, pair in enumerate(zip(a.indices, b.indices, strict=True)) if None not in pair]
    return not disjoint(region_of(a, at_a, known), region_of(b, at_b, known), assumption)


def pairs(
    accesses: Accesses, other: Accesses | None = None, *, at_once: bool = False
) -> Iterator[tuple[Access, Access]]:
    """Accesses whose order matters: of one memory, one of them a write.

    Args:
        accesses: What one statement accesses.
        other: What a second one accesses; None pairs those of the first among each other, with themselves as well.
        at_once: Whether iterations may overlap in time; updates of integers may then not be exchanged either.
    """
    private = accesses.private | (other.private if other is not None else frozenset())
    for k, a in enumerate(accesses.items):
        for b in accesses.items[k:] if other is None else other.items:
            same = a.buffer.data is b.buffer.data and a.buffer.data not in private
            unordered = not at_once and a.update is not None and a.update is b.update
            if same and (a.is_write or b.is_write) and not unordered:
                yield a, b


def carried(loop: For, above: Sequence[Stmt] = (), private: frozenset[Var] = frozenset()) -> Conflict | Stmt | None:
    """What makes the order of the iterations of a loop matter.

    Args:
        loop: The loop.
        above: Statements around it, which bound their variables.
        private: Memory that each iteration has for itself.

    Returns:
        Two accesses that could meet in different iterations; a statement whose accesses are not known;
        or None: the iterations may run in any order, also at once.
    """
    accesses = accesses_of(loop, above)
    if accesses.opaque:
        return accesses.opaque[0]
    p, q = (Var(name, loop.loop_var.dtype) for name in "pq")
    bounds = (loop.min, loop.extent)
    assumption = conjunction(
        [context_of(above), *(in_bounds(v, bounds) for v in (p, q) if all(map(is_affine, bounds))), compare(NE, p, q)]
    )
    proved = _Proved()

    def free(a: Access, b: Access) -> bool:
        return not may_meet(a, b, {loop.loop_var: p}, {loop.loop_var: q}, assumption)

    for a, b in sorted(pairs(accesses, at_once=True), key=_conditions):
        if a.buffer.data not in private and not proved.holds(a, b, partial(free, a, b)):
            return Conflict(a, b)
    return None


def lexicographic(first: Sequence[PrimExpr], second: Sequence[PrimExpr]) -> PrimExpr:
    """One tuple, such as an iteration of a nest, comes before another."""
    out, equal = FALSE, TRUE
    for a, b in zip(first, second, strict=True):
        out = logical_or(out, logical_and(equal, compare(LT, a, b)))
        equal = logical_and(equal, compare(EQ, a, b))
    return out


def order_conflict(loops: Sequence[For], order: Sequence[For], above: Sequence[Stmt] = ()) -> Conflict | Stmt | None:
    """What keeps a nest of loops from being run in another order of the loops.

    Args:
        loops: Loops directly inside each other, outermost first; bounds do not depend on each other.
        order: The same loops in the new order.
        above: Statements around the nest.

    Returns:
        As `carried`: None says that all dependences keep their direction.
    """
    accesses = accesses_of(loops[0], above)
    if accesses.opaque:
        return accesses.opaque[0]
    around = context_of(above)
    exchanged = [
        (loop, other)
        for k, loop in enumerate(loops)
        for other in loops[k + 1 :]
        if order.index(other) < order.index(loop)
    ]
    proved = _Proved()

    def keeps(earlier: Access, later: Access) -> bool:
        # most pairs of loops carry nothing, which is quick to see; otherwise look at all loops together
        return not any(_exchange(earlier, later, pair, around) for pair in exchanged) or not may_meet(
            earlier, later, *_reversal(loops, order, around)
        )

    for a, b in sorted(pairs(accesses), key=_conditions):
        for earlier, later in ((a, b), (b, a)):
            if not proved.holds(earlier, later, partial(keeps, earlier, later)):
                return Conflict(a, b)
    return None


class _Proved:
    """What was proved of pairs of accesses; it holds under more conditions too."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], list[tuple[frozenset[int], frozenset[int]]]] = {}

    def holds(self, a: Access, b: Access, proof: Callable[[], bool]) -> bool:
        """Whether something is proved of two accesses, or was of ones that differ in conditions only."""
        key = (a.buffer, id(a.indices), id(b.indices), tuple(a.iters), tuple(b.iters))
        conditions = frozenset(map(id, a.conditions)), frozenset(map(id, b.conditions))
        before = self.known.setdefault(key, [])
        if any(x <= conditions[0] and y <= conditions[1] for x, y in before):
            return True
        if not proof():
            return False
        before.append(conditions)
        return True


def _conditions(pair: tuple[Access, Access]) -> int:
    return len(pair[0].conditions) + len(pair[1].conditions)


def _iterations(loops: Sequence[For]) -> tuple[dict[Var, PrimExpr], dict[Var, PrimExpr], PrimExpr]:
    """Two iterations of loops: a variable per loop for each, and that they are in bounds."""
    first: dict[Var, PrimExpr] = {v.loop_var: Var(f"p{k}", v.loop_var.dtype) for k, v in enumerate(loops)}
    second: dict[Var, PrimExpr] = {v.loop_var: Var(f"q{k}", v.loop_var.dtype) for k, v in enumerate(loops)}
    bounds: list[PrimExpr] = []
    for loop in loops:
        for side in (first, second):
            # in the same iteration of loops outside
            low, extent = (with_values(end, side) for end in (loop.min, loop.extent))
            if is_affine(low) and is_affine(extent):
                bounds.append(in_bounds(side[loop.loop_var], (low, extent)))
    return first, second, conjunction(bounds)


def _exchange(earlier: Access, later: Access, pair: tuple[For, For], around: PrimExpr) -> bool:
    """Whether accesses could meet in iterations that the exchange of two loops turns round, whatever the others do."""
    first, second, bounds = _iterations(pair)
    outer, inner = (loop.loop_var for loop in pair)
    turned = [compare(LT, first[outer], second[outer]), compare(LT, second[inner], first[inner])]
    return may_meet(earlier, later, first, second, conjunction([around, bounds, *turned]))


def _reversal(
    loops: Sequence[For], order: Sequence[For], around: PrimExpr
) -> tuple[dict[Var, PrimExpr], dict[Var, PrimExpr], PrimExpr]:
    """Two iterations of which the first comes first in one order of the loops, and last in another."""
    first, second, bounds = _iterations(loops)
    before = lexicographic([first[x.loop_var] for x in loops], [second[x.loop_var] for x in loops])
    after = lexicographic([second[x.loop_var] for x in order], [first[x.loop_var] for x in order])
    return first, second, conjunction([around, bounds, before, after])


def late(earlier: Access, later: Access, loops: Sequence[For], above: Sequence[Stmt] = ()) -> bool:
    """Whether `later` could touch an element in an iteration before that in which `earlier` does; False is proved."""
    first, second, bounds = _iterations(loops)
    order = lexicographic([second[loop.loop_var] for loop in loops], [first[loop.loop_var] for loop in loops])
    return may_meet(earlier, later, first, second, conjunction([context_of(above), bounds, order]))


def writes_all(
    write: Access, region: Region, fixed: Mapping[Var, PrimExpr] | None = None, assumption: PrimExpr = TRUE
) -> bool:
    """Whether a write, with some loops standing for one iteration each, is proved to reach all elements of a region."""
    return write.exact and None not in write.indices and covers(region_of(write, fixed), region, assumption)


def writes_once(write: Access, fixed: Mapping[Var, PrimExpr] | None = None, assumption: PrimExpr = TRUE) -> bool:
    """Whether a write is proved to reach each element in one iteration only."""
    return None not in write.indices and is_injective(region_of(write, fixed), assumption)


def whole(buffer: Buffer) -> Region:
    """All elements of a buffer."""
    return Region.box([(IntImm(size.dtype, 0), size) for size in buffer.shape])


def displaced(earlier: Sequence[For], later: Sequence[For], above: Sequence[Stmt] = ()) -> Conflict | Stmt | None:
    """What keeps two nests that follow each other from being run together, one iteration of each at a time.

    Args:
        earlier: Loops of the first nest, outermost first.
        later: Loops of the second one, over the same values.
        above: Statements around both.

    Returns:
        As `carried`: None says that no iteration of the second nest depends on a later one of the first.
    """
    one, two = accesses_of(earlier[0], above), accesses_of(later[0], above)
    if one.opaque or two.opaque:
        return (*one.opaque, *two.opaque)[0]
    first, _, bounds = _iterations(earlier)
    _, second, others = _iterations(later)
    order = lexicographic([second[loop.loop_var] for loop in later], [first[loop.loop_var] for loop in earlier])
    assumption = conjunction([context_of(above), bounds, others, order])
    for a, b in pairs(one, two):
        if may_meet(a, b, first, second, assumption):
            return Conflict(a, b)
    return None
