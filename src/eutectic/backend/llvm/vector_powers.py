"""Powers and logarithms to other bases, and inverses of hyperbolic functions, of float32 as vector code.

Powers are computed in double precision: an error of a logarithm counts as often as the exponent says. What is exact,
such as `10^2`, comes out so. `vector_functions.py` says how close the others come.
"""

from __future__ import annotations

import math
from typing import Final

from eutectic.backend.llvm.vector_float import VectorFloat
from eutectic.backend.llvm.vector_math import log, log1p, mantissa_and_exponent

_LOG2_TERMS: Final = tuple(2 / (math.log(2) * (2 * n + 1)) for n in range(9))  # of the series of atanh
_EXP2_TERMS: Final = tuple(math.log(2) ** n / math.factorial(n) for n in range(12))
_LEAST_POWER: Final = -160.0  # of two: no float is so small
_MOST_POWER: Final = 130.0
_LARGE: Final = 2.0**62  # from where on 1 does not count beside a square
_EXPONENT_BITS: Final = 52


def log2(x: VectorFloat) -> VectorFloat:
    """Logarithm to base 2."""
    return _of_positive(x, _log2(x))


def log10(x: VectorFloat) -> VectorFloat:
    """Logarithm to base 10."""
    return _of_positive(x, _log2(x) * math.log10(2))


def _of_positive(x: VectorFloat, logarithm: VectorFloat) -> VectorFloat:
    """A logarithm in double precision as a float; NaN of what is negative."""
    return x.filled(math.nan).where(x.test("olt", 0.0), logarithm.convert("fptrunc", "float"))


def _log2(x: VectorFloat) -> VectorFloat:
    """Logarithm to base 2 of what is not negative, in double precision: `n + log2 m`, by the series of atanh."""
    f, n = (part.convert("fpext", "double") for part in mantissa_and_exponent(x))
    s = f / (f + 2.0)
    value = (s * s).polynomial(_LOG2_TERMS).fma(s, n)
    wide = x.convert("fpext", "double")
    value = wide.where(wide.test("ueq", math.inf), value)  # infinity and NaN
    return value.filled(-math.inf).where(wide.test("oeq", 0.0), value)


def exp10(x: VectorFloat) -> VectorFloat:
    """Ten to the power `x`."""
    wide = x.convert("fpext", "double")
    return (x + x).where(x.test("uno", 0.0), _exp2(wide * math.log2(10)))


def _exp2(x: VectorFloat) -> VectorFloat:
    """Two to a power in double precision, as a float: infinity and zero come by its rounding."""
    bounded = x.within(_LEAST_POWER, _MOST_POWER)
    whole = bounded.under("rint")
    grown = (bounded - whole).polynomial(_EXP2_TERMS)
    power = whole.convert("fptosi", "i32").convert("sext", "i64").op("shl", _EXPONENT_BITS)
    return grown.bits.op("add", power).as_float.convert("fptrunc", "float")


def power(x: VectorFloat, y: VectorFloat) -> VectorFloat:
    """`x` to the power `y`, as C's library has it at zeros, infinities, NaN, and of what is negative."""
    size = x.under("fabs")
    value = _exp2(_log2(size) * y.convert("fpext", "double"))
    value = value.filled(1.0).where(size.test("oeq", 1.0), value)  # to infinite powers, too
    value = (x + y).where(x.test("uno", y), value)
    half = y * 0.5
    signed = value.with_sign_of(x).where(half.under("trunc").test("one", half), value)
    value = signed.where(y.under("trunc").test("oeq", y), _without_roots(x, value))
    value = value.filled(1.0).where(y.test("oeq", 0.0), value)
    return value.filled(1.0).where(x.test("oeq", 1.0), value)


def _without_roots(x: VectorFloat, value: VectorFloat) -> VectorFloat:
    """A power that is not whole: NaN where the base is negative and finite."""
    roots = value.filled(math.nan).where(x.test("olt", 0.0), value)
    return value.where(x.test("oeq", -math.inf), roots)


def asinh(x: VectorFloat) -> VectorFloat:
    """Inverse of the hyperbolic sine."""
    size = x.under("fabs")
    square = size * size
    near = log1p(size + square / ((square + 1.0).under("sqrt") + 1.0))
    far = log(size) + math.log(2)
    return far.where(size.test("oge", _LARGE), near).with_sign_of(x)


def acosh(x: VectorFloat) -> VectorFloat:
    """Inverse of the hyperbolic cosine; NaN below 1."""
    above = x - 1.0
    near = log1p(above + (above.fma(above, above + above)).under("sqrt"))
    far = log(x) + math.log(2)
    value = far.where(x.test("oge", _LARGE), near)
    return value.filled(math.nan).where(x.test("olt", 1.0), value)


def atanh(x: VectorFloat) -> VectorFloat:
    """Inverse of the hyperbolic tangent; NaN beyond 1."""
    size = x.under("fabs")
    return (log1p((size + size) / (size.filled(1.0) - size)) * 0.5).with_sign_of(x)
