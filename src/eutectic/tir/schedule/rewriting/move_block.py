"""What compute_at and reverse_compute_at share: which blocks can be moved, the loops of a moved block, its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.sets import Region, covers, is_empty
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import (
    LE,
    LT,
    NE,
    Add,
    IntImm,
    PrimExpr,
    Sub,
    Var,
    add,
    compare,
    logical_and,
    logical_not,
    maximum,
    minimum,
    sub,
)
from eutectic.tir.access import Interval, relax
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of, domains_of
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import TRUE, Conflict, conjunction, context_of, in_bounds, may_meet
from eutectic.tir.analysis.program_order import fixed_loops, part_of
from eutectic.tir.block import BlockRealize
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, LoopRV
from eutectic.tir.schedule.legality.natural_sizes import natural_sizes
from eutectic.tir.schedule.legality.scope import known_accesses, require_closed, require_one_name_each, scope_of
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.rewriting.removal import taken_out
from eutectic.tir.schedule.state import BlockSite, LoopSite, replaced
from eutectic.tir.stmt import For, SeqStmt, Stmt, parts_of, seq


@dataclass(frozen=True, slots=True)
class Move:
    """A block and the loop that it is to be moved under.

    Attributes:
        block: The block.
        loop: The loop, in the same scope.
        scope: The block around both.
        around: Statements around both, the last of them a sequence.
        parts: The parts of that sequence that the block and the loop are in.
        accesses: What the scope accesses.
        sizes: What holds of sizes of the function's buffers.
    """

    block: BlockSite
    loop: LoopSite
    scope: BlockSite
    around: tuple[Stmt, ...]
    parts: tuple[int, int]
    accesses: Accesses
    sizes: PrimExpr

    @property
    def sites(self) -> list[BlockSite | LoopSite]:
        """What refusals underline."""
        return [self.block, self.loop]

    @property
    def fixed(self) -> dict[Var, PrimExpr]:
        """The loops around both, each standing for one iteration."""
        return fixed_loops(self.around)

    @property
    def context(self) -> PrimExpr:
        """What holds around both."""
        return context_of(self.around)

    @property
    def old_loops(self) -> list[For]:
        """The loops around the block that are not around the loop, outermost first."""
        return [item for item in self.block.above[len(self.around) :] if isinstance(item, For)]

    @property
    def new_loops(self) -> list[For]:
        """The given loop, and the loops around it that are not around the block, outermost first."""
        line = (*self.loop.above, self.loop.stmt)
        return [item for item in line[len(self.around) :] if isinstance(item, For)]

    def own(self, access: Access) -> bool:
        """Whether an access, found before the move, is the block's."""
        return any(item is self.block.stmt for item in access.above)

    def under(self, access: Access) -> bool:
        """Whether an access, found before the move, is made in the loop."""
        return any(item is self.loop.stmt for item in access.above)

    def between(self) -> list[Access]:
        """Accesses of others in the parts from one of the two places to the other, both included."""
        last = self.around[-1]
        assert isinstance(last, SeqStmt)
        low, high = sorted(self.parts)
        inside = [item for item in self.accesses.items if any(x is last for x in item.above) and not self.own(item)]
        return [item for item in inside if low <= part_of(last.seq, item) <= high]


@dataclass(frozen=True, slots=True)
class Placed:
    """A block under its new loop.

    Attributes:
        stmt: The block with its new values.
        loops: The new loops around it.
        scope: The new scope.
        loop: The loop that it is under, as it is now.
    """

    stmt: BlockRealize
    loops: tuple[For, ...]
    scope: BlockRealize
    loop: For

    def own(self, access: Access) -> bool:
        """Whether an access, found after the move, is the block's."""
        return any(item is self.stmt for item in access.above)


