"""Elements written to computed positions, and positions found by comparing.

Where there are few pairs of a position and an index, as in a cache of keys and values that gets one position in a step,
every element of the result looks for the last index that names it, and takes that element of the source, or keeps its
own: this is one kernel with what follows. Otherwise elements are written one after the other (`scatter_nd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.ops_combine import (
    combined_elements,
    combined_rows,
    combined_slices,
    inside,
    with_axis,
)
from eutectic.relax.frontend.torch.ops_index import linear, wrapped
from eutectic.relax.frontend.torch.ops_shape import beginning, cut, shaped, transposed
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    add,
    arange,
    broadcast_to,
    concat,
    cumsum,
    equal,
    expand_dims,
    gather_elements,
    greater,
    greater_equal,
    logical_not,
    max,
    subtract,
    sum,
    take,
    where,
)
from eutectic.relax.op.shapes import product, same

_MOST_PAIRS: Final = 1 << 26  # 30 ms of comparisons on one thread
_FEW_PAIRS: Final = 1 << 16  # that are compared sooner than elements are written one by one
_INDEX: Final = "int64"


@converts("aten.index_copy.default")
def index_copy(ctx: Context, x: Expr, dim: int, indices: Expr, source: Expr) -> Expr:
    """`x` with slices replaced; of two for one position the later, and an index outside is an error in the call."""
    shape = dims_of(x)
    x, places = with_axis(ctx, x), with_axis(ctx, indices)
    rows = shaped(ctx, source, (as_prim(1), *dims_of(x)[1:])) if ndim_of(source) < ndim_of(x) else source
    return shaped(ctx, _written(ctx, x, axis_of(dim, ndim_of(x)), ctx.cast(places, _INDEX), rows), shape)


@converts("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(ctx: Context, x: Expr, dim: int, indices: Expr, value: Any) -> Expr:
    """`x` with one value in slices; unlike `index_copy`, by which torch expresses it, it counts from the end too."""
    shape = dims_of(x)
    x, places = with_axis(ctx, x), with_axis(ctx, indices)
    axis = axis_of(dim, ndim_of(x))
    places = ctx.cast(wrapped(ctx, places, dims_of(x)[axis]), _INDEX)
    sizes = [dims_of(places)[0] if i == axis else size for i, size in enumerate(dims_of(x))]
    rows = ctx.call(broadcast_to, ctx.tensor(value, dtype_of(x)), ShapeExpr(tuple(sizes)))
    return shaped(ctx, _written(ctx, x, axis, places, rows), shape)


def _written(ctx: Context, x: Expr, axis: int, places: Expr, source: Expr) -> Expr:
    """`x` with slices of `source` at some places of an axis; places have one axis."""
    if as_int(dims_of(places)[0]) == 0:
        return x
    size = as_int(dims_of(x)[axis])
    if size is None or not _are_few(ctx, places, size):
        return combined_slices(ctx, x, axis, places, source, "update")
    last = _last(ctx, inside(ctx, places, as_prim(size)), size)
    shape = [1] * ndim_of(x)
    shape[axis] = size
    is_written = shaped(ctx, _is_some(ctx, last), tuple(map(as_prim, shape)))
    return ctx.call(where, is_written, ctx.call(take, source, last, axis, "clip"), x)


def _is_some(ctx: Context, last: Expr) -> Expr:
    return ctx.call(greater_equal, last, number(0, _INDEX))


def _last(ctx: Context, places: Expr, size: int) -> Expr:
    """For each position below `size` the number of the last place along the last axis that names it, or -1."""
    *outer, count = dims_of(places)
    positions = Constant(np.arange(size, dtype=np.int64)[:, None])
    is_named = ctx.call(equal, ctx.call(expand_dims, places, len(outer)), positions)
    numbers = ctx.call(arange, 0, count, 1, _INDEX)
    return ctx.call(max, ctx.call(where, is_named, numbers, number(-1, _INDEX)), -1)


def _are_few(ctx: Context, places: Expr, size: int) -> bool:
    """Whether each position is found among some places, as far as their number is known, with few comparisons.

    There must be a place, and so an element of the source: positions that none names read one, and leave it out.
    """
    pairs = size * prod(as_int(extent) or 1 for extent in dims_of(places))
    return pairs <= _FEW_PAIRS and all(ctx.symbols.least(extent) > 0 for extent in dims_of(places))


@converts("aten.index_put.default")
def index_put(ctx: Context, x: Expr, indices: list[Expr | None], values: Expr, accumulate: bool = False) -> Expr:
    """`x` with elements replaced, or added to, at positions by integers or where a mask is true."""
    indexed = [(axis, item) for axis, item in enumerate(indices) if item is not None]
    if not indexed or as_int(dims_of(indexed[0][1])[0] if ndim_of(indexed[0][1]) else as_prim(1)) == 0:
        return x
    values = ctx.cast(values, dtype_of(x))
    masks = [item for _, item in indexed if dtype_of(item) in ("bool", "uint8")]
    if masks:
        if len(indexed) > 1:
            ctx.refuse("a mask beside other indices")
        return _masked(ctx, x, indexed[0][0], masks[0], values, accumulate)
    return _placed(ctx, x, [axis for axis, _ in indexed], [item for _, item in indexed], values, accumulate)


def _masked(ctx: Context, x: Expr, axis: int, mask: Expr, values: Expr, accumulate: bool) -> Expr:
    """One value for, or added to, all elements under the mask, or one for each slice that it selects."""
    behind = ndim_of(x) - axis - ndim_of(mask)
    if ndim_of(values) > behind:
        before, (count, *rest) = dims_of(values)[: -behind - 1], dims_of(values)[ndim_of(values) - behind - 1 :]
        if as_int(count) != 1:
            ctx.refuse("a mask as an index of several values: which goes where depends on the data")
        ones = [as_prim(1)] * ndim_of(mask) if before else []
        values = shaped(ctx, values, (*before, *ones, *rest))
    chosen = shaped(ctx, ctx.cast(mask, "bool"), (*dims_of(mask), *[as_prim(1)] * behind))
    return ctx.call(where, chosen, ctx.call(add, x, values) if accumulate else values, x)


@converts("aten.masked_scatter.default")
def masked_scatter(ctx: Context, x: Expr, mask: Expr, source: Expr) -> Expr:
    """`x` with elements under a mask replaced by those of `source`, in their order; too few are an error."""
    shape, values = ctx.out_shape, shaped(ctx, source, (product(dims_of(source)),))
    if ctx.symbols.least(dims_of(values)[0]) < 1:
        ctx.refuse("it takes elements from a tensor that may be empty")
    x, mask = (ctx.call(broadcast_to, item, ShapeExpr(shape)) for item in (x, mask))
    flags = shaped(ctx, mask, (product(shape),))
    number_of = ctx.call(cumsum, ctx.cast(flags, _INDEX), 0)
    zero, one = number(0, _INDEX), number(1, _INDEX)
    places = ctx.call(where, flags, ctx.call(subtract, number_of, one), zero)
    return ctx.call(where, mask, shaped(ctx, ctx.call(take, values, places, 0), shape), x)


def _placed(
    ctx: Context, x: Expr, axes: list[int], indices: list[Expr], values: Expr, accumulate: bool = False
) -> Expr:
    sizes = [dims_of(x)[axis] for axis in axes]
    rest = [axis for axis in range(ndim_of(x)) if axis not in axes]
    order = [*axes, *rest]
    kept = tuple(dims_of(x)[axis] for axis in rest)
    flat = shaped(ctx, transposed(ctx, x, order), (product(sizes), *kept))
    places = linear(ctx, indices, sizes) if len(axes) > 1 else wrapped(ctx, indices[0], sizes[0])
    places = ctx.cast(places, _INDEX)
    count, before = dims_of(places), axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    whole = ctx.call(broadcast_to, values, ShapeExpr((*kept[:before], *count, *kept[before:])))
    front = transposed(
        ctx, whole, [*range(before, before + len(count)), *range(before), *range(before + len(count), ndim_of(whole))]
    )
    total = product(count)
    places, rows = shaped(ctx, places, (total,)), shaped(ctx, front, (total, *kept))
    written = combined_rows(ctx, flat, places, rows) if accumulate else _written(ctx, flat, 0, places, rows)
    back = shaped(ctx, written, (*sizes, *kept))
    return transposed(ctx, back, [order.index(axis) for axis in range(ndim_of(x))])


@converts("aten.scatter.src", "aten.scatter.value")
def scatter(ctx: Context, x: Expr, dim: int, indices: Expr, source: Any) -> Expr:
    """`x` with one element replaced for each index along an axis; of two for one position the later."""
    shape = dims_of(x)
    if any(as_int(extent) == 0 for extent in dims_of(indices)):
        return x
    x, indices = with_axis(ctx, x), with_axis(ctx, indices)
    source = with_axis(ctx, source) if isinstance(source, Expr) and ndim_of(source) < ndim_of(x) else source
    axis = axis_of(dim, ndim_of(x))
    size = as_int(dims_of(x)[axis])
    if size is None or not _are_few(ctx, indices, size):
        values = ctx.tensor(source, dtype_of(x))
        whole = values if isinstance(source, Expr) else ctx.call(broadcast_to, values, ShapeExpr(dims_of(indices)))
        return shaped(ctx, combined_elements(ctx, x, axis, indices, whole, "update"), shape)
    written = [
        whole if i == axis else taken for i, (whole, taken) in enumerate(zip(dims_of(x), dims_of(indices), strict=True))
    ]
    part = _scattered(ctx, _beginning(ctx, x, written), axis, size, indices, source)
    return shaped(ctx, _with_beginning(ctx, x, part), shape)


def _beginning(ctx: Context, x: Expr, sizes: Sequence[PrimExpr]) -> Expr:
    """The first elements along each axis."""
    for axis, size in enumerate(sizes):
        x = x if same(dims_of(x)[axis], size) else beginning(ctx, x, axis, size)
    return x


def _with_beginning(ctx: Context, x: Expr, part: Expr) -> Expr:
    """`x` with its first elements along each axis replaced."""
    sizes, beginnings = dims_of(part), [x]
    for axis in range(ndim_of(x) - 1):
        beginnings.append(_beginning(ctx, beginnings[-1], (*sizes[: axis + 1], *dims_of(x)[axis + 1 :])))
    for axis in reversed(range(ndim_of(x))):
        size = dims_of(x)[axis]
        if not same(sizes[axis], size):
            part = ctx.call(concat, [part, cut(ctx, beginnings[axis], axis, sizes[axis], size)], axis)
    return part


def _scattered(ctx: Context, x: Expr, axis: int, size: int, indices: Expr, source: Any) -> Expr:
    """The same where there is an index for each position of the other axes; the axis has `size` ones."""
    ndim = ndim_of(x)
    order = [i for i in range(ndim) if i != axis] + [axis]
    back = [order.index(i) for i in range(ndim)]
    last = _last(ctx, inside(ctx, ctx.cast(transposed(ctx, indices, order), _INDEX), as_prim(size)), size)
    value = ctx.tensor(source, dtype_of(x))
    if isinstance(source, Expr):
        value = _beginning(ctx, value, dims_of(indices))
        first = ctx.call(where, _is_some(ctx, last), last, number(0, _INDEX))
        value = ctx.call(gather_elements, transposed(ctx, value, order), first, ndim - 1)
    replaced = ctx.call(where, _is_some(ctx, last), value, transposed(ctx, x, order))
    return transposed(ctx, replaced, back)


@converts("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(ctx: Context, x: Any, boundaries: Expr, *, out_int32: bool = False, right: bool = False) -> Expr:
    """For each value how many boundaries are below it; NaN is above all."""
    return _counted(ctx, boundaries, _values(ctx, x, boundaries), right)


@converts("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    ctx: Context,
    boundaries: Expr,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Expr | None = None,
) -> Expr:
    """The same, with boundaries of their own for each row."""
    if sorter is not None:
        boundaries = ctx.call(gather_elements, boundaries, sorter, ndim_of(boundaries) - 1)
    return _counted(ctx, boundaries, _values(ctx, x, boundaries), right or side == "right")


def _values(ctx: Context, x: Any, boundaries: Expr) -> Expr:
    return x if isinstance(x, Expr) else ctx.tensor(x, dtype_of(boundaries))


def _counted(ctx: Context, boundaries: Expr, values: Expr, right: bool) -> Expr:
    """How many boundaries do not end the search of each value, along a new last axis."""
    if dtype_of(boundaries) != dtype_of(values):
        ctx.refuse(f"boundaries of {dtype_of(boundaries)} for values of {dtype_of(values)}")
    known = [as_int(extent) for extent in (*dims_of(values), dims_of(boundaries)[-1])]
    if prod(1 if extent is None else extent for extent in known) > _MOST_PAIRS:
        ctx.refuse(f"it compares more than {_MOST_PAIRS} pairs of a value and a boundary")
    each = ctx.call(expand_dims, values, ndim_of(values))
    rows = boundaries if ndim_of(boundaries) == 1 else ctx.call(expand_dims, boundaries, ndim_of(boundaries) - 1)
    ends = ctx.call(greater if right else greater_equal, rows, each)
    counted = ctx.cast(ctx.call(logical_not, ends), ctx.out_dtype)
    return ctx.call(sum, counted, -1)
