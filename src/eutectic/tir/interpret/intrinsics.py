"""The meaning of the intrinsics of `tir/op.py` on single values.

Transcendental functions are computed in double precision and rounded once to the
dtype of the call; in float64 they are as exact as NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import integer_bits, is_float, to_numpy
from eutectic.ir.prim_expr import element_dtype
from eutectic.support.errors import InternalError
from eutectic.tir.interpret.scalar import Unary, fused_multiply_add, rounding, shifting, wrapping


def _sigmoid(x: Any) -> Any:
    if x >= 0:
        return 1.0 / (1.0 + np.exp(-x))
    grown = np.exp(x)
    return grown / (1.0 + grown)


def _pow(x: Any, y: Any) -> Any:
    """C's pow; NumPy takes the square root for an exponent of a half, which differs at -inf and -0."""
    if y != 0.5:
        return np.power(x, y)
    return np.float64(math.inf) if x == -math.inf else np.sqrt(x) + 0.0


_FLOAT_UNARY: Final[dict[str, Unary]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan"),
            *("sinh", "cosh", "tanh", "floor", "ceil", "trunc", "fabs"),
        )
    },
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "erfc": math.erfc,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "round": np.rint,
    "nearbyint": np.rint,
}
_FLOAT_BINARY: Final[dict[str, Any]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "pow": _pow,
    "ldexp": lambda x, exponent: np.ldexp(x, int(max(min(exponent, 1 << 20), -(1 << 20)))),
    "copysign": np.copysign,
}
_CLASSES: Final[dict[str, Unary]] = {"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite}
_BITWISE: Final[dict[str, Callable[..., int]]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
}


def intrinsic_meaning(name: str, dtype: str, operands: Sequence[str]) -> Callable[..., Any] | None:
    """What an intrinsic computes from one value per argument; None when it is not such a function.

    Args:
        name: Its name without `tir.`.
        dtype: Element dtype of the call.
        operands: Element dtypes of the arguments.
    """
    if name in _FLOAT_UNARY or name in _FLOAT_BINARY:
        return _through_double(name, dtype, operands)
    if name in _CLASSES:
        decide = _CLASSES[name]
        return lambda x: decide(float(x))
    if name in _BITWISE:
        exact, wrap = _BITWISE[name], wrapping(dtype)
        return lambda *args: wrap(exact(*args))
    match name:
        case "shift_left" | "shift_right":
            return shifting(name, dtype)
        case "fma":
            return fused_multiply_add(dtype)
        case "nextafter":
            kind = to_numpy(dtype)
            return lambda x, y: kind.type(np.nextafter(np.asarray(x, kind), np.asarray(y, kind)))
        case "popcount" | "clz":
            return _bit_count(name, operands[0], dtype)
        case "likely":
            return lambda x: x
        case "assume":
            return _assume
        case _:
            return None


def _through_double(name: str, dtype: str, operands: Sequence[str]) -> Callable[..., Any]:
    if not is_float(dtype):
        return lambda x: x  # rounding an integer
    make = rounding(dtype)
    if name in _FLOAT_UNARY:
        unary = _FLOAT_UNARY[name]
        return lambda x: make(unary(np.float64(x)))
    binary = _FLOAT_BINARY[name]
    if name == "ldexp":
        return lambda x, exponent: make(binary(np.float64(x), exponent))
    return lambda x, y: make(binary(np.float64(x), np.float64(y)))


def _bit_count(name: str, operand: str, dtype: str) -> Unary:
    bits, wrap = integer_bits(operand), wrapping(dtype)
    mask = (1 << bits) - 1
    if name == "popcount":
        return lambda x: wrap((x & mask).bit_count())
    return lambda x: wrap(bits - (x & mask).bit_length())


def _assume(condition: bool) -> bool:
    if not condition:
        raise InternalError("the program assumes a condition that does not hold")
    return True


def reinterpret(values: Sequence[Any], source: str, target: str) -> tuple[Any, ...]:
    """The bits of values of one dtype, read as values of another.

    Raises:
        InternalError: the sizes differ.
    """
    data = np.array([to_numpy(element_dtype(source)).type(v) for v in values], to_numpy(element_dtype(source)))
    kind = to_numpy(element_dtype(target))
    raw = data.tobytes()
    if len(raw) % kind.itemsize:
        raise InternalError(f"reinterpret of {len(raw)} bytes as {target}")
    elements = np.frombuffer(raw, np.uint8).astype(bool) if kind == np.bool_ else np.frombuffer(raw, kind)
    return tuple(native(value, element_dtype(target)) for value in elements)


def native(value: Any, dtype: str) -> Any:
    """A NumPy scalar of `dtype` as the interpreter holds it."""
    return value if is_float(dtype) else value.item()
