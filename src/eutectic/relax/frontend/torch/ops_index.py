"""Padding, and picking elements by computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.ops_shape import shaped, transposed
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.frontend.torch.varying import on_diagonal, padded, windows
from eutectic.relax.op import (
    add,
    gather_elements,
    greater_equal,
    less,
    logical_and,
    multiply,
    nn,
    take,
    where,
)

_MODES: Final = {"reflection": "reflect", "replication": "replicate", "circular": "circular"}


def _widths(x: Expr, pad: Sequence[Any]) -> list[Any]:
    """Widths of all axes from first to last; torch gives the last axes, last one first."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    pairs += [(0, 0)] * (ndim_of(x) - len(pairs))
    return [width for pair in reversed(pairs) for width in pair]


def _padded(ctx: Context, x: Expr, pad: Sequence[Any], mode: str, value: float | None = None) -> Expr:
    widths = _widths(x, pad)
    if any(not isinstance(width, int) for width in widths):
        if mode != "constant":
            ctx.refuse(f"its widths vary, with mode {mode}")
        return padded(ctx, x, widths[::2], ctx.out_shape, value or 0)
    if not any(widths):
        return x
    if mode != "constant" and min(widths) < 0:
        ctx.refuse(f"negative widths with mode {mode}")
    if isinstance(value, int) and abs(value) > 2**53:
        ctx.refuse(f"a padding value of {value}")
    return ctx.call(nn.pad, x, widths, float(value or 0), mode)


@converts("aten.constant_pad_nd.default")
def constant_pad(ctx: Context, x: Expr, pad: list[Any], value: float = 0) -> Expr:
    """Elements of one value around; negative widths cut off."""
    return _padded(ctx, x, pad, "constant", value)


@converts("aten.pad.default")
def pad(ctx: Context, x: Expr, pad: list[Any], mode: str = "constant", value: float | None = None) -> Expr:
    """All modes of padding."""
    return _padded(ctx, x, pad, mode, value)


