"""Element-wise operators with three arguments: clip, where, ewise_fma."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.prim_expr import FloatImm, IntImm
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, PrimValue, convert
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import embedded, literal, of_sizes
from eutectic.relax.op.numerics import Array, cast, dtype_of, integer_bounds, widen
from eutectic.relax.op.registry import call, define_op, number_like, refuse, tensor_args
from eutectic.relax.op.shapes import broadcast, differ, dims_text, like, tensor_info
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo

_clip = define_op("relax.clip", arity=3, fusion="elementwise", traits=["pointwise"])
_where = define_op("relax.where", arity=3, fusion="broadcast", traits=["pointwise"])
_fma = define_op("relax.ewise_fma", arity=3, fusion="elementwise", traits=["pointwise"])


def clip(x: Expr, min: Any, max: Any, *, span: Any = None) -> Call:
    """`x` limited to `[min, max]`; NaN stays NaN.

    Args:
        x: Any shape; a number dtype.
        min: Lower bound, a number or scalar; minus infinity for none.
        max: Upper bound; where it is below `min`, the result is `max`.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x`.

    Raises:
        TypeInferenceError: `x` is not a tensor of numbers, or a bound is not a scalar or not
            representable in the dtype of an integer `x`.

    Reference: torch.clamp; TVM relax.clip, whose bounds are arguments too.
    """
    return call(_clip, x, convert(min), convert(max), span=span)


@_clip.infer
def _infer_clip(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    for name, bound in zip(("min", "max"), c.args[1:], strict=True):
        if not isinstance(bound.struct_info, PrimStructInfo):
            refuse(c, f"{name} of clip must be a scalar", help="clip by tensors with maximum and minimum")
        value = _number(bound)
        if value is None:
            continue
        if is_integer(info.dtype) and math.isfinite(value) and not _fits(value, info.dtype, name):
            refuse(c, f"{name} of clip is {value}, which {info.dtype} cannot hold", help="cast x with astype first")
    if info.dtype == "bool":
        refuse(c, "clip is defined for numbers, not for bool", help="cast with astype first")
    return like(info)


def _number(bound: Expr) -> float | int | None:
    value = bound.value if isinstance(bound, PrimValue) else None
    return value.value if isinstance(value, (IntImm, FloatImm)) else None


def _fits(value: float, dtype: str, name: str) -> bool:
    """Whether an integer tensor can be limited by it: a bound beyond the dtype's range on its own side is none."""
    low, high = integer_bounds(dtype)
    return value == int(value) and (value <= high if name == "min" else value >= low)


@_clip.reference
def _reference_clip(attrs: None, x: Array, low: float, high: float) -> Array:
    dtype = dtype_of(x)
    if not is_float(dtype):
        least, most = integer_bounds(dtype)
        low = least if low < least else int(low)
        high = most if high > most else int(high)
    wide = widen(x)
    bounds = [np.asarray(bound).astype(wide.dtype) for bound in (low, high)]
    return cast(np.minimum(np.maximum(wide, bounds[0]), bounds[1]), dtype)


@_clip.legalize
def _legalize_clip(builder: Builder, c: Call) -> Expr:
    low, high = map(literal, c.args[1:])
    return c if low is None or high is None else builder.call_te(topi.clip, c.args[0], low, high)


def where(condition: Expr, x1: Expr | float, x2: Expr | float, *, span: Any = None) -> Call:
    """`x1` where the condition holds, `x2` elsewhere.

    Args:
        condition: bool; all three broadcast.
        x1: Values where True. A Python number becomes a constant of the other's dtype.
        x2: Values where False, same dtype.
        span: Python source of the call, for errors.

    Returns:
        The broadcast shape, dtype of `x1`.

    Raises:
        TypeInferenceError: the condition is not bool, dtypes differ, or shapes do not broadcast.

    Reference: numpy.where; TVM relax.where.
    """
    first = x1 if isinstance(x2, (bool, int, float)) else number_like(x1, convert(x2))
    second = x2 if isinstance(x1, (bool, int, float)) else number_like(x2, convert(x1))
    return call(_where, condition, first, second, span=span)


@_where.infer
def _infer_where(c: Call) -> TensorStructInfo:
    condition, a, b = tensor_args(c)
    if condition.dtype not in ("bool", ""):
        refuse(c, f"the condition of where must be bool, got {condition.dtype}", help="compare it with something")
    if a.dtype and b.dtype and a.dtype != b.dtype:
        refuse(c, f"where of {a.dtype} and {b.dtype}", help="cast one side with astype")
    dims, ndim = broadcast(c, (condition, a, b))
    return tensor_info(dims, a.dtype if b.dtype else "", ndim)


@_where.reference
def _reference_where(attrs: None, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


@_where.legalize
def _legalize_where(builder: Builder, c: Call) -> Expr:
    condition, *branches = c.args
    return builder.call_te(topi.where, condition, *map(embedded, branches))


def ewise_fma(x1: Expr, x2: Expr, x3: Expr, *, span: Any = None) -> Call:
    """`x1 * x2 + x3`, element by element and without broadcasting.

    Args:
        x1: First factor, any shape; numbers.
        x2: Second factor, same shape and dtype.
        x3: Summand, same shape and dtype.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x1`.

    Raises:
        TypeInferenceError: shapes or dtypes differ.

    Accuracy: product and sum are rounded separately; 16-bit floats once, at the end.
    Reference: TVM relax.ewise_fma.
    """
    return call(_fma, x1, x2, x3, span=span)


@_fma.infer
def _infer_fma(c: Call) -> TensorStructInfo:
    infos = tensor_args(c)
    first = infos[0]
    for other in infos[1:]:
        if first.dtype and other.dtype and first.dtype != other.dtype:
            refuse(c, f"ewise_fma of {first.dtype} and {other.dtype}", help="cast with astype so that all dtypes agree")
        unequal = first.ndim != other.ndim if min(first.ndim, other.ndim) >= 0 else False
        if not unequal and first.dims is not None and other.dims is not None:
            unequal = any(differ(a, b) for a, b in zip(first.dims, other.dims, strict=True))
        if unequal:
            refuse(
                c,
                f"ewise_fma needs equal shapes, got {dims_text(first.dims)} and {dims_text(other.dims)}",
                help="broadcast with broadcast_to, or use multiply and add",
            )
    best = next((info for info in infos if info.dims is not None), first)
    return like(best, first.dtype if all(info.dtype for info in infos) else "")


@_fma.reference
def _reference_fma(attrs: None, x1: Array, x2: Array, x3: Array) -> Array:
    return cast(widen(x1) * widen(x2) + widen(x3), dtype_of(x1))


@_fma.legalize
def _legalize_fma(builder: Builder, c: Call) -> Expr:
    first, *others = c.args
    (info,) = tensor_args(c, (0,))
    sizes = dict(enumerate(info.dims or ()))
    return builder.call_te(topi.ewise_fma, first, *(of_sizes(builder, x, sizes) for x in others))
