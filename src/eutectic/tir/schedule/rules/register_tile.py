"""Reductions whose result is contiguous: a tile of accumulators in registers, vectors along an axis of the result.

Matrix products, convolutions, pooling and sums over outer axes keep the order of the reduction; long sums of floats are
done in blocks of terms (`partial_sums`). What is done to the finished accumulators is done as a tile is written back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Final

from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.accumulators import Accumulators
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.lane_reduction import LaneReduction
from eutectic.tir.schedule.rules.partial_sums import terms_decided, terms_of_block
from eutectic.tir.schedule.rules.processor import FEW_REGISTERS, Processor
from eutectic.tir.schedule.rules.register_axes import (
    LIKELY,
    NEAR_BYTES,
    Axes,
    contiguous_result,
    pieces,
    register_axes,
    tiles_along,
)
from eutectic.tir.schedule.rules.round_nest import RoundNest
from eutectic.tir.schedule.rules.rounds import Rounds, pay, rounds_of
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.tile_nest import TileNest
from eutectic.tir.schedule.rules.tile_size import Tile, choose_tile, near_tiles
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.schedule import Schedule

_CACHE_BYTES: Final = 384 * 1024  # of a matrix that is better kept near and read again than streamed
_STRIP_BYTES: Final = 256 * 1024  # of a part of an operand that is copied at once and read by all rows
_MOST_STRIP: Final = 4  # tiles in such a part
_RUN_BYTES: Final = 160 * 1024  # of what the rows select of which all vectors are worked on
_AGAIN_BYTES: Final = 4 * 1024 * 1024  # of weights that a shared cache has for each run
_FROM_MEMORY_BYTES: Final = 4 * 1024 * 1024  # of weights that come from memory in each call of a network
_FEWEST_RUNS: Final = 4  # that threads share
_EACH_BYTES: Final = 256 * 1024  # of weights that every thread may read for itself
_EACH_BYTES_OF_MANY: Final = 320 * 1024  # the same where tiles have many rows, and so read them less often
_MANY_ROWS: Final = 12  # of a tile
_FEWEST_ROWS: Final = 12  # tiles along rows that threads share
_FEWEST_PANELS: Final = 8  # that threads share
_MOST_UNEVEN: Final = 64  # pieces: of an odd number below it one of two threads has noticeably more
_ORDERS: Final = ((True, False), (False, False), (False, True))  # rows outside, or vectors, or vectors around images
_UNROLL: Final = 10  # steps of a small window that are written out
_TILES: Final = 5  # that are worth a measurement beside the best estimate


class RegisterTile:
    """Rows times vectors of accumulators, which stay in registers while the reduction runs."""

    name = "register_tile"

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """Any reduction."""
        return None if walk.stage.epilogue is None else register_axes(walk, contiguous_result(walk))

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
        block = terms_of_block(axes.walk.stage, axes.walk.reduce, 1 if axes.rows is None else axes.rows.size)
        placed = {**_sizes(axes, tile), **order, **run, "panel": copied, **strip, **terms_decided(block)}
        rounds = None if run else _rounds_of(axes, placed)
        if rounds is not None and pay(rounds, axes, _tile(axes, placed), stream=order["stream_rows"]):
            placed = {**placed, "stream_rows": False, "rounds": True}
        waits = processor.waits_for_memory or ("rounds" in placed and (axes.vector_bytes or 0) > _FROM_MEMORY_BYTES)
        ahead = {"ahead": True} if waits and _by_panels(axes, placed) else {}
        far = {} if axes.far is None or placed.get("rounds") else {"far": True}
        return {**placed, **ahead, **far, "unroll": _unrolled(axes)}

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
            plain = _without(own, "run", "rounds")
            others += [{**plain, "stream_rows": rows, "panels_first": panels, **one_by_one} for rows, panels in orders]
        if own["panel"]:
            others.append({**own, "panel": False, **one_by_one})
        if any(own["unroll"]):
            others.append({**own, "unroll": [False] * len(own["unroll"])})
        if own.get("rounds"):
            others.append(_without(own, "rounds"))
        elif _rounds_of(axes, own) is not None:
            others.append({**_without(own, "run", "ahead", "far"), "rounds": True})
        if own.get("far"):
            others.append(_without(own, "far"))
        if _by_panels(axes, own):
            others.append({**own, "ahead": not own.get("ahead", False)})
        return distinct([own, *others])

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> Accumulators:
        """See `Rule`."""
        return Accumulators(sch, axes.walk)

    def apply(self, nest: Accumulators, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """See `Rule`."""
        work = _nest(nest, axes, decisions)
        work.place_panel()
        work.keep_accumulators()
        work.cut_remainders()
        ahead, far = _asked_for(axes, decisions), axes.far if decisions.get("far") else None
        work.use_registers(axes.vector, decisions["unroll"], ahead, decisions.get("terms", 0), far)
        if shared:
            count = pieces(_order(axes, decisions)[0], _tile(axes, decisions))
            work.share(within=work.panel is None and _are_few(count))


def tile_of_sums(walk: Walk, processor: Processor) -> Axes | None:
    """What tiles of a reduction lie along; None where it is for `LaneReduction`, which is asked before."""
    return None if LaneReduction().matches(walk, processor) else RegisterTile().matches(walk, processor)


def _sizes(axes: Axes, tile: Tile) -> Decisions:
    """A tile as decisions."""
    blocks = {} if axes.blocks is None else {"blocks": tile.blocks}
    return {"rows": tile.rows, **blocks, "width": tile.width}


def _without(decisions: Decisions, *names: str) -> Decisions:
    """Decisions but those of some names."""
    return {name: value for name, value in decisions.items() if name not in names}


def _nest(nest: Accumulators, axes: Axes, decisions: Decisions) -> TileNest:
    """The loops of the tiles."""
    sizes, rounds = _tile(axes, decisions), _rounds_of(axes, decisions) if decisions.get("rounds") else None
    if rounds is not None:
        return RoundNest(nest, rounds.outer, rounds.inner, sizes, rounds.run, decisions["terms"])
    outer, inner = _order(axes, decisions)
    strip, run = decisions.get("strip", 1), _run_of(axes, decisions)
    return TileNest(nest, outer, inner, sizes, _copied(axes, decisions), strip, run)


def _tile(axes: Axes, decisions: Decisions) -> dict[Span, int]:
    """Iterations of a tile, by span."""
    sizes = [(axes.rows, decisions["rows"]), (axes.blocks, decisions.get("blocks")), (axes.vector, decisions["width"])]
    return {span: size for span, size in sizes if span is not None}


def _rounds_of(axes: Axes, decisions: Decisions) -> Rounds | None:
    """Tiles in rounds, where there are some."""
    return rounds_of(axes, _tile(axes, decisions), decisions.get("terms", 0))


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
    tiles = tiles_along(rows, tile.rows) or 1
    run = max(1, tiles * _RUN_BYTES // data)
    return {"run": run} if tiles // run >= _FEWEST_RUNS else {}


def _are_few(count: int | None) -> bool:
    """Whether threads would hardly get equal shares of so many pieces."""
    return count is not None and count < (_MOST_UNEVEN if count % 2 else 2 * _FEWEST_PANELS)


def _are_near(axes: Axes, tile: Tile) -> bool:
    """Whether all vectors stay near each thread, and there are rows enough to share.

    Then threads keep what they wrote: neighbouring kernels are shared by the same rows of an image.
    """
    if axes.panel is not None or axes.rows is None or axes.vector_bytes is None:
        return False
    rows = pieces([*axes.batch, axes.rows], {axes.rows: tile.rows})
    most = _EACH_BYTES_OF_MANY if tile.rows >= _MANY_ROWS else _EACH_BYTES
    return axes.vector_bytes <= most and rows is not None and rows >= _FEWEST_ROWS


def _by_panels(axes: Axes, decisions: Decisions) -> bool:
    """Whether a thread goes through all rows with a panel of weights that it reads from far, and then with the next.

    The first tile would wait for memory, which would be idle during the others.
    """
    is_panel = axes.weights is not None and axes.vector is not None and axes.vector.size == decisions["width"]
    if decisions["stream_rows"] or not is_panel or axes.rows is None:
        return False
    passes = pieces([*axes.images, axes.rows], {axes.rows: decisions["rows"]})
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
    by_panels = weights * (1 if panel <= NEAR_BYTES else passes)
    by_panels += data * (1 if data + panel <= NEAR_BYTES else panels)
    by_rows = data * (1 if stream else panels) + weights * (1 if weights <= NEAR_BYTES else passes)
    return panels >= _FEWEST_PANELS and 4 * by_panels < 3 * by_rows


def _likely(span: Span | None, width: int = 1) -> int:
    """Tiles along an axis, of a likely size where it has none that is known."""
    size = 1 if span is None else LIKELY if span.likely is None else span.likely
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
        outside = [span for span in axes.batch if span not in axes.near]
        return [*outside, *rows], [*axes.near, *axes.others, *vector]
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
