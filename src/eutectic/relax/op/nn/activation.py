"""Activations: relu and its relatives, gelu, silu, softmax. Element-wise ones are rows of a table, as in unary.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, dtype_of, erfc, widen
from eutectic.relax.op.registry import OpDef, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import not_along_first, only_first
from eutectic.relax.op.shapes import axis_of, differ, dims_text, int_of, like, reject
from eutectic.relax.op.ternary import clip
from eutectic.relax.op.unary import UnaryConstructor
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.op import exp
from eutectic.topi.nn.activation import activation
from eutectic.topi.special_values import nan_min

__all__ = [
    "elu",
    "gelu",
    "gelu_tanh",
    "hardsigmoid",
    "hardswish",
    "leakyrelu",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softplus",
]

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def need_float(c: Call, info: TensorStructInfo) -> None:
    """Refuse integers and bool."""
    if info.dtype and not is_float(info.dtype):
        refuse(c, f"{short_name(c)} needs a float dtype, got {info.dtype}", help="cast with astype first")


def _activation(
    name: str,
    compute: Callable[[Array], Array],
    summary: str,
    *,
    program: Callable[[PrimExpr], PrimExpr] | None = None,
    integers: bool = False,
) -> UnaryConstructor:
    """Define an element-wise activation without options.

    Args:
        name: The operator's, without `relax.nn.`.
        compute: Its meaning, for arrays of no less than float32.
        summary: The first sentence of its documentation.
        program: One element, as an expression in no less than float32; None takes `topi.nn.<name>`.
        integers: Whether it takes them, too.
    """
    op = define_op(f"relax.nn.{name}", arity=1, fusion="elementwise", traits=["pointwise"])

    def constructor(data: Expr, *, span: Any = None) -> Call:
        return call(op, data, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        if integers and info.dtype == "bool":
            refuse(c, f"{short_name(c)} is defined for numbers, not for bool", help="cast with astype first")
        if not integers:
            need_float(c, info)
        return like(info)

    @op.reference
    def _reference(attrs: None, x: Array) -> Array:
        return cast(compute(widen(x)), dtype_of(x))

    lower(op, getattr(topi.nn, name) if program is None else _of_each(program, name))
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        data: Any shape; {"numbers" if integers else "a float dtype"}.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: `data` is not a tensor, or of another dtype.

    Accuracy: 16-bit floats are computed in float32 and rounded once; NaN stays NaN.
    Reference: torch.nn.functional.{name.split("_")[0]}.
    """
    return constructor  # type: ignore[return-value]  # the argument is called data here, as in TVM


def _of_each(program: Callable[[PrimExpr], PrimExpr], name: str) -> Callable[[Tensor], Tensor]:
    def activate(x: Tensor) -> Tensor:
        return activation(x, program, name)

    activate.__name__ = name
    return activate


