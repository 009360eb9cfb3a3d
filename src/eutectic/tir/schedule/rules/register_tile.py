"""Reductions whose result is contiguous: a tile of accumulators in registers, vectors along an axis of the result.

Matrix products, convolutions, pooling and sums over outer axes keep the order of the reduction; long sums of floats are
done in blocks of terms (`partial_sums`). What is done to the finished accumulators is done as a tile is written back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.accumulators import Accumulators
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.partial_sums import terms_decided, terms_of_block
from eutectic.tir.schedule.rules.processor import FEW_REGISTERS, Processor
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.tile_nest import TileNest
from eutectic.tir.schedule.rules.tile_size import Tile, TileAxes, choose_tile, near_tiles, rows_kept
from eutectic.tir.schedule.rules.walk import Access, Span, Walk
from eutectic.tir.schedule.schedule import Schedule

_CACHE_BYTES: Final = 384 * 1024  # of a matrix that is better kept near and read again than streamed
_NEAR_BYTES: Final = 768 * 1024  # of what a processor keeps near for all tiles that a thread works on
_STRIP_BYTES: Final = 256 * 1024  # of a part of an operand that is copied at once and read by all rows
_MOST_STRIP: Final = 4  # tiles in such a part
_RUN_BYTES: Final = 160 * 1024  # of what the rows select of which all vectors are worked on
_AGAIN_BYTES: Final = 4 * 1024 * 1024  # of weights that a shared cache has for each run
_FEWEST_RUNS: Final = 4  # that threads share
_LINES: Final = 6  # of what rows select in one place of a nearest cache that has 8 for each, beside those of vectors
_EACH_BYTES: Final = 256 * 1024  # of weights that every thread may read for itself
_EACH_BYTES_OF_MANY: Final = 320 * 1024  # the same where tiles have many rows, and so read them less often
_MANY_ROWS: Final = 12  # of a tile
_FEWEST_ROWS: Final = 12  # tiles along rows that threads share
_FEWEST_PANELS: Final = 8  # that threads share
_MOST_UNEVEN: Final = 64  # pieces: of an odd number below it one of two threads has noticeably more
_SHARED_BYTES: Final = 64 * 1024  # of what vectors select, from which on two threads are faster with half of it each
_FAR: Final = 256  # elements between neighbours of a reduction, from which on a tile's operand is copied together
_PANEL_ROWS: Final = 24  # rows that must read the copy for it to pay
_PANEL_STEPS: Final = 8192
_ORDERS: Final = ((True, False), (False, False), (False, True))  # rows outside, or vectors, or vectors around images
_LIKELY: Final = 16  # iterations along an axis of which the size is not known, such as that of images of all sizes
_UNROLL: Final = 10  # steps of a small window that are written out
_TILES: Final = 5  # that are worth a measurement beside the best estimate


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
        if not self.vector_bytes or self.vector_bytes <= _NEAR_BYTES:
            return None
        return _NEAR_BYTES * prod(sizes) // self.vector_bytes

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
        count = _pieces(self.batches, {})
        return None if self.row_bytes is None or count is None else self.row_bytes // max(count, 1)


class RegisterTile:
    """Rows times vectors of accumulators, which stay in registers while the reduction runs."""

    name = "register_tile"

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """Any reduction."""
        return None if walk.stage.epilogue is None else _axes(walk, contiguous_result(walk))

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """The tile with the least estimated time; what is walked through once, and copied; how much is written out."""
        tile = choose_tile(axes.tiled, processor, axes.bits)
        is_far = axes.bytes_of_batch is None or axes.bytes_of_batch > _CACHE_BYTES
        stream = axes.shares and (is_far or _are_near(axes, tile))
        if axes.panel is not None and (axes.panel_bytes is None or axes.panel_bytes > _CACHE_BYTES):
            stream = False
        panels = axes.panel is None and _pays_by_panels(axes, tile, stream)
        order = {"stream_rows": stream and not panels, "panels_first": panels and bool(axes.images)}
        strip = {} if axes.panel is None else {"strip": 1 if stream or panels else _strip(axes, tile.width)}
        copied = axes.panel is not None and not order["stream_rows"]  # each tile of few rows would have one of its own
        run = {} if order["stream_rows"] or strip else _run(axes, tile, processor)
        placed = {**_sizes(axes, tile), **order, **run, "panel": copied, **strip}
        ahead = {"ahead": True} if processor.waits_for_memory and _by_panels(axes, placed) else {}
        block = terms_of_block(axes.walk.stage, axes.walk.reduce, 1 if axes.rows is None else axes.rows.size)
        return {**placed, **ahead, **terms_decided(block), "unroll": _unrolled(axes)}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Other tiles of nearly the same estimate, the other order of walking, no copy, and no window written out."""
        own = self.decide(axes, processor)
        tiles = near_tiles(axes.tiled, processor, axes.bits, _TILES)
        others: list[Decisions] = [{**own, **_sizes(axes, tile)} for tile in tiles]
        one_by_one = {"strip": 1} if own["panel"] else {}
        if own.get("strip", 1) > 1:
            others = [*({**other, "strip": _strip(axes, other["width"])} for other in others), {**own, **one_by_one}]
        if axes.shares and axes.rows is not None:
            orders = _ORDERS if axes.images else _ORDERS[:2]  # else the last two are one
            plain = {name: value for name, value in own.items() if name != "run"}
            others += [{**plain, "stream_rows": rows, "panels_first": panels, **one_by_one} for rows, panels in orders]
        if own["panel"]:
            others.append({**own, "panel": False, **one_by_one})
        if any(own["unroll"]):
            others.append({**own, "unroll": [False] * len(own["unroll"])})
        if _by_panels(axes, own):
            others.append({**own, "ahead": not own.get("ahead", False)})
        return distinct([own, *others])

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> Accumulators:
        """See `Rule`."""
        return Accumulators(sch, axes.walk)

    def apply(self, nest: Accumulators, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """See `Rule`."""
        outer, inner = _order(axes, decisions)
        tile = [
            (axes.rows, decisions["rows"]),
            (axes.blocks, decisions.get("blocks")),
            (axes.vector, decisions["width"]),
        ]
        sizes = {span: size for span, size in tile if span is not None}
        strip, run = decisions.get("strip", 1), _run_of(axes, decisions)
        work = TileNest(nest, outer, inner, sizes, _copied(axes, decisions), strip, run)
        work.place_panel()
        work.keep_accumulators()
        work.cut_remainders()
        work.use_registers(axes.vector, decisions["unroll"], _asked_for(axes, decisions), decisions.get("terms", 0))
        if shared:
            work.share(within=work.panel is None and _are_few(_pieces(outer, sizes)))


def _sizes(axes: Axes, tile: Tile) -> Decisions:
    """A tile as decisions."""
    blocks = {} if axes.blocks is None else {"blocks": tile.blocks}
    return {"rows": tile.rows, **blocks, "width": tile.width}


def _strip(axes: Axes, width: int) -> int:
    """Tiles along the vectors of which the operand is copied together, as many as stay near, if they are even parts.

    A row of a strip is read from one place of memory instead of several, and what the rows select once for all of them.
    """
    if axes.vector is None or axes.vector.size is None or axes.panel_bytes is None or axes.vector.size % width:
        return 1
    count = axes.vector.size // width
    near = _STRIP_BYTES * count // axes.panel_bytes
    fits = (strip for strip in range(_MOST_STRIP, 1, -1) if strip <= near and count % strip == 0)
    return next((strip for strip in fits if count // strip >= _FEWEST_PANELS), 1)


def _run(axes: Axes, tile: Tile, processor: Processor) -> Decisions:
    """Of how many tiles along the rows all vectors are worked on before the next ones, where neither stays near.

    What the rows select is then read from far once, and what the vectors select once for each run.
    """
    rows, data, weights = axes.rows, axes.row_bytes, axes.vector_bytes
    if rows is None or rows.size is None or axes.batch or axes.panel is not None or data is None or weights is None:
        return {}
    if processor.registers > FEW_REGISTERS or data <= _CACHE_BYTES or not _EACH_BYTES < weights <= _AGAIN_BYTES:
        return {}
    tiles = _tiles(rows, tile.rows) or 1
    run = max(1, tiles * _RUN_BYTES // data)
    return {"run": run} if tiles // run >= _FEWEST_RUNS else {}


def _pieces(spans: Sequence[Span], tile: Mapping[Span, int]) -> int | None:
    """Tiles along some spans together."""
    total = 1
    for span in spans:
        count = _tiles(span, tile.get(span, 1))
        if count is None:
            return None
        total *= count
    return total


def _are_few(pieces: int | None) -> bool:
    """Whether threads would hardly get equal shares of them."""
    return pieces is not None and pieces < (_MOST_UNEVEN if pieces % 2 else 2 * _FEWEST_PANELS)


def _are_near(axes: Axes, tile: Tile) -> bool:
    """Whether all vectors stay near each thread, and there are rows enough to share.

    Then threads keep what they wrote: neighbouring kernels are shared by the same rows of an image.
    """
    if axes.panel is not None or axes.rows is None or axes.vector_bytes is None:
        return False
    rows = _pieces([*axes.batch, axes.rows], {axes.rows: tile.rows})
    most = _EACH_BYTES_OF_MANY if tile.rows >= _MANY_ROWS else _EACH_BYTES
    return axes.vector_bytes <= most and rows is not None and rows >= _FEWEST_ROWS


def _by_panels(axes: Axes, decisions: Decisions) -> bool:
    """Whether a thread goes through all rows with a panel of weights that it reads from far, and then with the next.

    The first tile would wait for memory, which would be idle during the others.
    """
    is_panel = axes.weights is not None and axes.vector is not None and axes.vector.size == decisions["width"]
    if decisions["stream_rows"] or not is_panel or axes.rows is None:
        return False
    passes = _pieces([*axes.images, axes.rows], {axes.rows: decisions["rows"]})
    return (passes or 0) > 1 and (axes.vector_bytes or 0) > _EACH_BYTES


def _pays_by_panels(axes: Axes, tile: Tile, stream: bool) -> bool:
    """Whether memory is read clearly less if each thread keeps some vectors and goes through all rows with them."""
    data, weights = axes.likely_row_bytes, axes.vector_bytes
    if not axes.shares or data is None or weights is None:
        return False
    others = [span for span in axes.others if span is not axes.blocks]
    passes = _likely(axes.rows, tile.rows) * prod(map(_likely, axes.images))
    panels = _likely(axes.vector, tile.width) * _likely(axes.blocks, tile.blocks) * prod(map(_likely, others))
    panel = weights // panels
    by_panels = weights * (1 if panel <= _NEAR_BYTES else passes)
    by_panels += data * (1 if data + panel <= _NEAR_BYTES else panels)
    by_rows = data * (1 if stream else panels) + weights * (1 if weights <= _NEAR_BYTES else passes)
    return panels >= _FEWEST_PANELS and 4 * by_panels < 3 * by_rows


def _tiles(span: Span | None, width: int) -> int | None:
    """Tiles along an axis."""
    if span is None:
        return 1
    return None if span.size is None else -(-span.size // max(width, 1))


def _likely(span: Span | None, width: int = 1) -> int:
    """Tiles along an axis, of a likely size where it has none that is known."""
    size = 1 if span is None else _LIKELY if span.likely is None else span.likely
    return -(-size // max(width, 1))


def _copied(axes: Axes, decisions: Decisions) -> tuple[Buffer, Span] | None:
    if not decisions["panel"] or axes.panel is None or axes.vector is None:
        return None
    return axes.panel.buffer, axes.vector


def _asked_for(axes: Axes, decisions: Decisions) -> tuple[Buffer, int] | None:
    """The operand of which the next panels are asked for, and how many a tile has; None where nothing is."""
    if axes.weights is None or not decisions.get("ahead"):
        return None
    return axes.weights, decisions.get("blocks", 1)


def _run_of(axes: Axes, decisions: Decisions) -> tuple[Span, int] | None:
    """The rows, and how many tiles along them are a run; None where there are no runs."""
    run = decisions.get("run")
    return None if axes.rows is None or decisions["stream_rows"] or run is None else (axes.rows, run)


def _order(axes: Axes, decisions: Decisions) -> tuple[list[Span], list[Span]]:
    """Spans of which threads share the tiles, and spans whose tiles follow each other within."""
    rows, vector = [axes.rows] if axes.rows else [], [axes.vector] if axes.vector else []
    if decisions["stream_rows"] and rows:
        return [*axes.batch, *rows], [*axes.others, *vector]
    if _run_of(axes, decisions) is not None:
        return [*axes.batch], [*axes.others, *vector, *rows]
    if decisions["panels_first"]:
        return [*axes.batches, *axes.others, *vector], [*axes.images, *rows]
    outer = [*axes.batch, *axes.others]
    if axes.vector is None:
        return [*outer, *rows], []
    return ([*outer, *rows], vector) if not axes.shares and rows else ([*outer, *vector], rows)


def _unrolled(axes: Axes) -> list[bool]:
    """Which loops over the reduction are written out: small windows inside of it, unless rows see the same elements.

    Such elements would be kept for the rows that see them next, in registers that the sums need.
    """
    kinds: list[bool] = []
    left = _UNROLL
    for span in reversed(axes.walk.reduce):
        small = span.size is not None and span.size <= left and not (axes.shares and span is axes.walk.reduce[0])
        kinds.append(small and not _overlap(axes, span))
        left = left // span.size if small and span.size else 0
    return kinds[::-1]


def _overlap(axes: Axes, term: Span) -> bool:
    """Whether several rows, which share vectors, read the same element for different terms."""
    if axes.rows is None or not axes.shares:
        return False
    for access in axes.walk.reads:
        row, near = access.coefficient(axes.rows), access.coefficient(term)
        if not isinstance(row, int) or not isinstance(near, int):
            return True
        if row and near and lcm(row, near) < abs(near) * (term.size or 1):
            return True
    return False


def contiguous_result(walk: Walk) -> Span | None:
    """An axis of the result along which it, and what is read, is contiguous, or read at every other element."""
    for span in reversed(walk.spatial):
        if walk.store.coefficient(span) != 1:
            continue
        steps = [access.coefficient(span) for access in walk.reads]
        if steps and all(step in (0, 1, 2) for step in steps) and any(step in (1, 2) for step in steps):
            return span
    return None


def _axes(walk: Walk, vector: Span | None) -> Axes:
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
            likely_row_bytes=_bytes(walk, selected, _LIKELY),
            blocks=_blocks(walk, others, streamed),
            row_step=_row_step(rows, selected),
            weights=weights,
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


def _bytes(walk: Walk, accesses: Sequence[Access], unknown: int | None = None) -> int | None:
    """Size of what is accessed, with likely sizes, or else so many iterations, of axes that vary; None for none."""
    total = 0
    for access in accesses:
        size = item_bytes(access.buffer.dtype)
        for span in (*walk.spatial, *walk.reduce):
            if access.coefficient(span) != 0:
                count = span.size if unknown is None or span.likely is None else span.likely
                count = unknown if count is None else count
                if count is None:
                    return None
                size *= count
        total += size
    return total
