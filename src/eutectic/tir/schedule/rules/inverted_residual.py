"""Inverted residuals: bands of rows, and in each of them some channels at a time through all stages.

The stages are those of `topi.nn.inverted_residual`, which says in an annotation of each block what it does. A block of
channels of a band is expanded, filtered and multiplied with its part of the last weights while it is in the nearest
caches; only the sums of the result wait for the next block. Rows that two bands see are expanded for both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.tir.block import INVERTED_RESIDUAL
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.borders import border_apart, constant_extent, vectors_along
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import (
    block_name,
    in_registers,
    loops_by_variable,
    reorder,
    run_by_threads,
    with_iterations,
)
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.roles import index_variable, roles_of
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.schedule import Schedule

_ROLES: Final = ("hidden", "depthwise_sum", "depthwise", "products", "project")
_KEPT: Final = ("hidden", "depthwise")
_MOST_ROWS: Final = 14  # of the result in a band
_BANDS: Final = (4, 7, 14, 28)  # rows of a band that are worth a measurement


@dataclass(frozen=True)
class Axes:
    """The blocks of an inverted residual, and which axis of the last one does what.

    Attributes:
        last: Name of the block that writes the result.
        batch: The axis over images; None when there is one.
        rows: The axis of the result from top to bottom.
        lanes: Channels of a block.
        panel: Output channels that are computed together.
        expands: Whether there is a first convolution.
    """

    last: str
    batch: Axis | None
    rows: Axis
    lanes: int
    panel: int
    expands: bool


class InvertedResidual:
    """Bands of rows through several stages."""

    name = "inverted_residual"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """The stages of such a block, with what is done to each element of its result in the last one.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        roles = roles_of(sch, stages, INVERTED_RESIDUAL)
        expected = [*(["expand"] if "expand" in roles else []), *_ROLES]
        if list(stages[:-1]) != [roles.get(role) for role in expected]:
            return None
        last, total = stages[-1], roles["project"].output
        reads = [load for load in last.reads() if load.buffer is total]
        lanes, panel = (_size(buffer.shape[-1]) for buffer in (roles["depthwise"].output, total))
        if not reads or last.init is not None or any(_size(size) == 0 for size in total.shape[1:]):
            return None
        by_var = {axis.var: axis for axis in last.spatial}
        batch, rows = (by_var.get(index_variable(index)) for index in reads[0].indices[:2])
        return None if rows is None else Axes(last.name, batch, rows, lanes, panel, "expand" in roles)

    def kept(self, sch: Schedule, stages: Sequence[Stage]) -> Collection[Buffer]:
        """What is read several times, and is better computed once."""
        roles = roles_of(sch, stages, INVERTED_RESIDUAL)
        return [roles[role].output for role in _KEPT if role in roles]

    def left_to_others(self, axes: Axes, decisions: Decisions) -> tuple[str, ...]:
        """Names of the stages that are scheduled by rules of their own: none."""
        return ()

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """At most how many rows a band has, and how many points are computed together in each stage."""
        lanes = processor.lanes()
        most = 28 if processor.registers == 32 else 12
        by_block, by_panel = (max(1, most // (size // gcd(size, lanes))) for size in (axes.lanes, axes.panel))
        return {"rows": _MOST_ROWS, "expand": by_block, "depthwise": most // 4, "project": by_panel, "lanes": lanes}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Bands of other heights, more points of the filter, fewer points of the products."""
        own, rows = self.decide(axes, processor), axes.rows.size or 1
        heights = {_divisor(rows, most): most for most in (*_BANDS, own["rows"])}
        bands = [{**own, "rows": most} for most in heights.values()]
        return distinct(
            [
                own,
                *bands,
                {**own, "depthwise": 2 * own["depthwise"]},
                {**own, "depthwise": max(1, own["depthwise"] // 2)},
                {**own, "project": max(1, own["project"] // 2)},
                {**own, "expand": max(1, own["expand"] // 2)},
            ]
        )

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule all stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        lanes = decisions["lanes"]
        panel_lanes = gcd(axes.panel, lanes)  # a panel may have halves of vectors
        band, around = _bands(sch, axes, decisions["rows"])
        block = _sums(sch, band, decisions["project"], panel_lanes)
        _near(sch, "depthwise", block)
        _filter(sch, decisions["depthwise"], lanes)
        _near(sch, "hidden", block)
        _expand(sch, axes, decisions["expand"], lanes)
        _multiply(sch, block, panel_lanes)
        vectors_along(sch, axes.last, lanes)
        run_by_threads(sch, with_iterations(sch, around))  # last: from then on every step is proved to keep them apart


def _size(size: PrimExpr) -> int:
    return size.value if isinstance(size, IntImm) else 0


def _divided(sch: Schedule, rv: LoopRV, most: int) -> list[LoopRV]:
    """A loop in parts that are all of one size."""
    return list(sch.split(rv, [None, _divisor(constant_extent(sch, rv), most)]))


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent that is not larger than a number."""
    return max(part for part in range(1, max(1, min(most, extent)) + 1) if extent % part == 0)


def _near(sch: Schedule, block: str, loop: LoopRV) -> None:
    """Compute a block within a loop, in memory of its own."""
    sch.compute_at(block, loop, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")


def _bands(sch: Schedule, axes: Axes, rows: int) -> tuple[LoopRV, list[LoopRV]]:
    """Bands of rows of the result: the loop over them, and all loops that threads share."""
    loops = loops_by_variable(sch, axes.last)
    images = [] if axes.batch is None else [loops[axes.batch.loop]]
    rest = [loop for var, loop in loops.items() if var is not axes.rows.loop and loop not in images]
    band, row = _divided(sch, loops[axes.rows.loop], rows)
    place = list(loops).index(axes.rows.loop)
    inside = [loop for var, loop in loops.items() if loop in rest and list(loops).index(var) < place]
    after = [loop for loop in rest if loop not in inside]
    reorder(sch, [*images, band, *inside, row, *after])
    return band, [*images, band]


def _sums(sch: Schedule, band: LoopRV, points: int, lanes: int) -> LoopRV:
    """Blocks of channels outside, and in each of them tiles of the result: the loop over blocks."""
    _near(sch, "project", band)
    image, row, x, panel, channel, block = sch.get_loops("project")[-6:]
    outer, inner = _divided(sch, x, points)
    vectors, lane = _divided(sch, channel, lanes)
    reorder(sch, [block, image, row, outer, panel, inner, vectors, lane])
    _near(sch, "products", panel)
    return block


def _filter(sch: Schedule, points: int, lanes: int) -> None:
    """Windows: some points of a vector of channels in registers, all taps written out."""
    row, x, channel = sch.get_loops("depthwise")[-3:]
    outer, inner = _divided(sch, x, points)
    vectors, lane = _divided(sch, channel, lanes)
    reorder(sch, [vectors, row, outer, inner, lane])
    _near(sch, "depthwise_sum", outer)
    x, channel, ky, kx = sch.get_loops("depthwise_sum")[-4:]
    reorder(sch, [ky, kx, x, channel])
    first = block_name(sch, sch.decompose_reduction("depthwise_sum", ky))
    for name, count in ((first, 2), ("depthwise_sum_update", 4), ("depthwise", 2)):
        in_registers(sch, name, count)


def _expand(sch: Schedule, axes: Axes, points: int, lanes: int) -> None:
    """The rows that windows see: zeros around, and tiles of points and channels in registers."""
    border_apart(sch, "hidden", lanes)
    if not axes.expands:
        vectors_along(sch, "hidden", lanes)
        return
    x, channel = sch.get_loops("hidden")[-2:]
    outer, _ = _divided(sch, x, points)
    _divided(sch, channel, lanes)
    _near(sch, "expand", outer)
    x, channel, term = sch.get_loops("expand")[-3:]
    vectors, lane = _divided(sch, channel, lanes)
    reorder(sch, [term, x, vectors, lane])
    first = block_name(sch, sch.decompose_reduction("expand", term))
    for name in (first, "expand_update", "hidden"):
        in_registers(sch, name, 3)


def _multiply(sch: Schedule, block: LoopRV, lanes: int) -> None:
    """The products of a tile in registers, added to the sums of the blocks before."""
    x, panel, channel, term = sch.get_loops("products")[-4:]
    vectors, lane = _divided(sch, channel, lanes)
    reorder(sch, [term, x, panel, vectors, lane])
    first = block_name(sch, sch.decompose_reduction("products", term))
    for name in (first, "products_update"):
        in_registers(sch, name, 4)
    zeros = block_name(sch, sch.decompose_reduction("project", block))
    sch.vectorize(sch.get_loops(zeros)[-1])
    in_registers(sch, "project_update", 3)
