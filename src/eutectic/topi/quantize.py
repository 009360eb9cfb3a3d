"""Between floats and integers with a scale and a zero point."""

from __future__ import annotations

from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor
from eutectic.tir import op
from eutectic.topi.elementwise import bound
from eutectic.topi.shapes import axis_of, stage
from eutectic.topi.special_values import nan_max, nan_min

_WIDE: Final = "float64"
_LIMITS: Final = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}  # the largest finite values


def _parameter(x: Tensor, at: tuple[PrimExpr, ...], axis: int) -> PrimExpr:
    """A scale or zero point of one element: the only one, or the one of its place along the axis."""
    return x(*([at[axis]] if x.shape else [])).astype(_WIDE)


def quantize(data: Tensor, scale: Tensor, zero_point: Tensor, axis: int = -1, out_dtype: str = "int8") -> Tensor:
    """`round(data / scale) + zero_point`, held to the range of the result's dtype.

    Args:
        data: Any shape; a float dtype.
        scale: One value without axes, or one per size of `axis`.
        zero_point: One value without axes, or one per size of `axis`.
        axis: The axis that several scales belong to.
        out_dtype: An integer dtype, or a float of 8 bits, which is not rounded to whole numbers first.

    Returns:
        Shape of `data`, `out_dtype`; one stage `quantized`.

    Raises:
        ValueError: no such axis.

    Accuracy: computed in float64, ties to even; NaN becomes the zero point in integers.
    Reference: TVM relax.quantize; ONNX QuantizeLinear.
    """
    along = axis_of(axis, len(data.shape)) if data.shape else 0

    def element(*at: PrimExpr) -> PrimExpr:
        scaled = data(*at).astype(_WIDE) / _parameter(scale, at, along)
        shift = _parameter(zero_point, at, along)
        if is_float(out_dtype):
            limit = _LIMITS[out_dtype]
            return nan_min(nan_max(scaled + shift, -limit), limit).astype(out_dtype)
        whole = op.nearbyint(scaled)
        known = Select(op.isnan(whole), op.const(0.0, _WIDE), whole)
        low, high = bound(out_dtype, float("-inf")), bound(out_dtype, float("inf"))
        return nan_min(nan_max(known + shift, low), high).astype(out_dtype)

    return stage(data.shape, element, "quantized", "broadcast")


def dequantize(data: Tensor, scale: Tensor, zero_point: Tensor, axis: int = -1, out_dtype: str = "float32") -> Tensor:
    """`(data - zero_point) * scale`.

    Args:
        data: Any shape; numbers.
        scale: One value without axes, or one per size of `axis`.
        zero_point: One value without axes, or one per size of `axis`.
        axis: The axis that several scales belong to.
        out_dtype: A float dtype.

    Returns:
        Shape of `data`, `out_dtype`; one stage `dequantized`.

    Raises:
        ValueError: no such axis.

    Accuracy: computed in float64 and rounded once.
    Reference: TVM relax.dequantize; ONNX DequantizeLinear.
    """
    along = axis_of(axis, len(data.shape)) if data.shape else 0

    def element(*at: PrimExpr) -> PrimExpr:
        moved = data(*at).astype(_WIDE) - _parameter(zero_point, at, along)
        return (moved * _parameter(scale, at, along)).astype(out_dtype)

    return stage(data.shape, element, "dequantized", "broadcast")
