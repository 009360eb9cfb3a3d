"""Operators that pick elements by position: take, gather_elements, strided_slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import node, replace
from eutectic.ir.prim_expr import IntImm, Max, Min, PrimExpr, as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, PrimValue, Tuple, convert
from eutectic.relax.op.along_axes import AxisPlaces
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import lower, result_shape
from eutectic.relax.op.numerics import Array, check_indices
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import not_along_first
from eutectic.relax.op.shapes import axes_of, axis_of, ceil_div, dims_text, int_of, reject, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo

_take = define_op("relax.take", arity=2, fusion="injective")
_gather = define_op("relax.gather_elements", arity=2, fusion="injective")
_slice = define_op("relax.strided_slice", arity=(4, 5), fusion="injective")

TAKE_MODES: Final = ("fast", "clip", "wrap", "nan")


@node("relax.attrs.TakeAttrs")
class TakeAttrs(Attrs):
    """The axis that is indexed, and what happens to indices outside it."""

    axis: int | None = None
    mode: str = "fast"


@node("relax.attrs.GatherElementsAttrs")
class GatherElementsAttrs(Attrs):
    """The axis that is indexed."""

    axis: int = 0


@node("relax.attrs.StridedSliceAttrs")
class StridedSliceAttrs(Attrs):
    """Whether begins and ends are known to be inside, and need no clipping."""

    assume_inbound: bool = False


def _need_integers(c: Call, info: TensorStructInfo) -> None:
    if info.dtype and not is_integer(info.dtype):
        refuse(c, f"indices of {short_name(c)} must be integers, got {info.dtype}", help="cast them with astype")


def take(x: Expr, indices: Expr, axis: int | None = None, mode: str = "fast", *, span: Any = None) -> Call:
    """The slices of `x` at some positions of an axis.

    Args:
        x: Any shape and dtype.
        indices: Any shape, integers.
        axis: The axis; None is allowed when `x` has one.
        mode: What an index outside `[0, size)` means: `fast` an error, `clip` the nearest
            position, `wrap` the remainder by the size, `nan` a slice of NaN.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `x` with those of `indices` in place of the axis, dtype of `x`.

    Raises:
        TypeInferenceError: no such axis or mode, indices that are not integers, or NaN for integers.
        CallError: at run time, an index is outside and the mode is `fast`.

    Reference: TVM relax.take, where `fast` is undefined behaviour instead of an error; numpy.take.
    """
    if mode not in TAKE_MODES:
        reject(f"take has no mode {mode!r}", help=f"choose one of {', '.join(TAKE_MODES)}")
    attrs = TakeAttrs(None if axis is None else int_of(axis, "axis"), mode)
    return call(_take, x, indices, attrs=attrs, span=span)


@_take.infer
def _infer_take(c: Call) -> TensorStructInfo:
    info, indices = tensor_args(c)
    attrs = attrs_of(c, TakeAttrs)
    _need_integers(c, indices)
    if attrs.mode == "nan" and info.dtype and not is_float(info.dtype):
        refuse(c, f"take with mode nan of {info.dtype}, which has no NaN", help="choose another mode")
    if attrs.axis is None and info.ndim not in (-1, 1):
        refuse(c, f"take without an axis of {dims_text(info.dims)}", help="give the axis, or flatten first")
    if info.ndim < 0 or indices.ndim < 0:
        return tensor_info(None, info.dtype)
    axis = axis_of(c, attrs.axis or 0, info.ndim)
    if info.dims is None or indices.dims is None:
        return tensor_info(None, info.dtype, info.ndim + indices.ndim - 1)
    return tensor_info((*info.dims[:axis], *indices.dims, *info.dims[axis + 1 :]), info.dtype)


@_take.reference
def _reference_take(attrs: TakeAttrs, x: Array, indices: Array) -> Array:
    axis = attrs.axis or 0
    size = x.shape[axis]
    if attrs.mode in ("clip", "wrap") and size:
        places = np.clip(indices, 0, size - 1) if attrs.mode == "clip" else np.mod(indices.astype(np.int64), size)
        return np.take(x, places, axis=axis)
    if attrs.mode == "nan" and size:
        outside = (indices < 0) | (indices >= size)
        out = np.take(x, np.where(outside, 0, indices), axis=axis)
        mask = outside.reshape(outside.shape + (1,) * (x.ndim - 1 - axis % x.ndim))
        return np.where(mask, np.asarray(np.nan, x.dtype), out)
    check_indices(indices, size, "take")
    return np.take(x, indices, axis=axis)


lower(_take, topi.take, options=lambda attrs: {"axis": attrs.axis or 0, "mode": attrs.mode})


def gather_elements(data: Expr, indices: Expr, axis: int = 0, *, span: Any = None) -> Call:
    """One element of `data` per element of `indices`, which replaces the position along an axis.

    Args:
        data: Any shape and dtype.
        indices: As many axes as `data`; integers in `[0, size)`. Sizes of the other axes are at
            most those of `data`.
        axis: The axis.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `indices`, dtype of `data`.

    Raises:
        TypeInferenceError: no such axis, indices that are not integers, other ranks, or too large sizes.
        CallError: at run time, an index is outside.

    Reference: torch.gather; TVM relax.gather_elements.
    """
    return call(_gather, data, indices, attrs=GatherElementsAttrs(int_of(axis, "axis")), span=span)


@_gather.infer
def _infer_gather(c: Call) -> TensorStructInfo:
    data, indices = tensor_args(c)
    _need_integers(c, indices)
    if min(data.ndim, indices.ndim) >= 0:
        axis = axis_of(c, attrs_of(c, GatherElementsAttrs).axis, data.ndim)
        wrong = data.ndim != indices.ndim
        if not wrong and data.dims is not None and indices.dims is not None:
            pairs = [(static(a), static(b)) for a, b in zip(data.dims, indices.dims, strict=True)]
            wrong = any(i != axis and a is not None and b is not None and b > a for i, (a, b) in enumerate(pairs))
        if wrong:
            refuse(
                c,
                f"gather_elements from {dims_text(data.dims)} with indices {dims_text(indices.dims)}",
                help="indices need as many axes, and sizes no larger but along the axis",
            )
    return TensorStructInfo(indices.shape, data.dtype, ndim=indices.ndim)


@_gather.reference
def _reference_gather(attrs: GatherElementsAttrs, data: Array, indices: Array) -> Array:
    axis = attrs.axis % data.ndim
    check_indices(indices, data.shape[axis], "gather_elements")
    part = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))
    return np.take_along_axis(data[part], indices.astype(np.int64), axis=axis)


@_gather.legalize
def _legalize_gather(builder: Builder, c: Call) -> Expr:
    axis = attrs_of(c, GatherElementsAttrs).axis
    return builder.call_te(topi.gather, c.args[0], axis, c.args[1], primfunc_name_hint="gather_elements")


def strided_slice(
    x: Expr,
    axes: Sequence[int] | Expr,
    begin: Sequence[Any] | Expr,
    end: Sequence[Any] | Expr,
    strides: Sequence[Any] | Expr | None = None,
    assume_inbound: bool = False,
    *,
    span: Any = None,
) -> Call:
    """Every `stride`-th element of `[begin, end)` along some axes.

    Args:
        x: Any shape and dtype.
        axes: Which axes.
        begin: First position per axis; negative ones count from the end. Clipped to the axis.
        end: Position after the last, per axis; negative ones count from the end. Clipped.
        strides: Steps, not zero; a negative one walks backwards. None means 1.
        assume_inbound: Whether symbolic begins and ends are known to lie inside.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `x`, along each axis the number of elements taken.

    Raises:
        TypeInferenceError: no such axis, an axis twice, numbers of values that differ, or a step of zero.

    Reference: TVM relax.strided_slice; Python's slices.
    """
    arguments = [_scalars(axes), _scalars(begin), _scalars(end), *([] if strides is None else [_scalars(strides)])]
    return call(_slice, x, *arguments, attrs=StridedSliceAttrs(bool(assume_inbound)), span=span)


def _scalars(values: Any) -> Expr:
    if isinstance(values, Expr):
        return values
    return convert(tuple(values) if isinstance(values, (list, tuple)) else (values,))


def _values(c: Call, place: int, name: str) -> list[PrimExpr] | None:
    """The scalars of a tuple argument, or None when they are not literal."""
    arg = c.args[place]
    if not isinstance(arg, Tuple):
        return None
    scalars = [item.value for item in arg.fields if isinstance(item, PrimValue)]
    if len(scalars) != len(arg.fields):
        refuse(c, f"{name} of strided_slice must be integers or scalars")
    return scalars


def _slices(c: Call) -> tuple[list[PrimExpr] | None, ...]:
    """Axes, begins, ends and strides of a slice; None for what is not literal."""
    axes, begin, end = _values(c, 1, "axes"), _values(c, 2, "begin"), _values(c, 3, "end")
    strides = _values(c, 4, "strides") if len(c.args) > 4 else [as_prim(1)] * len(axes or ())
    return axes, begin, end, strides


@_slice.infer
def _infer_slice(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    inbound = attrs_of(c, StridedSliceAttrs).assume_inbound
    axes, begin, end, strides = _slices(c)
    if axes is None or begin is None or end is None or strides is None:
        return tensor_info(None, info.dtype, info.ndim)
    if not len(axes) == len(begin) == len(end) == len(strides):
        refuse(c, f"strided_slice got {len(axes)} axes, {len(begin)} begins, {len(end)} ends, {len(strides)} strides")
    if any(static(stride) == 0 for stride in strides):
        refuse(c, "strided_slice with a step of zero", help="give a positive or negative step")
    if info.ndim < 0:
        return tensor_info(None, info.dtype)
    places = axes_of(c, [axis.value for axis in axes if isinstance(axis, IntImm)], info.ndim)
    if info.dims is None:
        return tensor_info(None, info.dtype, info.ndim)
    sizes: list[PrimExpr] = list(info.dims)
    for axis, first, last, stride in zip(places, begin, end, strides, strict=True):
        size = _taken(sizes[axis], first, last, stride, inbound)
        if size is None:
            return tensor_info(None, info.dtype, info.ndim)
        sizes[axis] = size
    return tensor_info(sizes, info.dtype)


def _taken(size: PrimExpr, begin: PrimExpr, end: PrimExpr, stride: PrimExpr, inbound: bool) -> PrimExpr | None:
    """Number of elements of a slice, or None when it cannot be written down."""
    known, first, last, step = static(size), static(begin), static(end), static(stride)
    if known is not None and first is not None and last is not None and step is not None:
        return as_prim(len(range(*slice(first, last, step).indices(known))))
    if step is None or step < 0:
        return None
    if inbound:
        return simplify(ceil_div(end - begin, step))
    low, high = _clipped(size, begin), _clipped(size, end)
    if low is None or high is None:
        return None
    span = simplify(high - low)
    return simplify(ceil_div(span if first == 0 else Max(as_prim(0, span.dtype), span), step))


def _clipped(size: PrimExpr, position: PrimExpr) -> PrimExpr | None:
    """A begin or end of a slice limited to `[0, size]`; None for an expression of unknown sign."""
    known = static(position)
    if known is None:
        return None
    if known == 0:
        return as_prim(0)
    if known >= 2**31 - 1:
        return size
    return Max(size + known, as_prim(0)) if known < 0 else Min(as_prim(known), size)


@_slice.separable
def _slice_separable(c: Call, batched: Sequence[bool]) -> bool:
    (data,), axes = tensor_args(c, (0,)), _slices(c)[0]
    known = [number for axis in axes or () if (number := static(axis)) is not None]
    return all(batched) and axes is not None and len(known) == len(axes) and not_along_first(known, data.ndim)


@_slice.along_axes
def _slice_along_axes(c: Call, places: AxisPlaces) -> Call | None:
    (info,) = tensor_args(c, (0,))
    axes, begin, end, strides = _slices(c)
    if info.dims is None or axes is None or begin is None or end is None or strides is None:
        return None
    moved: list[tuple[int, PrimExpr, PrimExpr]] = []
    for number, first, last, stride in zip(axes, begin, end, strides, strict=True):
        axis = static(number)
        place = None if axis is None else places.place(axis)
        if axis is None or place is None:
            return None
        ends = (first, last) if places.keeps(axis) else _in_steps(places, axis, info.dims[axis], first, last, stride)
        if ends is None:
            return None
        moved.append((place, *ends))
    scalars = (_scalars([row[part] for row in moved]) for part in range(3))
    return replace(c, args=(c.args[0], *scalars, *c.args[4:]))


def _in_steps(
    places: AxisPlaces, axis: int, size: PrimExpr, first: PrimExpr, last: PrimExpr, stride: PrimExpr
) -> tuple[PrimExpr, PrimExpr] | None:
    """Begin and end of a slice of neighbours, in steps along an axis of another layout."""
    known, begin, end = static(size), static(first), static(last)
    if known is None or begin is None or end is None or static(stride) != 1:
        return None
    low, high, _ = slice(begin, end).indices(known)
    ends = places.steps(axis, low), places.steps(axis, high)
    return None if ends[0] is None or ends[1] is None else (as_prim(ends[0]), as_prim(ends[1]))


@_slice.reference
def _reference_slice(
    attrs: StridedSliceAttrs,
    x: Array,
    axes: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    part = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, begin, end, strides or [1] * len(axes), strict=True):
        size = x.shape[axis]
        indices = range(*slice(first, last, step).indices(size))
        stop = None if indices.stop < 0 else indices.stop
        part[axis] = slice(indices.start, stop, step) if len(indices) else slice(0, 0)
    return x[tuple(part)]


@_slice.legalize
def _legalize_slice(builder: Builder, c: Call) -> Expr:
    (info,) = tensor_args(c, (0,))
    axes, begin, end, strides = _slices(c)
    steps = [static(step) for step in strides or ()]
    if info.dims is None or axes is None or begin is None or end is None or None in steps:
        return c
    places = axes_of(c, [axis.value for axis in axes if isinstance(axis, IntImm)], info.ndim)
    sizes = [static(info.dims[axis]) for axis in places]
    if not any(static(value) is None for value in (*begin, *end)) and None not in sizes:
        bounds = ([static(value) for value in values] for values in (begin, end, strides or ()))
        return builder.call_te(topi.strided_slice, c.args[0], *bounds, places, primfunc_name_hint="strided_slice")
    inbound = attrs_of(c, StridedSliceAttrs).assume_inbound
    firsts = [first if inbound else _clipped(info.dims[axis], first) for axis, first in zip(places, begin, strict=True)]
    args = (c.args[0], places, firsts, steps, result_shape(c))
    return builder.call_te(topi.dynamic_strided_slice, *args, primfunc_name_hint="strided_slice")
