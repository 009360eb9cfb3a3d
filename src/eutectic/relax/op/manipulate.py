"""Operators that move elements: permute_dims, broadcast_to, concat, stack, split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node, replace
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeStructInfo, as_shape
from eutectic.relax.expr import Call
from eutectic.relax.expr import Tuple as TupleExpr
from eutectic.relax.op.along_axes import AxisPlaces
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import lower, of_sizes, result_shape
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import always, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import not_along_first
from eutectic.relax.op.shapes import (
    axes_of,
    axis_of,
    ceil_div,
    differ,
    dims_text,
    int_of,
    ints_of,
    is_one,
    product,
    reject,
    same,
    static,
    tensor_info,
)
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.te import Tensor

_permute_dims = define_op("relax.permute_dims", arity=1, fusion="injective")
_broadcast_to = define_op("relax.broadcast_to", arity=2, fusion="broadcast")
_concat = define_op("relax.concat", arity=1, fusion="injective")
_stack = define_op("relax.stack", arity=1, fusion="injective")
_split = define_op("relax.split", arity=1, fusion="injective")
_broadcast_to.identity(always)


@_permute_dims.identity
def _keeps_order(c: Call) -> bool:
    axes = c.attrs["axes"] if c.attrs is not None else None
    info = c.args[0].struct_info
    rank = info.ndim if isinstance(info, TensorStructInfo) else -1
    return axes is not None and [axis % rank for axis in axes] == list(range(rank))


_BLOCK: Final = 256


@node("relax.attrs.PermuteDimsAttrs")
class PermuteDimsAttrs(Attrs):
    """The order of the axes; None reverses them."""

    axes: tuple[int, ...] | None = None


@node("relax.attrs.ConcatAttrs")
class ConcatAttrs(Attrs):
    """The axis along which tensors are joined; None flattens them first."""

    axis: int | None = 0


@node("relax.attrs.StackAttrs")
class StackAttrs(Attrs):
    """The place of the new axis."""

    axis: int = 0


@node("relax.attrs.SplitAttrs")
class SplitAttrs(Attrs):
    """A number of sections, or the places of the cuts."""

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0


def permute_dims(x: Expr, axes: Sequence[int] | None = None, *, span: Any = None) -> Call:
    """`x` with its axes in another order.

    Args:
        x: Any shape and dtype.
        axes: For each axis of the result, the axis of `x` it is; None reverses all.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `x` in the order of `axes`, dtype of `x`.

    Raises:
        TypeInferenceError: `axes` is not a permutation of the axes of `x`.

    Reference: TVM relax.permute_dims; numpy.transpose.
    """
    attrs = PermuteDimsAttrs(None if axes is None else ints_of(axes, "axes"))
    return call(_permute_dims, x, attrs=attrs, span=span)


@_permute_dims.separable
def _permute_dims_separable(c: Call, batched: Sequence[bool]) -> bool:
    axes = attrs_of(c, PermuteDimsAttrs).axes
    return all(batched) and axes is not None and not_along_first(axes[1:], len(axes))


@_permute_dims.infer
def _infer_permute_dims(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    axes = attrs_of(c, PermuteDimsAttrs).axes
    ndim = info.ndim if info.ndim >= 0 or axes is None else len(axes)
    if ndim < 0:
        return tensor_info(None, info.dtype)
    if axes is not None and len(axes) != ndim:
        refuse(c, f"permute_dims got {len(axes)} axes for a tensor with {ndim}", help="name every axis once")
    order = tuple(reversed(range(ndim))) if axes is None else axes_of(c, axes, ndim)
    return tensor_info(None if info.dims is None else [info.dims[axis] for axis in order], info.dtype, ndim)


@_permute_dims.reference
def _reference_permute_dims(attrs: PermuteDimsAttrs, x: Array) -> Array:
    if x.ndim == 2 and x.size > _BLOCK * _BLOCK and attrs.axes in (None, (1, 0)):
        return _transposed(x)
    return np.transpose(x, attrs.axes)


lower(_permute_dims, topi.transpose, options=lambda attrs: {"axes": attrs.axes})


def _transposed(x: Array) -> Array:
    """A matrix transposed block by block, which the caches like five times better than row by row."""
    rows, columns = x.shape
    out = np.empty((columns, rows), x.dtype)
    for i in range(0, rows, _BLOCK):
        for j in range(0, columns, _BLOCK):
            out[j : j + _BLOCK, i : i + _BLOCK] = x[i : i + _BLOCK, j : j + _BLOCK].T
    return out


def broadcast_to(x: Expr, shape: Sequence[PrimExpr | int] | Expr, *, span: Any = None) -> Call:
    """`x` repeated along axes of size one, and along new leading axes, to fill a shape.

    Args:
        x: Any dtype; each size is 1 or that of `shape`, counted from the last axis.
        shape: The sizes of the result.
        span: Python source of the call, for errors.

    Returns:
        `shape`, dtype of `x`.

    Raises:
        TypeInferenceError: `x` has more axes than `shape`, or a size that is neither 1 nor the wanted one.

    Reference: TVM relax.broadcast_to; numpy.broadcast_to.
    """
    return call(_broadcast_to, x, as_shape(shape), span=span)


@_broadcast_to.infer
def _infer_broadcast_to(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    shape = c.args[1].struct_info
    if not isinstance(shape, ShapeStructInfo):
        refuse(c, "argument 1 of broadcast_to must be a shape", help="pass the sizes as a tuple")
    fits = info.ndim <= shape.ndim or shape.ndim < 0
    if fits and info.dims is not None and shape.values is not None:
        pairs = zip(reversed(info.dims), reversed(shape.values), strict=False)
        fits = not any(differ(size, wanted) and differ(size, as_prim(1)) for size, wanted in pairs)
    if not fits:
        refuse(
            c,
            f"broadcast_to of {dims_text(info.dims)} to {dims_text(shape.values)}",
            help="each size must be 1 or the wanted one, counted from the last axis",
        )
    return tensor_info(shape.values, info.dtype, shape.ndim)


@_broadcast_to.reference
def _reference_broadcast_to(attrs: None, x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape).copy()


@_broadcast_to.legalize
def _legalize_broadcast_to(builder: Builder, c: Call) -> Expr:
    (info,) = tensor_args(c, (0,))
    shape = result_shape(c)
    assert info.dims is not None
    pairs = zip(reversed(info.dims), reversed(shape.values), strict=False)
    if not all(is_one(size) or same(size, wanted) for size, wanted in pairs):
        return c  # the run time alone knows whether the axis is repeated
    return builder.call_te(topi.broadcast_to, c.args[0], shape)


def _fields(c: Call) -> list[TensorStructInfo]:
    """Struct info of the tensors of a tuple argument, at least one and of one dtype."""
    info = c.args[0].struct_info
    if not isinstance(info, TupleStructInfo):
        refuse(c, f"argument 0 of {short_name(c)} must be a tuple of tensors")
    infos = [item for item in info.fields if isinstance(item, TensorStructInfo)]
    if len(infos) != len(info.fields) or not infos:
        refuse(c, f"{short_name(c)} needs at least one tensor, and only tensors")
    if len({item.dtype for item in infos if item.dtype}) > 1:
        refuse(
            c,
            f"{short_name(c)} of different dtypes: {', '.join(item.dtype for item in infos)}",
            help="cast with astype so that all dtypes agree",
        )
    if len({item.ndim for item in infos if item.ndim >= 0}) > 1:
        refuse(
            c,
            f"{short_name(c)} of tensors with different numbers of axes: "
            f"{' and '.join(dims_text(item.dims) for item in infos)}",
            help="add axes with expand_dims",
        )
    return infos


def _one_dtype(infos: Sequence[TensorStructInfo]) -> str:
    return infos[0].dtype if all(info.dtype for info in infos) else ""


def _agreed(c: Call, infos: Sequence[TensorStructInfo], skip: int | None) -> list[PrimExpr] | None:
    """The sizes that all tensors share; at `skip` they may differ."""
    known = [info.dims for info in infos if info.dims is not None]
    for first, second in pairwise(known):
        for axis, (a, b) in enumerate(zip(first, second, strict=True)):
            if axis != skip and differ(a, b):
                refuse(
                    c,
                    f"{short_name(c)} of {dims_text(first)} and {dims_text(second)}: axis {axis} differs",
                    help="all sizes but that of the joined axis must agree" if skip is not None else None,
                )
    return list(known[0]) if known else None


def concat(tensors: Expr | Sequence[Expr], axis: int | None = 0, *, span: Any = None) -> Call:
    """Tensors joined along an axis.

    Args:
        tensors: At least one, of one dtype and rank; all sizes but that of `axis` agree.
        axis: The axis; None joins the flattened tensors.
        span: Python source of the call, for errors.

    Returns:
        The common sizes, and along `axis` their sum.

    Raises:
        TypeInferenceError: dtypes, ranks or other sizes differ, or there is no such axis.

    Reference: TVM relax.concat; numpy.concatenate.
    """
    attrs = ConcatAttrs(None if axis is None else int_of(axis, "axis"))
    return call(_concat, tensors, attrs=attrs, span=span)


@_concat.infer
def _infer_concat(c: Call) -> TensorStructInfo:
    infos, stated_axis = _fields(c), attrs_of(c, ConcatAttrs).axis
    dtype, complete = _one_dtype(infos), all(info.dims is not None for info in infos)
    if stated_axis is None:
        counts = [product(info.dims) for info in infos if info.dims is not None]
        return tensor_info([simplify(sum(counts, start=as_prim(0)))] if complete else None, dtype, 1)
    ndim = max(info.ndim for info in infos)
    if ndim < 0:
        return tensor_info(None, dtype)
    axis = axis_of(c, stated_axis, ndim)
    sizes = _agreed(c, infos, axis)
    if sizes is None or not complete:
        return tensor_info(None, dtype, ndim)
    sizes[axis] = simplify(sum((info.dims[axis] for info in infos if info.dims is not None), start=as_prim(0)))
    return tensor_info(sizes, dtype)


@_concat.separable
def _concat_separable(c: Call, batched: Sequence[bool]) -> bool:
    axis = attrs_of(c, ConcatAttrs).axis
    return all(batched) and axis is not None and not_along_first([axis], _fields(c)[0].ndim)


@_concat.along_axes
def _concat_along_axes(c: Call, places: AxisPlaces) -> Call | None:
    axis = attrs_of(c, ConcatAttrs).axis
    place = None if axis is None else places.place(axis)
    return None if place is None else replace(c, attrs=ConcatAttrs(place))


@_concat.reference
def _reference_concat(attrs: ConcatAttrs, tensors: Sequence[Array]) -> Array:
    return np.concatenate(tensors, axis=attrs.axis)


def _concatenated(tensors: Sequence[Tensor], axis: int | None) -> Tensor:
    flat = [topi.reshape(x, (product(x.shape),)) for x in tensors] if axis is None else tensors
    return topi.concatenate(flat, axis or 0)


@_concat.legalize
def _legalize_concat(builder: Builder, c: Call) -> Expr:
    axis = attrs_of(c, ConcatAttrs).axis
    tensors = c.args[0] if axis is None else _of_one_shape(builder, c, axis)
    return builder.call_te(_concatenated, tensors, axis, primfunc_name_hint="concatenate")


def _of_one_shape(builder: Builder, c: Call, skip: int | None) -> TupleExpr:
    """The tensors of a tuple with the sizes of the first; at `skip` they may differ."""
    tensors, first = c.args[0], _fields(c)[0]
    assert isinstance(tensors, TupleExpr) and first.dims is not None
    along = None if skip is None else skip % first.ndim
    wanted = {axis: size for axis, size in enumerate(first.dims) if axis != along}
    return TupleExpr(tuple(of_sizes(builder, x, wanted) for x in tensors.fields))


def stack(tensors: Expr | Sequence[Expr], axis: int = 0, *, span: Any = None) -> Call:
    """Tensors of one shape joined along a new axis.

    Args:
        tensors: At least one, of one dtype and shape.
        axis: Place of the new axis in the result.
        span: Python source of the call, for errors.

    Returns:
        The common sizes with the number of tensors at `axis`.

    Raises:
        TypeInferenceError: dtypes or shapes differ, or there is no such axis.

    Reference: TVM relax.stack; numpy.stack.
    """
    return call(_stack, tensors, attrs=StackAttrs(int_of(axis, "axis")), span=span)


@_stack.infer
def _infer_stack(c: Call) -> TensorStructInfo:
    infos = _fields(c)
    ndim = max(info.ndim for info in infos)
    if ndim < 0:
        return tensor_info(None, _one_dtype(infos))
    axis = axis_of(c, attrs_of(c, StackAttrs).axis, ndim + 1)
    sizes = _agreed(c, infos, None)
    if sizes is None or any(info.dims is None for info in infos):
        return tensor_info(None, _one_dtype(infos), ndim + 1)
    return tensor_info([*sizes[:axis], len(infos), *sizes[axis:]], _one_dtype(infos))


@_stack.reference
def _reference_stack(attrs: StackAttrs, tensors: Sequence[Array]) -> Array:
    return np.stack(tensors, axis=attrs.axis)


@_stack.legalize
def _legalize_stack(builder: Builder, c: Call) -> Expr:
    return builder.call_te(topi.stack, _of_one_shape(builder, c, None), attrs_of(c, StackAttrs).axis)


def split(x: Expr, indices_or_sections: int | Sequence[int], axis: int = 0, *, span: Any = None) -> Call:
    """`x` cut into pieces along an axis.

    Args:
        x: Any shape and dtype.
        indices_or_sections: Number of pieces, each of the rounded-up quotient and the
            last one shorter; or the places of the cuts, not decreasing.
        axis: The axis to cut.
        span: Python source of the call, for errors.

    Returns:
        A tuple of the pieces.

    Raises:
        TypeInferenceError: no such axis, pieces would be negative, or cuts decrease.

    Reference: TVM relax.split; numpy.split for cuts.
    """
    single = not isinstance(indices_or_sections, (list, tuple))
    places = ints_of(indices_or_sections, "indices_or_sections")
    if single and places[0] < 1:
        reject(f"split into {places[0]} sections", help="give a positive number of sections")
    if not single and (any(a > b for a, b in pairwise(places)) or (places and places[0] < 0)):
        reject(f"split at {list(places)}: cuts must not decrease or be negative")
    attrs = SplitAttrs(places[0] if single else places, int_of(axis, "axis"))
    return call(_split, x, attrs=attrs, span=span)


@_split.infer
def _infer_split(c: Call) -> TupleStructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, SplitAttrs)
    cuts = attrs.indices_or_sections
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    if info.ndim < 0:
        return TupleStructInfo((tensor_info(None, info.dtype),) * count)
    axis = axis_of(c, attrs.axis, info.ndim)
    if info.dims is None:
        return TupleStructInfo((tensor_info(None, info.dtype, info.ndim),) * count)
    pieces = _pieces(c, info.dims[axis], cuts)
    if pieces is None:
        return TupleStructInfo((tensor_info(None, info.dtype, info.ndim),) * count)
    dims = info.dims
    return TupleStructInfo(tuple(tensor_info((*dims[:axis], piece, *dims[axis + 1 :]), info.dtype) for piece in pieces))


def _pieces(c: Call, size: PrimExpr, cuts: int | tuple[int, ...]) -> list[PrimExpr] | None:
    known = static(size)
    if isinstance(cuts, int):
        each = simplify(ceil_div(size, cuts))
        last = simplify(size - each * (cuts - 1))
        if (static(last) or 0) < 0:
            refuse(c, f"split of {known} elements into {cuts} sections", help="ask for fewer sections")
        return [*[each] * (cuts - 1), last]
    if known is None:
        return None if cuts else [size]
    places = [0, *(min(cut, known) for cut in cuts), known]
    return [as_prim(b - a) for a, b in pairwise(places)]


@_split.separable
def _split_separable(c: Call, batched: Sequence[bool]) -> bool:
    (data,) = tensor_args(c)
    return all(batched) and not_along_first([attrs_of(c, SplitAttrs).axis], data.ndim)


@_split.along_axes
def _split_along_axes(c: Call, places: AxisPlaces) -> Call | None:
    attrs = attrs_of(c, SplitAttrs)
    place = places.place(attrs.axis)
    if place is None or places.keeps(attrs.axis):
        return None if place is None else replace(c, attrs=replace(attrs, axis=place))
    cuts = [None if cut is None else places.steps(attrs.axis, cut) for cut in _cuts(c)]
    inside = tuple(cut for cut in cuts if cut is not None)
    return replace(c, attrs=SplitAttrs(inside, place)) if len(inside) == len(cuts) else None


def _cuts(c: Call) -> list[int | None]:
    """Where the pieces but the first begin; None where that is not known."""
    (info,), attrs = tensor_args(c), attrs_of(c, SplitAttrs)
    pieces = None if info.dims is None else _pieces(c, info.dims[attrs.axis], attrs.indices_or_sections)
    if pieces is None:
        return [None]
    return [static(simplify(place)) for place in accumulate(pieces[:-1])]


@_split.reference
def _reference_split(attrs: SplitAttrs, x: Array) -> tuple[Array, ...]:
    cuts, size = attrs.indices_or_sections, x.shape[attrs.axis]
    if isinstance(cuts, int):
        each = -(-size // cuts)
        cuts = tuple(each * i for i in range(1, cuts))
    return tuple(piece.copy() for piece in np.split(x, cuts, axis=attrs.axis))


@_split.legalize
def _legalize_split(builder: Builder, c: Call) -> Expr:
    info, attrs = c.args[0].struct_info, attrs_of(c, SplitAttrs)
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return c
    axis = axis_of(c, attrs.axis, info.ndim)
    pieces = _pieces(c, info.dims[axis], attrs.indices_or_sections)
    if pieces is None:
        return c
    if len(pieces) == 1:
        return TupleExpr((c.args[0],), span=c.span)
    return builder.call_te(topi.split_at, c.args[0], pieces, axis, primfunc_name_hint="split")
