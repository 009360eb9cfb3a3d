"""Element-wise operators of one tensor; the model of a table-driven family is `_unary`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from eutectic import topi
from eutectic.ir.dtype import is_float, is_integer
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.numerics import erf as _erf_of
from eutectic.relax.op.numerics import erfc as _erfc_of
from eutectic.relax.op.registry import call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import like
from eutectic.relax.struct_info import TensorStructInfo


class UnaryConstructor(Protocol):
    """A constructor of one tensor argument."""

    def __call__(self, x: Expr, *, span: Any = None) -> Call:
        """Apply the operator to `x`."""
        ...


_ACCEPTS: Final[dict[str, Callable[[str], bool]]] = {
    "any": lambda dtype: True,
    "number": lambda dtype: dtype != "bool",
    "float": is_float,
    "integer": lambda dtype: is_integer(dtype) or dtype == "bool",
}


def _unary(
    name: str,
    compute: Callable[[Array], Array],
    summary: str,
    *,
    takes: str = "float",
    result: str | None = None,
) -> UnaryConstructor:
    """Define one element-wise operator and return its constructor."""
    op = define_op(f"relax.{name}", arity=1, fusion="elementwise", traits=["pointwise"])

    def constructor(x: Expr, *, span: Any = None) -> Call:
        return call(op, x, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        if info.dtype and not _ACCEPTS[takes](info.dtype):
            article = "an" if takes == "integer" else "a"
            refuse(c, f"{short_name(c)} needs {article} {takes} dtype, got {info.dtype}", help="cast with astype first")
        return like(info, result)

    @op.reference
    def _reference(attrs: None, x: Array) -> Array:
        return cast(compute(widen(x)), result or dtype_of(x))

    lower(op, getattr(topi, name))
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        x: Any shape; {"any" if takes == "any" else takes} dtype.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, dtype {result or "of `x`"}.

    Raises:
        TypeInferenceError: `x` is not a tensor, or of another dtype.

    Accuracy: 16-bit floats are computed in float32 and rounded once.
    Reference: TVM relax.{name}.
    """
    return constructor


def _sign(x: Array) -> Array:
    """Minus one, zero or one; NaN gives zero, as torch.sign does."""
    return (x > 0).astype(np.int8) - (x < 0).astype(np.int8)


def _whole(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A rounding that leaves integers as they are."""
    return lambda x: function(x) if is_float(dtype_of(x)) else x


abs = _unary("abs", np.abs, "Absolute value; the smallest integer stays as it is.", takes="number")
acos = _unary("acos", np.arccos, "Arc cosine.")
acosh = _unary("acosh", np.arccosh, "Inverse hyperbolic cosine.")
asin = _unary("asin", np.arcsin, "Arc sine.")
asinh = _unary("asinh", np.arcsinh, "Inverse hyperbolic sine.")
atan = _unary("atan", np.arctan, "Arc tangent.")
atanh = _unary("atanh", np.arctanh, "Inverse hyperbolic tangent.")
bitwise_not = _unary("bitwise_not", np.invert, "Bits flipped; of bool the negation.", takes="integer")
ceil = _unary("ceil", _whole(np.ceil), "Rounded towards plus infinity.", takes="number")
cos = _unary("cos", np.cos, "Cosine of an angle in radians.")
cosh = _unary("cosh", np.cosh, "Hyperbolic cosine.")
erf = _unary("erf", _erf_of, "Error function.")
erfc = _unary("erfc", _erfc_of, "One minus the error function, without cancellation.")
exp = _unary("exp", np.exp, "`e` to the power `x`.")
floor = _unary("floor", _whole(np.floor), "Rounded towards minus infinity.", takes="number")
isfinite = _unary("isfinite", np.isfinite, "Whether neither infinite nor NaN.", takes="any", result="bool")
isinf = _unary("isinf", np.isinf, "Whether plus or minus infinity.", takes="any", result="bool")
isnan = _unary("isnan", np.isnan, "Whether NaN.", takes="any", result="bool")
log = _unary("log", np.log, "Natural logarithm; of zero minus infinity, of negative numbers NaN.")
logical_not = _unary("logical_not", np.logical_not, "Whether zero (or False).", takes="any", result="bool")
negative = _unary("negative", np.negative, "`-x`; integers wrap around.", takes="number")
round = _unary("round", _whole(np.rint), "Rounded to the nearest integer, halves to even.", takes="number")
rsqrt = _unary("rsqrt", lambda x: 1 / np.sqrt(x), "Reciprocal square root.")
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), "`1 / (1 + exp(-x))`.")
sign = _unary("sign", _sign, "-1, 0 or 1; 0 of NaN.", takes="number")
sin = _unary("sin", np.sin, "Sine of an angle in radians.")
sinh = _unary("sinh", np.sinh, "Hyperbolic sine.")
sqrt = _unary("sqrt", np.sqrt, "Square root; NaN of negative numbers.")
square = _unary("square", np.square, "`x * x`; integers wrap around.", takes="number")
tan = _unary("tan", np.tan, "Tangent of an angle in radians.")
tanh = _unary("tanh", np.tanh, "Hyperbolic tangent.")
trunc = _unary("trunc", _whole(np.trunc), "Rounded towards zero.", takes="number")
