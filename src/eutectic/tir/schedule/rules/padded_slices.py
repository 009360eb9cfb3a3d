"""Convolutions of volumes that are padded in front and behind only: no padded copy is made.

Whether a tap sees the padding is the same for all points of a slice, so a tile of such points asks once for each tap,
and leaves those out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.tir.function_attributes import finite_params
from eutectic.tir.schedule.rules.borders import axes_of_image, padded_axes, padded_sums, without_copy
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.register_axes import Axes as TileAxes
from eutectic.tir.schedule.rules.register_tile import RegisterTile, tile_of_sums
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.tile_nest import TERMS_IN_A_ROW
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.schedule.schedule import Schedule

_TILE: Final = RegisterTile()


@dataclass(frozen=True)
class Axes:
    """The blocks of a padded convolution, and what tiles of the sums lie along.

    Attributes:
        pad: Name of the block that pads.
        sums: Name of the block that adds.
        tile: What tiles of the sums lie along.
        points: Of a slice, as far as tiles lie along slices, too; 0 where they do not.
    """

    pad: str
    sums: str
    tile: TileAxes
    points: int


class PaddedSlices(Whole):
    """Tiles of sums, each within a slice."""

    name = "padded_slices"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Padding along one axis, a convolution whose tiles lie within the others, and what is done to each sum.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        padded = padded_sums(stages)
        if padded is None or not finite_params(sch.func) or len(padded_axes(padded[0])) != 1:
            return None
        (pad, walked), sums = padded, stages[1]
        axes = axes_of_image(pad, sums)
        if axes is None:
            return None
        tile = tile_of_sums(walk_of(walked, apart=axes[-1:]), processor)
        if tile is None or not tile.near:  # slices are small: tiles may lie along several axes that are one
            tile = tile_of_sums(walk_of(walked), processor)
        points = None if tile is None else _points(tile, axes[-1])
        if tile is None or points is None:
            return None
        found = Axes(pad.name, sums.name, tile, points)
        return found if _are_within(found, self.decide(found, processor)) else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """What is decided about tiles."""
        return _TILE.decide(axes.tile, processor)

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Other tiles that are within slices."""
        return [way for way in _TILE.candidates(axes.tile, processor) if _are_within(axes, way)]

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both stages.

        Raises:
            ScheduleError: a primitive refuses, or tiles do not know what they see of the padding.
        """
        _TILE.apply(_TILE.nest(sch, axes.tile, decisions), axes.tile, decisions, shared=True)
        without_copy(sch, axes.pad, axes=1)


def _points(tile: TileAxes, slices: Axis) -> int | None:
    """Points of a slice along which tiles lie that lie along slices, too; 0 where none does, None for other tiles."""
    along = [span for span in (tile.rows, tile.vector, tile.blocks) if span is not None and slices in span.axes]
    if not along:
        return 0
    if along != [tile.rows]:
        return None
    (rows,) = along
    sizes = [axis.size for axis in rows.axes[rows.axes.index(slices) + 1 :]]
    return None if None in sizes else prod(size or 0 for size in sizes)


def _are_within(axes: Axes, decisions: Decisions) -> bool:
    """Whether each tile is within a slice, and asks what it sees before several terms."""
    if axes.points % decisions["rows"] or any(decisions["unroll"]) or decisions.get("rounds"):
        return False
    sizes = [span.size for span in axes.tile.walk.reduce if span.size != 1]
    if len(sizes) == 1 and decisions.get("terms"):
        sizes = [decisions["terms"]]
    return bool(sizes) and sizes[-1] is not None and sizes[-1] >= TERMS_IN_A_ROW
