"""Transcendental functions of float32 as vector code, and how close they come.

Largest errors found over all magnitudes, in units in the last place against double precision, with and
without fused multiply-add (`tests/backend/llvm/test_vector_math.py` checks them): exp 1.2, log 0.9, log1p 1.5,
tanh 1.4, erf 4.0 (3.4 where they are fused), sigmoid 2.3,
erfc 5.4 (65 near its end where they are not: the rounding of the square of 10 counts a hundredfold).
NaN, infinities, signed zeros and denormals are treated as IEEE 754 and C's math library do.
Polynomials are Taylor series where these converge fast enough, else Chebyshev fits made for this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.types import constant, splat, vector

_LN2_HIGH: Final = 0.693145751953125  # its product with a small integer is exact
_LN2_LOW: Final = 1.42860682030941723e-06
_MOST_EXP: Final = 88.72283172607422  # beyond, exp is infinity
_LEAST_POWER: Final = -125  # from where on e^r 2^n is a normal number
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


class VectorFloat:
    """Float32 registers, each a scalar or a vector, that Python's operators emit the same instructions for.

    Attributes:
        text: Where instructions go.
        lanes: Elements of each register.
        names: The registers.
        fence: The constraint of inline assembly for vector registers; empty where there is none.
    """

    def __init__(
        self, text: FunctionText, lanes: int, names: Sequence[str], fence: str = "", *, whole: bool = False
    ) -> None:
        self.text, self.lanes, self.names, self.fence = text, lanes, tuple(names), fence
        self.single = "i32" if whole else "float"
        self.kind = vector(self.single, lanes)

    def _each(self, instruction: Callable[..., str], *operands: Sequence[str]) -> list[str]:
        return [instruction(*names) for names in zip(self.names, *operands, strict=True)]

    def _like(self, names: Sequence[str]) -> VectorFloat:
        return VectorFloat(self.text, self.lanes, names, self.fence, whole=self.single == "i32")

    def numbers(self, value: Any) -> Sequence[str]:
        """Operands: other registers, or a Python number in all lanes."""
        if isinstance(value, VectorFloat):
            return value.names
        text = str(int(value)) if self.single == "i32" else constant("float32", value)
        return [splat(self.single, text, self.lanes)] * len(self.names)

    def filled(self, value: float) -> VectorFloat:
        """As many registers with a number in all lanes."""
        return self._like(self.numbers(value))

    def op(self, word: str, other: Any) -> VectorFloat:
        """`word self, other`."""

        def instruction(name: str, operand: str) -> str:
            return self.text.assign(f"{word} {self.kind} {name}, {operand}")

        return self._like(self._each(instruction, self.numbers(other)))

    def __add__(self, other: Any) -> VectorFloat:
        return self.op("fadd", other)

    def __sub__(self, other: Any) -> VectorFloat:
        return self.op("fsub", other)

    def __mul__(self, other: Any) -> VectorFloat:
        return self.op("fmul", other)

    def __truediv__(self, other: Any) -> VectorFloat:
        return self.op("fdiv", other)

    def __neg__(self) -> VectorFloat:
        return self._like(self._each(lambda name: self.text.assign(f"fneg {self.kind} {name}")))

    def fma(self, factor: Any, term: Any) -> VectorFloat:
        """`self * factor + term`, fused where the machine can."""
        return self._intrinsic("fmuladd", self.numbers(factor), self.numbers(term))

    def under(self, name: str) -> VectorFloat:
        """The value of an LLVM intrinsic of one argument."""
        return self._intrinsic(name)

    def with_sign_of(self, other: VectorFloat) -> VectorFloat:
        """The magnitude of this with the sign of another."""
        return self._intrinsic("copysign", other.names)

    def _intrinsic(self, name: str, *operands: Sequence[str]) -> VectorFloat:
        def instruction(*names: str) -> str:
            args = [(self.kind, each) for each in names]
            return self.text.call(self.kind, f"llvm.{name}.{overload(self.kind)}", args)

        return self._like(self._each(instruction, *operands))

    def test(self, word: str, other: Any) -> Sequence[str]:
        """A comparison: `fcmp word` or `icmp word`."""
        compare = "icmp" if self.single == "i32" else "fcmp"

        def instruction(name: str, operand: str) -> str:
            return self.text.assign(f"{compare} {word} {self.kind} {name}, {operand}")

        return self._each(instruction, self.numbers(other))

    def where(self, conditions: Sequence[str], other: Any) -> VectorFloat:
        """This where the conditions hold, `other` elsewhere."""
        flags = vector("i1", self.lanes)

        def instruction(name: str, condition: str, operand: str) -> str:
            return self.text.assign(f"select {flags} {condition}, {self.kind} {name}, {self.kind} {operand}")

        return self._like(self._each(instruction, conditions, self.numbers(other)))

    def convert(self, word: str, single: str) -> VectorFloat:
        """A conversion instruction to `float` or `i32` lanes."""
        kind = vector(single, self.lanes)
        names = self._each(lambda name: self.text.assign(f"{word} {self.kind} {name} to {kind}"))
        return VectorFloat(self.text, self.lanes, names, self.fence, whole=single == "i32")

    def polynomial(self, coefficients: Sequence[float]) -> VectorFloat:
        """The polynomial with these coefficients, constant term first, by Horner's rule."""
        total = (
            self * 0.0 + coefficients[-1] if len(coefficients) == 1 else self.fma(coefficients[-1], coefficients[-2])
        )
        for coefficient in reversed(coefficients[:-2]):
            total = total.in_step().fma(self, coefficient)
        return total

    def in_step(self) -> VectorFloat:
        """The same registers, of which none is used before all of them are there.

        Empty assembly that takes all of them is an order that LLVM keeps, which would else write one chain of products
        after the other, to need few registers; `lockstep` says what that costs.
        """
        if len(self.names) == 1 or not self.fence:
            return self
        kinds = "{ " + ", ".join([self.kind] * len(self.names)) + " }"
        constraints = ",".join([f"={self.fence}"] * len(self.names) + [str(i) for i in range(len(self.names))])
        operands = ", ".join(f"{self.kind} {name}" for name in self.names)
        fenced = self.text.assign(f'call {kinds} asm "", "{constraints}"({operands})')
        return self._like([self.text.assign(f"extractvalue {kinds} {fenced}, {i}") for i in range(len(self.names))])


