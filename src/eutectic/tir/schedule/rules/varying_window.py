"""Windows of each channel over padded images of any size: no padded copy is made.

What is around an image is put where it is read. Tiles of points go along a row, of which only the first and the last
points can see the padding: whoever lowers the program finds the others inside. Each row of a window asks whether it is
outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.tir.schedule.rules.accumulators import Accumulators
from eutectic.tir.schedule.rules.borders import padded_sums
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.rules.tile_nest import TileNest
from eutectic.tir.schedule.rules.walk import Span, Walk, walk_of
from eutectic.tir.schedule.rules.window_axes import MovingAxes, moving_axes, seen_once
from eutectic.tir.schedule.rules.work import lanes_of
from eutectic.tir.schedule.schedule import Schedule

_FEWEST_ROWS: Final = 14  # that threads share with all channels of each, as neighbours along an image are shared
_FEWEST_POINTS: Final = 4  # of a tile, below which sums wait for each other
_MOST_TERMS: Final = 7 * 7  # of a window, a row of which is written out


@dataclass(frozen=True)
class Axes:
    """The blocks of a window over padded images.

    Attributes:
        pad: Name of the block that pads.
        walk: The sums.
        moving: The axes that the window moves along, and the channels.
        lanes: Channels of a vector.
        sizes: Points of a tile, the best first.
    """

    pad: str
    walk: Walk
    moving: MovingAxes
    lanes: int
    sizes: tuple[int, ...]


class VaryingWindow(Whole):
    """Windows of each channel, in tiles of points that ask only at their ends what is outside."""

    name = "varying_window"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Padding, sums over a window of each channel of an image whose sizes vary, and what is done to each of them.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        padded = padded_sums(stages)
        if padded is None:
            return None
        pad, walk = padded[0], walk_of(padded[1])
        moving, lanes = moving_axes(walk, pad.output), lanes_of(walk.store.buffer.dtype, processor)
        if moving is None or seen_once(walk, pad.output) is None or None not in (moving.rows.size, moving.points.size):
            return None
        if (moving.channels.size or 1) % lanes or not _is_small(walk.reduce):
            return None
        return Axes(pad.name, walk, moving, lanes, _sizes(moving.points, processor.registers // 2 - 1))

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """The best tile; all channels of a row before the next one where there are many rows."""
        return self.candidates(axes, processor)[0]

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """All tiles, and the other order."""
        rows_first = (axes.moving.rows.likely or _FEWEST_ROWS) >= _FEWEST_ROWS
        ways = [{"points": size, "rows_first": rows_first} for size in axes.sizes]
        return [ways[0], {**ways[0], "rows_first": not rows_first}, *ways[1:]]

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule all stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        rows, points, channels = axes.moving
        sch.compute_inline(axes.pad)
        others = [span for span in axes.walk.spatial if span not in axes.moving]
        outer = [rows, *others, channels] if decisions["rows_first"] else [*others, channels, rows]
        work = TileNest(
            Accumulators(sch, axes.walk), outer, [points], {points: decisions["points"], channels: axes.lanes}
        )
        work.keep_accumulators()
        work.cut_remainders()
        work.use_registers(channels, [False, *([True] * (len(axes.walk.reduce) - 1))])
        work.share()


def _is_small(terms: Sequence[Span]) -> bool:
    """Whether a window has rows, and few enough points to be written out."""
    total = 1
    for span in terms:
        total *= span.size or _MOST_TERMS + 1
    return len(terms) > 1 and total <= _MOST_TERMS


def _sizes(points: Span, most: int) -> tuple[int, ...]:
    """Points of a tile: those that divide a row of the example, the largest first, or as many as fit into registers."""
    likely = points.likely or 0
    divisors = [size for size in range(most, _FEWEST_POINTS - 1, -1) if likely and likely % size == 0]
    return tuple(divisors or [most])
