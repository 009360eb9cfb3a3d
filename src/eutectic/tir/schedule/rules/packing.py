"""Operands that a reduction would read in steps are copied together first."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.linear import linear
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.schedule.rules.operand_copy import operand_copy, turned
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.tir.schedule.schedule import Schedule

_REUSE: Final = 8  # how often an element must be read for the copy to pay
_REUSE_TURNED: Final = 10  # the same of a transposition: 8 rows of 1024 terms took 1.2 times as long, 16 rows 0.7
_FEWEST_COLUMNS: Final = 16  # of the result, for vectors along its rows


def pack(sch: Schedule, stage: Stage) -> None:
    """Copy what a reduction reads with steps, where it reads it often enough for that to pay.

    before:                                     after:
        y[o, h, w] += x[c, 2*h, 2*w] * k[o, c]      x_copy[c, h, w] = x[c, 2*h, 2*w]
                                                    y[o, h, w] += x_copy[c, h, w] * k[o, c]

    An operand is turned where nothing is contiguous along the vectors of the result, as in a product with rows of both.

    before:                                     after:
        y[i, j] += a[i, k] * b[j, k]                b_copy[k, j] = b[j, k]
                                                    y[i, j] += a[i, k] * b_copy[k, j]
    """
    reads = [] if stage.init is None else [load for load in loads(stage.value) if load.buffer is not stage.output]
    for load in reads:
        order = _order(stage, load, reads)
        if order is None:
            continue
        try:
            copy = operand_copy(sch, stage.name, load.buffer)
        except ScheduleError:  # it reads the operand at other places too
            continue
        places = [copy.loops.index(axis.loop) for axis in order]
        if places != list(range(len(copy.loops))):  # the copy has the order of the operand
            sch.transform_layout(copy.block, ("write", 0), turned(places, len(copy.loops)))
            sch.transform_block_layout(copy.block, turned(places, len(copy.loops)))


def _order(stage: Stage, load: BufferLoad, reads: Sequence[BufferLoad]) -> Sequence[Axis] | None:
    """The axes of a copy of an operand, in order; None when a copy does not pay."""
    steps = _steps(stage, load)
    if steps is None or load.predicate is not None:
        return None
    axes = list(steps)
    others = [axis for axis in stage.spatial if axis not in steps]
    if any(axis.size is None for axis in (*others, *axes)):
        return None
    if any(step > 1 for axis, step in steps.items() if axis in stage.spatial):
        return axes if _points(others) >= _REUSE else None
    vector = stage.spatial[-1] if stage.spatial else None
    if vector in steps and _points(others) >= _REUSE_TURNED and _lack_vectors(stage, reads):
        return [*(axis for axis in axes if axis is not vector), vector]
    return None


def _lack_vectors(stage: Stage, reads: Sequence[BufferLoad]) -> bool:
    """Whether all that a reduction reads is contiguous along one of its axes, and not along the vectors of the result.

    Few columns are not worth it: sums along the rows have whole vectors, too.
    """
    vector, size = stage.spatial[-1].var, stage.spatial[-1].size or 0
    ends = [linear(load.indices[-1], {vector}) for load in reads if load.indices]
    return size >= _FEWEST_COLUMNS and all(form is not None and vector not in form.steps for form in ends)


def _steps(stage: Stage, load: BufferLoad) -> dict[Axis, int] | None:
    """The axes that a load depends on, in the order of its indices, and its step along each; None if it has others."""
    axes = {axis.var: axis for axis in (*stage.spatial, *stage.reduce)}
    steps: dict[Axis, int] = {}
    for index in load.indices:
        form = linear(index, axes.keys())
        if form is None or len(form.steps) > 1:
            return None
        for var, step in form.steps.items():
            if not isinstance(step, int) or step < 1 or axes[var] in steps:
                return None
            steps[axes[var]] = step
    return steps


def _points(axes: Sequence[Axis]) -> int:
    return prod(axis.size or 1 for axis in axes)
