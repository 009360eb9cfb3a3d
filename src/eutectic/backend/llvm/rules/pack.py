"""Operands that a reduction would read in steps are copied together first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eutectic.tir.schedule.rules.linear import linear
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.ir.visit import rewrite
from eutectic.tir.buffer import Buffer, BufferLoad

_REUSE: Final = 8  # how often an element must be read for the copy to pay


def pack(stages: Sequence[Stage]) -> tuple[list[Stage], list[Buffer]]:
    """Stages with copies of strided operands put before the reductions that read them.

    before:                                     after:
        y[o, h, w] += x[c, 2*h, 2*w] * k[o, c]      x_packed[c, h, w] = x[c, 2*h, 2*w]
                                                    y[o, h, w] += x_packed[c, h, w] * k[o, c]

    Returns:
        The stages, and the buffers of the copies.
    """
    out: list[Stage] = []
    buffers: list[Buffer] = []
    for stage in stages:
        if stage.init is not None:
            for load in loads(stage.value):
                made = _packed(stage, load)
                if made is not None:
                    copy, stage = made
                    out.append(copy)
                    buffers.append(copy.output)
        out.append(stage)
    return out, buffers


def _packed(stage: Stage, load: BufferLoad) -> tuple[Stage, Stage] | None:
    """A stage that copies what a load reads, and the stage that reads the copy; None when that does not pay."""
    if load.buffer is stage.output or load.predicate is not None:
        return None
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
            strided = strided or (step > 1 and var in {axis.var for axis in stage.spatial})
    others = [axis for axis in stage.spatial if axis not in used]
    if not strided or any(axis.size is None for axis in (*others, *used)) or _points(others) < _REUSE:
        return None
    fresh = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in used}
    table = {id(var): new for var, new in fresh.items()}
    buffer = Buffer(f"{load.buffer.name}_packed", tuple(axis.extent for axis in used), load.buffer.dtype)
    value = rewrite(load, lambda node: table.get(id(node)))
    assert isinstance(value, PrimExpr)
    spatial = tuple(Axis(fresh[axis.var], axis.extent) for axis in used)
    copy = Stage(f"{stage.name}_pack", spatial, (), buffer, tuple(axis.var for axis in spatial), value)
    read = BufferLoad(buffer, tuple(axis.var for axis in used))

    def change(node: Node) -> Node | None:
        return read if node is load else None

    made = rewrite(stage.value, change)
    assert isinstance(made, PrimExpr)
    return copy, replace(stage, value=made)


def _points(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.size or 1
    return total
