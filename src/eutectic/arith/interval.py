"""Intervals of integers and residue classes: the values that the analyses of `bounds` compute with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

from eutectic.ir.dtype import integer_limits, is_integer

INF: Final = math.inf
Bound: TypeAlias = int | float  # an int, or an infinity


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `lo` to `hi`, both included; empty when `lo > hi`.

    Attributes:
        lo: Smallest element, or `-INF`.
        hi: Largest element, or `INF`.
    """

    lo: Bound = -INF
    hi: Bound = INF

    @staticmethod
    def point(value: int) -> Interval:
        """The interval of one integer."""
        return Interval(value, value)

    @property
    def is_empty(self) -> bool:
        """Whether it has no element."""
        return self.lo > self.hi

    @property
    def value(self) -> int | None:
        """The only element, or None."""
        return int(self.lo) if self.lo == self.hi else None

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    def covers(self, other: Interval) -> bool:
        """Whether every element of `other` is one of this."""
        return other.is_empty or (self.lo <= other.lo and other.hi <= self.hi)

    def union(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def intersect(self, other: Interval) -> Interval:
        """The elements of both."""
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def __mul__(self, other: Interval) -> Interval:
        return _around(_times(a, b) for a, b in product((self.lo, self.hi), (other.lo, other.hi)))

    def scaled(self, factor: int) -> Interval:
        """The products with a constant."""
        ends = (_times(self.lo, factor), _times(self.hi, factor))
        return Interval(min(ends), max(ends))

    def power(self, exponent: int) -> Interval:
        """The powers of the elements; the exponent is positive."""
        if exponent % 2 or self.lo >= 0:
            return Interval(_power(self.lo, exponent), _power(self.hi, exponent))
        ends = (_power(self.lo, exponent), _power(self.hi, exponent))
        return Interval(0 if self.hi >= 0 else min(ends), max(ends))

    def minimum(self, other: Interval) -> Interval:
        """Smaller of two elements."""
        return Interval(min(self.lo, other.lo), min(self.hi, other.hi))

    def maximum(self, other: Interval) -> Interval:
        """Larger of two elements."""
        return Interval(max(self.lo, other.lo), max(self.hi, other.hi))

    def floordiv(self, other: Interval) -> Interval:
        """Quotients rounded down; zero divisors do not count."""
        parts = [
            _around(_floor(a, b) for a, b in product((x.lo, x.hi), (y.lo, y.hi))) for x, y in _positive(self, other)
        ]
        return _union(parts)

    def floormod(self, other: Interval) -> Interval:
        """Remainders of `floordiv`; zero divisors do not count."""
        below = other.intersect(Interval(-INF, -1))
        above = other.intersect(Interval(1, INF))
        parts = [_remainder(self, above)] if not above.is_empty else []
        if not below.is_empty:
            parts.append(-_remainder(-self, -below))
        return _union(parts)

    def truncdiv(self, other: Interval) -> Interval:
        """Quotients rounded towards zero; zero divisors do not count."""
        parts = [
            _around(_truncated(a, b) for a, b in product((x.lo, x.hi), (y.lo, y.hi))) for x, y in _positive(self, other)
        ]
        return _union(parts)

    def truncmod(self, other: Interval) -> Interval:
        """Remainders of `truncdiv`; zero divisors do not count."""
        size = other.intersect(Interval(1, INF)).union(-other.intersect(Interval(-INF, -1)))
        if size.is_empty:
            return Interval()
        parts = []
        if self.hi >= 0:
            parts.append(_remainder(self.intersect(Interval(0, INF)), size))
        if self.lo < 0:
            parts.append(-_remainder(-self.intersect(Interval(-INF, -1)), size))
        return _union(parts)


def _around(values: object) -> Interval:
    bounds: list[Bound] = list(values)  # type: ignore[call-overload]  # generators of bounds
    return Interval(min(bounds), max(bounds))


def _union(parts: list[Interval]) -> Interval:
    out = parts[0] if parts else Interval()
    for part in parts[1:]:
        out = out.union(part)
    return out


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _power(a: Bound, exponent: int) -> Bound:
    return a**exponent if isinstance(a, int) else (a if exponent % 2 else INF)


def _positive(a: Interval, b: Interval) -> list[tuple[Interval, Interval]]:
    """Dividends and divisors, the divisors positive: `a / b` is `-a / -b`."""
    above, below = b.intersect(Interval(1, INF)), b.intersect(Interval(-INF, -1))
    pairs = [] if above.is_empty else [(a, above)]
    return pairs if below.is_empty else [*pairs, (-a, -below)]


def _floor(a: Bound, b: Bound) -> Bound:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int):
        return a
    return 0 if a >= 0 else -1


def _truncated(a: Bound, b: Bound) -> Bound:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a >= 0 else -(-a // b)
    return a if isinstance(b, int) else 0


def _remainder(a: Interval, b: Interval) -> Interval:
    """`a % b` of positive divisors."""
    if a.lo >= 0 and a.hi < b.lo:
        return a
    divisor = b.value
    if divisor is not None and isinstance(a.lo, int) and isinstance(a.hi, int) and a.lo // divisor == a.hi // divisor:
        return Interval(a.lo % divisor, a.hi % divisor)
    return Interval(0, min(a.hi, b.hi - 1) if a.lo >= 0 else b.hi - 1)


def dtype_range(dtype: str) -> Interval:
    """The values that an integer dtype can hold; everything for dtypes that are no integers."""
    return Interval(*integer_limits(dtype)) if is_integer(dtype) or dtype == "bool" else Interval()


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The integers `coeff * k + base`; one integer when `coeff` is zero, all when it is one.

    Attributes:
        coeff: Distance of neighbours; not negative.
        base: One of them; the smallest that is not negative when `coeff` is positive.
    """

    coeff: int = 1
    base: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "coeff", abs(self.coeff))
        if self.coeff:
            object.__setattr__(self, "base", self.base % self.coeff)

    def __contains__(self, value: int) -> bool:
        return (value - self.base) % self.coeff == 0 if self.coeff else value == self.base

    def __add__(self, other: ModularSet) -> ModularSet:
        return ModularSet(math.gcd(self.coeff, other.coeff), self.base + other.base)

    def __mul__(self, other: ModularSet) -> ModularSet:
        step = math.gcd(self.coeff * other.coeff, self.coeff * other.base, other.coeff * self.base)
        return ModularSet(step, self.base * other.base)

    def scaled(self, factor: int) -> ModularSet:
        """The products with a constant."""
        return ModularSet(self.coeff * factor, self.base * factor)

    def union(self, other: ModularSet) -> ModularSet:
        """The smallest set of this kind around both."""
        return ModularSet(math.gcd(self.coeff, other.coeff, self.base - other.base), self.base)

    def floordiv(self, divisor: int) -> ModularSet:
        """Quotients by a constant, rounded down."""
        if divisor and self.coeff % divisor == 0:
            return ModularSet(self.coeff // divisor, self.base // divisor)
        return ModularSet()

    def truncdiv(self, divisor: int) -> ModularSet:
        """Quotients by a constant, where they are exact."""
        return self.floordiv(divisor) if divisor and self.base % divisor == 0 else ModularSet()

    def floormod(self, divisor: int) -> ModularSet:
        """Remainders by a constant, with the sign of the divisor."""
        if divisor and self.coeff % divisor == 0:
            return ModularSet(0, self.base % divisor)
        return self.congruent(divisor)

    def congruent(self, modulus: int) -> ModularSet:
        """What is left when the values are known up to multiples of `modulus` only."""
        return ModularSet(math.gcd(self.coeff, modulus), self.base)
