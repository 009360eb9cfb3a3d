"""What has a border around it: which stages read that, and copies of it by vectors without conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from eutectic.ir.prim_expr import IntImm, Var
from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.iter_var import IterVar
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.epilogues import with_epilogues
from eutectic.tir.schedule.rules.guards import changes_of, part_sizes
from eutectic.tir.schedule.rules.nest import block_name, copies, realize_of
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.walk import Span
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import For


def padded_sums(stages: Sequence[Stage]) -> tuple[Stage, Stage] | None:
    """What pads, and sums over that with what is done to each of them; None when these are not all the stages."""
    if len(stages) != 3 or not is_if_then_else(stages[0].value):
        return None
    if not all(isinstance(index, Var | IntImm) for index in stages[0].indices):  # one that counts several axes
        return None
    pad, sums, last = stages
    left = with_epilogues(stages, [pad.output, sums.output])
    if len(left) != 2 or left[1].epilogue is None or any(load.buffer is pad.output for load in last.reads()):
        return None
    return pad, left[1]


def padded_axes(pad: Stage) -> set[Var]:
    """The axes along which something is padding."""
    asked = variables(pad.value.args[0]) if is_if_then_else(pad.value) else set()
    return asked & {index for index in pad.indices if isinstance(index, Var)}


def axes_of_image(pad: Stage, sums: Stage) -> list[Axis] | None:
    """Axes of the sums that select images, and then the first that selects rows, or slices, with padding around them.

    None where no axis does alone, or the image is read at several places.
    """
    reads = [load for load in sums.reads() if load.buffer is pad.output]
    if len(reads) != 1:
        return None
    padded = padded_axes(pad)
    by_var: Mapping[Any, Axis] = {axis.var: axis for axis in sums.spatial}
    images: list[Axis] = []
    for place, index in zip(pad.indices, reads[0].indices, strict=True):
        chosen = [by_var[var] for var in variables(index) if var in by_var]
        if place in padded:
            return [*images, *chosen] if len(chosen) == 1 and chosen[0] not in images else None
        images += chosen
    return None


def without_copy(sch: Schedule, pad: str, axes: int) -> None:
    """Read the image itself, where all that would read a padded copy leaves out what is padding.

    Args:
        sch: The schedule.
        pad: Name of the block that pads.
        axes: Along how many axes it does; taps along each are asked what they see.

    Raises:
        ScheduleError: a primitive refuses, or something does not leave that out.
    """
    for reader in sch.get_consumers(pad):
        realize = realize_of(sch, block_name(sch, reader))
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        asked = variables(realize.predicate)
        if sum(axis.iter_type == IterVar.CommReduce and bool(variables(value) & asked) for axis, value in pairs) < axes:
            raise ScheduleError(f"{realize.block.name_hint} does not leave out what is padding")
    sch.compute_inline(pad)


def border_apart(sch: Schedule, block: str, lanes: int) -> None:
    """Fill the border around what a block copies in a loop nest of its own, with vectors; the block keeps its loops.

    Args:
        sch: The schedule.
        block: The block, which reads nothing at some places; its loops over a box are the innermost ones around it.
        lanes: Of a vector.
    """
    around = sch.get_loops(block)[-_rank(sch, block)]
    if sch.can_decompose_padding(block, around):
        in_parts(sch, block_name(sch, sch.decompose_padding(block, around, border_only=True)), lanes)


def in_parts(sch: Schedule, block: str, lanes: int) -> None:
    """Vectors along the last axis of a block; where conditions change along an axis, a loop for each part of it.

    Args:
        sch: The schedule.
        block: What fills or copies; its loops over a box are the innermost ones around it.
        lanes: Of a vector.
    """
    predicate = realize_of(sch, block).predicate
    for axis in reversed(sch.get_loops(block)[-_rank(sch, block) :]):
        loop = sch.get(axis)
        assert isinstance(loop, For)
        changes = sorted(changes_of(predicate, Span((Axis(loop.loop_var, loop.extent, loop.loop_var),))))
        if changes:
            parts = sch.loop_partition(axis, part_sizes(changes, constant_extent(sch, axis)))
            for (part,) in copies(sch, parts, block):
                vectors_along(sch, part, lanes)
            return
    vectors_along(sch, block, lanes)


def vectors_along(sch: Schedule, block: str, lanes: int) -> None:
    """Vectors along the innermost loop around a block, of as many lanes as divide it."""
    loop = sch.get_loops(block)[-1]
    sch.vectorize(sch.split(loop, [None, gcd(constant_extent(sch, loop), lanes)])[1])


def constant_extent(sch: Schedule, rv: LoopRV) -> int:
    """Iterations of a loop.

    Raises:
        ScheduleError: it is not known how many.
    """
    loop = sch.get(rv)
    assert isinstance(loop, For)
    if loop.static_extent is None:
        raise ScheduleError(f"loop {loop.loop_var.name} has no constant extent")
    return loop.static_extent


def _rank(sch: Schedule, block: str) -> int:
    return len(realize_of(sch, block).iter_values)