def move_of(edit: Edit, block: BlockLike, loop: LoopRV) -> Move:
    """The places of a block and a loop that it could be moved under.

    Raises:
        ScheduleError: one of them is gone; they are in different scopes, inside each other, not in parts of one
            sequence; there is more than loops and sequences around them; the loop is one of vectors; or something
            in the scope has effects.
    """
    site, target = edit.block(block), edit.loop(loop)
    scope = scope_of(edit, site)
    name, other = site.block.name_hint, target.stmt.loop_var.name
    if target.function != site.function or target.scope is not scope.stmt:
        edit.refuse(site, f"{edit.name}: loop {other} is not in the scope of block {name}", help="choose one of it")
    if any(item is target.stmt for item in site.above):
        message = f"{edit.name}: loop {other} is around block {name} already"
        edit.refuse([site, target], message, help="choose a loop around the other blocks")
    for item in (*site.within_scope, *target.within_scope):
        if not isinstance(item, For | SeqStmt):
            message = f"{edit.name}: there is a condition or a binding around block {name} or loop {other}"
            edit.refuse([site, target], message, help="only loops may be there")
    first, second = (*site.above, site.stmt), (*target.above, target.stmt)
    depth = next(k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a is not b)
    last = first[depth - 1]
    if not isinstance(last, SeqStmt):  # neither is around the other
        message = f"{edit.name}: one of block {name} and loop {other} is in the init of block {scope.block.name_hint}"
        edit.refuse([site, target], message, help="what computes initial values stays in the init")
    require_closed(edit, site, first[:depth])
    require_one_name_each(edit, site)
    parts = tuple(next(k for k, part in enumerate(last.seq) if part is line[depth]) for line in (first, second))
    sizes = natural_sizes(edit.state.function(site.function))
    move = Move(site, target, scope, first[:depth], (parts[0], parts[1]), known_accesses(edit, scope), sizes)
    for item in move.new_loops:
        if item.kind == "vectorized":
            message = f"{edit.name}: iterations of loop {item.loop_var.name} are lanes of vectors"
            edit.refuse([site, edit.state.index(site.function).loops[item.loop_var]], message, help="vectorize later")
    return move


# ---- required values of axes


def span_of(indices: Sequence[PrimExpr | None], access: Access, fixed: Mapping[Var, PrimExpr]) -> list[Interval | None]:
    """Smallest and largest value of each index of an access while the loops that are not fixed run."""
    domains = domains_of(access, fixed)
    return [None if index is None else relax(index, domains) for index in indices]


def axis_of(index: PrimExpr | None, axes: Sequence[Var]) -> tuple[Var, PrimExpr] | None:
    """The axis and what is added to it, for an index that is an axis plus something without axes."""
    if isinstance(index, Var):
        return (index, IntImm(index.dtype, 0)) if index in axes else None
    if not isinstance(index, Add | Sub):
        return None
    if isinstance(index.a, Var) and index.a in axes and not variables(index.b):
        return index.a, index.b if isinstance(index, Add) else sub(IntImm(index.dtype, 0), index.b)
    if isinstance(index, Add) and isinstance(index.b, Var) and index.b in axes and not variables(index.a):
        return index.b, index.a
    return None


def joined(a: Interval, b: Interval, analyzer: Analyzer, *, union: bool) -> Interval:
    """The smallest interval around two, or what is in both."""
    ends = [_least(a[0], b[0], analyzer), _most(a[0], b[0], analyzer)]
    others = [_least(a[1], b[1], analyzer), _most(a[1], b[1], analyzer)]
    return (ends[0], others[1]) if union else (ends[1], others[0])


