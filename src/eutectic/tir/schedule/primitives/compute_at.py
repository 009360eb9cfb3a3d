"""compute_at: a block computes under a loop of its readers what they need there."""

from __future__ import annotations

from dataclasses import replace as with_fields

from eutectic.ir.prim_expr import LE, LT, IntImm, PrimExpr, Var, compare, sub
from eutectic.tir.access import Interval
from eutectic.tir.analysis.accesses import Access, accesses_of
from eutectic.tir.analysis.dependence import conjunction, context_of, may_meet, region_of, writes_all
from eutectic.tir.analysis.program_order import fixed_loops
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, LoopRV
from eutectic.tir.schedule.legality.complete_block import Complete, require_complete
from eutectic.tir.schedule.legality.scopes import require_shared
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.move_block import (
    Move,
    Placed,
    axis_of,
    child_of,
    joined,
    move_of,
    nest_under,
    placed,
    require_known_points,
    require_no_races,
    span_of,
)
from eutectic.tir.schedule.state import BlockSite


@primitive
def compute_at(edit: Edit, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
    """Move a block under a loop of the blocks that read its results, to compute there what they need.

    The block gets one loop, `ax0`, `ax1`, ..., per axis: over the smallest box that is read under the
    loop for spatial axes, with a predicate where the box could be larger than the domain, and over all of a
    reduction. Elements that several iterations of the loop need are computed in each of them.

    Args:
        edit: The call.
        block: A block whose axes are spatial, or a reduction with its init.
        loop: A loop of the same scope after the block, not one of vectors, that all readers are under.
        preserve_unit_loops: Make loops of one iteration too.
        index: Number of the part of the loop's body that the block is put before: -1 for the last one
            possible, right before the first reader, and -2 for the first one.

    Raises:
        ScheduleError: the block or loop is gone; the loop is in another scope, around the block or before it; the
            results are not allocated in the scope, have other writers, or are read outside of the loop; the
            block has other axes, reads what other points of it write, or could write one element twice; a
            reduction is not in the order of its axes; what it reads is written between the block and the end of
            the loop; it is not proved that the block runs at the points that are needed, and that these write
            all that is read; or iterations of a loop that is run at once would write one element.

    before: for i: B[i] = A[i] * 2
            for i0, i1: C[i0 * 4 + i1] = B[i0 * 4 + i1]

    after compute_at(B, i0):
        for i0:
            for ax0 in range(4): B[i0 * 4 + ax0] = A[i0 * 4 + ax0] * 2
            for i1: C[i0 * 4 + i1] = B[i0 * 4 + i1]
    """
    move = move_of(edit, block, loop)
    if not move.parts[0] < move.parts[1]:
        message = f"compute_at: loop {_loop(move)} does not come after block {_block(move)}"
        edit.refuse(move.sites, message, help="choose a loop around the readers of its results")
    form = require_complete(edit, move.block, move.old_loops, move.context)
    reads = _reads(edit, move, form)
    _require_inputs(edit, move)
    place = _place(edit, move, reads, index)
    moved, loops = nest_under(move, _wanted(move, form, reads), preserve_unit_loops)
    require_known_points(edit, move, moved, loops)
    new = placed(edit, move, moved, loops, place)
    _require_cover(edit, move, form, new)
    edit.replace(move.scope.function, {move.scope.stmt: new.scope})


def _block(move: Move) -> str:
    return move.block.block.name_hint


def _loop(move: Move) -> str:
    return move.loop.stmt.loop_var.name


def _reads(edit: Edit, move: Move, form: Complete) -> list[Access]:
    """All reads of the results, which must be under the loop."""
    reads: list[Access] = []
    for buffer in form.results:
        if buffer not in move.scope.block.alloc_buffers:
            message = f"compute_at: buffer {buffer.name} is not allocated in the block around {_block(move)}"
            edit.refuse(move.block, message, help="results that are needed outside stay where they are computed")
        for item in move.accesses.of(buffer.data):
            if move.own(item):
                continue
            sites = [*move.sites, *_block_of(edit, move, item)]
            if item.is_write or item.buffer is not buffer:
                message = f"compute_at: buffer {buffer.name} has other writers than block {_block(move)}"
                edit.refuse(sites, message, help="only what one block computes can be moved")
            if not move.under(item):
                message = f"compute_at: buffer {buffer.name} is read outside of loop {_loop(move)}"
                edit.refuse(sites, message, help="choose a loop around all readers")
            reads.append(item)
    if not reads:
        message = f"compute_at: nothing under loop {_loop(move)} reads what block {_block(move)} writes"
        edit.refuse(move.sites, message, help="choose a loop around the readers of its results")
    return reads


def _block_of(edit: Edit, move: Move, access: Access) -> list[BlockSite]:
    """The innermost block around an access."""
    line = {id(item) for item in (*access.above, access.stmt)}
    sites = [site for site in edit.state.index(move.block.function).blocks if id(site.stmt) in line]
    return [site for site in sites if site.block.iter_vars][-1:]


def _require_inputs(edit: Edit, move: Move) -> None:
    """What the block reads is not written until the end of the part that the loop is in."""
    inputs = [item for item in move.accesses.items if move.own(item) and not item.is_write]
    for write in (item for item in move.between() if item.is_write):
        for read in inputs:
            if may_meet(write, read, move.fixed, move.fixed, move.context):
                message = (
                    f"compute_at: buffer {read.buffer.name}, which block {_block(move)} reads, is written before "
                    f"the end of loop {_loop(move)}"
                )
                sites = [*move.sites, *_block_of(edit, move, write)]
                edit.refuse(sites, message, help="the block would see what is written later")


def _place(edit: Edit, move: Move, reads: list[Access], index: int) -> int:
    last = min(child_of(move.loop.stmt, read) for read in reads)
    if index == -1:
        return last
    place = 0 if index == -2 else index
    if not 0 <= place <= last:
        message = f"compute_at: index {index} in loop {_loop(move)} is not one of 0 to {last}, before the first reader"
        edit.refuse(move.sites, message, help="give -1 for the last place possible, or -2 for the first")
    return place


def _wanted(move: Move, form: Complete, reads: list[Access]) -> dict[Var, Interval]:
    """First and last value of axes that the reads need; axes that are not found so are needed whole."""
    analyzer = analyzer_for(move.loop, move.loop.stmt)
    fixed = fixed_loops([*move.loop.above, move.loop.stmt])
    axes = [axis.var for axis in move.block.block.iter_vars]
    wanted: dict[Var, Interval] = {}
    unknown: set[Var] = set()
    for buffer in form.results:
        write = next(item for item in form.accesses.of(buffer.data) if item.is_write)
        others = [item for item in form.accesses.of(buffer.data) if item.indices is not write.indices]
        spans = [span_of(read.indices, read, fixed) for read in reads if read.buffer is buffer]
        for k, index in enumerate(write.indices):
            solved = axis_of(index, axes)
            for span in spans:
                part = _shifted(span[k], solved[1]) if solved is not None and not others else None
                if solved is None:
                    continue
                if part is None or part[0].dtype != solved[0].dtype:
                    unknown.add(solved[0])
                else:
                    known = wanted.get(solved[0])
                    wanted[solved[0]] = part if known is None else joined(known, part, analyzer, union=True)
    return {var: span for var, span in wanted.items() if var not in unknown}


def _shifted(span: Interval | None, by: PrimExpr) -> Interval | None:
    return None if span is None else (sub(span[0], by), sub(span[1], by))


def _require_cover(edit: Edit, move: Move, form: Complete, new: Placed) -> None:
    """Under the loop all that is read was written before, and iterations that run at once do not meet."""
    accesses = accesses_of(new.scope, move.scope.above)
    outside = (*move.loop.above, new.loop)
    fixed, context = fixed_loops(outside), context_of([*move.loop.above, move.loop.stmt])
    for buffer in form.results:
        used = accesses.of(buffer.data)
        writes = [item for item in used if item.is_write]
        proved: set[int] = set()
        for read in (item for item in used if not new.own(item)):
            region = region_of(_inside(read, buffer), fixed)
            known = None not in read.indices and id(read) not in proved
            if not (known and any(writes_all(write, region, fixed, context) for write in writes)):
                message = (
                    f"compute_at: it is not proved that block {_block(move)} would write all elements of "
                    f"{buffer.name} that are read under loop {_loop(move)}"
                )
                edit.refuse(move.sites, message, help="indices and predicates must be affine")
        require_shared(edit, move.block, accesses, buffer, buffer.scope())
    require_no_races(edit, move, new, accesses)


def _inside(read: Access, buffer: Buffer) -> Access:
    """A read with the condition that it is of an element: values chosen by a condition are often read under it only."""
    bounds = [
        condition
        for index, size in zip(read.indices, buffer.shape, strict=True)
        if index is not None
        for condition in (compare(LE, IntImm(index.dtype, 0), index), compare(LT, index, size))
    ]
    return with_fields(read, conditions=(*read.conditions, conjunction(bounds)))
