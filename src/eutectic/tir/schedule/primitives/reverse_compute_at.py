"""reverse_compute_at: a block computes under a loop of the blocks that it reads from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.sets import covers
from eutectic.ir.prim_expr import PrimExpr, Var, sub
from eutectic.tir.access import Interval
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of
from eutectic.tir.analysis.dependence import Conflict, conjunction, in_bounds, lexicographic, may_meet
from eutectic.tir.analysis.program_order import fixed_loops, shared
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, LoopRV
from eutectic.tir.schedule.legality.axis_digits import spans_from_digits
from eutectic.tir.schedule.legality.complete_block import Complete, require_complete
from eutectic.tir.schedule.legality.scopes import require_shared
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.refusals import refuse_conflict
from eutectic.tir.schedule.rewriting.move_block import (
    Move,
    Placed,
    axis_of,
    child_of,
    joined,
    move_of,
    nest_under,
    placed,
    points_of,
    require_known_points,
    require_no_races,
    span_of,
)
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, parts_of


@primitive
def reverse_compute_at(
    edit: Edit, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a block under a loop of the blocks that write what it reads, to compute there what is ready.

    The block gets one loop, `ax0`, `ax1`, ..., per axis: over the box whose inputs are written under the
    loop for spatial axes, with a predicate where the box could be larger than the domain, and over all of a
    reduction.

    Args:
        edit: The call.
        block: A block whose axes are spatial, or a reduction with its init.
        loop: A loop of the same scope before the block, not one of vectors, that blocks it reads from are under.
        preserve_unit_loops: Make loops of one iteration too.
        index: Number of the part of the loop's body that the block is put before: -1 for the last one
            possible, the end, and -2 for the first one, right after the last writer.

    Raises:
        ScheduleError: the block or loop is gone; the loop is in another scope, around the block or after it; nothing
            under the loop writes what the block reads; the block has other axes, reads what other points of it write,
            or could write one element twice; a reduction is not in the order of its axes; the block would not run
            at the same points as before; what it reads could be written later than it would be read then, as by a
            reduction that is not done in one iteration of the loop; what it writes is accessed between the
            loop and the block; or iterations of a loop that is run at once would depend on each other.

    before: for i0, i1: B[i0 * 4 + i1] = A[i0 * 4 + i1] * 2
            for i: C[i] = B[i]

    after reverse_compute_at(C, i0):
        for i0:
            for i1: B[i0 * 4 + i1] = A[i0 * 4 + i1] * 2
            for ax0 in range(4): C[i0 * 4 + ax0] = B[i0 * 4 + ax0]
    """
    move = move_of(edit, block, loop)
    if not move.parts[1] < move.parts[0]:
        message = f"reverse_compute_at: loop {_loop(move)} does not come before block {_block(move)}"
        edit.refuse(move.sites, message, help="choose a loop around the blocks that it reads from")
    form = require_complete(edit, move.block, move.old_loops, move.context)
    writes = _writes(edit, move)
    _require_untouched(edit, move)
    place = _place(edit, move, writes, index)
    moved, loops = nest_under(move, _ready(move, form, writes), preserve_unit_loops)
    _require_same_points(edit, move, moved, loops)
    new = placed(edit, move, moved, loops, place)
    accesses = accesses_of(new.scope, move.scope.above)
    _require_final(edit, move, new, accesses)
    for buffer in form.results:
        if buffer.data in accesses.private:
            require_shared(edit, move.block, accesses, buffer, buffer.scope())
    require_no_races(edit, move, new, accesses)
    edit.replace(move.scope.function, {move.scope.stmt: new.scope})


def _block(move: Move) -> str:
    return move.block.block.name_hint


def _loop(move: Move) -> str:
    return move.loop.stmt.loop_var.name


def _writes(edit: Edit, move: Move) -> list[Access]:
    """Writes under the loop of what the block reads."""
    read = {item.buffer.data for item in move.accesses.items if move.own(item) and not item.is_write} - _results(move)
    writes = [item for item in move.accesses.items if item.is_write and item.buffer.data in read and move.under(item)]
    if not writes:
        message = f"reverse_compute_at: nothing under loop {_loop(move)} writes what block {_block(move)} reads"
        edit.refuse(move.sites, message, help="choose a loop around the blocks that it reads from")
    return writes


def _results(move: Move) -> set[Var]:
    """Memory that the block writes and that is there after it."""
    accesses = move.accesses
    return {item.buffer.data for item in accesses.items if move.own(item) and item.is_write} - accesses_of(
        move.block.stmt
    ).private


def _require_untouched(edit: Edit, move: Move) -> None:
    """What the block writes is not accessed from the part with the loop on up to the block."""
    results = _results(move)
    mine = [item for item in move.accesses.items if move.own(item) and item.is_write and item.buffer.data in results]
    for other in (item for item in move.between() if item.buffer.data in results):
        for write in mine:
            if may_meet(other, write, move.fixed, move.fixed, move.context):
                message = (
                    f"reverse_compute_at: {write.buffer.name}, which block {_block(move)} writes, is accessed between "
                    f"loop {_loop(move)} and the block"
                )
                edit.refuse(move.sites, message, help="it would be written too early")