def _least(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    if analyzer.can_prove_greater_equal(b, a):
        return a
    return b if analyzer.can_prove_greater_equal(a, b) else minimum(a, b)


def _most(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    if analyzer.can_prove_greater_equal(b, a):
        return b
    return a if analyzer.can_prove_greater_equal(a, b) else maximum(a, b)


# ---- the new nest


def nest_under(move: Move, wanted: Mapping[Var, Interval], keep_unit_loops: bool) -> tuple[BlockRealize, list[For]]:
    """A block with loops over some values of its spatial axes, and all of the others.

    Args:
        move: The block and the loop that it comes under.
        wanted: First and last value of axes, which may be more than their domains: a predicate cuts these off.
        keep_unit_loops: Whether there are loops of one iteration.

    Returns:
        The block, and the loops without what is in them, outermost first.
    """
    analyzer = analyzer_for(move.loop, move.loop.stmt)
    loops: list[For] = []
    values: list[PrimExpr] = []
    predicate: PrimExpr = TRUE
    for axis in move.block.block.iter_vars:
        assert axis.dom is not None
        low, extent, guards = axis.dom.min, axis.dom.extent, False
        span = wanted.get(axis.var) if axis.iter_type == "data_par" else None
        if span is not None:
            size = analyzer.simplify(add(sub(span[1], span[0]), 1))
            guards = not analyzer.can_prove_greater_equal(size, extent)
            low, extent = (analyzer.simplify(span[0]), size) if guards else (low, extent)
        value = low
        if keep_unit_loops or not (isinstance(extent, IntImm) and extent.value == 1):
            var = Var(f"ax{len(loops)}", axis.var.dtype)
            value = add(low, var)
            loops.append(For(var, IntImm(var.dtype, 0), extent, "serial", move.block.stmt))
            analyzer.bind(var, Range(min=IntImm(var.dtype, 0), extent=extent))
        if guards:
            begin, end = compare(LE, axis.dom.min, value), compare(LT, value, add(axis.dom.min, axis.dom.extent))
            if not analyzer.can_prove(begin) and not _always_holds(begin, move, loops):
                predicate = logical_and(predicate, analyzer.simplify(begin))
            if not analyzer.can_prove(end):
                predicate = logical_and(predicate, analyzer.simplify(end))
        values.append(value)
    return replace(move.block.stmt, iter_values=tuple(values), predicate=predicate), loops


def _always_holds(condition: PrimExpr, move: Move, loops: Sequence[For]) -> bool:
    """Whether a condition on loops, the bounds of which depend on each other and on sizes, is proved."""
    context = context_of([*move.loop.above, move.loop.stmt, *loops])
    return is_empty(Region(()), conjunction([context, move.sizes, logical_not(condition)]))


def placed(edit: Edit, move: Move, block: BlockRealize, loops: Sequence[For], place: int) -> Placed:
    """The scope with the block under the loop rather than where it was.

    Args:
        edit: The call.
        move: The block and the loop.
        block: The block with its new values.
        loops: The new loops around it.
        place: Number of parts of the loop's body that come before it.

    Raises:
        ScheduleError: nothing would be left where the block was.
    """
    inner: Stmt = block
    nest: list[For] = []
    for loop in reversed(loops):
        inner = replace(loop, body=inner)
        assert isinstance(inner, For)
        nest.insert(0, inner)
    parts = parts_of(move.loop.stmt.body)
    fresh = replace(move.loop.stmt, body=seq(*parts[:place], inner, *parts[place:]))
    without = replaced(move.scope.stmt, taken_out(edit, move.block))
    scope = replaced(without, {move.loop.stmt: fresh})
    assert isinstance(scope, BlockRealize)
    return Placed(block, tuple(nest), replace(scope, block=with_recomputed_regions(scope.block)), fresh)


def child_of(loop: For, access: Access) -> int:
    """Which part of the body of a loop an access is in."""
    line = (*access.above, access.stmt)
    return next(k for k, part in enumerate(parts_of(loop.body)) if any(part is item for item in line))


# ---- proofs


def points_of(stmt: BlockRealize, loops: Sequence[For]) -> Region:
    """The points of its axes that a block runs at, while some loops run."""
    return Region(stmt.iter_values, {loop.loop_var: (loop.min, loop.extent) for loop in loops}, stmt.predicate)


def require_known_points(edit: Edit, move: Move, block: BlockRealize, loops: Sequence[For]) -> None:
    """Refuse points that the block did not run at in the same iteration of the loops around both."""
    context = conjunction([move.context, context_of([*move.loop.above, move.loop.stmt])])
    if not covers(points_of(move.block.stmt, move.old_loops), points_of(block, loops), context):
        message = (
            f"{edit.name}: it is not proved that block {move.block.block.name_hint} runs at all points of "
            f"its axes that are needed under loop {move.loop.stmt.loop_var.name}"
        )
        edit.refuse(move.sites, message, help="the predicate and the values of the axes must be affine, and no less")


def require_no_races(edit: Edit, move: Move, new: Placed, accesses: Accesses) -> None:
    """Refuse a place in loops whose iterations are run at once, when they would depend on each other."""
    for loop in move.new_loops:
        conflict = None if loop.kind in ("serial", "unrolled") else _race(move, new, accesses, loop)
        if conflict is not None and conflict.first.buffer in move.scope.block.alloc_buffers:
            edit.relies.add((move.loop.function, loop.loop_var))  # whether iterations can have their own is seen last
        elif conflict is not None:
            name = loop.loop_var.name
            message = (
                f"{edit.name}: iterations of the {loop.kind} loop {name} would depend on each other: {conflict.said()}"
            )
            site = edit.state.index(move.loop.function).loops[loop.loop_var]
            edit.refuse([move.block, site], message, help="choose a loop outside of it, or make it serial first")


def _race(move: Move, new: Placed, accesses: Accesses, loop: For) -> Conflict | None:
    p, q = (Var(name, loop.loop_var.dtype) for name in "pq")
    bounds = (loop.min, loop.extent)
    line = [*move.loop.above, move.loop.stmt]
    outside = line[: next(k for k, item in enumerate(line) if item is loop)]
    context = conjunction([context_of(outside), in_bounds(p, bounds), in_bounds(q, bounds), compare(NE, p, q)])
    fixed = fixed_loops(outside)
    private = accesses_of(new.loop).private
    for mine in (item for item in accesses.items if new.own(item) and item.buffer.data not in private):
        for other in accesses.items:
            inside = loop.loop_var in other.iters and (mine.is_write or other.is_write)
            if inside and may_meet(mine, other, {**fixed, loop.loop_var: p}, {**fixed, loop.loop_var: q}, context):
                return Conflict(mine, other)
    return None
