"""Axes of which reads use the quotient, as channels that are in groups, become two: groups, and what is in each."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from eutectic.ir.prim_expr import FloorDiv, IntImm, PrimExpr, floordiv, floormod
from eutectic.ir.visit import post_order
from eutectic.support.errors import ScheduleError
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.rules.nest import realize_of
from eutectic.tir.schedule.rules.roles import index_variable
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.tir.schedule.schedule import Schedule


def groups_apart(sch: Schedule, stage: Stage) -> Schedule:
    """The schedule with two axes instead of one that a sum reads the quotient of: all that it reads is linear in them.

    The memory of the sums has an index for each; what stores them goes through them in the same order. The last axis
    stays, along which vectors lie.

    Args:
        sch: The schedule.
        stage: A stage; it stays as it is when it is no reduction with an epilogue, or a primitive refuses.

    before:                                            after:
        for o in range(64):                                for g, o in grid(4, 16):
            sums[o] += x[o // 16 + k]                          sums[g, o] += x[g + k]
        for o in range(64):                                for g, o in grid(4, 16):
            y[o] = max(sums[o], 0)                             y[g * 16 + o] = max(sums[g, o], 0)
    """
    if stage.epilogue is None:
        return sch
    for axis, stored in list(zip(stage.spatial, stage.epilogue.spatial, strict=True))[:-1]:
        size = _size_of_group(stage, axis)
        if size is not None:
            with contextlib.suppress(ScheduleError):  # it stays one
                return _apart(sch.copy(), stage, [(stage.name, axis), (stage.epilogue.name, stored)], size)
    return sch


def _apart(sch: Schedule, stage: Stage, axes: Sequence[tuple[str, Axis]], size: int) -> Schedule:
    """The schedule with two axes instead of one of each block, and two indices of what the sums are in.

    Raises:
        ScheduleError: a primitive refuses.
    """
    (_, first), *_ = axes
    place = next(number for number, index in enumerate(stage.indices) if index is first.var)
    sch.transform_layout(stage.name, ("write", 0), _two(place, len(stage.indices), size))
    for block, axis in axes:
        values = realize_of(sch, block).iter_values
        place = next(number for number, value in enumerate(values) if value is axis.loop)
        sch.transform_block_layout(block, _two(place, len(values), size))
    return sch


def _size_of_group(stage: Stage, axis: Axis) -> int | None:
    """By what an axis is divided where the sum reads; None where it is not, or by several numbers, or with a rest."""
    indices = [index for load in loads(stage.value) for index in load.indices]
    parts = [part for index in indices for part in post_order(index) if isinstance(part, FloorDiv)]
    sizes = {part.b.value for part in parts if index_variable(part.a) is axis.var and isinstance(part.b, IntImm)}
    if len(sizes) != 1 or axis.size is None:
        return None
    (size,) = sizes
    return size if 1 < size < axis.size and axis.size % size == 0 else None


def _two(place: int, count: int, size: int) -> IndexMap:
    """The map that makes two of one of so many indices."""

    def function(*indices: PrimExpr) -> list[PrimExpr]:
        index = indices[place]
        return [*indices[:place], floordiv(index, size), floormod(index, size), *indices[place + 1 :]]

    return IndexMap.from_func(function, count)
