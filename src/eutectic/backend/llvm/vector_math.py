"""Exponentials, logarithms, and functions that are made of these, of float32 as vector code.

`vector_functions.py` says how close they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from eutectic.backend.llvm.vector_float import VectorFloat

_Parts: TypeAlias = tuple[VectorFloat, VectorFloat]

_LN2_HIGH: Final = 0.693145751953125  # its product with a small integer is exact
_LN2_LOW: Final = 1.42860682030941723e-06
_LEAST_EXP: Final = -104.0  # up to there exp is zero
_LEAST_EXP2: Final = -151.0  # up to there exp2 is zero
_BEYOND_EXP: Final = 128.0  # from there on exp and exp2 are infinity
_MOST_EXP: Final = 88.72283172607422  # beyond, exp is infinity
_MOST_HALF_EXP: Final = 89.41598510742188  # beyond, half of exp is infinity
_LEAST_POWER: Final = -125  # from where on e^r 2^n is a normal number
_EXP2: Final = (
    *(0.6931471805537175, 0.2402265092233672, 0.055504109287519164, 0.009618056670851359),
    *(0.0013333454552856055, 0.00015461447154228855, 1.531007955251826e-05),
)  # (2^x - 1) / x within a half, error 1.6e-10
_SINH: Final = (
    *(0.1666666664677854, 0.008333339687366048, 0.00019838098915285444, 2.806300615566281e-06),
)  # (sinh(x) - x) / x^3 in x^2 up to 1, error 2.0e-10
_TANH: Final = (
    *(-0.3333333317780621, 0.1333330427559358, -0.05395940558309046),
    *(0.021769959013615302, -0.008346975620405987, 0.0022958367248281245),
)  # (tanh(x) - x) / x^3 in x^2 up to 0.625^2, relative error of tanh 7e-10
_ERF_END: Final = 3.92  # from where on the float32 next to erf is 1
_ERF: Final = (
    *(0.36073680907714356, -0.18010859707861535, 0.1340847932415436, -0.10918054166511981, 0.09059291529548741),
    *(-0.07400414836353719, 0.05842158900252015, -0.04351752466689529, 0.029621368327321207, -0.019784858533363092),
    *(0.014325615691408444, -0.007950687267154422, 0.001833373407578165, -0.001192202954143795),
    *(0.002124123178418813, -0.0009000014233606635),
)  # erf(x) / x in 2 (x / 3.92)^2 - 1 up to 3.92, relative error 3.2e-8
_ERFC_END: Final = 10.06  # from where on the float32 next to erfc is 0
_ERFC_BEND: Final = 3.1
_ERFC: Final = (
    *(0.1737184063254451, -0.3182152988605069, 0.24342446178276544, -0.15325737321261412, 0.0769452071261566),
    *(-0.028763612713780924, 0.006522532093697378, 0.00019064927706948084, -0.0006562228378969403),
)  # exp(x^2) erfc(x) in (x - 3.1) / (x + 3.1) up to 10.06, relative error 4.1e-8; just above 1 at 0, to round to 1
_EXP: Final = (
    *(1.0000000005563778, 1.000000036431025, 0.49999992056088294, 0.16666419680461542),
    *(0.04166822868510318, 0.008374857073530681, 0.001383679391807422),
)  # exp(x) within half of ln 2, relative error 1.9e-9
_WHOLE: Final = 1.5 * 2.0**23  # a float32 of this size has no fraction, and counts in its last bits


def exp(x: VectorFloat) -> VectorFloat:
    """`e` to the power `x`: `2^n * e^r` with `r` within half of ln 2.

    What is too small for a normal number is counted in units of the smallest denormal, as an integer, whose bits are
    those of the float: a product that underflows takes processors some hundred cycles, with zero as its result, too,
    and softmax takes the exponential of minus infinity wherever something is masked.
    """
    if x.has_scale:
        return _by_scale(x, _grown, _LEAST_EXP)
    parts = _grown(x.within(_LEAST_EXP, _MOST_EXP))
    return (x + math.inf).where(x.test("ugt", _MOST_EXP), _scaled(*parts))  # of NaN NaN


def exp2(x: VectorFloat) -> VectorFloat:
    """Two to the power `x`: `2^n * 2^r` with `r` within a half."""
    if x.has_scale:
        return _by_scale(x, _grown_by_two, _LEAST_EXP2)
    parts = _grown_by_two(x.within(_LEAST_EXP2, 127.99999))
    return (x + math.inf).where(x.test("uge", 128.0), _scaled(*parts))


def _grown_by_two(x: VectorFloat) -> _Parts:
    """`2^r` and `n`, where `x = n + r`."""
    whole = x.under("rint")
    rest = x - whole
    return rest.polynomial(_EXP2).fma(rest, 1.0), whole


def _by_scale(x: VectorFloat, grow: Callable[[VectorFloat], _Parts], least: float) -> VectorFloat:
    """What `grow` takes apart put together by one instruction; zero up to `least`."""
    grown, whole = grow(x.filled(_BEYOND_EXP).where(x.test("ogt", _BEYOND_EXP), x))  # NaN stays
    return grown.scaled(whole, x.test("ugt", least))


def _scaled(grown: VectorFloat, whole: VectorFloat) -> VectorFloat:
    """A number within a factor sqrt(2) of 1, times a power of two that makes it finite, or too small for any float."""
    power = whole.convert("fptosi", "i32")
    normal = grown.bits.op("add", power.op("shl", 23)).as_float
    is_tiny = power.test("slt", _LEAST_POWER)
    units = grown * _power_of_two(power.where(is_tiny, _LEAST_POWER).op("add", 149))
    tiny = units.under("rint").convert("fptosi", "i32").as_float
    return tiny.where(is_tiny, normal)


def _exp_within(x: VectorFloat) -> VectorFloat:
    """As `exp`, of what is known to be between -86 and 87, and no NaN."""
    grown, whole = _grown(x)
    return grown.scaled(whole) if x.has_scale else grown * _power_of_two(whole.convert("fptosi", "i32"))


def _grown(x: VectorFloat) -> _Parts:
    """`e^r` and `n`, where `x = n ln 2 + r`."""
    whole = (x * (1 / math.log(2))).under("rint")
    rest = whole.fma(-_LN2_LOW, whole.fma(-_LN2_HIGH, x))
    return rest.polynomial([1 / math.factorial(n) for n in range(8)]), whole


def _power_of_two(exponent: VectorFloat) -> VectorFloat:
    return exponent.op("add", 127).op("shl", 23).as_float


def log(x: VectorFloat) -> VectorFloat:
    """Natural logarithm: `n ln 2 + log m` with `m` within a factor sqrt(2) of 1, by the series of atanh."""
    f, n = mantissa_and_exponent(x)
    s = f / (f + 2.0)
    z = s * s
    tail = z * z.polynomial([2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11])
    square = f * f * 0.5  # log(1+f) = f - (f^2/2 - s (f^2/2 + tail)): exact f first
    logarithm = n * _LN2_HIGH + (f - (square - (s.fma(square + tail, n * _LN2_LOW))))
    logarithm = x.where(x.test("ueq", math.inf), logarithm)  # infinity and NaN
    logarithm = x.filled(-math.inf).where(x.test("oeq", 0.0), logarithm)
    return x.filled(math.nan).where(x.test("olt", 0.0), logarithm)


def mantissa_and_exponent(x: VectorFloat) -> tuple[VectorFloat, VectorFloat]:
    """`m - 1` and `n`, both floats, where a positive finite `x` is `m * 2^n` with `m` within a factor sqrt(2) of 1."""
    tiny = x.test("olt", 2.0**-126)
    bits = (x * 2.0**25).where(tiny, x).bits
    exponent = bits.op("sub", 0x3F3504F3).op("ashr", 23)  # sqrt(1/2)
    mantissa = bits.op("sub", exponent.op("shl", 23)).as_float
    n = exponent.convert("sitofp", "float")
    return mantissa - 1.0, (n - 25.0).where(tiny, n)


def log1p(x: VectorFloat) -> VectorFloat:
    """`log(1 + x)`, with what the sum lost: `log(u) + (x - (u - 1)) / u`; the difference is exact where it counts.

    Reference: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, on log(1 + x).
    """
    u = x + 1.0
    logarithm = log(u)
    value = logarithm + (x - (u - 1.0)) / u
    value = logarithm.where(u.test("oeq", math.inf), logarithm.where(u.test("oeq", 0.0), value))
    return x.where(u.test("oeq", 1.0), value)  # which keeps the sign of zero


def sigmoid(x: VectorFloat) -> VectorFloat:
    """`1 / (1 + exp(-x))`, for negative `x` as `exp(x) / (1 + exp(x))`."""
    grown = exp(-x.under("fabs"))
    return x.filled(1.0).where(x.test("oge", 0.0), grown) / (grown + 1.0)


def tanh(x: VectorFloat) -> VectorFloat:
    """Hyperbolic tangent: a polynomial up to 0.625, else `1 - 2 / (exp(2x) + 1)`."""
    size = x.under("fabs")
    z = x * x
    small = (z * x).fma(z.polynomial(_TANH), x)
    bounded = size.where(size.test("olt", 10.0), 10.0)
    large = x.filled(1.0) - x.filled(2.0) / (_exp_within(bounded * 2.0) + 1.0)
    value = large.where(size.test("oge", 0.625), small)  # of NaN `small`, which is NaN
    return value.with_sign_of(x)  # `small` of -0.0 is 0.0


def sinh(x: VectorFloat) -> VectorFloat:
    """Hyperbolic sine: a polynomial up to 1, else `(e^x - e^-x) / 2`."""
    size = x.under("fabs")
    z = x * x
    half = _half_exp(size)
    large = half - x.filled(0.25) / half
    value = large.where(size.test("oge", 1.0), (z * x).fma(z.polynomial(_SINH), x))
    return value.with_sign_of(x)


def cosh(x: VectorFloat) -> VectorFloat:
    """Hyperbolic cosine: `(e^x + e^-x) / 2`."""
    half = _half_exp(x.under("fabs"))
    return half + x.filled(0.25) / half


def _half_exp(size: VectorFloat) -> VectorFloat:
    """Half of `e` to a power that is not negative, which is finite for a little more than that itself is."""
    grown, whole = _grown(size.within(0.0, _MOST_HALF_EXP))
    half = grown.bits.op("add", whole.convert("fptosi", "i32").op("sub", 1).op("shl", 23)).as_float
    return (size + math.inf).where(size.test("ugt", _MOST_HALF_EXP), half)


def erf(x: VectorFloat) -> VectorFloat:
    """Error function: a polynomial up to 3.92, 1 beyond."""
    place = (x * x).fma(2 / _ERF_END**2, -1.0)
    near = x.under("fabs").test("ult", _ERF_END)
    far = x.filled(1.0).with_sign_of(x)
    return (x * place.polynomial(_ERF)).where(near, far)  # of NaN the polynomial, which is NaN


def erfc(x: VectorFloat) -> VectorFloat:
    """`1 - erf(x)` without cancellation: `exp(-x^2)` times a polynomial in a quotient, of negative `x` 2 less that.

    What is too small for a normal number is so only after a product with the last power of two, zeros apart, which need
    none: products that underflow take some processors long.
    """
    size = x.under("fabs")
    steep = size - _ERFC_BEND
    scaled = _gaussian(x, 64) * (steep / (size + _ERFC_BEND)).polynomial(_ERFC)
    ahead = (x.filled(0.0).where(size.test("oge", _ERFC_END), scaled)) * 2.0**-64
    return (x.filled(2.0) - ahead).where(x.bits.test("slt", 0), ahead)


def _gaussian(x: VectorFloat, grown: int) -> VectorFloat:
    """`exp(-x^2) * 2^grown`; where products are fused the square is not rounded. NaN of NaN."""
    counted = (x * x).fma(-1 / math.log(2), _WHOLE + grown)
    whole = counted - (_WHOLE + grown)
    rest = whole.fma(-_LN2_LOW, (-x).fma(x, whole * -_LN2_HIGH))
    power = counted.bits.op("shl", 23)
    return rest.polynomial(_EXP).bits.op("add", power).as_float
