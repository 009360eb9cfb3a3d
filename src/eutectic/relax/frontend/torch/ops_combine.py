"""Elements that are combined with what is at computed positions: sums, products and extremes by index, bags of rows.

Each is `scatter_nd` of rows: several of them may have one position, and follow each other there in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import fx

from eutectic.ir.dtype import integer_limits, is_float
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.ops_shape import beginning, cut, shaped, transposed
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    add,
    arange,
    astype,
    broadcast_to,
    bucketize,
    divide,
    expand_dims,
    floor_divide,
    max,
    maximum,
    multiply,
    not_equal,
    scatter_nd,
    subtract,
    sum,
    take,
    where,
    zeros,
)
from eutectic.relax.op.shapes import product, same

Write: TypeAlias = Callable[[Expr, Expr, str], Expr]
"""Data, updates and a reduction of `scatter_nd` to the data with its updates."""

_INDEX: Final = "int64"
_REDUCTIONS: Final = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_MEAN: Final = 1  # modes of bags; 0 are sums
_MAX: Final = 2
_MOST_PAIRS: Final = 1 << 24  # of a row and a bag


def with_axis(ctx: Context, x: Expr) -> Expr:
    """`x`, with an axis when it has none."""
    return shaped(ctx, x, (as_prim(1),)) if ndim_of(x) == 0 else x


def inside(ctx: Context, places: Expr, size: PrimExpr) -> Expr:
    """Places that are an error in the call when they are outside."""
    known = as_int(size)
    if known is None:
        return ctx.call(take, ctx.call(arange, 0, size, 1, _INDEX), places, 0)
    return ctx.call(take, Constant(np.arange(known, dtype=np.int64)), places, 0)


def combined_slices(ctx: Context, x: Expr, axis: int, places: Expr, slices: Expr, reduction: str) -> Expr:
    """The same as `combined_rows` along any axis."""
    order = [axis, *(k for k in range(ndim_of(x)) if k != axis)]
    out = combined_rows(ctx, transposed(ctx, x, order), places, transposed(ctx, slices, order), reduction)
    return transposed(ctx, out, [order.index(k) for k in range(len(order))])


def combined_rows(ctx: Context, x: Expr, places: Expr, rows: Expr, reduction: str = "add") -> Expr:
    """`x` with rows combined with those at some places, one after the other.

    Args:
        ctx: What a converter may do.
        x: `(n, ...)`.
        places: `(m,)`; an error in the call when they are outside.
        rows: `(m, ...)`, dtype of `x`.
        reduction: As in `scatter_nd`.
    """
    at = inside(ctx, ctx.cast(places, _INDEX), dims_of(x)[0])
    return _scattered(ctx, x, ctx.call(expand_dims, at, 1), rows, reduction)


def _scattered(ctx: Context, x: Expr, places: Expr, updates: Expr, reduction: str) -> Expr:
    """The operator; sums and products of floats of 16 bits are rounded once."""
    if reduction not in ("add", "mul"):
        return ctx.call(scatter_nd, x, places, updates, reduction)
    return ctx.cast(ctx.call(scatter_nd, ctx.wide(x), places, ctx.wide(updates), reduction), dtype_of(x))


@converts("aten.index_add.default")
def index_add(ctx: Context, x: Expr, dim: int, indices: Expr, source: Expr, *, alpha: Any = 1) -> Expr:
    """`x` with slices added at positions of an axis."""
    shape, dtype = dims_of(x), dtype_of(x)
    x, source, places = with_axis(ctx, x), with_axis(ctx, source), with_axis(ctx, indices)
    if any(as_int(size) == 0 for size in dims_of(source)):
        return shaped(ctx, x, shape)
    rows = source if alpha == 1 else ctx.call(multiply, source, ctx.tensor(alpha, dtype))
    return shaped(ctx, combined_slices(ctx, x, axis_of(dim, ndim_of(x)), places, rows, "add"), shape)


@converts("aten.index_reduce.default")
def index_reduce(
    ctx: Context, x: Expr, dim: int, indices: Expr, source: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    """`x` with slices combined with those at positions of an axis."""
    shape, axis = dims_of(x), axis_of(dim, ndim_of(x))
    x, source, places = with_axis(ctx, x), with_axis(ctx, source), with_axis(ctx, indices)
    if any(as_int(size) == 0 for size in dims_of(source)):
        return shaped(ctx, x, shape)

    def write(held: Expr, slices: Expr, reduction: str) -> Expr:
        return combined_slices(ctx, held, axis, places, slices, reduction)

    return shaped(ctx, _reduced(ctx, write, x, source, reduce, include_self), shape)


@converts("aten.scatter_add.default")
def scatter_add(ctx: Context, x: Expr, dim: int, indices: Expr, source: Expr) -> Expr:
    """`x` with one element added for each index along an axis."""
    return scatter_reduce(ctx, x, dim, indices, source, "sum")


@converts("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_by_name(ctx: Context, x: Expr, dim: int, indices: Expr, source: Any, *, reduce: str) -> Expr:
    """The older form: sums and products, also with one number."""
    values = ctx.tensor(source, dtype_of(x))
    whole = values if isinstance(source, Expr) else ctx.call(broadcast_to, values, ShapeExpr(dims_of(indices)))
    return scatter_reduce(ctx, x, dim, indices, whole, {"add": "sum", "multiply": "prod"}[reduce])


@converts("aten.scatter_reduce.two")
def scatter_reduce(
    ctx: Context, x: Expr, dim: int, indices: Expr, source: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    """`x` with one element combined for each index along an axis."""
    shape = dims_of(x)
    if any(as_int(size) == 0 for size in dims_of(indices)):
        return x
    axis, row_places = axis_of(dim, ndim_of(x)), _places_of_rows(ctx, x, dim, source)
    x, indices, source = with_axis(ctx, x), with_axis(ctx, indices), with_axis(ctx, source)

    def write(held: Expr, updates: Expr, reduction: str) -> Expr:
        if row_places is not None:
            return combined_rows(ctx, held, row_places, updates, reduction)
        return combined_elements(ctx, held, axis, indices, updates, reduction)

    return shaped(ctx, _reduced(ctx, write, x, source, reduce, include_self), shape)


def _reduced(ctx: Context, write: Write, x: Expr, source: Expr, reduce: str, include_self: bool) -> Expr:
    """`x` with updates combined by a name of torch.

    Args:
        ctx: What a converter may do.
        write: Combines updates with data, by a reduction of `scatter_nd`.
        x: The data.
        source: The updates, dtype of `x`.
        reduce: `sum`, `prod`, `amax`, `amin` or `mean`.
        include_self: Whether what is there counts; elements that nothing is written to keep it anyway.
    """
    if reduce == "mean":
        return _averaged(ctx, write, x, source, include_self)
    return _combined(ctx, write, x, source, _REDUCTIONS[reduce], include_self)


def _combined(ctx: Context, write: Write, x: Expr, source: Expr, reduction: str, include_self: bool) -> Expr:
    """The same by a reduction of `scatter_nd`."""
    if not include_self:
        x = write(x, _everywhere(ctx, source, _neutral(reduction, dtype_of(x))), "update")
    return write(x, source, reduction)


def _averaged(ctx: Context, write: Write, x: Expr, source: Expr, include_self: bool) -> Expr:
    """Means of what is written to each element, rounded down for integers; counts are of no less than float32."""
    dtype = dtype_of(x)
    held, updates = ctx.wide(x), ctx.wide(source)
    total = _combined(ctx, write, held, updates, "add", include_self)
    none = _everywhere(ctx, held, int(include_self))
    count = ctx.call(maximum, write(none, _everywhere(ctx, updates, 1), "add"), number(1, dtype_of(held)))
    return ctx.cast(ctx.call(divide if is_float(dtype) else floor_divide, total, count), dtype)


def _everywhere(ctx: Context, x: Expr, value: Any) -> Expr:
    """A number in the shape and dtype of `x`."""
    return ctx.call(broadcast_to, number(value, dtype_of(x)), ShapeExpr(dims_of(x)))


def _neutral(reduction: str, dtype: str) -> Any:
    """What changes nothing that it is combined with."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    if is_float(dtype):
        return -math.inf if reduction == "max" else math.inf
    low, high = integer_limits(dtype)
    return low if reduction == "max" else high


