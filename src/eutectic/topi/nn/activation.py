"""Activations of one tensor: relu and its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor, compute
from eutectic.tir import op
from eutectic.topi.shapes import axis_of, elementwise, is_one
from eutectic.topi.special_values import nan_max, nan_min, widen

_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def activation(x: Tensor, value: Callable[[PrimExpr], PrimExpr], name: str, *, integers: bool = False) -> Tensor:
    """A function of each element, computed in no less than float32; one stage `name`.

    Raises:
        TypeError: not a float dtype, unless `integers`.
    """
    if not integers and not is_float(x.dtype):
        raise TypeError(f"{name} needs a float dtype, got {x.dtype}")
    return elementwise(x, lambda e: value(widen(e)).astype(x.dtype), name)


def expm1(x: PrimExpr) -> PrimExpr:
    """`exp(x) - 1` without cancellation near zero, for `x` of at most zero."""
    half = op.tanh(x * 0.5)
    return 2.0 * half / (1.0 - half)


def relu(x: Tensor) -> Tensor:
    """The larger of `x` and zero; NaN stays; numbers, one stage `compute`."""
    return elementwise(x, lambda e: nan_max(e, 0))


def gelu(x: Tensor) -> Tensor:
    """`x * P(X <= x)` of a standard normal X, by the complementary error function; a float dtype, one stage `gelu`."""
    return activation(x, lambda e: e * 0.5 * op.erfc(e * -math.sqrt(0.5)), "gelu")


def gelu_tanh(x: Tensor) -> Tensor:
    """The approximation of gelu by a hyperbolic tangent; a float dtype, one stage `gelu_tanh`."""
    return activation(
        x, lambda e: 0.5 * e * (1.0 + op.tanh(math.sqrt(2 / math.pi) * (e + 0.044715 * e * e * e))), "gelu_tanh"
    )


def silu(x: Tensor) -> Tensor:
    """`x * sigmoid(x)`; a float dtype, one stage `silu`."""
    return activation(x, lambda e: e / (1.0 + op.exp(-e)), "silu")


def selu(x: Tensor) -> Tensor:
    """Self-normalising exponential unit; a float dtype, one stage `selu`."""
    return activation(
        x, lambda e: Select(e > 0, _SELU_SCALE * e, _SELU_SCALE * _SELU_ALPHA * expm1(nan_min(e, 0))), "selu"
    )


def _ramp(x: PrimExpr) -> PrimExpr:
    """A sixth of `x + 3`, limited to [0, 1]."""
    return nan_min(nan_max(x + 3.0, 0), 6) / 6.0


def hardsigmoid(x: Tensor) -> Tensor:
    """`clip(x + 3, 0, 6) / 6`; a float dtype, one stage `hardsigmoid`."""
    return activation(x, _ramp, "hardsigmoid")


def hardswish(x: Tensor) -> Tensor:
    """`x * clip(x + 3, 0, 6) / 6`; a float dtype, one stage `hardswish`."""
    return activation(x, lambda e: e * _ramp(e), "hardswish")


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """`x` where positive, `alpha * x` elsewhere; a float dtype, one stage `compute`."""
    if not is_float(x.dtype):
        raise TypeError(f"leaky_relu needs a float dtype, got {x.dtype}")
    return elementwise(x, lambda e: Select(widen(e) > 0, widen(e), widen(e) * alpha).astype(x.dtype))


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """`x` where positive, `alpha * (exp(x) - 1)` elsewhere; a float dtype, one stage `elu`."""
    return activation(x, lambda e: Select(e > 0, e, alpha * expm1(nan_min(e, 0))), "elu")


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta * x)) / beta`, and `x` where `beta * x > threshold`; a float dtype, one stage `softplus`.

    Raises:
        TypeError: not a float dtype.
        ValueError: `beta` is zero.
    """
    if beta == 0:
        raise ValueError("softplus with beta 0")
    return activation(x, lambda e: Select(e * beta > threshold, e, op.log1p(op.exp(e * beta)) / beta), "softplus")


def prelu(data: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """`data` where positive, `slope * data` elsewhere, with one slope per index of an axis.

    Args:
        data: Any shape; a float dtype.
        slope: `(size of axis,)` or `(1,)`, same dtype.
        axis: The axis of `data` that `slope` runs along.

    Returns:
        Shape and dtype of `data`; one stage `prelu`.

    Raises:
        TypeError: not one float dtype.
        ValueError: no such axis, or `slope` has not one axis.
    """
    from_axis = axis_of(axis, len(data.shape))
    if not is_float(data.dtype) or slope.dtype != data.dtype:
        raise TypeError(f"prelu needs one float dtype, got {data.dtype} and {slope.dtype}")
    if len(slope.shape) != 1:
        raise ValueError(f"the slopes of prelu need one axis, got {len(slope.shape)}")

    def element(*i: PrimExpr) -> PrimExpr:
        x = widen(data(*i))
        at = IntImm(i[from_axis].dtype, 0) if is_one(slope.shape[0]) else i[from_axis]
        return Select(x > 0, x, x * widen(slope(at))).astype(data.dtype)

    result: Tensor = compute(data.shape, lambda *i: element(*i), "prelu", "broadcast")
    return result
