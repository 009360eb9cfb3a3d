"""Elements in order, and what is found by their order: sort, topk, kthvalue, median, mode, running extremes.

Among equal elements torch leaves open which place it gives, but for `sort`; here it is the first one, for `mode` the
last one.
"""

from __future__ import annotations

import math
from typing import Any

from eutectic.relax.base import Expr
from eutectic.relax.expr import as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.ops_combine import with_axis
from eutectic.relax.frontend.torch.ops_shape import beginning, cut, shaped
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    arange,
    argmax,
    cummax,
    cummin,
    expand_dims,
    floor_divide,
    gather_elements,
    isnan,
    logcumsumexp,
    maximum,
    median,
    not_equal,
    reshape,
    squeeze,
    subtract,
    sum,
    take,
    topk,
    where,
    zeros,
)
from eutectic.relax.op.shapes import product

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INDEX = "int64"


def _first(ctx: Context, x: Expr, dim: int, count: int | None, *, largest: bool) -> list[Expr]:
    """The first elements along an axis in order and their places; a tensor without axes counts as having one."""
    row = with_axis(ctx, x)
    axis = axis_of(dim, ndim_of(row))
    pair = ctx.call(topk, row, -1 if count is None else count, axis, "both", largest, _INDEX)
    return [ctx.item(pair, 0), ctx.item(pair, 1)]


def _shaped(ctx: Context, parts: list[Expr], x: Expr) -> list[Expr]:
    """Results with the axes of the operand."""
    return [shaped(ctx, part, ()) for part in parts] if ndim_of(x) == 0 else parts


def _without(ctx: Context, parts: list[Expr], x: Expr, axis: int, keepdim: bool) -> list[Expr]:
    """Results without the axis along which there is one element left."""
    if ndim_of(x) == 0 or keepdim:
        return _shaped(ctx, parts, x)
    return [ctx.call(squeeze, part, axis) for part in parts]


@converts("aten.sort.default")
def sort(ctx: Context, x: Expr, dim: int = -1, descending: bool = False) -> list[Expr]:
    """Elements in order, and their places; equal ones keep their order."""
    return _shaped(ctx, _first(ctx, x, dim, None, largest=descending), x)