def combined_elements(ctx: Context, x: Expr, axis: int, indices: Expr, source: Expr, reduction: str) -> Expr:
    """`x` with one element combined for each index along an axis, one after the other.

    Args:
        ctx: What a converter may do.
        x: `(*sizes)`, at least one axis.
        axis: The axis.
        indices: As many axes, none longer; an error in the call when they are outside.
        source: As many axes, none shorter than those of `indices`.
        reduction: As in `scatter_nd`.
    """
    for k, size in enumerate(dims_of(indices)):
        source = source if same(dims_of(source)[k], size) else beginning(ctx, source, k, size)
    count, flat = product(dims_of(indices)), shaped(ctx, x, (product(dims_of(x)),))
    places = shaped(ctx, _flat_places(ctx, x, axis, indices), (count, as_prim(1)))
    return shaped(ctx, _scattered(ctx, flat, places, shaped(ctx, source, (count,)), reduction), dims_of(x))


def _places_of_rows(ctx: Context, x: Expr, dim: int, source: Expr) -> Expr | None:
    """The places of whole rows, where indices along the first axis are the same in all columns; None elsewhere."""
    node = ctx.node.args[2]
    if not isinstance(node, fx.Node) or node.target is not torch.ops.aten.expand.default or ndim_of(x) < 2:
        return None
    column = ctx.env[node.args[0]]  # type: ignore[index]  # the operand of a node is one
    equal = all(same(a, b) for a, b in zip(dims_of(x)[1:], dims_of(source)[1:], strict=True))
    whole = all(map(same, ctx.symbols.shape(node.meta["val"].shape), dims_of(source)))
    ones = ndim_of(column) == ndim_of(x) and all(as_int(size) == 1 for size in dims_of(column)[1:])
    if not (equal and whole and ones and axis_of(dim, ndim_of(x)) == 0) or not same(
        dims_of(column)[0], dims_of(source)[0]
    ):
        return None
    return shaped(ctx, column, dims_of(column)[:1])


