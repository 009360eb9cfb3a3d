"""Views, joins and cuts: operators that move elements without looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.arith import simplify
from eutectic.ir.prim_expr import IntImm, PrimExpr, add, as_prim, mul
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of
from eutectic.relax.frontend.torch import varying
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    permute_dims,
    reshape,
    split,
    squeeze,
    stack,
    strided_slice,
    subtract,
    take,
    tile,
    zeros,
)

_INDEX: Final = "int64"
END: Final = 2**63 - 1  # of a slice that goes to the end


def shaped(ctx: Context, x: Expr, shape: Sequence[PrimExpr]) -> Expr:
    """`x` under another shape; nothing when it has it, an empty tensor where a size is zero."""
    if len(shape) == ndim_of(x) and all(a == b for a, b in zip(shape, dims_of(x), strict=True)):
        return x
    if any(as_int(size) == 0 for size in shape):
        return ctx.call(zeros, ShapeExpr(tuple(shape)), dtype_of(x))
    return ctx.call(reshape, x, ShapeExpr(tuple(shape)))


@converts(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
    "aten.reshape_as.default",
    "aten._reshape_copy.default",
)
def view(ctx: Context, x: Expr, *options: Any) -> Expr:
    """The same elements under the shape that torch worked out."""
    return shaped(ctx, x, ctx.out_shape)


@converts("aten.unsqueeze.default")
def unsqueeze(ctx: Context, x: Expr, dim: int) -> Expr:
    """A new axis of size one."""
    return ctx.call(expand_dims, x, axis_of(dim, ndim_of(x) + 1))


@converts("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze_(ctx: Context, x: Expr, dim: Any = None) -> Expr:
    """Without axes of size one; an axis of another size stays."""
    ndim = ndim_of(x)
    dims = range(ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    if ndim == 0:
        return x
    axes = [axis for axis in {axis_of(axis, ndim) for axis in dims} if as_int(dims_of(x)[axis]) == 1]
    return ctx.call(squeeze, x, sorted(axes)) if axes else x


def transposed(ctx: Context, x: Expr, order: Sequence[int]) -> Expr:
    """`x` with its axes in another order; nothing when it is the same."""
    return x if list(order) == list(range(len(order))) else ctx.call(permute_dims, x, list(order))


@converts("aten.permute.default")
def permute(ctx: Context, x: Expr, order: list[int]) -> Expr:
    """The axes in another order."""
    return transposed(ctx, x, [axis_of(axis, ndim_of(x)) for axis in order])


@converts("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(ctx: Context, x: Expr, first: int, second: int) -> Expr:
    """Two axes exchanged."""
    order = list(range(ndim_of(x)))
    if order:
        a, b = axis_of(first, len(order)), axis_of(second, len(order))
        order[a], order[b] = order[b], order[a]
    return transposed(ctx, x, order)


@converts("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def turn(ctx: Context, x: Expr) -> Expr:
    """Axes reversed; of mT only the last two."""
    order = list(range(ndim_of(x)))
    if "mT" in str(ctx.node.target):
        return transposed(ctx, x, [*order[:-2], order[-1], order[-2]])
    return transposed(ctx, x, order[::-1])


@converts("aten.movedim.int", "aten.movedim.intlist")
def movedim(ctx: Context, x: Expr, source: Any, target: Any) -> Expr:
    """Axes put at other places; the rest keep their order."""
    ndim = ndim_of(x)
    places = [
        [axis_of(axis, ndim) for axis in ([value] if isinstance(value, int) else value)] for value in (source, target)
    ]
    rest = iter(axis for axis in range(ndim) if axis not in places[0])
    moved = dict(zip(places[1], places[0], strict=True))
    return transposed(ctx, x, [moved[i] if i in moved else next(rest) for i in range(ndim)])


@converts("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
def expand(ctx: Context, x: Expr, size: Any, **options: Any) -> Expr:
    """Repeated along axes of size one."""
    shape = ctx.out_shape
    if len(shape) == ndim_of(x) and all(a == b for a, b in zip(shape, dims_of(x), strict=True)):
        return x
    return ctx.call(broadcast_to, x, ShapeExpr(shape))


@converts("aten.repeat.default", "aten.tile.default")
def repeat(ctx: Context, x: Expr, repeats: list[Any]) -> Expr:
    """The whole tensor several times along each axis."""
    if any(not isinstance(count, int) for count in repeats):
        return varying.repeated(ctx, x, repeats, ctx.out_shape)
    return ctx.call(tile, x, list(repeats))


@converts("aten.cat.default", "aten.concat.default")
def cat(ctx: Context, tensors: list[Expr], dim: int = 0) -> Expr:
    """Tensors joined along an axis; empty tensors of one axis are left out, as torch does."""
    dtype, ndim = ctx.out_dtype, len(ctx.out_shape)
    kept = [x for x in tensors if not (ndim_of(x) == 1 and as_int(dims_of(x)[0]) == 0 and ndim != 1)]
    joined = [ctx.cast(x, dtype) for x in kept]
    return joined[0] if len(joined) == 1 else ctx.call(concat, joined, axis_of(dim, ndim))


@converts("aten.stack.default")
def stack_(ctx: Context, tensors: list[Expr], dim: int = 0) -> Expr:
    """Tensors joined along a new axis."""
    dtype = ctx.out_dtype
    return ctx.call(stack, [ctx.cast(x, dtype) for x in tensors], axis_of(dim, len(ctx.out_shape)))


@converts(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.split.sizes",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.tensor_split.indices",
)
def split_(ctx: Context, x: Expr, sizes: Any, dim: int = 0) -> list[Expr]:
    """Pieces along an axis, of the sizes that torch worked out."""
    axis = axis_of(dim, ndim_of(x))
    pieces = [ctx.symbols.size(piece.shape[axis]) for piece in ctx.value]
    if len(pieces) == 1:
        return [x]
    known = [as_int(piece) for piece in pieces]
    if None in known:
        return _varying_pieces(ctx, x, axis, pieces)
    cuts = np.cumsum([size for size in known if size is not None])[:-1].tolist()
    parts = ctx.call(split, x, cuts, axis)
    return [ctx.item(parts, i) for i in range(len(pieces))]


def _varying_pieces(ctx: Context, x: Expr, axis: int, pieces: Sequence[PrimExpr]) -> list[Expr]:
    """Pieces of which one or more have a size that varies."""
    place, parts = as_prim(0, _INDEX), []
    for size in pieces:
        part = _cut_inside(ctx, x, axis, place, size)
        if part is None:
            ctx.refuse("its pieces may be larger than their sum")
        parts.append(part)
        place = simplify(add(place, size))
    return parts


def _cut_inside(ctx: Context, x: Expr, axis: int, begin: Any, count: PrimExpr, step: int = 1) -> Expr | None:
    """A slice that has as many elements as torch says; None when it may go beyond the axis."""
    size = dims_of(x)[axis]
    first = ctx.symbols.from_start(as_prim(begin, _INDEX), size)
    if first is None or ctx.symbols.is_of_values(count) or not ctx.symbols.is_count(count):
        return None
    steps = count if step == 1 else mul(count, as_prim(step, _INDEX))
    end = simplify(add(first, steps))
    if not ctx.symbols.fits(simplify(add(end, 1 - step)), size):
        return None
    return ctx.call(strided_slice, x, [axis], [first], [end], [step], assume_inbound=True)


def cut(ctx: Context, x: Expr, axis: int, begin: Any, end: Any, step: int = 1) -> Expr:
    """A slice along one axis."""
    return ctx.call(strided_slice, x, [axis], [begin], [end], [step])


def beginning(ctx: Context, x: Expr, axis: int, count: PrimExpr) -> Expr:
    """The first elements along an axis, which has no fewer."""
    part = _cut_inside(ctx, x, axis, 0, count)
    return cut(ctx, x, axis, 0, count) if part is None else part


@converts("aten.unbind.int")
def unbind(ctx: Context, x: Expr, dim: int = 0) -> list[Expr]:
    """The slices along an axis, without it."""
    axis = axis_of(dim, ndim_of(x))
    return [
        squeeze(strided_slice(x, [axis], [i], [i + 1], [1], span=ctx.span), axis, span=ctx.span)
        for i in range(len(ctx.value))
    ]


@converts("aten.select.int")
def select(ctx: Context, x: Expr, dim: int, index: Any) -> Expr:
    """One slice along an axis, without it."""
    axis = axis_of(dim, ndim_of(x))
    size = as_int(dims_of(x)[axis])
    if isinstance(index, int) and index < 0 and size is not None:
        index += size
    if not isinstance(index, int):
        part = _cut_inside(ctx, x, axis, index, as_prim(1, _INDEX))
        if part is not None:
            return ctx.call(squeeze, part, axis)
    end = END if index == -1 else index + 1
    return ctx.call(squeeze, cut(ctx, x, axis, index, end), axis)


def _is_whole(x: Expr, axis: int, start: Any, end: Any, step: int) -> bool:
    size = as_int(dims_of(x)[axis])
    covers = as_int(end) is not None and (int(end) >= END or (size is not None and int(end) >= size))
    return step == 1 and as_int(start) == 0 and covers


@converts("aten.slice.Tensor", "aten.narrow.default", "aten.narrow_copy.default")
def slice_(ctx: Context, x: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Expr:
    """Every `step`-th element of a range; ends outside the axis are limited to it."""
    axis = axis_of(dim, ndim_of(x))
    first = 0 if start is None else start
    last = END if end is None else end
    if "narrow" in str(ctx.node.target):
        first = first + dims_of(x)[axis] if isinstance(first, int) and first < 0 else first
        last = first + last
    first, last = (value.value if isinstance(value, IntImm) else value for value in (first, last))
    if not isinstance(step, int):
        ctx.refuse("its step varies")
    if _is_whole(x, axis, first, last, step):
        return x
    if as_int(dims_of(x)[axis]) is None or not (isinstance(first, int) and isinstance(last, int)):
        is_known = not ctx.symbols.is_of_values(as_prim(last, _INDEX))
        part = _cut_inside(ctx, x, axis, first, ctx.out_shape[axis], step) if is_known else None
        if part is not None:
            return part
    return cut(ctx, x, axis, first, last, step)


@converts("aten.flip.default")
def flip_(ctx: Context, x: Expr, dims: list[int]) -> Expr:
    """Axes reversed."""
    for axis in dims:
        x = ctx.call(flip, x, axis_of(axis, ndim_of(x))) if ndim_of(x) else x
    return x


@converts("aten.roll.default")
def roll(ctx: Context, x: Expr, shifts: Any, dims: Any = ()) -> Expr:
    """Elements moved along axes; what falls off the end comes back at the start."""
    moves = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        flat = shaped(ctx, x, ctx.symbols.shape([ctx.result().numel()]))
        return shaped(ctx, _rolled(ctx, flat, moves[0], 0), dims_of(x))
    for shift, axis in zip(moves, axes, strict=True):
        x = _rolled(ctx, x, shift, axis_of(axis, ndim_of(x)))
    return x


def _rolled(ctx: Context, x: Expr, shift: Any, axis: int) -> Expr:
    size = as_int(dims_of(x)[axis])
    if size is None or not isinstance(shift, int):
        return varying.rolled(ctx, x, shift, axis)
    place = -shift % size if size else 0
    if place == 0:
        return x
    return ctx.call(concat, [cut(ctx, x, axis, place, END), cut(ctx, x, axis, 0, place)], axis)


@converts("aten.slice_scatter.default")
def slice_scatter(
    ctx: Context, x: Expr, source: Expr, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Expr:
    """`x` with a slice replaced."""
    axis = axis_of(dim, ndim_of(x))
    size = as_int(dims_of(x)[axis])
    if size is None or any(value is not None and not isinstance(value, int) for value in (start, end)):
        first, last = 0 if start is None else start, END if end is None else end
        return varying.assigned(ctx, x, ctx.cast(source, dtype_of(x)), axis, first, last, step)
    places = range(*slice(start, end, step).indices(size))
    if not places:
        return x
    taken: list[Any] = [*dims_of(x)[:axis], len(places), *dims_of(x)[axis + 1 :]]
    filled = ctx.call(broadcast_to, ctx.cast(source, dtype_of(x)), ShapeExpr(tuple(taken)))
    if step != 1 and len(places) > 1:
        order = np.arange(size)
        order[list(places)] = size + np.arange(len(places))
        return ctx.call(take, ctx.call(concat, [x, filled], axis), Constant(order), axis)
    parts = [cut(ctx, x, axis, 0, places[0])] if places[0] else []
    parts.append(filled)
    if places[-1] + 1 < size:
        parts.append(cut(ctx, x, axis, places[-1] + 1, END))
    return parts[0] if len(parts) == 1 else ctx.call(concat, parts, axis)


@converts("aten.select_scatter.default")
def select_scatter(ctx: Context, x: Expr, source: Expr, dim: int, index: Any) -> Expr:
    """`x` with one slice replaced."""
    axis = axis_of(dim, ndim_of(x))
    size = as_int(dims_of(x)[axis])
    if size is None or not isinstance(index, int):
        return varying.one_assigned(ctx, x, ctx.cast(source, dtype_of(x)), axis, index)
    place = index % size
    return slice_scatter(ctx, x, ctx.call(expand_dims, source, axis), axis, place, place + 1)


@converts("aten.pixel_shuffle.default", "aten.pixel_unshuffle.default")
def pixel_shuffle(ctx: Context, x: Expr, factor: int) -> Expr:
    """Blocks of channels as blocks of pixels, or back."""
    *batch, channels, height, width = dims_of(x)
    n = len(batch)
    if "unshuffle" in str(ctx.node.target):
        parts: list[Any] = [*batch, channels, height // factor, factor, width // factor, factor]
        order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    else:
        parts = [*batch, channels // (factor * factor), factor, factor, height, width]
        order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    spread = ctx.call(permute_dims, ctx.call(reshape, x, ShapeExpr(tuple(parts))), order)
    return shaped(ctx, spread, ctx.out_shape)


@converts("aten.channel_shuffle.default")
def channel_shuffle(ctx: Context, x: Expr, groups: int) -> Expr:
    """Channels of groups interleaved."""
    n, channels, *space = dims_of(x)
    parts: tuple[Any, ...] = (n, groups, channels // groups, *space)
    turned = ctx.call(permute_dims, ctx.call(reshape, x, ShapeExpr(parts)), [0, 2, 1, *range(3, len(parts))])
    return shaped(ctx, turned, dims_of(x))


@converts("aten.meshgrid.default", "aten.meshgrid.indexing")
def meshgrid(ctx: Context, tensors: list[Expr], *, indexing: str = "ij") -> list[Expr]:
    """Each vector spread over a common grid."""
    grids: list[Expr] = []
    for i, x in enumerate(tensors):
        place = 1 - i if indexing == "xy" and i < 2 and len(tensors) > 1 else i
        shape = ctx.symbols.shape(ctx.value[i].shape)
        spread = [shape[place] if axis == place else 1 for axis in range(len(shape))]
        grids.append(broadcast_to(reshape(x, spread, span=ctx.span), ShapeExpr(shape), span=ctx.span))
    return grids


@converts("aten.diff.default")
def diff(
    ctx: Context, x: Expr, n: int = 1, dim: int = -1, prepend: Expr | None = None, append: Expr | None = None
) -> Expr:
    """Differences of neighbours; of none the tensor itself, without what is to be put at its ends."""
    if n == 0:
        return x
    axis = axis_of(dim, ndim_of(x))
    parts = [part for part in (prepend, x, append) if part is not None]
    x = x if len(parts) == 1 else ctx.call(concat, parts, axis)
    if dtype_of(x) == "bool":
        ctx.refuse("differences of bool")
    for _ in range(n):
        x = ctx.call(subtract, *_neighbours(ctx, x, axis))
    return x


def _neighbours(ctx: Context, x: Expr, axis: int) -> tuple[Expr, Expr]:
    """All but the first, and all but the last, along an axis."""
    rest = simplify(add(dims_of(x)[axis], -1))
    after, before = (_cut_inside(ctx, x, axis, begin, rest) for begin in (1, 0))
    if after is None or before is None:
        return cut(ctx, x, axis, 1, END), cut(ctx, x, axis, 0, -1)
    return after, before
