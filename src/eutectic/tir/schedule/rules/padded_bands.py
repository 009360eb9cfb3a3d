"""Convolutions of large images of few channels: each band of rows is padded right before it is read.

A padded copy of such an image is as large as what it is a copy of, all threads must wait for it, and it has left the
nearest caches when it is read. That of a band has not. Rows that two bands see are copied for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.borders import axes_of_image, border_apart, in_parts, padded_sums
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import loops_by_variable, reorder, run_by_threads, with_iterations
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.register_axes import Axes as TileAxes
from eutectic.tir.schedule.rules.register_tile import RegisterTile, tile_of_sums
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.schedule.rules.work import lanes_of
from eutectic.tir.schedule.schedule import Schedule

_LEAST_BYTES: Final = 256 << 10  # of a padded copy; a smaller one stays near
_MOST_WEIGHT_BYTES: Final = 64 << 10  # of what is read again for each band
_MOST_ROWS: Final = 14  # of the result in a band
_FEWEST_BANDS: Final = 8  # that threads share
_HEIGHTS: Final = (4, 7, 14, 28)  # rows of a band that are worth a measurement
_TILE: Final = RegisterTile()


@dataclass(frozen=True)
class Axes:
    """The blocks of a padded convolution, and which axis of the sums does what.

    Attributes:
        pad: Name of the block that pads.
        sums: Name of the block that adds.
        tile: What tiles of the sums lie along.
        images: Axes of the sums that are before rows in the image: that of several images.
        rows: The axis of the sums from top to bottom.
        lanes: Of a vector.
    """

    pad: str
    sums: str
    tile: TileAxes
    images: tuple[Axis, ...]
    rows: Axis
    lanes: int


class PaddedBands(Whole):
    """Bands of rows of an image: padding, and tiles of sums."""

    name = "padded_bands"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Padding of a large image, a convolution of it with small weights, and what is done to each sum.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        padded = padded_sums(stages)
        if padded is None or not _is_worth_it(*stages[:2]):
            return None
        (pad, walked), sums = padded, stages[1]
        tile, axes = tile_of_sums(walk_of(walked), processor), axes_of_image(pad, sums)
        if tile is None or axes is None or not _are_outside(tile, axes):
            return None
        *images, rows = axes
        found = Axes(pad.name, sums.name, tile, tuple(images), rows, lanes_of(pad.output.dtype, processor))
        return found if _height(found, _MOST_ROWS) else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """How many rows a band has, beside what is decided about tiles."""
        return {"band": _height(axes, _MOST_ROWS), **_TILE.decide(axes.tile, processor)}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Bands of other heights, and other tiles."""
        own = self.decide(axes, processor)
        heights = {_height(axes, most) for most in _HEIGHTS} - {0}
        tiles = ({**own, **tile} for tile in _TILE.candidates(axes.tile, processor))
        return distinct([own, *({**own, "band": height} for height in sorted(heights)), *tiles])

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        nest = _TILE.nest(sch, axes.tile, decisions)
        _TILE.apply(nest, axes.tile, decisions, shared=False)
        loops = loops_by_variable(sch, f"{axes.sums}_update")
        outside = list(loops)[: list(loops).index(axes.rows.loop)]
        images = [loops[axis.loop] for axis in axes.images]
        between = [loops[var] for var in outside if loops[var] not in images]
        band, row = sch.split(loops[axes.rows.loop], [None, decisions["band"]])
        reorder(sch, [*images, band, *between, row])
        sch.compute_at(axes.pad, band, preserve_unit_loops=True)
        sch.set_scope(axes.pad, 0, "local")
        border_apart(sch, axes.pad, axes.lanes)
        in_parts(sch, axes.pad, axes.lanes)
        run_by_threads(sch, with_iterations(sch, [*images, band]))


def _is_worth_it(pad: Stage, sums: Stage) -> bool:
    """Whether the image is large, and all else that is read for each band is small."""
    weights = {load.buffer for load in sums.reads()} - {pad.output}
    sizes = [_bytes(buffer) for buffer in (pad.output, *weights)]
    if sums.init is None or None in sizes:
        return False
    image, *rest = (size or 0 for size in sizes)
    return image >= _LEAST_BYTES and sum(rest) <= _MOST_WEIGHT_BYTES


def _bytes(buffer: Buffer) -> int | None:
    sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]
    return prod(sizes) * item_bytes(buffer.dtype) if len(sizes) == len(buffer.shape) else None


def _are_outside(tile: TileAxes, axes: Sequence[Axis]) -> bool:
    """Whether no tile lies along any of some axes, and each of them is walked through alone, by its own loop still."""
    if any(len(span.axes) > 1 for span in tile.walk.spatial):  # the tile makes one axis of them, and all loops anew
        return False
    along = [span for span in (tile.vector, tile.rows, tile.blocks) if span is not None]
    alone = [span.axes[0] for span in tile.walk.spatial if len(span.axes) == 1 and span not in along]
    return all(axis in alone for axis in axes)


def _height(axes: Axes, most: int) -> int:
    """The largest number of rows up to a limit of which there are enough bands of one size; 0 where there is none."""
    rows, images = axes.rows.size or 0, prod(axis.size or 1 for axis in axes.images)
    fits = [size for size in range(2, most + 1) if rows % size == 0 and rows // size * images >= _FEWEST_BANDS]
    return max(fits, default=0)
