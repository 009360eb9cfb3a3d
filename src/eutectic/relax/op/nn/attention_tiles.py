"""How attention is lowered where the queries make tiles, whose scores are used up before those of the next one come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from eutectic import topi
from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import PrimExpr, mul
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.index import strided_slice
from eutectic.relax.op.manipulate import concat, permute_dims
from eutectic.relax.op.registry import tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import is_one, same, static
from eutectic.relax.struct_info import TensorStructInfo

_TILES: Final = {32: 1.0, 16: 1.15}  # queries of a tile, and time for each of them beside that in a whole tile
_FEWEST: Final = 16  # queries that are worth a tile
_KEPT_BYTES: Final = 1 << 20  # of a tile, by each thread: its queries, their scores, and the powers of these
_MOST_PARTS: Final = 6  # of the queries that a mask lets see different numbers of keys
_FEWEST_OF_A_PART: Final = 128  # queries that are worth a kernel
_NUMBERS: Final = 4  # that are kept for a query beside these, at most


def tile_of(queries: int | None, keys: int | None, features: int, dtype: str) -> int | None:
    """How many queries are computed together; None where they are too few, or their scores too many.

    The last tile is computed as a whole, however many queries are left for it, so that tiles are small where it is not
    known how many there are. Of keys that are not known there are taken to be few enough.
    """
    if queries is None:
        return min(_TILES)
    if queries < _FEWEST:
        return None
    size = item_bytes(dtype) * (2 * (keys or 0) + features + _NUMBERS)
    fitting = {tile: time for tile, time in _TILES.items() if tile * size <= _KEPT_BYTES}
    if not fitting:
        return None
    return min(fitting, key=lambda tile: -(-queries // tile) * tile * fitting[tile])


def attend_in_tiles(
    builder: Builder,
    c: Call,
    arranged: Callable[[Expr, Sequence[int], int], Expr],
    terms: tuple[float, int],
    mask: tuple[str | None, int | None],
    hidden: float | None = None,
) -> Expr | None:
    """Attention tile by tile; None where that is not possible, or not worth while.

    Args:
        builder: Takes the bindings.
        c: The call; its arguments are query, key, value and perhaps a bias.
        arranged: Gives an operand with its axes in an order, in the dtype that is computed in, and each head so many
            times.
        terms: The factor of the scores, and how many heads share keys.
        mask: Which keys a query sees, and how many of them; as in `AttentionAttrs`.
        hidden: Given, weights are what a softmax gives; as in `topi.nn.attention_in_tiles`.

    Returns:
        `(b, s, n, v)` in the dtype that is computed in.
    """
    infos = tensor_args(c)
    sizes = [size for info in infos for size in info.dims or ()]
    if len(sizes) < 4 * len(infos) or any(static(size) == 0 for size in sizes):
        return None
    batch, queries, heads, features = sizes[:4]
    wide = "float64" if infos[0].dtype == "float64" else "float32"
    known = static(features)
    tile = None if known is None else tile_of(static(queries), static(sizes[5]), known, wide)
    if tile is None:
        return None
    factor, times = terms
    operands = [arranged(c.args[0], (0, 1, 2, 3), 1), *(arranged(x, (0, 2, 1, 3), times) for x in c.args[1:3])]
    added = None
    if len(infos) > 3:
        term = c.args[3] if infos[3].dtype == "bool" else arranged(c.args[3], (0, 1, 2, 3), 1)
        added = _turned(builder, term, sizes[12:], tile)
    rows_of = [None] if added is not None else _parts(static(queries), static(sizes[5]), tile, mask[0])
    parts = [
        builder.emit(
            builder.call_te(
                topi.nn.attention_in_tiles,
                *operands,
                tile,
                factor,
                added,
                *mask,
                hidden,
                part,
                primfunc_name_hint="attention",
            )
        )
        for part in rows_of
    ]
    whole = parts[0] if len(parts) == 1 else builder.emit(concat(parts, 2))
    made = whole.struct_info
    assert isinstance(made, TensorStructInfo)
    assert made.dims is not None
    count = simplify(mul(made.dims[2], tile))  # with those that the last tile computes again
    rows = builder.emit(reshape(whole, (batch, heads, count, sizes[11])))
    if not same(count, queries):
        rows = builder.emit(strided_slice(rows, [2], [0], [queries], assume_inbound=True))
    return builder.emit(permute_dims(rows, (0, 2, 1, 3)))


def _parts(queries: int | None, keys: int | None, tile: int, mask: str | None) -> Sequence[tuple[int, int] | None]:
    """Which queries have kernels of their own: with a mask, so that early ones do not read the keys of late ones."""
    if mask is None or queries is None or keys is None or keys < queries:
        return [None]
    count = min(_MOST_PARTS, queries // _FEWEST_OF_A_PART)
    if count <= 1:
        return [None]
    tiles = -(-queries // tile)
    starts = [tiles * part // count * tile for part in range(count)]
    return list(pairwise([*starts, queries]))


def _turned(builder: Builder, bias: Expr, sizes: Sequence[PrimExpr], tile: int) -> Expr:
    """What is added to scores as these lie, with the queries of a tile last: `(b, n, ceil(s / tile), t, tile)`."""
    batch, heads, queries, keys = sizes
    if is_one(queries):
        return builder.emit(reshape(bias, (batch, heads, 1, keys, 1)))
    return builder.emit(builder.call_te(topi.nn.rows_in_tiles, bias, tile, primfunc_name_hint="rows_in_tiles"))
