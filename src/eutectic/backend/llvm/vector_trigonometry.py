"""Sine, cosine, tangent, their inverses, and distances, of float32 as vector code.

`vector_functions.py` says how close they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from eutectic.backend.llvm.vector_float import VectorFloat

_HALF_PI_HIGH: Final = 1.5707963267341256  # 33 bits: its product with a number of turns is exact in double precision
_HALF_PI_LOW: Final = 6.077100506506192e-11
_MOST: Final = 2.0**20  # from where on there are too many turns for that
_SIGN: Final = -(2**31)
_SIN: Final = (
    *(-0.16666666663630123, 0.008333331787425785, -0.00019840039856435366, 2.7243890749222737e-06),
)  # (sin(x) - x) / x^3 in x^2 up to pi / 4, error 3.0e-11
_COS: Final = (
    *(0.04166666666413249, -0.0013888887598962649, 2.4800561163088687e-05, -2.729591278188805e-07),
)  # (cos(x) - 1 + x^2 / 2) / x^4 in x^2 up to pi / 4, error 2.5e-12
_ATAN: Final = (
    *(-0.33333333145393795, 0.19999959521713123, -0.1428427150540765, 0.11090976115428654, -0.08945647959758478),
    *(0.0707151479567301, -0.04962790651754378, 0.02696120254195499, -0.009492842556599622, 0.001565733586158016),
)  # (atan(x) - x) / x^3 in x^2 up to 1, error 1.9e-9
_ASIN: Final = (
    *(0.16666666294807905, 0.07500103155835271, 0.044596625998351486, 0.031131909800498243, 0.017005831568696103),
    *(0.03392100843828791,),
)  # (asin(x) - x) / x^3 in x^2 up to 1 / 2, error 3.7e-9


def sin(x: VectorFloat) -> VectorFloat:
    """Sine: a polynomial of the distance to the nearest quarter of a turn; the C library's where that is uncertain."""
    return _by_quarters("sinf", x, _sin)


def cos(x: VectorFloat) -> VectorFloat:
    """Cosine, as the sine."""
    return _by_quarters("cosf", x, _cos)


def tan(x: VectorFloat) -> VectorFloat:
    """Tangent: a quotient of both."""
    return _by_quarters("tanf", x, _tan)


def _by_quarters(library: str, x: VectorFloat, function: Callable[[VectorFloat], VectorFloat]) -> VectorFloat:
    is_usual = x.under("fabs").test("olt", _MOST)
    return x.where_all(is_usual, partial(function, x), partial(x.by_library, library))


def _sin(x: VectorFloat) -> VectorFloat:
    sine, cosine, quarters = _of_rest(x.under("fabs"))
    return _turned(cosine.where(_is_odd(quarters), sine), quarters, x)


def _cos(x: VectorFloat) -> VectorFloat:
    sine, cosine, quarters = _of_rest(x.under("fabs"))
    return _turned(sine.where(_is_odd(quarters), cosine), quarters.op("add", 1))


def _tan(x: VectorFloat) -> VectorFloat:
    sine, cosine, quarters = _of_rest(x.under("fabs"))
    is_odd = _is_odd(quarters)
    return _turned(cosine.where(is_odd, sine) / sine.where(is_odd, cosine), quarters.op("shl", 1), x)


def _of_rest(size: VectorFloat) -> tuple[VectorFloat, VectorFloat, VectorFloat]:
    """Sine and cosine of what is left of an angle beside quarters of a turn, and the number of these.

    Reference: W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980, on reduction in two steps.
    """
    wide = size.convert("fpext", "double")
    turns = (wide * (2 / math.pi)).under("rint")
    rest = turns.fma(-_HALF_PI_LOW, turns.fma(-_HALF_PI_HIGH, wide)).convert("fptrunc", "float")
    z = rest * rest
    sine = (z * rest).fma(z.polynomial(_SIN), rest)
    cosine = (z * z).fma(z.polynomial(_COS), z.fma(-0.5, 1.0))
    return sine, cosine, turns.convert("fptosi", "i32")


