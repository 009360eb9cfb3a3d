"""Moves of elements along axes whose sizes vary: each element is looked up at a computed position.

Where sizes are known, the same is done by constant positions, or by cuts and joins, which need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.prim_expr import Max, PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.table import Context
from eutectic.relax.op import (
    add,
    arange,
    broadcast_to,
    equal,
    expand_dims,
    floor_divide,
    floor_mod,
    greater_equal,
    less,
    logical_and,
    multiply,
    permute_dims,
    reshape,
    subtract,
    take,
    where,
)

_INDEX: Final = "int64"


def positions(ctx: Context, size: PrimExpr, axis: int = 0, ndim: int = 1) -> Expr:
    """The numbers from zero to a size that may vary.

    Args:
        ctx: What a converter may do.
        size: How many.
        axis: The axis along which they are.
        ndim: How many axes there are; the others have one element.

    Returns:
        `(1, ..., size, ..., 1)`, int64.
    """
    known = as_int(size)
    if known is not None:
        return Constant(np.arange(known, dtype=np.int64).reshape(_along(-1, axis, ndim)))
    numbers = ctx.call(arange, 0, size, 1, _INDEX)
    return numbers if ndim == 1 else ctx.call(reshape, numbers, ShapeExpr(tuple(_along(size, axis, ndim))))


def _along(size: Any, axis: int, ndim: int) -> list[Any]:
    return [size if i == axis else 1 for i in range(ndim)]


def rolled(ctx: Context, x: Expr, shift: Any, axis: int) -> Expr:
    """`x` moved along an axis by a number or a size; what falls off the end comes back at the start."""
    size = dims_of(x)[axis]
    moved = ctx.call(subtract, positions(ctx, size), ctx.tensor(shift, _INDEX))
    return ctx.call(take, x, ctx.call(floor_mod, moved, ctx.tensor(size, _INDEX)), axis, "clip")


def windows(ctx: Context, x: Expr, axis: int, count: PrimExpr, size: int, step: int) -> Expr:
    """Overlapping windows along an axis: `(..., count, size, ...)`."""
    starts = ctx.call(multiply, positions(ctx, count, 0, 2), number(step, _INDEX))
    return ctx.call(take, x, ctx.call(add, starts, positions(ctx, as_prim(size), 1, 2)), axis, "clip")


def assigned(ctx: Context, x: Expr, source: Expr, axis: int, start: Any, end: Any, step: int) -> Expr:
    """`x` with every `step`-th element of a range replaced.

    Args:
        ctx: What a converter may do.
        x: `(*sizes)`.
        source: The same sizes, but along `axis` as many as are replaced, at least one; dtype of `x`.
        axis: The axis.
        start: The first position; negative ones count from the end.
        end: The limit, likewise.
        step: At least one.
    """
    if ctx.symbols.least(dims_of(source)[axis]) < 1:
        ctx.refuse("it assigns to a slice that may be empty")
    first, last = (_bound(ctx, value, dims_of(x)[axis]) for value in (start, end))
    places = ctx.call(subtract, positions(ctx, dims_of(x)[axis]), first)
    inside = ctx.call(logical_and, ctx.call(greater_equal, places, number(0, _INDEX)), _below(ctx, x, axis, last))
    if step != 1:
        divisor = number(step, _INDEX)
        is_step = ctx.call(equal, ctx.call(floor_mod, places, divisor), number(0, _INDEX))
        inside, places = ctx.call(logical_and, inside, is_step), ctx.call(floor_divide, places, divisor)
    return ctx.call(where, _spread(ctx, inside, x, axis), ctx.call(take, source, places, axis, "clip"), x)


def _below(ctx: Context, x: Expr, axis: int, last: Expr) -> Expr:
    return ctx.call(less, positions(ctx, dims_of(x)[axis]), last)


def _spread(ctx: Context, vector: Expr, x: Expr, axis: int) -> Expr:
    """A vector along one axis of `x`."""
    return ctx.call(reshape, vector, ShapeExpr(tuple(_along(dims_of(x)[axis], axis, ndim_of(x)))))


def _bound(ctx: Context, value: Any, size: PrimExpr) -> Expr:
    """An end of a range, counted from the start of the axis."""
    place = as_prim(value, _INDEX)
    low, high = ctx.symbols.range_of(place)
    if low < 0 <= high:
        ctx.refuse("an end of its slice may count from the start or from the end")
    return ctx.tensor(place if low >= 0 else Max(size + place, as_prim(0, _INDEX)), _INDEX)


def one_assigned(ctx: Context, x: Expr, source: Expr, axis: int, index: Any) -> Expr:
    """`x` with one slice replaced, which has no such axis."""
    place = _bound(ctx, index, dims_of(x)[axis])
    is_it = ctx.call(equal, positions(ctx, dims_of(x)[axis], axis, ndim_of(x)), place)
    return ctx.call(where, is_it, ctx.call(expand_dims, source, axis), x)


def padded(ctx: Context, x: Expr, before: Sequence[Any], sizes: Sequence[PrimExpr], value: float) -> Expr:
    """`x` with elements of one value around, or cut off.

    Args:
        ctx: What a converter may do.
        x: `(*old)`.
        before: For each axis how many elements are put before; negative numbers cut off.
        sizes: The new sizes.
        value: Of new elements.
    """
    for axis, (width, size) in enumerate(zip(before, sizes, strict=True)):
        old = dims_of(x)[axis]
        if as_int(as_prim(width, _INDEX)) == 0 and old == size:
            continue
        if ctx.symbols.least(old) < 1:
            ctx.refuse("it pads an axis that may be empty by widths that vary")
        places = ctx.call(subtract, positions(ctx, size), ctx.tensor(as_prim(width, _INDEX), _INDEX))
        low = ctx.call(greater_equal, places, number(0, _INDEX))
        inside = ctx.call(logical_and, low, ctx.call(less, places, ctx.tensor(old, _INDEX)))
        moved = ctx.call(take, x, places, axis, "clip")
        x = ctx.call(where, _spread(ctx, inside, moved, axis), moved, number(value, dtype_of(x)))
    return x


def repeated(ctx: Context, x: Expr, counts: Sequence[Any], shape: Sequence[PrimExpr]) -> Expr:
    """The whole tensor several times along each axis, `counts` of which are numbers or sizes."""
    sizes = [as_prim(1, _INDEX)] * (len(counts) - ndim_of(x)) + list(dims_of(x))
    pairs = [side for size in sizes for side in (as_prim(1, _INDEX), size)]
    whole = [side for count, size in zip(counts, sizes, strict=True) for side in (as_prim(count, _INDEX), size)]
    spread = ctx.call(broadcast_to, ctx.call(reshape, x, ShapeExpr(tuple(pairs))), ShapeExpr(tuple(whole)))
    return ctx.call(reshape, spread, ShapeExpr(tuple(shape)))


def on_diagonal(ctx: Context, x: Expr, offset: int, count: PrimExpr) -> Expr:
    """Elements at equal positions of the last two axes, the second moved by `offset`: `(..., count)`."""
    *rest, rows, columns = dims_of(x)
    flat = ctx.call(reshape, x, ShapeExpr((*rest, rows * columns)))
    row = ctx.call(add, positions(ctx, count), number(max(0, -offset), _INDEX))
    start = ctx.call(add, ctx.call(multiply, row, ctx.tensor(columns, _INDEX)), row)
    return ctx.call(take, flat, ctx.call(add, start, number(offset, _INDEX)), len(rest), "clip")


def in_windows(ctx: Context, x: Expr, axis: int, count: int, nothing: float) -> tuple[Expr, Expr]:
    """The elements of windows that cover an axis, as those of `adaptive_avg_pool1d` do.

    Args:
        ctx: What a converter may do.
        x: `(*sizes)`.
        axis: The axis, of `n` elements.
        count: How many windows.
        nothing: What stands for elements that are not in a window.

    Returns:
        `(*other sizes, count, n)`, and how many elements each window has: `(count,)`, int64.
    """
    size, divisor = ctx.tensor(dims_of(x)[axis], _INDEX), number(count, _INDEX)
    begin = ctx.call(multiply, positions(ctx, as_prim(count, _INDEX), 0, 2), size)
    end = ctx.call(add, ctx.call(add, begin, size), number(count - 1, _INDEX))
    first, last = (ctx.call(floor_divide, value, divisor) for value in (begin, end))
    places = positions(ctx, dims_of(x)[axis], 1, 2)
    inside = ctx.call(logical_and, ctx.call(greater_equal, places, first), ctx.call(less, places, last))
    order = [*(i for i in range(ndim_of(x)) if i != axis), axis]
    rows = ctx.call(expand_dims, ctx.call(permute_dims, x, order), ndim_of(x) - 1)
    widths = ctx.call(reshape, ctx.call(subtract, last, first), ShapeExpr((as_prim(count, _INDEX),)))
    return ctx.call(where, inside, rows, number(nothing, dtype_of(x))), widths
