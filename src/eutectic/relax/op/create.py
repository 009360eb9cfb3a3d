"""Operators that make tensors: full, zeros, ones and their `_like` forms, arange, tril, triu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import to_numpy
from eutectic.ir.node import node
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.relax.base import Expr, ShapeStructInfo, as_shape
from eutectic.relax.expr import Call, PrimValue, const, convert
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import embedded, literal, result_dtype, result_shape
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.registry import OpDef, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import ceil_div, dims_text, dtype_option, like, reject, static, tensor_info
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo
from eutectic.te import Tensor

_full = define_op("relax.full", arity=2, fusion="broadcast")
_full_like = define_op("relax.full_like", arity=2, fusion="broadcast")
_zeros = define_op("relax.zeros", arity=1, fusion="elementwise")
_zeros_like = define_op("relax.zeros_like", arity=1, fusion="elementwise")
_ones = define_op("relax.ones", arity=1, fusion="elementwise")
_ones_like = define_op("relax.ones_like", arity=1, fusion="elementwise")
_arange = define_op("relax.arange", arity=3, fusion="opaque")
_tril = define_op("relax.tril", arity=2, fusion="elementwise")
_triu = define_op("relax.triu", arity=2, fusion="elementwise")


@node("relax.attrs.InitAttrs")
class InitAttrs(Attrs):
    """Dtype of the result; `void` takes that of the value or tensor given."""

    dtype: str = "void"


def full(
    shape: Sequence[PrimExpr | int] | Expr, fill_value: Any, dtype: str | None = None, *, span: Any = None
) -> Call:
    """A tensor with one value everywhere.

    Args:
        shape: Its sizes.
        fill_value: A number, or a tensor without axes.
        dtype: Its dtype; None takes that of `fill_value` (int32 and float32 for Python numbers).
        span: Python source of the call, for errors.

    Returns:
        `shape`, `dtype`.

    Raises:
        TypeInferenceError: `shape` is not a shape, or `fill_value` has axes.

    Reference: TVM relax.full; numpy.full.
    """
    return call(_full, as_shape(shape), _fill_value(fill_value, dtype), attrs=InitAttrs(dtype_option(dtype)), span=span)


def full_like(x: Expr, fill_value: Any, dtype: str | None = None, *, span: Any = None) -> Call:
    """A tensor of the shape of `x` with one value everywhere.

    Args:
        x: Any shape and dtype; its elements are not read.
        fill_value: A number, or a tensor without axes.
        dtype: Its dtype; None takes that of `x`.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, `dtype`.

    Raises:
        TypeInferenceError: `fill_value` has axes.

    Reference: TVM relax.full_like; numpy.full_like.
    """
    info = x.struct_info
    wanted = dtype or (info.dtype if isinstance(info, TensorStructInfo) else None)
    return call(_full_like, x, _fill_value(fill_value, wanted), attrs=InitAttrs(dtype_option(dtype)), span=span)


def _fill_value(value: Any, dtype: str | None) -> Expr:
    dtype = None if dtype_option(dtype) == "void" else dtype
    return const(value, dtype) if isinstance(value, (bool, int, float)) else convert(value)


def _need_scalar(c: Call) -> TensorStructInfo:
    (value,) = tensor_args(c, (1,))
    if value.ndim not in (-1, 0):
        refuse(c, f"the value of {short_name(c)} must have no axes, got {dims_text(value.dims)}")
    return value


def _of_shape(c: Call, dtype: str) -> TensorStructInfo:
    info = c.args[0].struct_info
    if not isinstance(info, ShapeStructInfo):
        refuse(c, f"argument 0 of {short_name(c)} must be a shape", help="pass the sizes as a tuple")
    if info.values is None and info.ndim >= 0:
        return TensorStructInfo(c.args[0], dtype)
    return tensor_info(info.values, dtype, info.ndim)


@_full.infer
def _infer_full(c: Call) -> TensorStructInfo:
    value, dtype = _need_scalar(c), attrs_of(c, InitAttrs).dtype
    return _of_shape(c, value.dtype if dtype == "void" else dtype)


@_full.reference
def _reference_full(attrs: InitAttrs, shape: tuple[int, ...], value: Array) -> Array:
    dtype = dtype_of(value) if attrs.dtype == "void" else attrs.dtype
    return np.full(shape, cast(value, dtype), to_numpy(dtype))


@_full_like.infer
def _infer_full_like(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    _need_scalar(c)
    dtype = attrs_of(c, InitAttrs).dtype
    return like(info, info.dtype if dtype == "void" else dtype)


@_full_like.reference
def _reference_full_like(attrs: InitAttrs, x: Array, value: Array) -> Array:
    dtype = dtype_of(x) if attrs.dtype == "void" else attrs.dtype
    return np.full(x.shape, cast(value, dtype), to_numpy(dtype))


@_full.legalize
@_full_like.legalize
def _legalize_full(builder: Builder, c: Call) -> Expr:
    dtype, value = result_dtype(c), embedded(c.args[1])
    return builder.call_te(_filled, result_shape(c), dtype, value, primfunc_name_hint=short_name(c))


def _filled(shape: Any, dtype: str, value: Tensor | PrimExpr) -> Tensor:
    return topi.full(shape, dtype, value() if isinstance(value, Tensor) else value)


def zeros(shape: Sequence[PrimExpr | int] | Expr, dtype: str, *, span: Any = None) -> Call:
    """A tensor of zeros.

    Args:
        shape: Its sizes.
        dtype: Its dtype.
        span: Python source of the call, for errors.

    Returns:
        `shape`, `dtype`.

    Raises:
        TypeInferenceError: `shape` is not a shape, or the dtype is unknown.

    Reference: TVM relax.zeros; numpy.zeros.
    """
    return call(_zeros, as_shape(shape), attrs=InitAttrs(_stated(dtype)), span=span)


def ones(shape: Sequence[PrimExpr | int] | Expr, dtype: str, *, span: Any = None) -> Call:
    """A tensor of ones.

    Args:
        shape: Its sizes.
        dtype: Its dtype.
        span: Python source of the call, for errors.

    Returns:
        `shape`, `dtype`.

    Raises:
        TypeInferenceError: `shape` is not a shape, or the dtype is unknown.

    Reference: TVM relax.ones; numpy.ones.
    """
    return call(_ones, as_shape(shape), attrs=InitAttrs(_stated(dtype)), span=span)


def _stated(dtype: str) -> str:
    if dtype_option(dtype) == "void":
        reject("zeros and ones need a dtype", help='pass for example "float32"')
    return dtype


def zeros_like(x: Expr, dtype: str | None = None, *, span: Any = None) -> Call:
    """A tensor of zeros of the shape of `x`.

    Args:
        x: Any shape and dtype; its elements are not read.
        dtype: Its dtype; None takes that of `x`.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, `dtype`.

    Raises:
        TypeInferenceError: `x` is not a tensor, or the dtype is unknown.

    Reference: TVM relax.zeros_like; numpy.zeros_like.
    """
    return call(_zeros_like, x, attrs=InitAttrs(dtype_option(dtype)), span=span)


def ones_like(x: Expr, dtype: str | None = None, *, span: Any = None) -> Call:
    """A tensor of ones of the shape of `x`.

    Args:
        x: Any shape and dtype; its elements are not read.
        dtype: Its dtype; None takes that of `x`.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, `dtype`.

    Raises:
        TypeInferenceError: `x` is not a tensor, or the dtype is unknown.

    Reference: TVM relax.ones_like; numpy.ones_like.
    """
    return call(_ones_like, x, attrs=InitAttrs(dtype_option(dtype)), span=span)


def _define_filled(op: OpDef, value: int) -> None:
    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        return _of_shape(c, attrs_of(c, InitAttrs).dtype)

    @op.reference
    def _reference(attrs: InitAttrs, shape: tuple[int, ...]) -> Array:
        return np.full(shape, cast(value, attrs.dtype), to_numpy(attrs.dtype))

    _define_lowering(op, value)


def _define_filled_like(op: OpDef, value: int) -> None:
    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        dtype = attrs_of(c, InitAttrs).dtype
        return like(info, info.dtype if dtype == "void" else dtype)

    @op.reference
    def _reference(attrs: InitAttrs, x: Array) -> Array:
        dtype = dtype_of(x) if attrs.dtype == "void" else attrs.dtype
        return np.full(x.shape, cast(value, dtype), to_numpy(dtype))

    _define_lowering(op, value)


def _define_lowering(op: OpDef, value: int) -> None:
    @op.legalize
    def _legalize(builder: Builder, c: Call) -> Expr:
        return builder.call_te(topi.full, result_shape(c), result_dtype(c), value, primfunc_name_hint=short_name(c))


for _number, _plain, _like_form in ((0, _zeros, _zeros_like), (1, _ones, _ones_like)):
    _define_filled(_plain, _number)
    _define_filled_like(_like_form, _number)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = None, *, span: Any = None) -> Call:
    """Numbers from `start` (included) to `end` (excluded) in equal steps.

    Args:
        start: First number; the end when it is the only one given, and the start is then zero.
        end: Limit.
        step: Difference of neighbours; not zero.
        dtype: Dtype of the result; None takes int64, or float32 when a number is not an integer.
        span: Python source of the call, for errors.

    Returns:
        `(ceil((end - start) / step),)`, at least zero.

    Raises:
        TypeInferenceError: a step of zero, or something that is not a scalar.

    Reference: TVM relax.arange; torch.arange.
    """
    first, last = (0, start) if end is None else (start, end)
    values = [convert(value) for value in (first, last, step)]
    if dtype is None:
        dtype = "float32" if any(_is_fraction(value) for value in values) else "int64"
    return call(_arange, *values, attrs=InitAttrs(dtype_option(dtype)), span=span)


def _is_fraction(value: Expr) -> bool:
    return isinstance(value.struct_info, PrimStructInfo) and str(value.struct_info.dtype).startswith(
        ("float", "bfloat")
    )


@_arange.infer
def _infer_arange(c: Call) -> TensorStructInfo:
    dtype = attrs_of(c, InitAttrs).dtype
    if not all(isinstance(arg.struct_info, PrimStructInfo) for arg in c.args):
        refuse(c, "start, end and step of arange must be scalars")
    values = [arg.value for arg in c.args if isinstance(arg, PrimValue)]
    if len(values) != 3:
        return tensor_info(None, dtype, 1)
    first, last, step = values
    numbers = [value.value for value in values if isinstance(value, (IntImm, FloatImm))]
    if isinstance(step, (IntImm, FloatImm)) and step.value == 0:
        refuse(c, "arange with a step of zero", help="give a positive or negative step")
    if len(numbers) == 3:
        return tensor_info([_length(*numbers)], dtype)
    positive = static(step)
    if positive is None or positive < 0 or any(isinstance(value, FloatImm) for value in values):
        return tensor_info(None, dtype, 1)
    return tensor_info([simplify(ceil_div(last - first, positive))], dtype)


def _length(first: float, last: float, step: float) -> int:
    integers = all(isinstance(value, int) for value in (first, last, step))
    return max(0, int(-(-(last - first) // step)) if integers else math.ceil((last - first) / step))


@_arange.reference
def _reference_arange(attrs: InitAttrs, first: float, last: float, step: float) -> Array:
    count = _length(first, last, step)
    return cast(first + np.arange(count) * step, attrs.dtype)


@_arange.legalize
def _legalize_arange(builder: Builder, c: Call) -> Expr:
    first, last, step = map(literal, c.args)
    if first is None or last is None or step is None:
        return c
    floats = any(_is_fraction(arg) for arg in c.args)
    wide = "float64" if floats else "int64"
    return builder.call_te(
        topi.arange_of, result_shape(c), first, step, result_dtype(c), wide, primfunc_name_hint="arange"
    )


def tril(x: Expr, k: int | PrimExpr | Expr = 0, *, span: Any = None) -> Call:
    """`x` with zeros above a diagonal of the last two axes.

    Args:
        x: At least two axes; any dtype.
        k: The diagonal: 0 the main one, positive above it.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x`.

    Raises:
        TypeInferenceError: fewer than two axes, or `k` is not a scalar.

    Reference: TVM relax.tril; numpy.tril.
    """
    return call(_tril, x, convert(k), span=span)


def triu(x: Expr, k: int | PrimExpr | Expr = 0, *, span: Any = None) -> Call:
    """`x` with zeros below a diagonal of the last two axes.

    Args:
        x: At least two axes; any dtype.
        k: The diagonal: 0 the main one, positive above it.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x`.

    Raises:
        TypeInferenceError: fewer than two axes, or `k` is not a scalar.

    Reference: TVM relax.triu; numpy.triu.
    """
    return call(_triu, x, convert(k), span=span)


@_tril.infer
@_triu.infer
def _infer_triangle(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    if info.ndim in (0, 1):
        refuse(c, f"{short_name(c)} needs two axes, got {dims_text(info.dims)}", help="add axes with expand_dims")
    if not isinstance(c.args[1].struct_info, PrimStructInfo):
        refuse(c, f"the diagonal of {short_name(c)} must be a scalar")
    return like(info)


def _triangle(x: Array, keep: Array) -> Array:
    return np.where(keep, x, np.zeros((), x.dtype))


@_tril.reference
def _reference_tril(attrs: None, x: Array, k: int) -> Array:
    return _triangle(x, np.tri(x.shape[-2], x.shape[-1], k, dtype=np.bool_))


@_triu.reference
def _reference_triu(attrs: None, x: Array, k: int) -> Array:
    return _triangle(x, ~np.tri(x.shape[-2], x.shape[-1], k - 1, dtype=np.bool_))


@_tril.legalize
@_triu.legalize
def _legalize_triangle(builder: Builder, c: Call) -> Expr:
    k, name = literal(c.args[1]), short_name(c)
    return c if k is None else builder.call_te(topi.trilu, c.args[0], k, name == "triu", primfunc_name_hint=name)
