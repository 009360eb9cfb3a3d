"""Transpositions: tiles of as many columns as a vector has lanes, which are written out.

The backend loads the rows of such a tile, and makes its columns of them in registers. Tiles follow each other along the
rows that are read, or along those that are written: where these are a multiple of a power of two apart, lines of
several of them share few sets of a cache, and those that are written one after the other come to lie in one row. On a
Zen 5, 1024 x 1024 numbers took 437 us in the first order and 193 us in the second, but 64 x 12288 took 60 and 98.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from eutectic.ir.dtype import item_bytes
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.guards import is_guarded
from eutectic.tir.schedule.rules.nest import Nest, has_constant_extent, reorder, whole_and_rest
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.rules.work import operations
from eutectic.tir.schedule.schedule import Schedule

_FEWEST: Final = 4  # columns, and rows, of a tile: fewer are no vector
_NEAR: Final = 4  # elements between lanes up to which one vector of memory has several of them
_FEW_SETS: Final = 1024  # bytes between rows of which a first cache, of 64 sets, has four sets, or fewer
_MOST_OPERATIONS: Final = 100  # up to which a store is written out for each column


@dataclass(frozen=True)
class Columns:
    """How a matrix is read by columns.

    Attributes:
        vector: Along its columns, which are rows of what is written.
        across: Along its rows.
        width: Lanes of a vector, and columns of a tile.
        along_written: Whether tiles that follow each other lie in the same rows of what is written.
    """

    vector: Span
    across: Span
    width: int
    along_written: bool

    @property
    def outermost(self) -> Span:
        """The axis of which tiles are outside of those of the other, if it has any."""
        first, second = (self.across, self.vector) if self.along_written else (self.vector, self.across)
        return second if self.has_tiles(second) and not self.has_tiles(first) else first

    def has_tiles(self, span: Span) -> bool:
        """Whether an axis is cut into tiles, and not one."""
        return span.size is None or span.size > self.width


def columns_of(walk: Walk, stride: Any, vector: Span, across: Span, width: int) -> Columns | None:
    """How a stage reads a matrix across; None where columns of it are not to be written out.

    Args:
        walk: The stage.
        stride: Distance of neighbours of what is read along `vector`.
        vector: The axis along which results are contiguous.
        across: The axis along which something is read contiguously.
        width: Lanes of a vector.
    """
    if not (_are_enough(vector, width) and _are_enough(across, width)) or not _are_apart(stride):
        return None
    value, row = walk.stage.value, walk.store.coefficient(across)
    if operations(value) > _MOST_OPERATIONS or is_guarded(value):
        return None
    is_aligned = isinstance(row, int) and row * item_bytes(walk.store.buffer.dtype) % _FEW_SETS == 0
    return Columns(vector, across, width, is_aligned)


def _are_enough(span: Span, width: int) -> bool:
    return span.size is None or span.size >= width or (span.size >= _FEWEST and span.size % _FEWEST == 0)


def _are_apart(stride: Any) -> bool:
    """Whether one vector of memory has no more than one lane, or few."""
    return not isinstance(stride, int) or abs(stride) > _NEAR


def in_columns(nest: Nest, columns: Columns) -> Sequence[LoopRV]:
    """Cut the innermost axes of a nest into tiles, and write these out.

    before:                           after, for vectors of 16 lanes:
        for i in range(64):               for i in range(4):
            for j in range(40):               for j in range(2):
                y[j, i] = x[i, j]                 y[16 * j, v] = x[v, 16 * j]; ... y[16 * j + 15, v] = x[...]
                                              y[32, v] = x[v, 32]; ... y[39, v] = x[v, 39]

    Args:
        nest: The stage.
        columns: Its matrix.

    Returns:
        Loops over tiles along the outermost axis, which follow each other; none if it is one tile.
    """
    sch, first = nest.sch, columns.outermost
    second = columns.across if first is columns.vector else columns.vector
    reorder(sch, nest.of([first, second]))
    outside, blocks = _outer_tiles(nest, columns, first)
    for block in chain.from_iterable(_inner_tiles(sch, block, columns, second) for block in blocks):
        turned = sch.get_loops(block)[-2:]
        across, lanes = turned if first is columns.vector else reversed(turned)
        reorder(sch, [across, lanes])
        sch.vectorize(lanes)
        if has_constant_extent(sch, across):
            sch.unroll(across)
    return outside


def _outer_tiles(nest: Nest, columns: Columns, span: Span) -> tuple[Sequence[LoopRV], Sequence[str]]:
    """Tiles of the loop around the innermost one, whose iterations get inside of it: loops over them, and blocks."""
    sch = nest.sch
    loop, inside = sch.get_loops(nest.block)[-2:]
    if not columns.has_tiles(span):
        reorder(sch, [inside, loop])
        return (), [nest.block]
    outer, inner = sch.split(loop, [None, columns.width])
    reorder(sch, [outer, inside, inner])
    return whole_and_rest(sch, outer, nest.block)


def _inner_tiles(sch: Schedule, block: str, columns: Columns, span: Span) -> Sequence[str]:
    """Tiles of the loop around the innermost one of a block: blocks in them."""
    if not columns.has_tiles(span):
        return [block]
    outer, _ = sch.split(sch.get_loops(block)[-2], [None, columns.width])
    return whole_and_rest(sch, outer, block)[1]
