"""prefetch: what a loop will read is asked for some iterations before."""

from __future__ import annotations

from eutectic.ir.attrs import merge_attrs
from eutectic.ir.node import replace
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.annotation_keys import PREFETCH, SPREAD
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, ExprRV, LoopRV
from eutectic.tir.schedule.legality.buffers import read_buffer
from eutectic.tir.schedule.primitive import primitive


@primitive
def prefetch(
    edit: Edit,
    block: BlockLike,
    read_buffer_index: int,
    loop: LoopRV,
    distance: int | ExprRV = 1,
    spread: bool = False,
) -> None:
    """Ask for what a block will read some iterations of a loop later, so that it is near when it is read.

    A hint: it changes neither what is computed nor what may be accessed. Each iteration of the loop asks for the first
    element that is read in the other one, for the same place in each further line of a vector, and for others of this
    iteration in other lines of memory.

    Args:
        edit: The call.
        block: A block that reads the buffer.
        read_buffer_index: Which of the buffers that it reads.
        loop: A serial loop around the block, other elements of the buffer being read in each iteration.
        distance: How many iterations ahead.
        spread: Whether the iterations of the innermost serial loop around that read the same elements ask for a part
            each, so that memory is asked evenly; otherwise each of them asks for everything. Loops between it and
            `loop` must go on through the same memory, so that they are one with it.

    Raises:
        ScheduleError: the block or loop is gone; the block reads no such buffer; the loop is not around it, not
            serial, or reads the same elements in each iteration; or the distance is not positive.

    before: for i in range(64): B[i] = f(A[i])
    after prefetch(B, 0, i, 8):
            for i in range(64): B[i] = f(A[i])     # annotation prefetch: [["A", 8]]
    """
    site, place = edit.block(block), edit.loop(loop)
    buffer, ahead, name = read_buffer(edit, site, read_buffer_index), edit.number(distance), place.stmt.loop_var.name
    if not any(item is place.stmt for item in site.above):
        edit.refuse([site, place], f"prefetch: loop {name} is not around block {site.block.name_hint}")
    if place.stmt.kind != "serial":
        message = (
            f"prefetch: loop {name} is {place.stmt.kind}, and only iterations that follow each other can look ahead"
        )
        edit.refuse(place, message, help="choose a serial loop around it")
    if ahead <= 0:
        edit.refuse(place, f"prefetch: distance {ahead} is not positive", help="1 asks for the next iteration")
    reads = [item for item in accesses_of(place.stmt, place.above).of(buffer.data) if not item.is_write]
    known = [index for item in reads for index in item.indices]
    if not any(index is not None and place.stmt.loop_var in variables(index) for index in known):
        message = f"prefetch: each iteration of loop {name} reads the same elements of {buffer.name}"
        edit.refuse([site, place], message, help="choose a loop that an index of the buffer depends on")
    earlier = tuple(item for item in place.stmt.annotations.get(PREFETCH, ()) if item[0] != buffer.name)
    asked = (buffer.name, ahead, SPREAD) if spread else (buffer.name, ahead)
    wanted = merge_attrs(place.stmt.annotations, {PREFETCH: (*earlier, asked)})
    edit.replace(place.function, {place.stmt: replace(place.stmt, annotations=wanted)})
