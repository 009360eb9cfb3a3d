"""Operands that a reduction would read in steps are copied together first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.linear import linear
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.schedule.rules.operand_copy import operand_copy, turned
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.tir.schedule.schedule import Schedule

_REUSE: Final = 8  # how often an element must be read for the copy to pay


def pack(sch: Schedule, stage: Stage) -> None:
    """Copy what a reduction reads with steps, where it reads it often enough for that to pay.

    before:                                     after:
        y[o, h, w] += x[c, 2*h, 2*w] * k[o, c]      x_copy[c, h, w] = x[c, 2*h, 2*w]
                                                    y[o, h, w] += x_copy[c, h, w] * k[o, c]
    """
    reads = [] if stage.init is None else loads(stage.value)
    for load in reads:
        used = None if load.buffer is stage.output else _used(stage, load)
        if used is None:
            continue
        try:
            copy = operand_copy(sch, stage.name, load.buffer)
        except ScheduleError:  # it reads the operand at other places too
            continue
        order = [copy.loops.index(axis.loop) for axis in used]
        if order != list(range(len(copy.loops))):  # the copy has the order of the operand
            sch.transform_layout(copy.block, ("write", 0), turned(order, len(copy.loops)))
            sch.transform_block_layout(copy.block, turned(order, len(copy.loops)))


def _used(stage: Stage, load: BufferLoad) -> list[Axis] | None:
    """The axes that a load depends on, in the order of its indices; None when a copy does not pay."""
    axes = {axis.var: axis for axis in (*stage.spatial, *stage.reduce)}
    used: list[Axis] = []
    strided = False
    for index in load.indices:
        form = linear(index, axes.keys())
        if form is None or len(form.steps) > 1:
            return None
        for var, step in form.steps.items():
            if not isinstance(step, int) or step < 1 or axes[var] in used:
                return None
            used.append(axes[var])
            strided = strided or (step > 1 and axes[var] in stage.spatial)
    others = [axis for axis in stage.spatial if axis not in used]
    known = strided and load.predicate is None and all(axis.size is not None for axis in (*others, *used))
    return used if known and _points(others) >= _REUSE else None


def _points(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.size or 1
    return total
