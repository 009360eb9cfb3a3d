"""relax.reshape and its relatives: the same elements in the same order under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, as_shape
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import lower, result_shape
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import always, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import keeps_first_axis
from eutectic.relax.op.shapes import (
    Dims,
    axes_of,
    differ,
    dims_text,
    ints_of,
    is_one,
    product,
    reject,
    size_text,
    static,
    tensor_info,
)
from eutectic.relax.struct_info import TensorStructInfo

_reshape = define_op("relax.reshape", arity=2, fusion="injective", traits=["view"])
_flatten = define_op("relax.flatten", arity=1, fusion="injective", traits=["view"])
_expand_dims = define_op("relax.expand_dims", arity=1, fusion="injective", traits=["view"])
_squeeze = define_op("relax.squeeze", arity=1, fusion="injective", traits=["view"])
for _view in (_reshape, _flatten, _expand_dims, _squeeze):
    _view.identity(always)
for _view in (_reshape, _flatten, _expand_dims):
    _view.separable(keeps_first_axis)


def reshape(x: Expr, shape: Sequence[PrimExpr | int] | Expr, *, span: Any = None) -> Call:
    """The elements of `x`, in order, under another shape.

    Args:
        x: Any shape and dtype.
        shape: New sizes. One may be -1 and is computed; 0 copies the size at
            the same place. Both are resolved here. In a tensor without elements
            a 0 that cannot be a copy is a size of zero.
        span: Python source of the call, for errors.

    Returns:
        `shape`, dtype of `x`.

    Raises:
        TypeInferenceError: numbers of elements differ, two sizes are -1, or the shape
            of `x` is not known and -1 or 0 ask for it.

    Reference: TVM relax.reshape; numpy.reshape in C order.
    """
    target = as_shape(shape)
    if isinstance(target, ShapeExpr):
        info = x.struct_info
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        target = ShapeExpr(_resolve(dims, target.values))
    return call(_reshape, x, target, span=span)


def _resolve(dims: Dims | None, wanted: Dims) -> Dims:
    """Replace -1 and 0 in a requested shape."""
    holes = [i for i, size in enumerate(wanted) if static(size) == -1]
    if any((static(size) or 0) < -1 for size in wanted):
        reject(f"reshape to {dims_text(wanted)}: sizes must not be below -1")
    if len(holes) > 1:
        reject(f"reshape to {dims_text(wanted)}: only one size may be -1", help="give all sizes but one")
    zeros = [i for i, size in enumerate(wanted) if static(size) == 0]
    if not holes and not zeros:
        return wanted
    if dims is None:
        if not holes:
            return wanted
        reject(f"reshape to {dims_text(wanted)} needs the shape of the input", help="give every size")
    empty = any(static(size) == 0 for size in dims)
    copied = tuple(dims[i] if i in zeros and i < len(dims) else size for i, size in enumerate(wanted))
    if zeros and max(zeros) >= len(dims) and not empty:
        reject(f"reshape to {dims_text(wanted)}: there is no axis {max(zeros)} to copy in {dims_text(dims)}")
    if empty and not holes and all(static(size) != 0 for size in copied):
        return wanted
    return _fill(dims, copied, holes[0]) if holes else copied


def _fill(dims: Dims, wanted: Dims, hole: int) -> Dims:
    total = product(dims)
    rest = product(size for i, size in enumerate(wanted) if i != hole)
    known, divisor = static(total), static(rest)
    if divisor == 0 or (known is not None and divisor is not None and known % divisor):
        reject(
            f"reshape of {dims_text(dims)} to {dims_text(wanted)}: "
            f"{size_text(total)} elements do not divide by {size_text(rest)}",
            help="give every size, or choose sizes that divide the number of elements",
        )
    return (*wanted[:hole], simplify(total // rest), *wanted[hole + 1 :])


@_reshape.infer
def _infer_reshape(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    target = c.args[1]
    shape = target.struct_info
    if not isinstance(shape, ShapeStructInfo):
        refuse(c, "argument 1 of reshape must be a shape", help="pass the sizes as a tuple")
    sizes = shape.values
    if sizes is not None and info.dims is not None and differ(product(info.dims), product(sizes)):
        refuse(
            c,
            f"reshape of {dims_text(info.dims)} to {dims_text(sizes)}: "
            f"{size_text(product(info.dims))} elements against {size_text(product(sizes))}",
            help="the number of elements must stay the same",
        )
    if isinstance(target, ShapeExpr):
        return TensorStructInfo(target, info.dtype)
    return tensor_info(sizes, info.dtype, shape.ndim) if sizes is not None else _of_shape_value(target, info, shape)


def _of_shape_value(target: Expr, info: TensorStructInfo, shape: ShapeStructInfo) -> TensorStructInfo:
    return TensorStructInfo(target if shape.ndim >= 0 else None, info.dtype, ndim=shape.ndim)


@_reshape.reference
def _reference_reshape(attrs: None, x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def flatten(x: Expr, *, span: Any = None) -> Call:
    """All elements of `x` along one axis.

    Args:
        x: Any shape and dtype.
        span: Python source of the call, for errors.

    Returns:
        `(number of elements,)`, dtype of `x`.

    Raises:
        TypeInferenceError: `x` is not a tensor.

    Reference: TVM relax.flatten; numpy.ravel.
    """
    return call(_flatten, x, span=span)


@_flatten.infer
def _infer_flatten(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    return tensor_info(None if info.dims is None else (product(info.dims),), info.dtype, 1)


@_flatten.reference
def _reference_flatten(attrs: None, x: Array) -> Array:
    return x.reshape(-1)


@_reshape.legalize
@_flatten.legalize
def _legalize_reshape(builder: Builder, c: Call) -> Expr:
    return builder.call_te(topi.reshape, c.args[0], result_shape(c), primfunc_name_hint=short_name(c))


@node("relax.attrs.ExpandDimsAttrs")
class ExpandDimsAttrs(Attrs):
    """Where the new axes are in the result."""

    axis: tuple[int, ...]


@node("relax.attrs.SqueezeAttrs")
class SqueezeAttrs(Attrs):
    """Which axes go; None means all of size one."""

    axis: tuple[int, ...] | None = None


def expand_dims(x: Expr, axis: int | Sequence[int], *, span: Any = None) -> Call:
    """`x` with new axes of size one.

    Args:
        x: Any shape and dtype.
        axis: Places of the new axes in the result; negative ones count from its end.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `x` with a 1 at each place of `axis`, dtype of `x`.

    Raises:
        TypeInferenceError: a place is out of range or given twice.

    Reference: TVM relax.expand_dims; numpy.expand_dims.
    """
    return call(_expand_dims, x, attrs=ExpandDimsAttrs(ints_of(axis, "axis")), span=span)


@_expand_dims.infer
def _infer_expand_dims(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    axes = attrs_of(c, ExpandDimsAttrs).axis
    if info.ndim < 0:
        return tensor_info(None, info.dtype)
    ndim = info.ndim + len(axes)
    new = axes_of(c, axes, ndim)
    if info.dims is None:
        return tensor_info(None, info.dtype, ndim)
    rest = iter(info.dims)
    return tensor_info([1 if i in new else next(rest) for i in range(ndim)], info.dtype)


@_expand_dims.reference
def _reference_expand_dims(attrs: ExpandDimsAttrs, x: Array) -> Array:
    return np.expand_dims(x, attrs.axis)


lower(_expand_dims, topi.expand_dims, options=lambda attrs: {"axis": attrs.axis})


def squeeze(x: Expr, axis: int | Sequence[int] | None = None, *, span: Any = None) -> Call:
    """`x` without axes of size one.

    Args:
        x: Any shape and dtype.
        axis: Axes to remove, each of size one; None removes all such axes.
        span: Python source of the call, for errors.

    Returns:
        The remaining sizes, dtype of `x`; of unknown rank when `axis` is None and a size is symbolic.

    Raises:
        TypeInferenceError: an axis is out of range, given twice, or provably not of size one.

    Reference: TVM relax.squeeze; numpy.squeeze.
    """
    attrs = SqueezeAttrs(None if axis is None else ints_of(axis, "axis"))
    return call(_squeeze, x, attrs=attrs, span=span)


@_squeeze.separable
def _squeeze_separable(c: Call, batched: Sequence[bool]) -> bool:
    """Axes are named: else the first one goes where a piece is of one place."""
    return attrs_of(c, SqueezeAttrs).axis is not None and keeps_first_axis(c, batched)


@_squeeze.infer
def _infer_squeeze(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    axes = attrs_of(c, SqueezeAttrs).axis
    if info.ndim < 0 or (axes is None and info.dims is None):
        return tensor_info(None, info.dtype)
    if axes is None:
        dims = info.dims or ()
        if not all(isinstance(size, IntImm) for size in dims):
            return tensor_info(None, info.dtype)
        return tensor_info([size for size in dims if not is_one(size)], info.dtype)
    gone = axes_of(c, axes, info.ndim)
    if info.dims is None:
        return tensor_info(None, info.dtype, info.ndim - len(gone))
    for axis in gone:
        if differ(info.dims[axis], as_prim(1)):
            refuse(
                c,
                f"{short_name(c)} of axis {axis} of {dims_text(info.dims)}, which has size "
                f"{size_text(info.dims[axis])}",
                help="only axes of size 1 can be removed; use reshape to merge axes",
            )
    return tensor_info([size for i, size in enumerate(info.dims) if i not in gone], info.dtype)


@_squeeze.reference
def _reference_squeeze(attrs: SqueezeAttrs, x: Array) -> Array:
    return np.squeeze(x, attrs.axis)


lower(_squeeze, topi.squeeze, options=lambda attrs: {"axis": attrs.axis})
