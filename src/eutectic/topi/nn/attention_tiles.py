"""Attention in tiles of queries: the scores of a tile are used up before those of the next one are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr, as_prim, floordiv
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir import op
from eutectic.topi.nn.attention import sees
from eutectic.topi.shapes import is_one, same_size, sizes_text, static
from eutectic.topi.special_values import reduce_max


def attention_in_tiles(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tile: int,
    factor: float,
    bias: Tensor | None = None,
    mask: str | None = None,
    window: int | None = None,
    hidden: float | None = None,
    rows: tuple[int, int] | None = None,
) -> Tensor:
    """Weighted means of values, for some queries at a time.

    Queries are the last axis of scores, so that sums and maxima over keys need no neighbours within a vector, and
    keys are read as they lie.

    Args:
        query: `(b, s, n, d)`; float32 or float64.
        keys: `(b, n, t, d)`, same dtype.
        values: `(b, n, t, v)`, same dtype.
        tile: Queries of a tile, `i`. The last tile repeats the last query where `s` may be no multiple of it.
        factor: Of the scores.
        bias: Added to the scaled scores; each axis is that of `(b, n, ceil(s / i), t, i)`, or one. With it, a query
            whose scores are all minus infinity has no weights: zeros, times values.
        mask: As for `causal_mask`; None sees all keys.
        window: As there.
        hidden: Given, weights are what a softmax gives, with a bias, too: NaN where all scores are minus infinity; and
            of a bool bias scores are kept where it is true, and are this number elsewhere.
        rows: The first query of those that are computed, and the one after the last one, without a bias; keys that none
            of them sees are not read. None computes all.

    Returns:
        `(b, n, ceil(s / i), i, v)`, of `s` queries that are computed; stages `turned`, `products`, `scores`, `largest`,
        `powers`, `total`, `shares`, `mixed` and `attention`.

    Raises:
        ValueError: sizes do not go together; or some queries are asked for, and sizes are not known.

    Accuracy: the maximum is subtracted first, over all keys, as in `softmax`; sums are divided by once, at the end.
    """
    (b, s, n, d), (_, _, t, _), v = query.shape, keys.shape, values.shape[-1]
    _check(query, keys, values)
    part = _part_of(s, t, mask, window, rows)
    s, t, start = part.queries, part.keys, part.start
    tiles = _tiles(s, tile)
    keys_of = [reduce_axis((0, t), name) for name in ("t_largest", "t_total", "t_mixed")]
    k = reduce_axis((0, d), "k")

    def row(o: PrimExpr, i: PrimExpr) -> PrimExpr:
        return _row(s, tile, o, i) + part.first

    def score(bi: PrimExpr, h: PrimExpr, o: PrimExpr, at: PrimExpr, i: PrimExpr) -> PrimExpr:
        value = products(bi, h, o, at, i) * op.const(factor, query.dtype)
        if bias is not None:
            value = _with_bias(value, bias, (bi, h, o, at, i), hidden)
        if mask is None:
            return value
        return Select(sees(at + start, row(o, i) + part.offset, window), value, op.const(float("-inf"), query.dtype))

    shift, share = (_itself, _inverse) if bias is None or hidden is not None else (_finite, _inverse_or_one)
    each, scored, out = (b, n, tiles, tile), (b, n, tiles, t, tile), (b, n, tiles, tile, v)
    turned = _stage((b, n, tiles, d, tile), lambda x, h, o, c, i: query(x, row(o, i), h, c), "turned", "b n o d i")
    products = _stage(
        scored,
        lambda x, h, o, at, i: te_sum(keys(x, h, at + start, k) * turned(x, h, o, k, i), k),
        "products",
        "b n o t i",
    )
    scores = _stage(scored, score, "scores", "b n o t i")
    largest = _stage(
        each, lambda x, h, o, i: reduce_max(scores(x, h, o, keys_of[0], i), keys_of[0]), "largest", "b n o i"
    )
    powers = _stage(
        scored,
        lambda x, h, o, at, i: op.exp(scores(x, h, o, at, i) - shift(largest(x, h, o, i))),
        "powers",
        "b n o t i",
    )
    total = _stage(each, lambda x, h, o, i: te_sum(powers(x, h, o, keys_of[1], i), keys_of[1]), "total", "b n o i")
    shares = _stage(each, lambda *at: share(total(*at)), "shares", "b n o i")
    mixed = _stage(
        out,
        lambda x, h, o, i, c: te_sum(powers(x, h, o, keys_of[2], i) * values(x, h, keys_of[2] + start, c), keys_of[2]),
        "mixed",
        "b n o i v",
    )
    return _stage(out, lambda *at: shares(*at[:-1]) * mixed(*at), "attention", "b n o i v")


@dataclass(frozen=True)
class _Part:
    """Queries that are computed, and the keys that any of them sees.

    Attributes:
        first: The first query.
        queries: How many.
        start: The first key.
        keys: How many.
        offset: How much further than its own number a query sees, with a mask.
    """

    first: int
    queries: PrimExpr
    start: int
    keys: PrimExpr
    offset: PrimExpr | int


def _part_of(s: PrimExpr, t: PrimExpr, mask: str | None, window: int | None, rows: tuple[int, int] | None) -> _Part:
    offset = simplify(t - s) if mask == "BottomRight" else 0
    if rows is None:
        return _Part(0, s, 0, t, offset)
    first, end = rows
    ahead, keys = static(offset), static(t)
    if ahead is None or keys is None:
        raise ValueError("attention in tiles of some queries: the numbers of queries and keys must be known")
    stop = keys if mask is None else min(keys, end + ahead)
    start = 0 if window is None else max(0, first + ahead - window + 1)
    return _Part(first, as_prim(end - first), start, as_prim(stop - start), offset)


def rows_in_tiles(x: Tensor, tile: int) -> Tensor:
    """Rows tile by tile, those of a tile as the last axis: what is added to scores, as `attention_in_tiles` takes it.

    Args:
        x: `(b, n, s, t)`, any dtype.
        tile: Rows of a tile, `i`. The last tile repeats the last row where `s` may be no multiple of it.

    Returns:
        `(b, n, ceil(s / i), t, i)`, dtype of `x`.
    """
    b, n, s, t = x.shape
    shape = (b, n, _tiles(s, tile), t, tile)
    return _stage(shape, lambda bi, h, o, at, i: x(bi, h, _row(s, tile, o, i), at), "in_tiles", "b n o t i")


def _stage(shape: Sequence[Any], value: Any, name: str, axes: str) -> Tensor:
    made: Tensor = compute(shape, value, name, "", varargs_names=axes.split())
    return made


def _with_bias(score: PrimExpr, bias: Tensor, at: Sequence[PrimExpr], hidden: float | None) -> PrimExpr:
    """A score with what is at its place of a bias added; or the same, where that is true."""
    term = bias(*(0 if is_one(size) else place for size, place in zip(bias.shape, at, strict=True)))
    if bias.dtype != "bool":
        return score + term
    return Select(term, score, op.const(hidden, score.dtype))


def _tiles(rows: PrimExpr, tile: int) -> PrimExpr:
    return simplify(floordiv(rows + (tile - 1), tile))


def _row(rows: PrimExpr, tile: int, o: PrimExpr, i: PrimExpr) -> PrimExpr:
    """The row at a place of a tile."""
    at, count = o * tile + i, static(rows)
    return at if count is not None and count % tile == 0 else op.min(at, rows - 1)


def _itself(x: PrimExpr) -> PrimExpr:
    return x


def _finite(largest: PrimExpr) -> PrimExpr:
    """What is subtracted from scores; minus infinity less itself would be NaN."""
    return op.max(largest, op.const(float(np.finfo(largest.dtype).min), largest.dtype))


def _inverse(total: PrimExpr) -> PrimExpr:
    return op.const(1.0, total.dtype) / total


def _inverse_or_one(total: PrimExpr) -> PrimExpr:
    """The same, and 1 of a sum of zeros."""
    return Select(total.equal(0.0), op.const(1.0, total.dtype), _inverse(total))


def _check(query: Tensor, keys: Tensor, values: Tensor) -> None:
    (_, _, n, d), t = query.shape, keys.shape[2]
    pairs = ((keys.shape[-1], d), (keys.shape[1], n), (values.shape[1], n), (values.shape[2], t))
    if not all(same_size(*pair) for pair in pairs):
        shapes = ", ".join(sizes_text(x.shape) for x in (query, keys, values))
        raise ValueError(f"attention in tiles of {shapes}: sizes do not go together")
