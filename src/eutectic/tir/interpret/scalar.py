"""Arithmetic of the reference interpreter on single values, rounded or wrapped to the dtype at each operation.

Integers are Python ints within the range of their dtype, bools are Python
bools, floats are NumPy (or ml_dtypes) scalars of their dtype. What the hardware
leaves open is fixed here:

* Integers wrap around, also `-128 // -1` of int8, and conversions to a narrower one.
* Floats to integers round towards zero; NaN gives 0, and what is out of range the nearest limit.
* Floats to bool: everything but zero is true, NaN too.
* A shift by less than zero or by as many bits as there are is an error.
* Quotients of floats are rounded before `floordiv` and `truncdiv` make them whole; `floormod` and
  `truncmod` of floats are NumPy's `remainder` and `fmod`.
* `max` and `min` give NaN when an operand is one, and order -0.0 below 0.0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.ir.dtype import NARROW_INTEGERS, integer_bits, integer_limits, is_float, item_bytes, to_numpy
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
)
from eutectic.support.errors import CodegenError, InternalError

Unary: TypeAlias = Callable[[Any], Any]
Binary: TypeAlias = Callable[[Any, Any], Any]

_NATIVE: Final = ("float16", "float32", "float64")
_POISON_BYTE: Final = 0x6D


def wrapping(dtype: str) -> Callable[[int], int]:
    """What an exact integer becomes in `dtype`."""
    if dtype == "bool":
        return bool
    low, high = integer_limits(dtype)
    mask = high - low

    def wrap(value: int) -> int:
        return value if low <= value <= high else ((value - low) & mask) + low

    return wrap


def rounding(dtype: str) -> Unary:
    """What a number in double precision becomes in the float dtype, rounded once to nearest, ties to even."""
    kind: Any = to_numpy(dtype).type
    return kind if dtype in _NATIVE else lambda value: kind(_odd_float32(float(value)))


def _odd_float32(value: float) -> Any:
    """`value` in single precision, rounded to odd: what is rounded again to fewer bits is then rounded once."""
    near = np.float32(value)
    if float(near) == value or value != value or near.view(np.uint32) & 1:
        return near
    return np.nextafter(near, np.float32(math.inf if value > float(near) else -math.inf))


def from_integer(dtype: str) -> Unary:
    """What an exact integer becomes in the float dtype, rounded once."""
    make = rounding(dtype)
    if dtype == "float64":
        return lambda value: make(float(value))

    def convert(value: int) -> Any:
        spare = value.bit_length() - 40  # no narrower float has as many digits
        if spare > 13:
            size = abs(value)
            sticky = int(size & ((1 << spare) - 1) != 0)
            value = int(math.copysign((size >> spare | sticky) << spare, value))
        return make(float(value))

    return convert


def casting(source: str, target: str) -> Unary:
    """The conversion of a value of one dtype into another."""
    if source == target:
        return lambda value: value
    if target == "bool":
        return lambda value: bool(value != 0)
    if is_float(target):
        if not is_float(source):
            return from_integer(target)
        make = rounding(target)
        return lambda value: make(float(value))
    if not is_float(source):
        return wrapping(target)
    if target in NARROW_INTEGERS:  # as C does by its promotion, and torch: -1.0 is 255 in uint8
        whole, wrap = _saturating("int32"), wrapping(target)
        return lambda value: wrap(whole(value))
    return _saturating(target)


def _saturating(target: str) -> Unary:
    """The conversion of a float into the nearest integer of a dtype towards zero; NaN is 0."""
    low, high = integer_limits(target)

    def saturate(value: Any) -> int:
        number = float(value)
        if number != number:
            return 0
        if math.isinf(number):
            return high if number > 0 else low
        return min(max(int(number), low), high)

    return saturate


def poison(dtype: str) -> Any:
    """The value of memory that was never written: NaN, true, or a large odd integer."""
    if dtype == "bool":
        return True
    if is_float(dtype):
        return rounding(dtype)(math.nan)
    return int.from_bytes(bytes([_POISON_BYTE]) * item_bytes(dtype), "little")


# ---- operators


def maximum(a: Any, b: Any) -> Any:
    """The larger float; NaN if one is NaN, and 0.0 of two zeros unless both are -0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return b if np.signbit(a) else a
    return a if a > b else b