@converts("aten.sort.stable", "aten.argsort.stable")
def sort_stable(
    ctx: Context, x: Expr, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> list[Expr] | Expr:
    """The same, whether it is asked for or not; of `argsort` the places."""
    parts = sort(ctx, x, dim, descending)
    return parts[1] if "argsort" in str(ctx.node.target) else parts


@converts("aten.argsort.default")
def argsort(ctx: Context, x: Expr, dim: int = -1, descending: bool = False) -> Expr:
    """Places of the elements in order."""
    return sort(ctx, x, dim, descending)[1]


@converts("aten.msort.default")
def msort(ctx: Context, x: Expr) -> Expr:
    """Elements in order along the first axis."""
    return sort(ctx, x, 0)[0]


@converts("aten.topk.default")
def top(ctx: Context, x: Expr, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Expr]:
    """The first elements in order, also where they may be in any; NaN counts as the largest."""
    if k == 0 and ndim_of(x):
        shape = ctx.symbols.shape(ctx.result(0).shape)
        return [ctx.call(zeros, shape, dtype_of(x)), ctx.call(zeros, shape, _INDEX)]
    if isinstance(k, int) or ndim_of(x) == 0:  # without axes it is that element, however many are asked for
        return _shaped(ctx, _first(ctx, x, dim, k if ndim_of(x) else 1, largest=largest), x)
    axis = axis_of(dim, ndim_of(x))
    count = ctx.symbols.shape(ctx.result(0).shape)[axis]
    return [beginning(ctx, part, axis, count) for part in sort(ctx, x, dim, largest)]


@converts("aten.kthvalue.default")
def kth(ctx: Context, x: Expr, k: Any, dim: int = -1, keepdim: bool = False) -> list[Expr]:
    """The element at a place in ascending order, and where it is."""
    if not isinstance(k, int):
        ctx.refuse("its place depends on a size")
    axis = axis_of(dim, ndim_of(x))
    parts = [cut(ctx, part, axis, k - 1, k) for part in _first(ctx, x, dim, k, largest=False)]
    return _without(ctx, parts, x, axis, keepdim)


@converts("aten.median.dim")
def median_along(ctx: Context, x: Expr, dim: int, keepdim: bool = False) -> list[Expr]:
    """The element in the middle, of two the lower one, or the first NaN; and where it is."""
    axis = axis_of(dim, ndim_of(x))
    pair = ctx.call(median, with_axis(ctx, x), axis, True)
    return _without(ctx, [ctx.item(pair, 0), ctx.item(pair, 1)], x, axis, keepdim)


@converts("aten.nanmedian.dim")
def nanmedian_along(ctx: Context, x: Expr, dim: int, keepdim: bool = False) -> list[Expr]:
    """The element in the middle of those that are no NaN."""
    if dtype_of(x) not in _FLOATS:
        return median_along(ctx, x, dim, keepdim)
    axis = axis_of(dim, ndim_of(x))
    values, places = _first(ctx, x, dim, None, largest=False)
    missing = ctx.cast(ctx.call(isnan, values), _INDEX)
    count = ctx.call(subtract, ctx.tensor(dims_of(values)[axis], _INDEX), ctx.call(sum, missing, axis, True))
    middle = ctx.call(floor_divide, ctx.call(subtract, count, number(1, _INDEX)), number(2, _INDEX))
    at = ctx.call(maximum, middle, number(0, _INDEX))
    parts: list[Expr] = [ctx.call(gather_elements, part, at, axis) for part in (values, places)]
    return _without(ctx, parts, x, axis, keepdim)


@converts("aten.median.default", "aten.nanmedian.default")
def median_of_all(ctx: Context, x: Expr) -> Expr:
    """The element in the middle of all; of none NaN."""
    if any(as_int(size) == 0 for size in dims_of(x)):
        if dtype_of(x) not in _FLOATS:
            ctx.refuse("the median of no integers")
        return number(math.nan, dtype_of(x))
    flat = ctx.call(reshape, x, [product(dims_of(x))])
    along = nanmedian_along if "nanmedian" in str(ctx.node.target) else median_along
    return along(ctx, flat, 0)[0]


@converts("aten.mode.default")
def mode(ctx: Context, x: Expr, dim: int = -1, keepdim: bool = False) -> list[Expr]:
    """The element that occurs most often, of several the smallest, and its last place."""
    axis = axis_of(dim, ndim_of(x))
    values, places = _first(ctx, x, dim, None, largest=False)
    numbers = ctx.call(arange, 0, dims_of(values)[axis], 1, _INDEX)
    before = ctx.call(
        take, values, ctx.call(maximum, ctx.call(subtract, numbers, number(1, _INDEX)), number(0, _INDEX)), axis
    )
    if axis != ndim_of(values) - 1:
        numbers = ctx.call(expand_dims, numbers, list(range(1, ndim_of(values) - axis)))
    begin = ctx.call(where, ctx.call(not_equal, values, before), numbers, number(0, _INDEX))
    length = ctx.call(subtract, numbers, ctx.item(ctx.call(cummax, begin, axis), 0))  # less one
    at = ctx.call(argmax, length, axis, True)
    parts: list[Expr] = [ctx.call(gather_elements, part, at, axis) for part in (values, places)]
    return _without(ctx, parts, x, axis, keepdim)


@converts("aten.cummax.default", "aten.cummin.default")
def running_extreme(ctx: Context, x: Expr, dim: int) -> list[Expr]:
    """Largest or smallest of the elements so far, and where it was met last; NaN is handed on."""
    operator = cummax if "cummax" in str(ctx.node.target) else cummin
    row = with_axis(ctx, x)
    pair = ctx.call(operator, row, axis_of(dim, ndim_of(row)))
    return _shaped(ctx, [ctx.item(pair, 0), ctx.item(pair, 1)], x)


@converts("aten.logcumsumexp.default")
def running_log_sum(ctx: Context, x: Expr, dim: int) -> Expr:
    """Logarithm of the sum of the exponentials of the elements so far."""
    row = with_axis(ctx, ctx.cast(x, ctx.out_dtype))
    return _shaped(ctx, [ctx.call(logcumsumexp, row, axis_of(dim, ndim_of(row)))], x)[0]
