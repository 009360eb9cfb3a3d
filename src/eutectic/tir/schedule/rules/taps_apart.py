"""Convolutions whose taps are so far apart that much of what they see is padding: no padded copy is made.

Such a copy would be several times as large as the image. Each point of a tile leaves out the taps that see padding for
it, as it is known of tiles that are written out which these are; rows ask before the terms of a tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, evaluate
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import conjunction
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function_attributes import finite_params
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.rules.borders import padded_axes, padded_sums, without_copy
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.register_axes import Axes as TileAxes
from eutectic.tir.schedule.rules.register_axes import tiles_along
from eutectic.tir.schedule.rules.register_tile import RegisterTile, tile_of_sums
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.tile_nest import TAPS, TERMS_IN_A_ROW, TILES_APART
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.schedule.schedule import Schedule

_MOST_SEEN: Final = 7 / 8  # of the terms along an axis, which are no padding, for most code of its own to pay
_MOST_PLACES: Final = 4096  # points times taps of an axis that are looked at one by one
_AXES: Final = 2  # that are padded
_TILE: Final = RegisterTile()


@dataclass(frozen=True)
class Axes:
    """The blocks of a padded convolution, and what tiles of the sums lie along.

    Attributes:
        pad: Name of the block that pads.
        sums: Name of the block that adds.
        tile: What tiles of the sums lie along; the rows are points along the last axis that is padded.
    """

    pad: str
    sums: str
    tile: TileAxes


class TapsApart(Whole):
    """Tiles of sums, each point of which knows what it sees."""

    name = "taps_apart"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Padding along several axes, a convolution that sees much of it, and what is done to each sum.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        padded = padded_sums(stages)
        if padded is None or not finite_params(sch.func) or len(padded_axes(padded[0])) != _AXES:
            return None
        (pad, walked), sums = padded, stages[1]
        tile, seen = tile_of_sums(walk_of(walked), processor), _seen(pad, sums)
        if tile is None or seen is None or tile.rows is None or tile.rows.axes != seen[0]:
            return None
        found = Axes(pad.name, sums.name, _without_padding(tile, pad, seen[1]))
        return found if _are_apart(found.tile, self.decide(found, processor)) else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """What is decided about tiles; no terms are written out, so that those of a tap ask once."""
        decided = _TILE.decide(axes.tile, processor)
        return {**decided, "unroll": [False] * len(decided["unroll"])}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Other tiles that are as few."""
        return [way for way in _TILE.candidates(axes.tile, processor) if _are_apart(axes.tile, way)]

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both stages.

        Raises:
            ScheduleError: a primitive refuses, or tiles do not know what they see of the padding.
        """
        _TILE.apply(_TILE.nest(sch, axes.tile, decisions), axes.tile, decisions, shared=True)
        without_copy(sch, axes.pad, _AXES)


def _seen(pad: Stage, sums: Stage) -> tuple[tuple[Axis, ...], float] | None:
    """The axis of the sums along the last axis that is padded, and what part of all terms is no padding.

    None where it is not known, or little is padding along the last axis.
    """
    reads = [load for load in sums.reads() if load.buffer is pad.output]
    padded, by_var = padded_axes(pad), {axis.var: axis for axis in (*sums.spatial, *sums.reduce)}
    if len(reads) != 1:
        return None
    asks = conjuncts(pad.value.args[0]) if is_if_then_else(pad.value) else []
    parts: list[float] = []
    last: tuple[Axis, ...] = ()
    for place, index in zip(pad.indices, reads[0].indices, strict=True):
        if not isinstance(place, Var) or place not in padded:
            continue
        axes = [by_var[var] for var in variables(index) if var in by_var]
        last = tuple(axis for axis in axes if axis in sums.spatial)
        part = _part_inside(place, index, [ask for ask in asks if place in variables(ask)], axes)
        if part is None:
            return None
        parts.append(part)
    return (last, prod(parts)) if parts[-1] <= _MOST_SEEN else None


def _part_inside(place: Var, index: PrimExpr, asked: Sequence[PrimExpr], axes: Sequence[Axis]) -> float | None:
    """At what part of the points of some axes an index is inside; None where it is not known."""
    sizes = [axis.size for axis in axes if axis.size is not None]
    if len(sizes) < len(axes) or not 0 < prod(sizes) <= _MOST_PLACES:
        return None
    inside, known = conjunction(asked), {axis.var for axis in axes}
    if variables(inside) != {place} or variables(index) != known:
        return None
    points = [dict(zip((axis.var for axis in axes), at, strict=True)) for at in product(*map(range, sizes))]
    return sum(bool(evaluate(inside, {place: evaluate(index, at)})) for at in points) / len(points)


def _without_padding(tile: TileAxes, pad: Stage, seen: float) -> TileAxes:
    """Tiles that read the image itself, and of the weights what is not left out."""
    image = next((item.buffer for item in post_order(pad.value) if isinstance(item, BufferLoad)), None)
    if image is None or tile.vector_bytes is None or not all(isinstance(size, IntImm) for size in image.shape):
        return tile
    size = prod(size.value for size in image.shape if isinstance(size, IntImm)) * item_bytes(image.dtype)
    return replace(tile, row_bytes=size, likely_row_bytes=size, vector_bytes=int(tile.vector_bytes * seen))


def _are_apart(axes: TileAxes, decisions: Decisions) -> bool:
    """Whether tiles are few enough to be written out, and each asks what it sees before several terms."""
    terms = [span.size for span in axes.walk.reduce if span.size != 1]
    tiles = tiles_along(axes.rows, decisions["rows"])
    if tiles is None or tiles > TILES_APART or len(terms) < _AXES or any(decisions["unroll"]):
        return False
    taps, in_a_row = terms[-2:]
    return taps is not None and taps <= TAPS and in_a_row is not None and in_a_row >= TERMS_IN_A_ROW