def minimum(a: Any, b: Any) -> Any:
    """The smaller float; NaN if one is NaN, and -0.0 of two zeros unless both are 0.0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return a if np.signbit(a) else b
    return a if a < b else b


def truncated_quotient(a: int, b: int) -> int:
    """The quotient of integers, rounded towards zero."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


_INTEGER: Final[dict[type, Binary]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    Div: truncated_quotient,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    TruncDiv: truncated_quotient,
    TruncMod: lambda a, b: a - b * truncated_quotient(a, b),
}
_FLOAT: Final[dict[type, Binary]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    Div: lambda a, b: np.true_divide(a, b),
    FloorDiv: lambda a, b: np.floor(np.true_divide(a, b)),
    TruncDiv: lambda a, b: np.trunc(np.true_divide(a, b)),
    FloorMod: lambda a, b: np.remainder(a, b),
    TruncMod: lambda a, b: np.fmod(a, b),
}
COMPARISONS: Final[dict[type, Binary]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}


def arithmetic(kind: type, dtype: str) -> Binary:
    """The operator of an arithmetic node on two values of `dtype`.

    Raises:
        CodegenError: the dtype has no arithmetic.
    """
    if is_float(dtype):
        return _float_arithmetic(kind, dtype)
    if dtype == "handle":
        raise CodegenError(f"{kind.__name__} of handles cannot be interpreted")
    if kind in (Max, Min):
        return max if kind is Max else min
    exact, wrap = _INTEGER[kind], wrapping(dtype)
    return lambda a, b: wrap(exact(a, b))


def _float_arithmetic(kind: type, dtype: str) -> Binary:
    if kind in (Max, Min):
        return maximum if kind is Max else minimum
    compute = _FLOAT[kind]
    if dtype in _NATIVE:
        return compute
    make = rounding(dtype)  # double precision has more than twice the digits: rounding it is rounding once
    if kind in (FloorDiv, TruncDiv):
        whole = np.floor if kind is FloorDiv else np.trunc
        return lambda a, b: make(whole(np.float64(make(np.true_divide(np.float64(a), np.float64(b))))))
    return lambda a, b: make(compute(np.float64(a), np.float64(b)))


def comparing(kind: type) -> Binary:
    """The operator of a comparison, which gives a Python bool."""
    compare = COMPARISONS[kind]
    return lambda a, b: bool(compare(a, b))


def shifting(name: str, dtype: str) -> Binary:
    """`shift_left` or `shift_right` of integers; the latter keeps the sign."""
    bits, wrap = integer_bits(dtype), wrapping(dtype)
    move: Binary = operator.lshift if name == "shift_left" else operator.rshift

    def shift(a: int, b: int) -> int:
        if not 0 <= b < bits:
            raise InternalError(f"{name} of a {dtype} by {b} bits")
        return wrap(move(a, b))

    return shift


def fused_multiply_add(dtype: str) -> Callable[[Any, Any, Any], Any]:
    """`x * y + z`, rounded once."""
    make = rounding(dtype)

    def fma(x: Any, y: Any, z: Any) -> Any:
        a, b, c = float(x), float(y), float(z)
        if not (math.isfinite(a) and math.isfinite(b)):
            return make(np.float64(a) * b + c)
        if not math.isfinite(c):
            return make(c)  # the product may overflow in double precision, but is finite
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if exact == 0:
            return make(a * b + c)
        return make(_nearest(exact) if dtype == "float64" else _odd(exact))

    return fma


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _odd(exact: Fraction) -> float:
    """`exact` in double precision, rounded to odd."""
    near = _nearest(exact)
    if math.isinf(near) or Fraction(near) == exact or int(np.float64(near).view(np.uint64)) & 1:
        return near
    return math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
