"""Axes that count several others together, as a patch of an image counts its rows, columns and channels.

A reshape at the end makes one axis of several, and what it reads is at quotients and remainders of places along it.
These are its digits: with an axis for each of them, all places are linear again, and it is seen which of them lie side
by side in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Cast, FloorDiv, FloorMod, IntImm, PrimExpr, Var, add, floordiv, floormod, mul
from eutectic.ir.visit import post_order, rewrite
from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.linear import linear
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.rules.nest import realize_of
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.tir.schedule.rules.walk import Walk, walk_of
from eutectic.tir.schedule.schedule import Schedule


def in_digits(stage: Stage) -> Stage | None:
    """A stage with an axis for each digit that it reads of one; None where it reads no digits.

    Args:
        stage: The stage. It is only looked at: `digits_apart` changes the program.

    before: y[f] = x[f % 3, f // 3]                         for f in range(48)
    after:  y[i * 3 + c] = x[(i * 3 + c) % 3, (i * 3 + c) // 3]   for i, c in grid(16, 3)
    """
    cuts = _cuts(stage)
    if not cuts:
        return None
    axes: list[Axis] = []
    values: dict[Var, PrimExpr] = {}
    for axis in stage.spatial:
        digits = _digits(axis, cuts.get(axis.var, ()))
        axes += digits
        values[axis.var] = _number(digits)
    indices = tuple(_with(index, values) for index in stage.indices)
    return replace(stage, spatial=tuple(axes), indices=indices, value=_with(stage.value, values))


def linear_walk(walk: Walk) -> Walk | None:
    """The walk with an axis for each digit, if that makes all places linear that are not."""
    if all(access.form is not None for access in walk.reads):
        return walk
    stage = in_digits(walk.stage) if not walk.shared else None
    found = None if stage is None else walk_of(stage)
    return found if found is not None and all(access.form is not None for access in found.reads) else None


def digits_apart(sch: Schedule, stage: Stage) -> Schedule:
    """The schedule with a loop for each digit that a stage reads of an axis.

    Args:
        sch: The schedule.
        stage: The stage, which reduces nothing; it stays as it is when a primitive refuses.
    """
    cuts = _cuts(stage)
    values = realize_of(sch, stage.name).iter_values
    sizes = {axis.loop: (axis.size, cuts[axis.var]) for axis in stage.spatial if axis.var in cuts}

    def function(*indices: PrimExpr) -> list[PrimExpr]:
        found: list[PrimExpr] = []
        for index, value in zip(indices, values, strict=True):
            size, units = sizes.get(value, (None, ())) if isinstance(value, Var) else (None, ())
            found += [index] if size is None else _digits_of(index, size, units)
        return found

    apart = sch.copy()
    with contextlib.suppress(ScheduleError):
        apart.transform_block_layout(stage.name, IndexMap.from_func(function, len(values)))
        return apart
    return sch


def _cuts(stage: Stage) -> dict[Var, list[int]]:
    """By axes of known size the units of its digits but the last, which is 1: smallest first, each in the next."""
    sizes = {axis.var: axis.size for axis in stage.spatial}
    found: dict[Var, set[int]] = {}
    for load in loads(stage.value):
        for index in load.indices:
            for var, unit in _units(index, sizes):
                size = sizes[var]
                if size is not None and 1 < unit < size and size % unit == 0:
                    found.setdefault(var, set()).add(unit)
    return {var: chain for var, units in found.items() if (chain := _chain(sorted(units)))}


def _units(index: PrimExpr, axes: dict[Var, int | None]) -> Iterator[tuple[Var, int]]:
    """Axes of which a digit begins at so many, in quotients and remainders of sums of axes."""
    for part in post_order(index):
        if not isinstance(part, (FloorDiv, FloorMod)) or not isinstance(part.b, IntImm):
            continue
        unit, counted = part.b.value, part.a
        while isinstance(counted, FloorDiv) and isinstance(counted.b, IntImm):
            unit, counted = unit * counted.b.value, counted.a
        form = linear(counted, axes)
        for var, step in ({} if form is None else form.steps).items():
            if isinstance(step, int) and step > 0 and unit % step == 0:
                yield var, unit // step


def _chain(units: Sequence[int]) -> list[int]:
    """Those of which each is a multiple of the one before; none where there are others."""
    return list(units) if all(b % a == 0 for a, b in pairwise(units)) else []


def _digits(axis: Axis, units: Sequence[int]) -> list[Axis]:
    """An axis for each digit, outermost first."""
    if not units or axis.size is None:
        return [axis]
    ends = [*units[1:], axis.size]
    sizes = [units[0], *(end // unit for unit, end in zip(units, ends, strict=True))]
    return [
        Axis(Var(f"{axis.var.name}_{place}", axis.loop.dtype), IntImm(axis.loop.dtype, size), axis.loop, size)
        for place, size in enumerate(reversed(sizes))
    ]


def _with(expr: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    """An expression with other values for axes, which have the type of their loops, as casts of axes do."""

    def change(node: Node) -> Node | None:
        if isinstance(node, Cast) and isinstance(node.value, Var):
            value = values.get(node.value)
            return value if value is not None and value.dtype == node.dtype else None
        return values.get(node) if isinstance(node, Var) else None

    changed = rewrite(expr, change)
    assert isinstance(changed, PrimExpr)
    return changed


def _number(digits: Sequence[Axis]) -> PrimExpr:
    """What digits count together."""
    value: PrimExpr = digits[0].var
    for digit in digits[1:]:
        value = add(mul(value, digit.extent), digit.var)
    return value


def _digits_of(index: PrimExpr, size: int, units: Sequence[int]) -> list[PrimExpr]:
    digits: list[PrimExpr] = [floormod(index, units[0])]
    for unit, end in zip(units, [*units[1:], size], strict=True):
        digit = floordiv(index, unit)
        digits.append(digit if end == size else floormod(digit, end // unit))
    return digits[::-1]