def exp(x: VectorFloat) -> VectorFloat:
    """`e` to the power `x`: `2^n * e^r` with `r` within half of ln 2.

    What is too small for a normal number is counted in units of the smallest denormal, as an integer, whose bits are
    those of the float: a product that underflows takes processors some hundred cycles, with zero as its result, too,
    and softmax takes the exponential of minus infinity wherever something is masked.
    """
    bounded = x.where(x.test("olt", _MOST_EXP), _MOST_EXP)
    bounded = bounded.where(bounded.test("ogt", -104.0), -104.0)
    grown, power = _grown(bounded)
    normal = grown.convert("bitcast", "i32").op("add", power.op("shl", 23)).convert("bitcast", "float")
    is_tiny = power.test("slt", _LEAST_POWER)
    units = grown * _power_of_two(power.where(is_tiny, _LEAST_POWER).op("add", 149))
    tiny = units.under("rint").convert("fptosi", "i32").convert("bitcast", "float")
    return (x + math.inf).where(x.test("ugt", _MOST_EXP), tiny.where(is_tiny, normal))  # of NaN NaN


def _exp_within(x: VectorFloat) -> VectorFloat:
    """As `exp`, of what is known to be between -86 and 87, and no NaN."""
    grown, power = _grown(x)
    return grown * _power_of_two(power)


def _grown(x: VectorFloat) -> tuple[VectorFloat, VectorFloat]:
    """`e^r` and `n`, where `x = n ln 2 + r`."""
    whole = (x * (1 / math.log(2))).under("rint")
    rest = whole.fma(-_LN2_LOW, whole.fma(-_LN2_HIGH, x))
    return rest.polynomial([1 / math.factorial(n) for n in range(8)]), whole.convert("fptosi", "i32")


def _power_of_two(exponent: VectorFloat) -> VectorFloat:
    return exponent.op("add", 127).op("shl", 23).convert("bitcast", "float")


def log(x: VectorFloat) -> VectorFloat:
    """Natural logarithm: `n ln 2 + log m` with `m` within a factor sqrt(2) of 1, by the series of atanh."""
    tiny = x.test("olt", 2.0**-126)
    scaled = (x * 2.0**25).where(tiny, x)
    bits = scaled.convert("bitcast", "i32")
    moved = bits.op("sub", 0x3F3504F3)  # sqrt(1/2)
    exponent = moved.op("ashr", 23)
    mantissa = bits.op("sub", exponent.op("shl", 23)).convert("bitcast", "float")
    n = exponent.convert("sitofp", "float")
    n = (n - 25.0).where(tiny, n)
    f = mantissa - 1.0
    s = f / (f + 2.0)
    z = s * s
    tail = z * z.polynomial([2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11])
    square = f * f * 0.5  # log(1+f) = f - (f^2/2 - s (f^2/2 + tail)): exact f first
    logarithm = n * _LN2_HIGH + (f - (square - (s.fma(square + tail, n * _LN2_LOW))))
    logarithm = x.where(x.test("ueq", math.inf), logarithm)  # infinity and NaN
    logarithm = x.filled(-math.inf).where(x.test("oeq", 0.0), logarithm)
    return x.filled(math.nan).where(x.test("olt", 0.0), logarithm)


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
    return (x.filled(2.0) - ahead).where(x.convert("bitcast", "i32").test("slt", 0), ahead)


def _gaussian(x: VectorFloat, grown: int) -> VectorFloat:
    """`exp(-x^2) * 2^grown`; where products are fused the square is not rounded. NaN of NaN."""
    counted = (x * x).fma(-1 / math.log(2), _WHOLE + grown)
    whole = counted - (_WHOLE + grown)
    rest = whole.fma(-_LN2_LOW, (-x).fma(x, whole * -_LN2_HIGH))
    power = counted.convert("bitcast", "i32").op("shl", 23)
    return rest.polynomial(_EXP).convert("bitcast", "i32").op("add", power).convert("bitcast", "float")


FUNCTIONS: Final[dict[str, Callable[[VectorFloat], VectorFloat]]] = {
    "exp": exp,
    "log": log,
    "log1p": log1p,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
    "erfc": erfc,
}