def _place(edit: Edit, move: Move, writes: Sequence[Access], index: int) -> int:
    first = 1 + max(child_of(move.loop.stmt, write) for write in writes)
    last = len(parts_of(move.loop.stmt.body))
    place = last if index == -1 else first if index == -2 else index
    if not first <= place <= last:
        message = (
            f"reverse_compute_at: index {index} in loop {_loop(move)} is not one of {first} to {last}, after the "
            "last writer"
        )
        edit.refuse(move.sites, message, help="give -1 for the last place possible, or -2 for the first")
    return place


def _ready(move: Move, form: Complete, writes: Sequence[Access]) -> dict[Var, Interval]:
    """First and last value of axes whose inputs are written in one iteration of the loop."""
    analyzer = analyzer_for(move.loop, move.loop.stmt)
    fixed = fixed_loops([*move.loop.above, move.loop.stmt])
    axes = [axis.var for axis in move.block.block.iter_vars]
    ready: dict[Var, Interval] = {}
    for read in form.inputs:
        written = [span_of(w.indices, w, fixed) for w in writes if w.buffer is read.buffer]
        if not written:
            continue
        spans = [_all(ends, analyzer) for ends in zip(*written, strict=True)]
        parts = list(spans_from_digits(read.indices, spans, axes, analyzer).items())
        for index, part in zip(read.indices, spans, strict=True):
            solved = axis_of(index, axes)
            if solved is not None and part is not None and part[0].dtype == solved[0].dtype:
                parts.append((solved[0], (sub(part[0], solved[1]), sub(part[1], solved[1]))))
        for var, part in parts:
            ready[var] = joined(ready[var], part, analyzer, union=False) if var in ready else part
    return ready


def _all(ends: Sequence[Interval | None], analyzer: Analyzer) -> Interval | None:
    """The smallest interval around several."""
    part = ends[0]
    for other in ends[1:]:
        part = None if part is None or other is None else joined(part, other, analyzer, union=True)
    return part


def _require_same_points(edit: Edit, move: Move, moved: BlockRealize, loops: list[For]) -> None:
    require_known_points(edit, move, moved, loops)
    everywhere = points_of(moved, [*move.new_loops, *loops])
    if not covers(everywhere, points_of(move.block.stmt, move.old_loops), move.context):
        message = (
            f"reverse_compute_at: it is not proved that block {_block(move)} would run at all points of its axes "
            f"under loop {_loop(move)}"
        )
        help = (
            "what is written under the loop must be all that the block reads; each part of a partitioned "
            "loop takes a part of the block, partitioned alike"
        )
        edit.refuse(move.sites, message, help=help)


def _require_final(edit: Edit, move: Move, new: Placed, accesses: Accesses) -> None:
    """No element that the block reads is written later than it reads it now, where it was written before."""
    inside = {id(item.stmt) for item in move.between() if item.is_write}
    reads = [item for item in accesses.items if new.own(item) and not item.is_write]
    for write in accesses.items:
        if not write.is_write or id(write.stmt) not in inside:
            continue
        for read in (item for item in reads if item.buffer.data is write.buffer.data):
            around, before, after = shared(write, read)
            loops = [x for x in around if isinstance(x, For) and x.loop_var not in move.fixed]
            if _may_come_after(move, write, read, loops if 0 <= before < after else None):
                message = (
                    f"reverse_compute_at: {read.buffer.name} is not complete when block {_block(move)} would read it "
                    f"under loop {_loop(move)}"
                )
                help = "choose a loop of which each iteration completes what the block reads there"
                refuse_conflict(edit, move.sites, Conflict(write, read), message, help=help)


def _may_come_after(move: Move, write: Access, read: Access, loops: Sequence[For] | None) -> bool:
    """Whether an element could be written after it was read.

    Args:
        move: The move.
        write: A write, after the move.
        read: A read.
        loops: The loops around both, when the write comes first in each iteration of these; None when it comes last.
    """
    if loops is None:
        return may_meet(write, read, move.fixed, move.fixed, move.context)
    iterations: list[dict[Var, PrimExpr]] = []
    conditions = [move.context]
    for _ in range(2):
        at: dict[Var, PrimExpr] = {v.loop_var: Var(v.loop_var.name, v.loop_var.dtype) for v in loops}
        for loop in loops:
            low, extent = (_renamed(end, at) for end in (loop.min, loop.extent))
            conditions.append(in_bounds(at[loop.loop_var], (low, extent)))
        iterations.append(at)
    one, other = ([at[loop.loop_var] for loop in loops] for at in iterations)
    conditions.append(lexicographic(other, one))
    fixed = move.fixed
    return may_meet(write, read, {**fixed, **iterations[0]}, {**fixed, **iterations[1]}, conjunction(conditions))


def _renamed(expr: PrimExpr, names: Mapping[Var, PrimExpr]) -> PrimExpr:
    return with_values(expr, names)
