"""relax.quantize, relax.dequantize: between floats and integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, integer_bounds
from eutectic.relax.op.registry import OpDef, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import axis_of, differ, dims_text, dtype_option, int_of, like, reject
from eutectic.relax.struct_info import TensorStructInfo

_quantize = define_op("relax.quantize", arity=3, fusion="broadcast")
_dequantize = define_op("relax.dequantize", arity=3, fusion="broadcast")

QUANTIZED: Final = ("int8", "uint8", "int16", "uint16", "int32", "float8_e4m3fn", "float8_e5m2")


@node("relax.attrs.QuantizeAttrs")
class QuantizeAttrs(Attrs):
    """The new dtype, and the axis along which scales and zero points vary."""

    axis: int = -1
    out_dtype: str = "int8"


def quantize(
    data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "int8", *, span: Any = None
) -> Call:
    """`round(data / scale) + zero_point`, held to the range of the result's dtype.

    Args:
        data: Any shape; a float dtype.
        scale: One value, or one per size of `axis`; a float dtype.
        zero_point: One value, or one per size of `axis`; an integer dtype.
        axis: The axis that several scales belong to.
        out_dtype: One of `QUANTIZED`.
        span: Python source of the call, for errors.

    Returns:
        Shape of `data`, `out_dtype`.

    Raises:
        TypeInferenceError: a dtype that is not allowed, no such axis, or a number of scales that does not fit.

    Accuracy: divided in float64, rounded to nearest with ties to even; NaN becomes the zero point in integers.
    Reference: TVM relax.quantize; ONNX QuantizeLinear.
    """
    return call(_quantize, data, scale, zero_point, attrs=_attrs(axis, out_dtype, QUANTIZED), span=span)


def dequantize(
    data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "float32", *, span: Any = None
) -> Call:
    """`(data - zero_point) * scale`.

    Args:
        data: Any shape; an integer or float dtype.
        scale: One value, or one per size of `axis`; a float dtype.
        zero_point: One value, or one per size of `axis`; an integer or float dtype.
        axis: The axis that several scales belong to.
        out_dtype: A float dtype.
        span: Python source of the call, for errors.

    Returns:
        Shape of `data`, `out_dtype`.

    Raises:
        TypeInferenceError: a dtype that is not allowed, no such axis, or a number of scales that does not fit.

    Accuracy: computed in float64 and rounded once.
    Reference: TVM relax.dequantize; ONNX DequantizeLinear.
    """
    floats = ("float16", "bfloat16", "float32", "float64")
    return call(_dequantize, data, scale, zero_point, attrs=_attrs(axis, out_dtype, floats), span=span)


def _attrs(axis: int, out_dtype: str, allowed: tuple[str, ...]) -> QuantizeAttrs:
    if dtype_option(out_dtype) not in allowed:
        reject(f"no result of dtype {out_dtype!r} here", help=f"choose one of {', '.join(allowed)}")
    return QuantizeAttrs(int_of(axis, "axis"), out_dtype)


def _infer(c: Call) -> TensorStructInfo:
    data, scale, zero = tensor_args(c)
    attrs = attrs_of(c, QuantizeAttrs)
    to_integers = c.op.name == "relax.quantize"
    if data.dtype and not (is_float(data.dtype) or (not to_integers and is_integer(data.dtype))):
        refuse(c, f"{short_name(c)} of {data.dtype}", help="cast the data with astype")
    if scale.dtype and not is_float(scale.dtype):
        refuse(c, f"{short_name(c)} with a scale of {scale.dtype}", help="scales are floats")
    if zero.dtype and not (is_integer(zero.dtype) or (not to_integers and is_float(zero.dtype))):
        refuse(c, f"{short_name(c)} with a zero point of {zero.dtype}", help="zero points are integers")
    axis = axis_of(c, attrs.axis, data.ndim) if data.ndim > 0 else 0
    for what, info in (("scale", scale), ("zero point", zero)):
        if info.ndim not in (-1, 0, 1):
            refuse(c, f"{short_name(c)}: the {what} has {info.ndim} axes", help="give one value, or one per axis size")
        if info.ndim == 1 and info.dims and data.dims and differ(info.dims[0], data.dims[axis]):
            refuse(
                c,
                f"{short_name(c)} of {dims_text(data.dims)} along axis {axis} with a {what} of {dims_text(info.dims)}",
                help="give one value, or as many as the axis has",
            )
    return like(data, attrs.out_dtype)


def _spread(parameter: Array, axis: int, ndim: int) -> Array:
    """A parameter in float64, one-dimensional ones laid along `axis`."""
    wide = parameter.astype(np.float64)
    return wide if wide.ndim == 0 else wide.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


@_quantize.reference
def _reference_quantize(attrs: QuantizeAttrs, x: Array, scale: Array, zero: Array) -> Array:
    axis, dtype = attrs.axis, attrs.out_dtype
    factor, shift = _spread(scale, axis, x.ndim), _spread(zero, axis, x.ndim)
    if is_float(dtype):
        limit = 448.0 if dtype == "float8_e4m3fn" else 57344.0  # the largest finite values
        return cast(np.clip(x.astype(np.float64) / factor + shift, -limit, limit), dtype)
    scaled = np.rint(x.astype(np.float64) / factor)
    low, high = integer_bounds(dtype)
    return cast(np.clip(np.where(np.isnan(scaled), 0.0, scaled) + shift, low, high), dtype)


@_dequantize.reference
def _reference_dequantize(attrs: QuantizeAttrs, x: Array, scale: Array, zero: Array) -> Array:
    factor, shift = _spread(scale, attrs.axis, x.ndim), _spread(zero, attrs.axis, x.ndim)
    return cast((x.astype(np.float64) - shift) * factor, attrs.out_dtype)


def _define(op: OpDef) -> None:
    op.infer(_infer)


for _op in (_quantize, _dequantize):
    _define(_op)


def _options(attrs: QuantizeAttrs) -> dict[str, Any]:
    return {"axis": attrs.axis, "out_dtype": attrs.out_dtype}


lower(_quantize, topi.quantize, options=_options)
lower(_dequantize, topi.dequantize, options=_options)
