"""Element-wise operators of one tensor, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor
from eutectic.te.tensor import TENSOR_OPERATORS
from eutectic.tir import op
from eutectic.topi.shapes import elementwise
from eutectic.topi.special_values import accumulator, convert, nan_max, nan_min, widen

UnaryDefinition = Callable[[Tensor], Tensor]


def _unary(
    name: str,
    value: Callable[[PrimExpr], PrimExpr],
    summary: str,
    *,
    stage: str = "compute",
    floats: bool = True,
    result: str | None = None,
) -> UnaryDefinition:
    """Define one operator; `value` takes an element, floats of 16 bits in float32."""

    def definition(x: Tensor) -> Tensor:
        if floats and not is_float(x.dtype):
            raise TypeError(f"{name} needs a float dtype, got {x.dtype}")
        return elementwise(x, lambda e: convert(value(widen(e)), result or x.dtype), stage)

    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"""{summary}

    Args:
        x: Any shape; {"a float dtype" if floats else "any dtype"}.

    Returns:
        Shape of `x`, dtype {result or "of `x`"}; one stage `{stage}`.

    Raises:
        TypeError: another dtype.

    Reference: TVM topi.{name}.
    """
    return definition


def _sign(x: PrimExpr) -> PrimExpr:
    """Minus one, zero or one; zero of NaN."""
    zero = as_prim(0, x.dtype)
    one = as_prim(1, x.dtype)
    below = zero if x.dtype.startswith("uint") else Select(x < 0, as_prim(-1, x.dtype), zero)
    return Select(x > 0, one, below)


def _whole(function: Callable[[Any], PrimExpr]) -> Callable[[PrimExpr], PrimExpr]:
    return lambda x: function(x) if is_float(x.dtype) else x


def _rsqrt(x: PrimExpr) -> PrimExpr:
    return 1.0 / op.sqrt(x)


abs = _unary("abs", op.abs, "Absolute value.", floats=False)
acos = _unary("acos", op.acos, "Arc cosine.")
acosh = _unary("acosh", op.acosh, "Inverse hyperbolic cosine.")
asin = _unary("asin", op.asin, "Arc sine.")
asinh = _unary("asinh", op.asinh, "Inverse hyperbolic sine.")
atan = _unary("atan", op.atan, "Arc tangent.")
atanh = _unary("atanh", op.atanh, "Inverse hyperbolic tangent.")
bitwise_not = _unary("bitwise_not", lambda x: ~x, "Bits flipped.", stage="T_bitwise_not", floats=False)
ceil = _unary("ceil", op.ceil, "Rounded towards plus infinity.", floats=False)
cos = _unary("cos", op.cos, "Cosine of an angle in radians.")
cosh = _unary("cosh", op.cosh, "Hyperbolic cosine.")
erf = _unary("erf", op.erf, "Error function.")
erfc = _unary("erfc", op.erfc, "One minus the error function, without cancellation.")
exp = _unary("exp", op.exp, "`e` to the power `x`.")
floor = _unary("floor", op.floor, "Rounded towards minus infinity.", floats=False)
identity = _unary("identity", lambda x: x, "A copy.", stage="T_identity", floats=False)
isfinite = _unary(
    "isfinite", op.isfinite, "Whether neither infinite nor NaN.", stage="T_isfinite", floats=False, result="bool"
)
isinf = _unary("isinf", op.isinf, "Whether infinite.", stage="T_isinf", floats=False, result="bool")
isnan = _unary("isnan", op.isnan, "Whether NaN.", stage="T_isnan", floats=False, result="bool")
log = _unary("log", op.log, "Natural logarithm.")
log2 = _unary("log2", op.log2, "Logarithm to base 2.")
log10 = _unary("log10", op.log10, "Logarithm to base 10.")
log1p = _unary("log1p", op.log1p, "`log(1 + x)`.")
logical_not = _unary(
    "logical_not",
    lambda x: op.logical_not(convert(x, "bool")),
    "Whether zero.",
    stage="T_logical_not",
    floats=False,
    result="bool",
)
negative = _unary("negative", lambda x: -x, "`-x`; integers wrap around.", stage="T_negative", floats=False)
round = _unary("round", _whole(op.nearbyint), "Rounded to nearest, halves to even.", floats=False)
rsqrt = _unary("rsqrt", _rsqrt, "Reciprocal square root.")
sigmoid = _unary("sigmoid", op.sigmoid, "`1 / (1 + exp(-x))`.")
sign = _unary("sign", _sign, "-1, 0 or 1; 0 of NaN.", stage="T_sign", floats=False)
sin = _unary("sin", op.sin, "Sine of an angle in radians.")
sinh = _unary("sinh", op.sinh, "Hyperbolic sine.")
sqrt = _unary("sqrt", op.sqrt, "Square root.")
square = _unary("square", lambda x: x * x, "`x * x`; integers wrap around.", floats=False)
tan = _unary("tan", op.tan, "Tangent of an angle in radians.")
tanh = _unary("tanh", op.tanh, "Hyperbolic tangent.")
trunc = _unary("trunc", op.trunc, "Rounded towards zero.", floats=False)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Every element converted.

    Args:
        x: Any shape and dtype.
        dtype: Dtype of the result; of bool whether the element is not zero.

    Returns:
        Shape of `x`; one stage `compute`.
    """
    return elementwise(x, lambda e: convert(e, dtype))


def clip(x: Tensor, a_min: PrimExpr | float, a_max: PrimExpr | float) -> Tensor:
    """Every element limited to `[a_min, a_max]`; NaN stays.

    Args:
        x: Any shape; numbers.
        a_min: Lower bound; for integers rounded towards zero, and limited to the dtype.
        a_max: Upper bound.

    Returns:
        Shape and dtype of `x`; one stage `compute`.

    Reference: TVM topi.clip, which loses NaN.
    """
    low, high = (bound(x.dtype, value) for value in (a_min, a_max))
    return elementwise(x, lambda e: nan_min(nan_max(widen(e), low), high).astype(x.dtype))


def bound(dtype: str, value: PrimExpr | float) -> PrimExpr | float:
    """A bound as a number that `dtype` has; of an expression one in the dtype that it is compared in."""
    if is_float(dtype):
        return value.astype(accumulator(dtype)) if isinstance(value, PrimExpr) else float(value)
    least, most = int(_limit(op.min_value(dtype))), int(_limit(op.max_value(dtype)))
    if isinstance(value, PrimExpr):
        return value.astype(dtype) if is_float(value.dtype) else op.max(op.min(value, most), least).astype(dtype)
    return least if value < least else most if value > most else int(value)


def _limit(expr: PrimExpr) -> int:
    assert isinstance(expr, IntImm)
    return expr.value


TENSOR_OPERATORS.update(cast=cast, negative=negative)
