"""Stages without a reduction: vectors along the contiguous axis, threads along the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import PrimExpr
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.columns import Columns, columns_of, in_columns
from eutectic.tir.schedule.rules.guards import change_points, part_sizes
from eutectic.tir.schedule.rules.nest import Nest, copies, joined, reorder, run_by_threads, tiles
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.rules.work import are_many, has_functions, is_small, lanes_of, operations, points
from eutectic.tir.schedule.schedule import Schedule

_FEW_SETS: Final = 2048  # bytes between lines for which a first cache, of 64 sets, has only two sets, or one
_FEWEST: Final = 8  # iterations that threads share
_COSTLY: Final = 20  # operations from which on one vector at a time is enough to be busy


@dataclass(frozen=True)
class Axes:
    """Which axis does what.

    Attributes:
        walk: The stage.
        vector: Vectors lie along it; None when nothing is contiguous.
        across: Something is read along it that is not read along `vector`: a transposition.
        columns: How a matrix is read by columns there, if registers are to make these of its rows.
        is_far: Whether the lanes of such a vector lie so far apart that few of their lines fit into a cache at once.
        outer: All other axes.
        points: Where along `edge`, or `vector` where there is none, conditions on it change.
        edge: The innermost of the other axes that conditions change along, where none do along `vector`: the width of
            an image with channels last that is padded.
    """

    walk: Walk
    vector: Span | None
    across: Span | None
    columns: Columns | None
    is_far: bool
    outer: tuple[Span, ...]
    points: tuple[int, ...]
    edge: Span | None = None

    @property
    def tiled(self) -> Span | None:
        """The axis of which tiles are outermost."""
        return self.vector if self.columns is None else self.columns.outermost


class Elementwise:
    """One vector after the other; where conditions change along the vectors, a loop for each part."""

    name = "elementwise"

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """Any stage that reduces nothing."""
        if walk.stage.init is not None:
            return None
        vector = _contiguous(walk)
        changes = () if vector is None else change_points(walk.stage.value, vector)
        lanes = lanes_of(walk.store.buffer.dtype, processor)
        across, columns, is_far = (None, None, False) if vector is None else _read_across(walk, vector, lanes)
        outer = tuple(span for span in walk.spatial if span not in (vector, across))
        edge = None
        if vector is not None and vector.size is not None and not changes and across is None:
            edge, changes = _edge(walk, outer)
        outer = _rows_outside(walk, outer)
        rest = tuple(span for span in outer if span is not edge)
        return Axes(walk, vector, across, None if changes else columns, is_far, rest, changes, edge)

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """How wide vectors are, and whether threads share the work."""
        value = axes.walk.stage.value
        lanes = lanes_of(axes.walk.store.buffer.dtype, processor)
        return {"width": lanes * _vectors(axes, value), "threads": not is_small(axes.walk.spatial, value)}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """One, two and four vectors at a time, and the other answer about threads."""
        own, lanes = self.decide(axes, processor), lanes_of(axes.walk.store.buffer.dtype, processor)
        widths = () if axes.vector is None or axes.columns is not None else (lanes, 2 * lanes, 4 * lanes)
        return distinct([own, *({**own, "width": width} for width in widths), {**own, "threads": not own["threads"]}])

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> Nest:
        """See `Rule`."""
        return Nest(sch, axes.walk)

    def apply(self, nest: Nest, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """See `Rule`."""
        threads = shared and decisions["threads"]
        outside: Sequence[LoopRV] = ()
        if axes.edge is not None:
            self._edges(nest, axes, axes.edge, decisions["width"])
        elif axes.points:
            self._parts(nest, axes, decisions["width"])
        elif axes.columns is not None:
            reorder(nest.sch, nest.of([*axes.outer, axes.columns.vector, axes.columns.across]))
            outside = in_columns(nest, axes.columns)
        elif axes.vector is not None:
            outside = self._vectors(nest, axes, decisions["width"])
        if threads:
            spans = _shared(axes, bool(outside))
            ends = joined(nest.sch, outside) if axes.tiled in spans else []
            run_by_threads(nest.sch, [*nest.units, *nest.of([s for s in spans if s is not axes.tiled]), *ends])

    def _vectors(self, nest: Nest, axes: Axes, width: int) -> Sequence[LoopRV]:
        """Tiles of vectors outside of the axis that is read across, so that lines that it reads are read once."""
        assert axes.vector is not None
        inner = [] if axes.across is None else nest.of([axes.across])
        loop = nest.loops[axes.vector]
        reorder(nest.sch, [*nest.of(axes.outer), loop, *inner])
        tiled = tiles(nest, loop, axes.vector, width, inner)
        for lanes in tiled.inside:
            nest.sch.vectorize(lanes)
        return tiled.outside

    def _parts(self, nest: Nest, axes: Axes, width: int) -> None:
        assert axes.vector is not None
        inner = [] if axes.across is None else nest.of([axes.across])
        loop, sizes = nest.loops[axes.vector], _sizes(axes.vector, axes.points)
        reorder(nest.sch, [*nest.of(axes.outer), loop, *inner])
        parts = nest.sch.loop_partition(loop, sizes)
        for part, (block,), size in zip(parts, copies(nest.sch, parts, nest.block), sizes, strict=True):
            _in_vectors(nest.sch, part, block, size, width, bool(inner))

    def _edges(self, nest: Nest, axes: Axes, edge: Span, width: int) -> None:
        """A loop for each part of an axis outside of the vectors: its conditions hold in all of a part, or nowhere."""
        assert axes.vector is not None
        assert axes.vector.size is not None
        loop = nest.loops[edge]
        reorder(nest.sch, [*nest.of(axes.outer), loop, nest.loops[axes.vector]])
        parts = nest.sch.loop_partition(loop, _sizes(edge, axes.points))
        for (block,) in copies(nest.sch, parts, nest.block):
            _in_vectors(nest.sch, nest.sch.get_loops(block)[-1], block, axes.vector.size, width, is_outside=False)


def _shared(axes: Axes, in_tiles: bool) -> list[Span]:
    """What threads share: all axes that are outside, the outermost of tiles if there are any.

    They share several as one, and divide each of its iterations by the sizes of the inner ones. That takes as long as a
    dozen vectors where these are not known, so the innermost is left to one thread if there are likely enough others;
    and where places in memory are computed, as what depends on the others is then computed once for all of it.
    """
    spans = [*axes.outer, *([axes.tiled] if in_tiles and axes.tiled is not None else [])]
    if not spans:
        return spans
    if spans[-1].size is not None:
        is_computed = any(access.form is None for access in axes.walk.reads)
        return spans[:-1] if is_computed and are_many(spans[:-1]) else spans
    images = axes.walk.stage.spatial[0]  # of which there may be one
    likely = [_FEWEST if span.size is None and span.axes[0] is not images else span.size or 1 for span in spans[:-1]]
    return spans[:-1] if prod(likely) >= _FEWEST else spans


def _rows_outside(walk: Walk, outer: Sequence[Span]) -> tuple[Span, ...]:
    """Few channels of an image that gets a border inside of its rows: these are what threads share where it is read."""
    spans = list(outer)
    for at in range(1, len(spans)):
        channels, rows = spans[at - 1 : at + 1]
        # several axes that are one have images among them, which stay outside
        is_small = len(channels.axes) == 1 and channels.size is not None and channels.size < _FEWEST
        if is_small and change_points(walk.stage.value, rows):
            spans[at - 1 : at + 1] = [rows, channels]
    return tuple(spans)


def _edge(walk: Walk, outer: Sequence[Span]) -> tuple[Span | None, tuple[int, ...]]:
    """An axis that conditions change along, and where, if enough is left for threads to share."""
    for span in reversed(outer):
        if changes := change_points(walk.stage.value, span):
            left = points([other for other in outer if other is not span])
            return (span, changes) if left is None or left >= _FEWEST else (None, ())
    return None, ()


def _sizes(span: Span, changes: Sequence[int]) -> list[int]:
    assert span.size is not None
    return part_sizes(changes, span.size)


def _in_vectors(sch: Schedule, loop: LoopRV, block: str, size: int, width: int, is_outside: bool) -> None:
    """One loop as whole vectors and a narrower one; where it is outside of another loop, vectors get inside of that."""
    parts: Sequence[LoopRV] = [loop]
    if size > width and size % width:
        parts = sch.loop_partition(loop, [size // width * width, size % width])
    extents = (size // width * width, size % width) if len(parts) == 2 else (size,)
    for part, (name,), extent in zip(parts, copies(sch, parts, block), extents, strict=True):
        lanes = part if extent <= width else sch.split(part, [None, width])[1]
        if is_outside:
            reorder(sch, [sch.get_loops(name)[-1], lanes])
        sch.vectorize(lanes)


def _vectors(axes: Axes, value: PrimExpr) -> int:
    """How many at a time: four of what waits for its own steps, two of what a processor is not busy with by one."""
    if axes.is_far or axes.columns is not None:
        return 1
    if has_functions(value):
        return 4
    return 1 if operations(value) >= _COSTLY else 2


def _contiguous(walk: Walk) -> Span | None:
    """The axis along which results are contiguous."""
    for span in reversed(walk.spatial):
        if walk.store.coefficient(span) == 1:
            return span
    return None


def _read_across(walk: Walk, vector: Span, lanes: int) -> tuple[Span | None, Columns | None, bool]:
    """The axis along which something is read contiguously that is not along `vector`: that of a transposition.

    With it come the columns that are read then, and whether lines of the lanes of a vector keep each other out of a
    cache.
    """
    for access in walk.reads:
        stride = access.coefficient(vector)
        if stride is None or stride in (0, 1, 2):
            continue
        for other in walk.spatial:
            if access.coefficient(other) == 1 and access.buffer is not walk.store.buffer:
                is_far = _is_far(walk, stride, walk.store.coefficient(other))
                return other, columns_of(walk, stride, vector, other, lanes), is_far
    return None, None, False


def _is_far(walk: Walk, read: Any, stored: Any) -> bool:
    """Whether lines that are read share few sets, and are farther apart than those that are stored in turn."""
    if not isinstance(read, int) or not isinstance(stored, int):
        return False
    return abs(read) > abs(stored) and read * item_bytes(walk.store.buffer.dtype) % _FEW_SETS == 0