def _flat_places(ctx: Context, x: Expr, axis: int, indices: Expr) -> Expr:
    """Where in the flattened data each index writes: at its own position along the other axes."""
    sizes = dims_of(x)
    total: Expr = inside(ctx, ctx.cast(indices, _INDEX), dims_of(x)[axis])
    total = ctx.call(multiply, total, ctx.tensor(product(sizes[axis + 1 :]), _INDEX))
    for k, size in enumerate(dims_of(indices)):
        if k != axis and as_int(size) != 1:
            own = shaped(
                ctx, ctx.call(arange, 0, size, 1, _INDEX), [size if i == k else as_prim(1) for i in range(len(sizes))]
            )
            total = ctx.call(add, total, ctx.call(multiply, own, ctx.tensor(product(sizes[k + 1 :]), _INDEX)))
    return total


@converts("aten.embedding_bag.default", "aten.embedding_bag.padding_idx", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    ctx: Context,
    weight: Expr,
    indices: Expr,
    offsets: Expr,
    scale_by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Expr | None = None,
    with_end: bool = False,
    padding: int | None = None,
) -> list[Expr | None]:
    """Sums, means or maxima of rows of a table, bag by bag; what it gives besides cannot be had."""
    rows = ctx.call(take, weight, indices, 0)
    if factors is not None:
        rows = ctx.call(multiply, rows, ctx.call(expand_dims, factors, 1))
    counted = None
    if padding is not None and padding >= 0:
        if mode == _MAX:
            ctx.refuse("maxima of bags with a padding_idx")
        counted = ctx.call(not_equal, indices, number(padding, dtype_of(indices)))
        rows = ctx.call(where, ctx.call(expand_dims, counted, 1), rows, number(0, dtype_of(rows)))
    step = _regular_step(ctx, indices)
    if step is not None and not with_end:
        return [_of_equal_bags(ctx, rows, counted, step, mode), None, None, None]
    if mode == _MAX:
        ctx.refuse("maxima of bags of different sizes")
    bags = _of_bags(ctx, rows, counted, offsets, mode)
    if with_end:  # the last one begins where the others end: rows that are in none
        bags = cut(ctx, bags, 0, 0, dims_of(offsets)[0] - 1)
    return [bags, None, None, None]