@converts(*(f"aten.{kind}_pad{rank}d.default" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def mirrored_pad(ctx: Context, x: Expr, pad: list[Any]) -> Expr:
    """Reflected or repeated borders."""
    return _padded(ctx, x, pad, _MODES[str(ctx.node.target).split(".")[1].split("_")[0]])


@converts("aten.embedding.default")
def embedding(ctx: Context, weight: Expr, indices: Expr, *options: Any) -> Expr:
    """Rows of a table; an index outside it is an error when the model runs, as in torch."""
    return ctx.call(take, weight, indices, 0)


@converts("aten.index_select.default")
def index_select(ctx: Context, x: Expr, dim: int, indices: Expr) -> Expr:
    """Slices at some positions of an axis."""
    if ndim_of(x) == 0:
        ctx.refuse("it selects from a tensor without axes")
    places = shaped(ctx, indices, ctx.symbols.shape([1])) if ndim_of(indices) == 0 else indices
    return ctx.call(take, x, places, axis_of(dim, ndim_of(x)))


@converts("aten.gather.default")
def gather(ctx: Context, x: Expr, dim: int, indices: Expr, **options: Any) -> Expr:
    """One element per index along an axis."""
    if ndim_of(x) == 0 or ndim_of(indices) != ndim_of(x):
        ctx.refuse("it gathers from a tensor without axes")
    return ctx.call(gather_elements, x, indices, axis_of(dim, ndim_of(x)))


@converts("aten.index.Tensor")
def index(ctx: Context, x: Expr, indices: list[Expr | None]) -> Expr:
    """Advanced indexing by integer tensors: their axes take the place of the indexed ones, or go first."""
    indexed = [(axis, item) for axis, item in enumerate(indices) if item is not None]
    if any(dtype_of(item) in ("bool", "uint8") for _, item in indexed):
        ctx.refuse("a mask as an index: the size of the result depends on the data")
    axes = [axis for axis, _ in indexed]
    if not axes:
        return x
    sizes = [dims_of(x)[axis] for axis in axes]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    if len(axes) == 1:
        return ctx.call(take, x, wrapped(ctx, indexed[0][1], sizes[0]), axes[0])
    rest = [axis for axis in range(ndim_of(x)) if axis not in axes]
    front = transposed(ctx, x, [*axes, *rest])
    flat = shaped(ctx, front, (_product(sizes), *(dims_of(x)[axis] for axis in rest)))
    places = linear(ctx, [item for _, item in indexed], sizes)
    out = ctx.call(take, flat, places, 0)
    if not adjacent or axes[0] == 0:
        return out
    width, before = ndim_of(places), axes[0]
    order = [*range(width, width + before), *range(width), *range(width + before, ndim_of(out))]
    return transposed(ctx, out, order)


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


def wrapped(ctx: Context, places: Expr, size: PrimExpr) -> Expr:
    """Indices with negative ones counted from the end; those outside stay outside and are refused at run time."""
    if isinstance(places, Constant) and as_int(size) is not None:
        data = places.data
        return places if (data >= 0).all() else Constant(np.where(data < 0, data + as_int(size), data))
    wide = ctx.cast(places, "int64")
    moved = ctx.call(add, wide, ctx.tensor(size, "int64"))
    return ctx.call(where, ctx.call(less, wide, number(0, "int64")), moved, wide)


def linear(ctx: Context, indices: list[Expr], sizes: Sequence[PrimExpr]) -> Expr:
    """Positions in the flattened axes; -1, which is refused at run time, where one index is outside its axis."""
    total: Expr | None = None
    valid: Expr | None = None
    for item, size in zip(indices, sizes, strict=True):
        limit = ctx.tensor(size, "int64")
        places = ctx.cast(wrapped(ctx, item, size), "int64")
        if not _inside(places, size):
            low = ctx.call(greater_equal, places, number(0, "int64"))
            inside = ctx.call(logical_and, low, ctx.call(less, places, limit))
            valid = inside if valid is None else ctx.call(logical_and, valid, inside)
        total = places if total is None else ctx.call(add, ctx.call(multiply, total, limit), places)
    assert total is not None
    if valid is None:
        return total
    return ctx.call(where, valid, total, number(-1, "int64"))


def _inside(places: Expr, size: PrimExpr) -> bool:
    known = as_int(size)
    return (
        isinstance(places, Constant) and known is not None and bool(((places.data >= 0) & (places.data < known)).all())
    )


@converts("aten.unfold.default")
def unfold(ctx: Context, x: Expr, dim: int, size: int, step: int) -> Expr:
    """Overlapping windows along an axis, their elements along a new last one."""
    ndim = ndim_of(x)
    if ndim == 0:
        ctx.refuse("windows of a tensor without axes")
    axis = axis_of(dim, ndim)
    length = as_int(dims_of(x)[axis])
    if length is None:
        out = windows(ctx, x, axis, ctx.out_shape[axis], size, step)
    else:
        starts = np.arange(0, length - size + 1, step, dtype=np.int64)
        out = ctx.call(take, x, Constant(starts[:, None] + np.arange(size, dtype=np.int64)), axis)
    order = [i for i in range(ndim + 1) if i != axis + 1]
    return transposed(ctx, out, [*order, axis + 1])


@converts("aten.diagonal.default")
def diagonal(ctx: Context, x: Expr, offset: int = 0, first: int = 0, second: int = 1) -> Expr:
    """Elements at equal positions of two axes, along a new last one."""
    ndim = ndim_of(x)
    axes = [axis_of(first, ndim), axis_of(second, ndim)]
    sizes = [as_int(dims_of(x)[axis]) for axis in axes]
    rows, columns = sizes
    rest = [axis for axis in range(ndim) if axis not in axes]
    turned = transposed(ctx, x, [*rest, *axes])
    if rows is None or columns is None:
        return on_diagonal(ctx, turned, offset, ctx.out_shape[-1])
    flat = shaped(ctx, turned, (*(dims_of(x)[axis] for axis in rest), as_prim(rows * columns)))
    row = np.arange(max(0, -offset), min(rows, columns - offset), dtype=np.int64)
    return ctx.call(take, flat, Constant(row * columns + row + offset), len(rest))