def _is_odd(quarters: VectorFloat) -> Sequence[str]:
    return quarters.op("and", 1).test("ne", 0)


def _turned(value: VectorFloat, quarters: VectorFloat, like: VectorFloat | None = None) -> VectorFloat:
    """A value with the other sign in the third and fourth quarter, and for negative `like`."""
    sign = quarters.op("shl", 30).op("and", _SIGN)
    if like is not None:
        sign = sign.op("xor", like.bits.op("and", _SIGN))
    return value.bits.op("xor", sign).as_float


def hypot(x: VectorFloat, y: VectorFloat) -> VectorFloat:
    """Distance of the point `(x, y)` from the origin; infinite where one of them is, whatever the other."""
    a, b = (part.convert("fpext", "double") for part in (x, y))
    distance = a.fma(a, b * b).under("sqrt").convert("fptrunc", "float")
    for part in (x, y):
        distance = distance.filled(math.inf).where(part.under("fabs").test("oeq", math.inf), distance)
    return distance


def atan(x: VectorFloat) -> VectorFloat:
    """Arc tangent: a polynomial up to 1, a right angle less that of `1 / x` beyond."""
    size = x.under("fabs")
    is_steep = size.test("ogt", 1.0)
    angle = _atan_within((x.filled(1.0) / size).where(is_steep, size))
    return (x.filled(math.pi / 2) - angle).where(is_steep, angle).with_sign_of(x)


def atan2(y: VectorFloat, x: VectorFloat) -> VectorFloat:
    """Angle of the point `(x, y)`, in its quadrant."""
    high, wide = y.under("fabs"), x.under("fabs")
    is_steep = high.test("ogt", wide)
    low, most = wide.where(is_steep, high), high.where(is_steep, wide)
    quotient = low / most
    quotient = quotient.filled(1.0).where(low.test("oeq", math.inf), quotient)  # both are
    quotient = quotient.filled(0.0).where(most.test("oeq", 0.0), quotient)
    angle = _atan_within(quotient)
    angle = (x.filled(math.pi / 2) - angle).where(is_steep, angle)
    angle = (x.filled(math.pi) - angle).where(x.bits.test("slt", 0), angle)
    return (y + x).where(y.test("uno", x), angle.with_sign_of(y))


def _atan_within(x: VectorFloat) -> VectorFloat:
    z = x * x
    return (z * x).fma(z.polynomial(_ATAN), x)


def asin(x: VectorFloat) -> VectorFloat:
    """Arc sine: a polynomial up to a half, a right angle less twice that of half the rest beyond."""
    size = x.under("fabs")
    is_steep = size.test("ogt", 0.5)
    angle = _asin_of_part(size, is_steep)
    return angle.fma(-2.0, math.pi / 2).where(is_steep, angle).with_sign_of(x)


def acos(x: VectorFloat) -> VectorFloat:
    """Arc cosine: a right angle less the arc sine, of what is steep twice that of half the rest."""
    is_steep = x.under("fabs").test("ogt", 0.5)
    angle = _asin_of_part(x.under("fabs"), is_steep)
    near = x.filled(math.pi / 2) - angle.with_sign_of(x)
    steep = angle + angle
    steep = (x.filled(math.pi) - steep).where(x.test("olt", 0.0), steep)
    return steep.where(is_steep, near)


def _asin_of_part(size: VectorFloat, is_steep: Sequence[str]) -> VectorFloat:
    """The arc sine of a size, or of `sqrt((1 - size) / 2)` where it is steep; NaN beyond 1."""
    half = size.fma(-0.5, 0.5)
    z = half.where(is_steep, size * size)
    part = half.under("sqrt").where(is_steep, size)
    return (z * part).fma(z.polynomial(_ASIN), part)