def _regular_step(ctx: Context, indices: Expr) -> int | None:
    """How many rows each bag has, where all have as many: offsets are `arange(0, end, step)` then."""
    node = ctx.node.args[2]
    if not isinstance(node, fx.Node) or node.target is not torch.ops.aten.arange.start_step:
        return None
    begin, end, *rest = node.args
    step, count = rest[0] if rest else 1, as_int(dims_of(indices)[0])
    if not isinstance(step, int) or step < 1 or count is None:
        return None
    return step if (begin, end, count % step) == (0, count, 0) else None


def _of_equal_bags(ctx: Context, rows: Expr, counted: Expr | None, step: int, mode: int) -> Expr:
    count, width = dims_of(rows)
    split = shaped(ctx, rows, (count // step, as_prim(step), width))
    if mode == _MAX:
        return ctx.call(max, split, 1)
    total = ctx.call(sum, split, 1)
    if mode != _MEAN:
        return total
    if counted is None:
        return ctx.call(divide, total, number(step, dtype_of(rows)))
    bags = shaped(ctx, ctx.call(astype, counted, dtype_of(rows)), (count // step, as_prim(step)))
    return ctx.call(divide, total, _at_least_one(ctx, ctx.call(sum, bags, 1, True)))


def _of_bags(ctx: Context, rows: Expr, counted: Expr | None, offsets: Expr, mode: int) -> Expr:
    """The same where bags have any number of rows: each row goes to the last bag that begins before it.

    An offset before the first row or after the end is an error in the call, as are rows before the first bag.
    """
    (count, width), (number_of_bags,) = dims_of(rows), dims_of(offsets)
    known = [as_int(size) for size in (count, number_of_bags)]
    if None in known or known[0] * known[1] > _MOST_PAIRS:  # type: ignore[operator]  # both are numbers
        ctx.refuse("bags whose number varies, or that are too many to be found by comparing")
    starts = inside(ctx, ctx.cast(offsets, _INDEX), as_prim(known[0] + 1))  # type: ignore[operator]  # a number
    begun = ctx.call(bucketize, ctx.call(arange, 0, count, 1, _INDEX), starts, right=True)
    bag = ctx.call(subtract, begun, number(1, _INDEX))
    total = combined_rows(ctx, ctx.call(zeros, [number_of_bags, width], dtype_of(rows)), bag, rows)
    if mode != _MEAN:
        return total
    ones = ctx.call(astype, counted, dtype_of(rows)) if counted is not None else _ones(ctx, count, dtype_of(rows))
    each = combined_rows(ctx, ctx.call(zeros, [number_of_bags], dtype_of(rows)), bag, ones)
    return ctx.call(divide, total, _at_least_one(ctx, ctx.call(expand_dims, each, 1)))


def _ones(ctx: Context, count: PrimExpr, dtype: str) -> Expr:
    size = as_int(count)
    assert size is not None
    return Constant(np.ones(size, dtype))


def _at_least_one(ctx: Context, counts: Expr) -> Expr:
    return ctx.call(maximum, counts, number(1, dtype_of(counts)))