def _relu(x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray((0.5 * wide * erfc(wide * -math.sqrt(0.5))).astype(x.dtype))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


def _selu(x: Array) -> Array:
    return np.where(x > 0, _SELU_SCALE * x, _SELU_SCALE * _SELU_ALPHA * np.expm1(x))


def _ramp(x: Array) -> Array:
    """A sixth of `x + 3`, limited to [0, 1]."""
    return np.asarray(np.minimum(np.maximum(x + 3, 0), 6) / 6)


def _mish(x: PrimExpr) -> PrimExpr:
    """With e = exp(min(x, 20)): tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2), in which nothing is cancelled."""
    grown = exp(nan_min(x, 20))
    both = grown * (grown + 2)
    return x * (both / (both + 2))


relu = _activation("relu", _relu, "The larger of `data` and zero.", integers=True)
gelu = _activation("gelu", _gelu, "`x * P(X <= x)` of a standard normal X, by the error function.")
gelu_tanh = _activation("gelu_tanh", _gelu_tanh, "The approximation of gelu by a hyperbolic tangent.")
silu = _activation("silu", lambda x: x / (1 + np.exp(-x)), "`x * sigmoid(x)`.")
selu = _activation("selu", _selu, "Self-normalising exponential unit.")
hardswish = _activation("hardswish", lambda x: x * _ramp(x), "`x * clip(x + 3, 0, 6) / 6`.")
mish = _activation("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), "`x * tanh(softplus(x))`.", program=_mish)
hardsigmoid = _activation("hardsigmoid", _ramp, "`clip(x + 3, 0, 6) / 6`.")


def relu6(data: Expr, *, span: Any = None) -> Call:
    """`data` limited to `[0, 6]`; sugar for clip.

    Args:
        data: Any shape; numbers.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: as clip does.

    Reference: torch.nn.functional.relu6.
    """
    return clip(data, 0, 6, span=span)


@node("relax.attrs.LeakyReluAttrs")
class LeakyReluAttrs(Attrs):
    """Slope below zero."""

    alpha: float = 0.01


@node("relax.attrs.EluAttrs")
class EluAttrs(Attrs):
    """Minus the limit at minus infinity."""

    alpha: float = 1.0


@node("relax.attrs.PReluAttrs")
class PReluAttrs(Attrs):
    """Axis of the data that the slopes run along."""

    axis: int = 1


@node("relax.attrs.SoftplusAttrs")
class SoftplusAttrs(Attrs):
    """Sharpness, and from where on the function is the identity."""

    beta: float = 1.0
    threshold: float = 20.0


@node("relax.attrs.SoftmaxAttrs")
class SoftmaxAttrs(Attrs):
    """The axis that sums to one."""

    axis: int = -1


_leakyrelu = define_op("relax.nn.leakyrelu", arity=1, fusion="elementwise", traits=["pointwise"])
_elu = define_op("relax.nn.elu", arity=1, fusion="elementwise", traits=["pointwise"])
_softplus = define_op("relax.nn.softplus", arity=1, fusion="elementwise", traits=["pointwise"])
_prelu = define_op("relax.nn.prelu", arity=2, fusion="broadcast")
_softmax = define_op("relax.nn.softmax", arity=1, fusion="opaque")
_log_softmax = define_op("relax.nn.log_softmax", arity=1, fusion="opaque")


def leakyrelu(data: Expr, alpha: float = 0.01, *, span: Any = None) -> Call:
    """`data` where positive, `alpha * data` elsewhere.

    Args:
        data: Any shape; a float dtype.
        alpha: Slope below zero.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype.

    Reference: torch.nn.functional.leaky_relu; TVM relax.nn.leakyrelu.
    """
    return call(_leakyrelu, data, attrs=LeakyReluAttrs(float(alpha)), span=span)


def elu(data: Expr, alpha: float = 1.0, *, span: Any = None) -> Call:
    """`data` where positive, `alpha * (exp(data) - 1)` elsewhere.

    Args:
        data: Any shape; a float dtype.
        alpha: Minus the limit at minus infinity.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype.

    Reference: torch.nn.functional.elu; not in TVM v0.23.
    """
    return call(_elu, data, attrs=EluAttrs(float(alpha)), span=span)


def softplus(data: Expr, beta: float = 1.0, threshold: float = 20.0, *, span: Any = None) -> Call:
    """`log(1 + exp(beta * data)) / beta`, and `data` itself where `beta * data > threshold`.

    Args:
        data: Any shape; a float dtype.
        beta: Sharpness; not zero.
        threshold: From where on the result is `data`.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype, or `beta` is zero.

    Reference: torch.nn.functional.softplus; TVM relax.nn.softplus.
    """
    if beta == 0:
        reject("softplus with beta 0", help="beta must not be zero")
    return call(_softplus, data, attrs=SoftplusAttrs(float(beta), float(threshold)), span=span)


def _infer_like(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    need_float(c, info)
    return like(info)


@_leakyrelu.reference
def _reference_leakyrelu(attrs: LeakyReluAttrs, x: Array) -> Array:
    wide = widen(x)
    return cast(np.where(wide > 0, wide, wide * attrs.alpha), dtype_of(x))


@_elu.reference
def _reference_elu(attrs: EluAttrs, x: Array) -> Array:
    wide = widen(x)
    return cast(np.where(wide > 0, wide, attrs.alpha * np.expm1(wide)), dtype_of(x))


@_softplus.reference
def _reference_softplus(attrs: SoftplusAttrs, x: Array) -> Array:
    wide = widen(x)
    scaled = wide * attrs.beta
    return cast(np.where(scaled > attrs.threshold, wide, np.log1p(np.exp(scaled)) / attrs.beta), dtype_of(x))


def prelu(data: Expr, alpha: Expr, axis: int = 1, *, span: Any = None) -> Call:
    """`data` where positive, `alpha * data` elsewhere, with one slope per index of an axis.

    Args:
        data: Any shape; a float dtype.
        alpha: `(size of axis,)` or `(1,)`, same dtype.
        axis: The axis of `data` that `alpha` runs along.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: dtypes differ, `alpha` has not one axis, or another size.

    Reference: torch.nn.functional.prelu; TVM relax.nn.prelu.
    """
    return call(_prelu, data, alpha, attrs=PReluAttrs(int_of(axis, "axis")), span=span)


@_prelu.separable
def _prelu_separable(c: Call, batched: Sequence[bool]) -> bool:
    (data, _) = tensor_args(c)
    return only_first(c, batched) and not_along_first([attrs_of(c, PReluAttrs).axis], data.ndim)


@_prelu.infer
def _infer_prelu(c: Call) -> TensorStructInfo:
    info, alpha = tensor_args(c)
    need_float(c, info)
    if info.dtype and alpha.dtype and info.dtype != alpha.dtype:
        refuse(c, f"prelu of {info.dtype} with slopes of {alpha.dtype}", help="cast one side with astype")
    if alpha.ndim not in (-1, 1):
        refuse(c, f"the slopes of prelu need one axis, got {dims_text(alpha.dims)}", help="reshape them")
    if info.ndim >= 0:
        axis = axis_of(c, attrs_of(c, PReluAttrs).axis, info.ndim)
        if info.dims is not None and alpha.dims is not None:
            size, slopes = info.dims[axis], alpha.dims[0]
            if differ(size, slopes) and differ(slopes, as_prim(1)):
                refuse(
                    c,
                    f"prelu of {dims_text(info.dims)} along axis {axis} with slopes {dims_text(alpha.dims)}",
                    help="give one slope, or one per index of the axis",
                )
    return like(info)


@_prelu.reference
def _reference_prelu(attrs: PReluAttrs, x: Array, alpha: Array) -> Array:
    spread = [1] * x.ndim
    spread[attrs.axis] = alpha.size
    wide, slope = widen(x), widen(alpha).reshape(spread)
    return cast(np.where(wide > 0, wide, wide * slope), dtype_of(x))


def softmax(data: Expr, axis: int = -1, *, span: Any = None) -> Call:
    """Exponentials along an axis, divided by their sum.

    Args:
        data: At least one axis; a float dtype.
        axis: The axis that sums to one.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype, or no such axis.

    Accuracy: the maximum is subtracted first, so nothing overflows.
    Reference: torch.softmax; TVM relax.nn.softmax.
    """
    return call(_softmax, data, attrs=SoftmaxAttrs(int_of(axis, "axis")), span=span)


def log_softmax(data: Expr, axis: int = -1, *, span: Any = None) -> Call:
    """Logarithm of softmax, computed without forming it.

    Args:
        data: At least one axis; a float dtype.
        axis: The axis whose exponentials sum to one.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype, or no such axis.

    Accuracy: the maximum is subtracted first, so nothing overflows.
    Reference: torch.log_softmax; TVM relax.nn.log_softmax.
    """
    return call(_log_softmax, data, attrs=SoftmaxAttrs(int_of(axis, "axis")), span=span)


def _infer_softmax(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    need_float(c, info)
    if info.ndim >= 0:
        axis_of(c, attrs_of(c, SoftmaxAttrs).axis, info.ndim)
    return like(info)


def shifted(x: Array, axis: int) -> Array:
    """`x` minus its maximum along an axis; an empty axis stays empty."""
    return np.asarray(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))


def stable_softmax(x: Array, axis: int) -> Array:
    """Softmax in the dtype of `x`."""
    powers = np.exp(shifted(x, axis))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


@_softmax.reference
def _reference_softmax(attrs: SoftmaxAttrs, x: Array) -> Array:
    return cast(stable_softmax(widen(x), attrs.axis), dtype_of(x))


@_log_softmax.reference
def _reference_log_softmax(attrs: SoftmaxAttrs, x: Array) -> Array:
    moved = shifted(widen(x), attrs.axis)
    return cast(moved - np.log(np.exp(moved).sum(axis=attrs.axis, keepdims=True)), dtype_of(x))


def _infers(rule: Callable[[Call], TensorStructInfo], *ops: OpDef) -> None:
    for op in ops:
        op.infer(rule)


_infers(_infer_like, _leakyrelu, _elu, _softplus)
_infers(_infer_softmax, _softmax, _log_softmax)


@_softmax.separable
@_log_softmax.separable
def _softmax_separable(c: Call, batched: Sequence[bool]) -> bool:
    (data,) = tensor_args(c)
    return not_along_first([attrs_of(c, SoftmaxAttrs).axis], data.ndim)


lower(_leakyrelu, topi.nn.leaky_relu, options=lambda attrs: {"alpha": attrs.alpha})
lower(_elu, topi.nn.elu, options=lambda attrs: {"alpha": attrs.alpha})
lower(_softplus, topi.nn.softplus, options=lambda attrs: {"beta": attrs.beta, "threshold": attrs.threshold})
lower(_prelu, topi.nn.prelu, options=lambda attrs: {"axis": attrs.axis})
lower(_softmax, topi.nn.softmax, options=lambda attrs: {"axis": attrs.axis})
lower(_log_softmax, topi.nn.log_softmax, options=lambda attrs: {"axis": attrs.axis})
