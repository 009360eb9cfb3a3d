"""Order of elements along an axis: sort, argsort, topk, median; their programs are those of `topi.ordering`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, TupleGetItem
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.op.lowering import own_sizes
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.reduce import StatisticalAttrs
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import axis_of, int_of, ints_of, like, product, reject, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.tir.function import PrimFunc
from eutectic.topi.ordering import median_program, sort_program

_SORT: Final = define_op("relax.sort", arity=1, fusion="opaque")
_ARGSORT: Final = define_op("relax.argsort", arity=1, fusion="opaque")
_TOPK: Final = define_op("relax.topk", arity=1, fusion="opaque")
_MEDIAN: Final = define_op("relax.median", arity=1, fusion="opaque")


@node("relax.attrs.SortAttrs")
class SortAttrs(Attrs):
    """The axis, and whether the largest element comes first."""

    axis: int = -1
    descending: bool = False


@node("relax.attrs.ArgsortAttrs")
class ArgsortAttrs(Attrs):
    """The axis, whether the largest element comes first, and the dtype of the places."""

    axis: int = -1
    descending: bool = False
    dtype: str = "int32"


@node("relax.attrs.TopKAttrs")
class TopKAttrs(Attrs):
    """How many elements along which axis, what is returned of them, whether the largest, and the dtype of places."""

    k: int = 1
    axis: int = -1
    ret_type: str = "both"
    largest: bool = True
    dtype: str = "int32"


def sort(x: Expr, axis: int = -1, descending: bool = False, *, span: Any = None) -> Call:
    """The elements along an axis in order.

    Args:
        x: At least one axis; any dtype.
        axis: The axis.
        descending: Whether the largest comes first. NaN counts as larger than all numbers.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x`.

    Raises:
        TypeInferenceError: no such axis.

    Reference: TVM relax.sort; numpy.sort.
    """
    return call(_SORT, x, attrs=SortAttrs(int_of(axis, "axis"), bool(descending)), span=span)


def argsort(data: Expr, axis: int = -1, descending: bool = False, dtype: str = "int32", *, span: Any = None) -> Call:
    """The places of the elements along an axis, in the order of the elements; equal ones in the order of places.

    Args:
        data: At least one axis; any dtype.
        axis: The axis.
        descending: Whether the largest comes first. NaN counts as larger than all numbers.
        dtype: An integer dtype, for the places.
        span: Python source of the call, for errors.

    Returns:
        Shape of `data`, `dtype`.

    Raises:
        TypeInferenceError: no such axis.

    Reference: TVM relax.argsort; numpy.argsort.
    """
    return call(_ARGSORT, data, attrs=ArgsortAttrs(int_of(axis, "axis"), bool(descending), dtype), span=span)


def topk(
    data: Expr,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    *,
    span: Any = None,
) -> Call:
    """The first elements along an axis, in order, and their places.

    Args:
        data: At least one axis; any dtype.
        k: How many; below one, all of them.
        axis: The axis.
        ret_type: `both`, `values` or `indices`.
        largest: Whether the largest ones, instead of the smallest.
        dtype: An integer dtype, for the places.
        span: Python source of the call, for errors.

    Returns:
        `k` in place of the size of the axis: the elements in the dtype of `data`, their places in `dtype`, or a tuple
        of both.

    Raises:
        TypeInferenceError: no such axis, another `ret_type`, or more elements than there are.

    Reference: TVM relax.topk.
    """
    if ret_type not in ("both", "values", "indices"):
        reject(f"topk has no ret_type {ret_type!r}", help="choose both, values or indices")
    attrs = TopKAttrs(int_of(k, "k"), int_of(axis, "axis"), ret_type, bool(largest), dtype)
    return call(_TOPK, data, attrs=attrs, span=span)


def median(x: Expr, axis: int | list[int] | None = None, keepdims: bool = False, *, span: Any = None) -> Call:
    """The element in the middle; of two, the lower one.

    Args:
        x: Numbers of any shape.
        axis: One axis; None takes all elements.
        keepdims: Whether the axis stays with size one.
        span: Python source of the call, for errors.

    Returns:
        The other sizes, dtype of `x`; with an axis a tuple with the places of the elements, int64.

    Raises:
        TypeInferenceError: several axes, no such axis, or no elements.

    Reference: TVM relax.median; torch.median.
    """
    axes = None if axis is None else ints_of(axis, "axis")
    if axes is not None and len(axes) != 1:
        reject(f"median along {len(axes)} axes", help="give one axis, or None for all elements")
    return call(_MEDIAN, x, attrs=StatisticalAttrs(axes, bool(keepdims)), span=span)


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Places in the order of the elements, stable in both directions; NaN is the largest."""
    wide = widen(x)
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    backwards = np.flip(wide, axis)
    return np.asarray(x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis))


def _along(c: Call, axis: int) -> TensorStructInfo:
    (info,) = tensor_args(c)
    if info.ndim >= 0:
        axis_of(c, axis, info.ndim)
    return info


@_SORT.infer
def _infer_sort(c: Call) -> TensorStructInfo:
    return like(_along(c, attrs_of(c, SortAttrs).axis))


@_SORT.reference
def _reference_sort(attrs: SortAttrs, x: Array) -> Array:
    return np.take_along_axis(x, _order(x, attrs.axis, attrs.descending), attrs.axis)


@_SORT.legalize
def _legalize_sort(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, SortAttrs)
    return _ordered(builder, c, attrs.axis, ["values"], descending=attrs.descending)


def _ordered(builder: Builder, c: Call, axis: int, results: list[str], **options: Any) -> Expr:
    """A call of the program that sorts the argument, where its shape is known."""
    (info,) = tensor_args(c)
    if info.dims is None or not info.dtype:
        return c
    return _called(builder, c, sort_program(own_sizes(info.dims, "n"), info.dtype, axis, results, **options))


def _called(builder: Builder, c: Call, program: PrimFunc) -> Expr:
    """A call of a program in the place of the operator's."""
    out = c.struct_info
    assert out is not None
    results = out.fields if isinstance(out, TupleStructInfo) else out
    return call_tir(builder.add_func(program, short_name(c)), c.args, results)


@_ARGSORT.infer
def _infer_argsort(c: Call) -> TensorStructInfo:
    attrs = attrs_of(c, ArgsortAttrs)
    return like(_along(c, attrs.axis), _places(c, attrs.dtype))


def _places(c: Call, dtype: str) -> str:
    if not dtype or is_float(dtype) or dtype == "bool":
        refuse(c, f"the places of {short_name(c)} must be of an integer dtype, got {dtype or 'none'}")
    return dtype


@_ARGSORT.reference
def _reference_argsort(attrs: ArgsortAttrs, x: Array) -> Array:
    return cast(_order(x, attrs.axis, attrs.descending), attrs.dtype)


@_ARGSORT.legalize
def _legalize_argsort(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, ArgsortAttrs)
    return _ordered(builder, c, attrs.axis, ["indices"], descending=attrs.descending, index_dtype=attrs.dtype)


@_TOPK.infer
def _infer_topk(c: Call) -> StructInfo:
    attrs = attrs_of(c, TopKAttrs)
    info = _along(c, attrs.axis)
    dims = None
    if info.dims is not None:
        axis = attrs.axis % info.ndim
        count = static(info.dims[axis])
        if count is not None and attrs.k > count:
            refuse(c, f"topk with k={attrs.k} of {count} elements")
        chosen = info.dims[axis] if attrs.k < 1 else as_prim(attrs.k, "int64")
        dims = (*info.dims[:axis], chosen, *info.dims[axis + 1 :])
    values = tensor_info(dims, info.dtype, info.ndim)
    indices = tensor_info(dims, _places(c, attrs.dtype), info.ndim)
    return {"both": TupleStructInfo((values, indices)), "values": values, "indices": indices}[attrs.ret_type]


@_TOPK.reference
def _reference_topk(attrs: TopKAttrs, x: Array) -> Any:
    count = x.shape[attrs.axis] if attrs.k < 1 else attrs.k
    places = np.take(_order(x, attrs.axis, attrs.largest), range(count), axis=attrs.axis)
    values = np.take_along_axis(x, places, attrs.axis)
    indices = cast(places, attrs.dtype)
    return {"both": (values, indices), "values": values, "indices": indices}[attrs.ret_type]


@_TOPK.legalize
def _legalize_topk(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, TopKAttrs)
    results = ["values", "indices"] if attrs.ret_type == "both" else [attrs.ret_type]
    count = None if attrs.k < 1 else attrs.k
    options = {"descending": attrs.largest, "count": count, "index_dtype": attrs.dtype}
    return _ordered(builder, c, attrs.axis, results, **options)


@_MEDIAN.infer
def _infer_median(c: Call) -> StructInfo:
    attrs = attrs_of(c, StatisticalAttrs)
    (info,) = tensor_args(c)
    if attrs.axis is None:
        _some(c, info, range(max(info.ndim, 0)))
        if attrs.keepdims:
            return tensor_info(None if info.ndim < 0 else [1] * info.ndim, info.dtype)
        return tensor_info((), info.dtype)
    if info.ndim < 0:
        return TupleStructInfo((tensor_info(None, info.dtype), tensor_info(None, "int64")))
    axis = axis_of(c, attrs.axis[0], info.ndim)
    _some(c, info, [axis])
    middle = (as_prim(1, "int64"),) if attrs.keepdims else ()
    dims = None if info.dims is None else (*info.dims[:axis], *middle, *info.dims[axis + 1 :])
    ndim = info.ndim if attrs.keepdims else info.ndim - 1
    return TupleStructInfo((tensor_info(dims, info.dtype, ndim), tensor_info(dims, "int64", ndim)))


def _some(c: Call, info: TensorStructInfo, axes: Any) -> None:
    if info.dims is not None and any(static(info.dims[axis]) == 0 for axis in axes):
        refuse(c, "median of no elements")


@_MEDIAN.reference
def _reference_median(attrs: StatisticalAttrs, x: Array) -> Any:
    if attrs.axis is None:
        flat = x.reshape(-1)
        value = flat[_middle(flat, 0)[0]]
        return np.full([1] * x.ndim if attrs.keepdims else [], value, to_numpy(dtype_of(x)))
    axis = attrs.axis[0]
    places = _middle(x, axis)
    values = np.take_along_axis(x, places, axis)
    if attrs.keepdims:
        return values, cast(places, "int64")
    return np.squeeze(values, axis), cast(np.squeeze(places, axis), "int64")


@_MEDIAN.legalize
def _legalize_median(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, StatisticalAttrs)
    (info,) = tensor_args(c)
    if info.dims is None or not info.dtype:
        return c
    if attrs.axis is None:
        flat = median(reshape(c.args[0], [simplify(product(info.dims))]), 0)
        return builder.emit(reshape(TupleGetItem(flat, 0), [1] * info.ndim if attrs.keepdims else []))
    (axis,) = attrs.axis
    return _called(builder, c, median_program(own_sizes(info.dims, "n"), info.dtype, axis, keepdims=attrs.keepdims))


def _middle(x: Array, axis: int) -> Array:
    """The place of the element in the middle; of the first NaN where there is one."""
    count = x.shape[axis]
    places = np.take(_order(x, axis, False), [(count - 1) // 2], axis=axis)
    if not is_float(dtype_of(x)):
        return places
    missing = np.isnan(widen(x))
    first = np.argmax(missing, axis=axis, keepdims=True)
    return np.where(missing.any(axis=axis, keepdims=True), first, places)
