"""Which axis of a reduction does what in a tile of accumulators, and how much of memory each of them selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.tile_size import TileAxes, rows_kept
from eutectic.tir.schedule.rules.walk import Access, Span, Walk

NEAR_BYTES: Final = 768 * 1024  # of what a processor keeps near for all tiles that a thread works on
LIKELY: Final = 16  # iterations along an axis of which the size is not known, such as that of images of all sizes
_LINES: Final = 6  # of what rows select in one place of a nearest cache that has 8 for each, beside those of vectors
_BLOCKS_AND_LANES: Final = 2  # axes of terms
_SHARED_BYTES: Final = 64 * 1024  # of what vectors select, from which on two threads are faster with half of it each
_FAR_BYTES: Final = 256 * 1024  # from one slice of a volume to the next, so that windows are read at one place of all
_PAGE: Final = 4096  # bytes, across which no processor looks ahead by itself
_OF_MEMORY: Final = 8 * 1024 * 1024  # bytes of what rows select, from which on most of it is far when it is read again
_FAR: Final = 256  # elements between neighbours of a reduction, from which on a tile's operand is copied together
_PANEL_ROWS: Final = 24  # rows that must read the copy for it to pay
_PANEL_STEPS: Final = 8192


@dataclass(frozen=True)
class Axes:
    """Which axis does what.

    Attributes:
        walk: The stage.
        vector: Vectors lie along it.
        rows: Several of its values are worked on at once.
        batch: Other axes that select another part of what the rows select, such as the batch of a batched product.
        images: Those of them that the vectors do not depend on, such as rows and columns of an image.
        others: All other axes.
        shares: Whether loaded vectors serve all rows.
        is_window: Whether rows share some of what is loaded for each of them, as the windows of one channel do.
        row_bytes: Size of what the rows select, such as images; None when it is not known.
        likely_row_bytes: The same, with a likely size of axes that have none; None where vectors serve no rows.
        vector_bytes: Size of what the vectors select, such as weights; None when it is not known.
        panel: The load that is worth copying together.
        panel_bytes: Size of the whole operand; None when it is not known.
        blocks: One of the others that only the vectors depend on, such as blocks of channels: a tile may have several.
        row_step: Bytes between neighbours along the rows in what they select; None when it is not known.
        weights: The operand that vectors select, if it lies in panels: vectors of one term after the other.
        near: Those of the images along which windows overlap that are far from each other, such as slices of a volume.
        far: The operand that rows select, if it is large and blocks of terms, such as of channels, lie on other pages.
    """

    walk: Walk
    vector: Span | None
    rows: Span | None
    batch: tuple[Span, ...]
    images: tuple[Span, ...]
    others: tuple[Span, ...]
    shares: bool
    is_window: bool
    row_bytes: int | None
    vector_bytes: int | None
    likely_row_bytes: int | None = None
    panel: Access | None = None
    panel_bytes: int | None = None
    blocks: Span | None = None
    row_step: int | None = None
    weights: Buffer | None = None
    far: Buffer | None = None
    near: tuple[Span, ...] = ()

    @property
    def tiled(self) -> TileAxes:
        """What tiles may lie along."""
        near_rows = rows_kept(self.row_step, _LINES) if self.row_step else None
        return TileAxes(
            self.vector,
            self.rows,
            self.shares,
            self.blocks,
            self.is_window,
            self._widest,
            near_rows,
            self._most_width,
        )

    @property
    def _widest(self) -> int | None:
        """Elements along blocks and vectors of which the weights stay near, where not all do."""
        sizes = [span.size or 1 for span in (self.blocks, self.vector) if span is not None]
        if not self.vector_bytes or self.vector_bytes <= NEAR_BYTES:
            return None
        return NEAR_BYTES * prod(sizes) // self.vector_bytes

    @property
    def _most_width(self) -> int | None:
        """Half of the vectors, where they are all that threads can share and take longer to read than to share."""
        spans = [span for span in (self.rows, *self.batch, *self.others) if span is not None and span.size != 1]
        if spans or self.vector is None or self.vector.size is None or (self.vector_bytes or 0) <= _SHARED_BYTES:
            return None
        return -(-self.vector.size // 2)

    @property
    def bits(self) -> int:
        """Of an accumulator."""
        return 8 * max(item_bytes(self.walk.store.buffer.dtype), 4)

    @property
    def batches(self) -> list[Span]:
        """Axes that select another part of both operands."""
        return [span for span in self.batch if span not in self.images]

    @property
    def bytes_of_batch(self) -> int | None:
        """Size of what the rows select of one such part, which vectors read again; None when it is not known."""
        count = pieces(self.batches, {})
        return None if self.row_bytes is None or count is None else self.row_bytes // max(count, 1)


def tiles_along(span: Span | None, width: int) -> int | None:
    """Tiles of so many iterations along an axis; None when its size is not known."""
    if span is None:
        return 1
    return None if span.size is None else -(-span.size // max(width, 1))


def pieces(spans: Sequence[Span], tile: Mapping[Span, int]) -> int | None:
    """Tiles along some spans together; None when a size is not known."""
    total = 1
    for span in spans:
        count = tiles_along(span, tile.get(span, 1))
        if count is None:
            return None
        total *= count
    return total


def contiguous_result(walk: Walk) -> Span | None:
    """An axis of the result along which it, and what is read, is contiguous, or read at every other element."""
    for span in reversed(walk.spatial):
        if walk.store.coefficient(span) != 1:
            continue
        steps = [access.coefficient(span) for access in walk.reads]
        if steps and all(step in (0, 1, 2) for step in steps) and any(step in (1, 2) for step in steps):
            return span
    return None


def register_axes(walk: Walk, vector: Span | None) -> Axes:
    """Which axis of a reduction does what, when vectors lie along one of them, or along none."""
    linear = [access for access in walk.reads if access.form is not None]
    free = [span for span in walk.spatial if span is not vector]
    streamed = [access for access in linear if vector is not None and access.coefficient(vector) != 0]
    stationary = [access for access in linear if vector is None or access.coefficient(vector) == 0]
    rows, shares = _rows(free, streamed, stationary, vector)
    is_window = rows is not None and not stationary
    selected = [access for access in stationary if rows is not None and access.coefficient(rows) != 0]
    rest = [span for span in free if span is not rows]
    batch = tuple(span for span in rest if any(access.coefficient(span) != 0 for access in selected))
    others = tuple(span for span in rest if span not in batch)
    row_bytes = _bytes(walk, selected) if shares else None
    images = tuple(span for span in batch if all(access.coefficient(span) == 0 for access in streamed))
    vector_bytes = _bytes(walk, streamed)
    axes = Axes(walk, vector, rows, batch, images, others, shares, is_window, row_bytes, vector_bytes)
    if shares:
        weights = _in_panels(walk, vector, streamed)
        axes = replace(
            axes,
            likely_row_bytes=_bytes(walk, selected, LIKELY),
            blocks=_blocks(walk, others, streamed),
            row_step=_row_step(rows, selected),
            weights=weights,
            far=_far(walk, selected, row_bytes),
            near=tuple(span for span in images if any(_overlap_far(walk, span, access) for access in selected)),
        )
    panel = _panel(walk, vector, rows, streamed) if shares and vector is not None else None
    if panel is None:
        return axes
    return replace(axes, panel=panel, panel_bytes=_bytes(walk, [panel]))


def _row_step(rows: Span | None, selected: Sequence[Access]) -> int | None:
    """Bytes between neighbours along the rows in the only operand that they select."""
    if rows is None or len(selected) != 1:
        return None
    step = selected[0].coefficient(rows)
    return abs(step) * item_bytes(selected[0].buffer.dtype) if isinstance(step, int) else None


def _blocks(walk: Walk, others: Sequence[Span], streamed: Sequence[Access]) -> Span | None:
    """The innermost axis that all vectors depend on, and nothing else that is read for the sums."""
    found = [span for span in others if all(access.coefficient(span) not in (0, None) for access in streamed)]
    is_linear = all(access.form is not None for access in walk.reads)
    return found[-1] if found and streamed and is_linear else None


def _rows(
    free: Sequence[Span], streamed: Sequence[Access], stationary: Sequence[Access], vector: Span | None
) -> tuple[Span | None, bool]:
    """The axis of several values at once, and whether it shares what vectors load."""
    rows: Span | None = None
    for span in free:  # an axis that the vectors do not depend on: they are loaded once for all rows; inside if equal
        is_apart = vector is not None and all(access.coefficient(span) == 0 for access in streamed)
        selects = any(access.coefficient(span) != 0 for access in stationary)
        if is_apart and selects and (rows is None or (span.size or 1) >= (rows.size or 1)):
            rows = span
    if rows is not None:
        return rows, True
    if not stationary:
        return _window_rows(free, streamed), False
    shared = [span for span in free if all(access.coefficient(span) == 0 for access in stationary)]
    return (shared[-1] if shared else None), False


def _window_rows(free: Sequence[Span], streamed: Sequence[Access]) -> Span | None:
    """The innermost axis that some loads depend on and others do not, as the weights of a window for each channel."""
    for span in reversed(free):
        depends = [access.coefficient(span) != 0 for access in streamed]
        if any(depends) and not all(depends):
            return span
    return None


def _panel(walk: Walk, vector: Span, rows: Span | None, streamed: Sequence[Access]) -> Access | None:
    """The operand that vectors are loaded from, when its neighbours in the reduction are far apart."""
    if len(streamed) != 1 or rows is None or (rows.size is not None and rows.size < _PANEL_ROWS):
        return None
    used = [span for span in walk.reduce if streamed[0].coefficient(span) != 0]
    if len(used) != 1 or used[0].size is None or used[0].size > _PANEL_STEPS:
        return None
    step = streamed[0].coefficient(used[0])
    return None if isinstance(step, int) and step < _FAR else streamed[0]


def _in_panels(walk: Walk, vector: Span | None, streamed: Sequence[Access]) -> Buffer | None:
    """The only operand that vectors select, if they are neighbours in it, and those of one term after the other."""
    if vector is None or len(streamed) != 1:
        return None
    step = 1
    for span in (vector, *reversed(walk.reduce)):
        if span.size is None or streamed[0].coefficient(span) != step:
            return None
        step *= span.size
    return streamed[0].buffer


def _overlap_far(walk: Walk, images: Span, access: Access) -> bool:
    """Whether neighbours along an axis see some of the same elements, and there are many bytes between these."""
    step = access.coefficient(images)
    if not isinstance(step, int) or step * item_bytes(access.buffer.dtype) < _FAR_BYTES:
        return False
    taps = [(access.coefficient(term), term.size or 1) for term in walk.reduce]
    return any(isinstance(tap, int) and tap and step < tap * size and step % tap == 0 for tap, size in taps)


def _far(walk: Walk, selected: Sequence[Access], row_bytes: int | None) -> Buffer | None:
    """The only operand that rows select, if it is large and is read in blocks of terms that lie far from each other."""
    terms = [span for span in walk.reduce if span.size != 1]
    if len(selected) != 1 or len(terms) != _BLOCKS_AND_LANES or (row_bytes or 0) <= _OF_MEMORY:
        return None
    blocks, lanes = (selected[0].coefficient(span) for span in terms)
    page = _PAGE // item_bytes(selected[0].buffer.dtype)
    return selected[0].buffer if lanes == 1 and isinstance(blocks, int) and blocks >= page else None


def _bytes(walk: Walk, accesses: Sequence[Access], unknown: int | None = None) -> int | None:
    """Size of what is accessed, with likely sizes, or else so many iterations, of axes that vary; None for none."""
    total = 0
    for access in accesses:
        item = item_bytes(access.buffer.dtype)
        size = item
        for span in (*walk.spatial, *walk.reduce):
            if access.coefficient(span) != 0:
                count = span.size if unknown is None or span.likely is None else span.likely
                count = unknown if count is None else count
                if count is None:
                    return None
                size *= count
        whole = [extent.value for extent in access.buffer.shape if isinstance(extent, IntImm)]
        is_known = len(whole) == len(access.buffer.shape)
        total += min(size, item * prod(whole)) if is_known else size  # windows see elements several times
    return total
