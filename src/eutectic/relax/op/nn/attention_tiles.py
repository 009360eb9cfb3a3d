"""How attention is lowered where the queries make tiles: without writing the scores of all queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from eutectic import topi
from eutectic.ir.dtype import item_bytes
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.index import strided_slice
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.registry import tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import is_one, static

_TILES: Final = {32: 1.0, 16: 1.15}  # queries of a tile, and time for each of them beside that in a whole tile
_FEWEST: Final = 16  # queries that are worth a tile
_KEPT_BYTES: Final = 1 << 20  # of the scores of a tile, and of their powers


def tile_of(queries: int | None, keys: int | None, dtype: str) -> int | None:
    """How many queries are computed together; None where they are too few, or their scores too many.

    The last tile is computed as a whole, however many queries are left for it.
    """
    if queries is None or keys is None or queries < _FEWEST:
        return None
    item = 2 * item_bytes(dtype) * keys
    fitting = {tile: time for tile, time in _TILES.items() if tile * item <= _KEPT_BYTES}
    if not fitting:
        return None
    return min(fitting, key=lambda tile: -(-queries // tile) * tile * fitting[tile])


def attend_in_tiles(
    builder: Builder,
    c: Call,
    arranged: Callable[[Expr, Sequence[int], int], Expr],
    terms: tuple[float, int],
    mask: tuple[str | None, int | None],
) -> Expr | None:
    """Attention tile by tile; None where that is not possible, or not worth while.

    Args:
        builder: Takes the bindings.
        c: The call; its arguments are query, key, value and perhaps a bias.
        arranged: Gives an operand with its axes in an order, in the dtype that is computed in, and each head so many
            times.
        terms: The factor of the scores, and how many heads share keys.
        mask: Which keys a query sees, and how many of them; as in `AttentionAttrs`.

    Returns:
        `(b, s, n, v)` in the dtype that is computed in.
    """
    query, key, value, *bias = tensor_args(c)
    assert query.dims is not None and key.dims is not None and value.dims is not None
    sizes = [static(size) for size in (*query.dims, *key.dims, *value.dims)]
    same_for_queries = all(info.dims is not None and is_one(info.dims[2]) for info in bias)
    tile = tile_of(sizes[1], sizes[5], "float64" if query.dtype == "float64" else "float32")
    if tile is None or None in sizes or not same_for_queries:
        return None
    batch, queries, heads, _ = query.dims
    factor, times = terms
    operands = [arranged(c.args[0], (0, 1, 2, 3), 1), *(arranged(x, (0, 2, 1, 3), times) for x in c.args[1:3])]
    added = arranged(c.args[3], (0, 1, 2, 3), 1) if bias else None
    whole = builder.emit(
        builder.call_te(
            topi.nn.attention_in_tiles, *operands, tile, factor, added, *mask, primfunc_name_hint="attention"
        )
    )
    count = -(-(sizes[1] or 0) // tile) * tile
    rows = builder.emit(reshape(whole, (batch, heads, count, value.dims[-1])))
    if count != sizes[1]:
        rows = builder.emit(strided_slice(rows, [2], [0], [queries]))
    return builder.emit(permute_dims(rows, (0, 2, 1, 3)))
