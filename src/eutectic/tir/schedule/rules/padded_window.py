"""Windows of each channel over padded images: no padded copy is made.

What is around an image is put where it is read. Rows and tiles of a row in which a window sees other parts of it are
loops of their own, in which no condition is left: taps that are outside add what the image is padded with. Where that
would be too much code, all rows are one loop, and so are the rows of a window, which asks once for each of them whether
it is outside.

Threads share rows of all channels where there are many, as neighbours along an image do. Each has bands of rows of some
channels then: of single rows all channels would be read three times from a cache that is further away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from math import prod
from typing import Final

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.borders import padded_sums
from eutectic.tir.schedule.rules.guards import changes_of, part_sizes
from eutectic.tir.schedule.rules.nest import (
    block_name,
    in_registers_within,
    joined,
    loops_by_variable,
    pair_parts,
    reorder,
    run_by_threads,
    with_iterations,
)
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.walk import Span, Walk, walk_of
from eutectic.tir.schedule.rules.window_axes import moving_axes, seen_once
from eutectic.tir.schedule.rules.work import lanes_of
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.statement_mutator import with_values

_FEWEST_UNITS: Final = 8  # rows of vectors of channels, that threads share
_FEWEST_ROWS: Final = 14  # that threads share with all channels of each, as neighbours along an image are shared
_BANDS: Final = (7, 8, 6, 5)  # rows of a band, the first that divides them
_FEWEST_BANDS: Final = 4
_FEW_CHANGES: Final = 2  # of what a window sees of the padding, so that asking in each row is cheap
_FEWEST_POINTS: Final = 4  # of a tile, below which sums wait for each other
_MOST_TERMS: Final = 1000  # of vectors, that are written out in all parts; more take LLVM seconds


@dataclass(frozen=True)
class Axes:
    """The blocks of a window over padded images, and which axis of the last one does what.

    Attributes:
        pad: Name of the block that pads.
        sums: Name of the block that adds.
        last: Name of the block that writes the result.
        rows: The axis from top to bottom.
        points: The axis along a row.
        channels: The axis that vectors lie along.
        images: Axes that weights do not depend on, such as that of several images.
        row_changes: Rows from which on a window sees another part of the padding.
        point_changes: The same along a row.
        taps: Terms of a sum.
        tap_loops: Loops over them.
        lanes: Channels of a vector.
        ways: Points of a tile that fit into registers and divide a row, and whether rows are in parts; the best first.
        band: Rows that are done of some channels before others, so that those a window sees stay near; 0 for one.
    """

    pad: str
    sums: str
    last: str
    rows: Axis
    points: Axis
    channels: Axis
    images: tuple[Axis, ...]
    row_changes: tuple[int, ...]
    point_changes: tuple[int, ...]
    taps: int
    tap_loops: int
    lanes: int
    ways: tuple[tuple[int, bool], ...] = ()
    band: int = 0

    def parts(self, size: int) -> tuple[list[int], list[int]]:
        """How many rows, and how many tiles of so many points, are in each loop of its own."""
        rows, points = self.rows.size or 0, self.points.size or 0
        runs = groupby(range(0, points, size), key=partial(self._place, size=size))
        return part_sizes(self.row_changes, rows), [len(list(run)) for _, run in runs]

    def _place(self, start: int, size: int) -> tuple[int, ...]:
        """Between which changes a tile lies; where there are some inside of it, it shares that with no other."""
        before, inside = (sum(at <= end for at in self.point_changes) for end in (start, start + size - 1))
        return (before,) if before == inside else (before, start)

    def terms(self, size: int, row_parts: bool) -> int:
        """Vectors that are added up, as often as they are written out."""
        rows, tiles = map(len, self.parts(size))
        return self.taps * size * tiles * (rows if row_parts else 1)


class PaddedWindow(Whole):
    """Windows of each channel, and a loop for each part of the image that they see the padding from."""

    name = "padded_window"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Padding, sums over a small window of each channel, and what is done to each of them.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        padded = padded_sums(stages)
        return None if padded is None else _axes(padded[0], walk_of(padded[1]), processor)

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """The largest tile, in bands of rows; else with rows in parts where that is not too much code."""
        return self.candidates(axes, processor)[0]

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """All tiles."""
        rows_first = (axes.rows.size or 0) >= _FEWEST_ROWS
        ways = [{"points": size, "row_parts": row_parts, "rows_first": rows_first} for size, row_parts in axes.ways]
        whole = [way for way in ways if axes.band and not way["row_parts"]]
        bands = [{**way, "rows_first": True, "band": axes.band} for way in whole[:1]]
        return [*bands, *ways[:1], {**ways[0], "rows_first": not rows_first}, *ways[1:]]

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule all stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        sch.compute_inline(axes.pad)
        row_sizes, tile_sizes = axes.parts(decisions["points"])
        in_parts = decisions["row_parts"]
        band = decisions.get("band", 0)
        units, tile = _tiles(sch, axes, decisions["points"], decisions["rows_first"], band)
        row = len(units)
        parts = _parts(sch, (axes.sums, axes.last), row, row_sizes if in_parts else [])
        for part in parts:
            for pair in _parts(sch, part, tile, tile_sizes):
                _in_registers(sch, pair, tile + 1, axes.tap_loops, serial=0 if in_parts else 1)
        rows = [] if band else joined(sch, [sch.get_loops(last)[row] for _, last in parts])
        shared = with_iterations(sch, [*units, *rows])
        run_by_threads(sch, shared)  # last: from then on every step is proved to keep them apart


def _tiles(sch: Schedule, axes: Axes, size: int, rows_first: bool, band: int) -> tuple[list[LoopRV], int]:
    """Vectors of channels, and rows, outside, tiles of a row inside; rows in bands are within the vectors.

    Returns:
        The loops around rows, and how many loops there are around tiles.
    """
    loops = loops_by_variable(sch, axes.last)
    images = [loops[axis.loop] for axis in axes.images]
    row, point, channel = (loops.pop(axis.loop) for axis in (axes.rows, axes.points, axes.channels))
    vectors, lane = sch.split(channel, [None, axes.lanes])
    tile, inner = sch.split(point, [None, size])
    units = [*loops.values(), vectors]
    shared = with_iterations(sch, units)
    within = [loop for loop in shared if rows_first and loop not in images]
    around = [loop for loop in units if loop not in shared]  # those of one iteration, then one inside the other
    around += [loop for loop in shared if loop not in within]
    if band:
        outside, row = sch.split(row, [None, band])
        around, within = [*around, outside, *within], []
    reorder(sch, [*around, row, *within, tile, inner, lane])
    sch.compute_at(axes.sums, tile, preserve_unit_loops=True)
    sch.set_scope(axes.sums, 0, "local")
    return around, len(around) + 1 + len(within)


def _parts(sch: Schedule, pair: tuple[str, str], place: int, sizes: Sequence[int]) -> list[tuple[str, str]]:
    """The two blocks in each part of the loop within so many others; one part stays as it is."""
    return pair_parts(sch, pair, place, sizes) if len(sizes) > 1 else [pair]


def _in_registers(sch: Schedule, pair: tuple[str, str], depth: int, tap_loops: int, serial: int) -> None:
    """A tile, within so many loops: its sums, of which the first loops over taps may stay, and what is done to them."""
    sums, last = pair
    loops = sch.get_loops(sums)[depth:]
    own, taps = loops[: len(loops) - tap_loops], loops[len(loops) - tap_loops :]
    reorder(sch, [*taps, *own])
    first = block_name(sch, sch.decompose_reduction(sums, taps[0]))
    for name, within in ((first, depth), (f"{sums}_update", depth + serial), (last, depth)):
        in_registers_within(sch, name, within)


def _axes(pad: Stage, walk: Walk, processor: Processor) -> Axes | None:
    sums, seen, moving = walk.stage, seen_once(walk, pad.output), moving_axes(walk, pad.output)
    lanes = lanes_of(sums.output.dtype, processor)
    if sums.epilogue is None or seen is None or moving is None or (moving.channels.size or 1) % lanes:
        return None
    if any(span.size is None for span in moving):
        return None
    others = [span for span in walk.spatial if span not in (moving.rows, moving.points)]
    units = [span.size for span in (*others, moving.rows)]
    taps = prod(axis.size or _MOST_TERMS for axis in sums.reduce)
    if taps > _MOST_TERMS or None in units or prod(size or 0 for size in units) < _FEWEST_UNITS * lanes:
        return None
    values = list(_values(pad, sums, seen))
    rows, points = ({at for value in values for at in changes_of(value, span)} for span in moving[:2])
    if not (rows or points) or any(changes_of(value, span) for value in values for span in others):
        return None
    own = dict(zip((axis.var for axis in sums.spatial), sums.epilogue.spatial, strict=True))
    axes = Axes(
        pad=pad.name,
        sums=sums.name,
        last=sums.epilogue.name,
        rows=own[moving.rows.var],
        points=own[moving.points.var],
        channels=own[moving.channels.var],
        images=tuple(own[axis.var] for span in others if _is_of_images(walk, pad.output, span) for axis in span.axes),
        row_changes=tuple(sorted(rows)),
        point_changes=tuple(sorted(points)),
        taps=taps,
        tap_loops=len(sums.reduce) + len(sums.reduce_units),
        lanes=lanes,
    )
    ways = _ways(axes, processor)
    return replace(axes, ways=ways, band=_band(axes)) if ways else None


def _band(axes: Axes) -> int:
    """Rows of a band: there are several, and they ask in each row what a window sees of the padding."""
    rows = axes.rows.size or 0
    if len(axes.row_changes) > _FEW_CHANGES:
        return 0
    return next((size for size in _BANDS if rows % size == 0 and rows // size >= _FEWEST_BANDS), 0)


def _is_of_images(walk: Walk, image: Buffer, span: Span) -> bool:
    """Whether weights, where there are some, are the same for all of an axis."""
    weights = [access for access in walk.reads if access.buffer is not image]
    return bool(weights) and all(access.coefficient(span) == 0 for access in weights)


def _ways(axes: Axes, processor: Processor) -> tuple[tuple[int, bool], ...]:
    """Points of a tile that fit into registers and divide a row, the largest first, each with rows in parts and not."""
    points, most = axes.points.size or 0, processor.registers // 2
    divisors = [size for size in range(most, _FEWEST_POINTS - 1, -1) if points % size == 0]
    ways = [(size, row_parts) for size in divisors for row_parts in (True, False)]
    return tuple(way for way in ways if axes.terms(*way) <= _MOST_TERMS)


def _values(pad: Stage, sums: Stage, seen: BufferLoad) -> Iterator[PrimExpr]:
    """What is read of the padded image, for each tap."""
    places = dict(zip(pad.indices, seen.indices, strict=True))
    value = with_values(pad.value, {axis.var: places[axis.var] for axis in pad.spatial})
    for taps in product(*(range(axis.size or 0) for axis in sums.reduce)):
        yield with_values(
            value, {axis.var: IntImm(axis.var.dtype, at) for axis, at in zip(sums.reduce, taps, strict=True)}
        )
