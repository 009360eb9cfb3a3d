"""Where tiles in rounds pay: which of them a piece of work goes through for one block of terms after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.tir.schedule.rules.register_axes import NEAR_BYTES, Axes, pieces
from eutectic.tir.schedule.rules.walk import Span

_TOTALS_BYTES: Final = 192 * 1024  # that stay near a thread beside what it reads in a round
_TILE_BYTES: Final = 128 * 1024  # of what vectors select for a tile, which the nearest cache is far too small for
_ROUND_BYTES: Final = 40 * 1024  # of what they select for a round, which it is large enough for
_FEWEST_TILES: Final = 3  # of a round, which read a block of it each
_FEWEST_PIECES: Final = 8  # of work, that threads share


@dataclass(frozen=True)
class Rounds:
    """Tiles in rounds.

    Attributes:
        outer: Spans whose tiles are pieces of work.
        inner: Spans whose tiles each round goes through.
        run: The first of them, and how many of its tiles a piece has; None for all.
        passes: Pieces for which vectors select the same, and that read it once each.
        panels: Pieces for which rows select the same.
        parts: Pieces of which both operands have parts of their own, such as groups.
        count: Rounds of a piece.
    """

    outer: tuple[Span, ...]
    inner: tuple[Span, ...]
    run: tuple[Span, int] | None
    passes: int
    panels: int
    parts: int
    count: int


def rounds_of(axes: Axes, tile: Mapping[Span, int], terms: int) -> Rounds | None:
    """Tiles in rounds, of which the totals stay near.

    Args:
        axes: Of a reduction.
        tile: Iterations of a tile, by span.
        terms: Iterations of the outermost loop over terms that are a block; 0 for all.

    Returns:
        None where sizes are not known, blocks of terms are not even, or threads would have too few pieces of work.
    """
    rows, vector = axes.rows, axes.vector
    if not axes.shares or rows is None or vector is None or axes.panel is not None or not terms:
        return None
    rounds, rest = divmod(axes.walk.reduce[0].size or 0, terms)
    if rest or not rounds or not pieces((*axes.batches, *axes.images, *axes.others, vector, rows), tile):
        return None

    def count(*spans: Span) -> int:
        return pieces(spans, tile) or 0  # all are known

    inner, images = [rows], list(axes.images)
    totals = axes.bits // 8 * prod(tile.values()) * count(rows)
    while images and totals <= _TOTALS_BYTES:
        inner.insert(0, images.pop())
        totals *= count(inner[0])
    parts, panels, passes = count(*axes.batches), count(*axes.others, vector), count(*images)
    fewest = 1 if axes.walk.shared else -(-_FEWEST_PIECES // (parts * panels * passes))  # or threads share those axes
    bands = _bands(count(inner[0]), max(fewest, -(-totals // _TOTALS_BYTES)))
    if bands is None or count(*inner) // bands < _FEWEST_TILES:
        return None
    run = (inner[0], count(inner[0]) // bands) if bands > 1 else None
    outer = (*axes.batches, *images, *axes.others, vector)
    return Rounds(outer, tuple(inner), run, passes * bands, panels, parts, rounds)


def _bands(count: int, fewest: int) -> int | None:
    """Even parts of so many tiles, as few as may be; None when there are none."""
    return next((bands for bands in range(fewest, count + 1) if count % bands == 0), None)


def pay(rounds: Rounds, axes: Axes, tile: Mapping[Span, int], *, stream: bool) -> bool:
    """Whether less is read from far in rounds than in the other order of tiles.

    Args:
        rounds: The pieces of work.
        axes: Of the reduction.
        tile: Iterations of a tile, by span.
        stream: Whether the other order goes through the rows once, and through all that vectors select for each tile.
    """
    data, weights = axes.row_bytes, axes.vector_bytes
    if data is None or weights is None:
        return False
    of_tile = weights // (rounds.panels * rounds.parts)
    if of_tile // rounds.count > _ROUND_BYTES:
        return False
    if not stream:
        return of_tile > _TILE_BYTES
    tiles = pieces([*axes.images, *([] if axes.rows is None else [axes.rows])], tile) or 1
    in_rounds, in_rows = data * rounds.panels + weights * rounds.passes, data + weights * tiles
    return weights > NEAR_BYTES and 4 * in_rounds < 3 * in_rows
