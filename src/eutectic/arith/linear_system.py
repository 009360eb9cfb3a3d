"""Linear equations and inequalities over integers, and quick reasons why they have no solution.

What is found is a contradiction or nothing: equations are taken apart by the digits of mixed radix numbers, variables
are replaced where an equation gives them, bounds are propagated, and alternatives are tried one by one. That decides
nearly all questions about the indices of tiled loops, which are sums of digits; the rest is left to a complete method.

Reference: W. Pugh, "The Omega test: a fast and practical integer programming algorithm for dependence analysis",
Supercomputing 1991, for equations; the digits are those of `arith.iter_map`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd, inf
from typing import Final, Literal, TypeAlias

from eutectic.support.deep import deep

Sum: TypeAlias = dict[int, int]
"""Multiples of variables, which are positive numbers; the constant is that of number zero, and no zeros are kept."""

Atom: TypeAlias = "tuple[Literal['='], Sum] | tuple[Literal['>='], Sum] | tuple[Literal['or'], Sequence[list[Atom]]]"
"""A sum that is zero, one that is not negative, or alternatives of which one holds, each of several atoms."""

MAX_ROUNDS: Final = 12
MAX_COMBINED: Final = 12  # inequalities of which each two are added up
MAX_SYSTEMS: Final = 100  # that are looked at because of alternatives

FALSE: Final[Atom] = (">=", {0: -1})


def plus(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """`a + b * factor`."""
    out = dict(a)
    for key, value in b.items():
        total = out.get(key, 0) + value * factor
        if total:
            out[key] = total
        else:
            out.pop(key, None)
    return out


def scaled(a: Sum, factor: int) -> Sum:
    """`a * factor`."""
    return {key: value * factor for key, value in a.items()} if factor else {}


class _Contradiction(Exception):
    """There is no solution; never leaves this module."""


class LinearSystem:
    """Variables with bounds, and what is known of them.

    Attributes:
        low: Smallest value of each variable, by its number.
        high: Largest value.
    """

    def __init__(self) -> None:
        self.low: list[float] = [1]  # number zero stands for the constant 1
        self.high: list[float] = [1]
        self._defined: dict[int, Sum] = {}
        self._equal: list[Sum] = []
        self._least: list[Sum] = []
        self._choices: list[Sequence[list[Atom]]] = []
        self._changed = False

    def variable(self, low: float = -inf, high: float = inf) -> int:
        """A new variable."""
        number = len(self.low)
        self.low.append(low)
        self.high.append(high)
        if low == high:
            self._defined[number] = {0: int(low)} if low else {}
        elif low > high:
            self._least.append({0: -1})
        return number

    def copy(self) -> LinearSystem:
        """A system that knows the same, to be told more."""
        copy = LinearSystem.__new__(LinearSystem)
        copy.low, copy.high = self.low.copy(), self.high.copy()
        copy._defined, copy._equal = self._defined.copy(), self._equal.copy()
        copy._least, copy._choices, copy._changed = self._least.copy(), self._choices.copy(), True
        return copy

    def add(self, atoms: Iterable[Atom]) -> None:
        """Say that all of some atoms hold."""
        for atom in atoms:
            if atom[0] == "=":
                self._equal.append(atom[1])
            elif atom[0] == ">=":
                self._least.append(atom[1])
            else:
                self._choices.append(atom[1])

    def is_contradictory(self) -> bool:
        """Whether it is proved that there is no solution."""
        return self._fails([MAX_SYSTEMS])

    @deep
    def _fails(self, left: list[int]) -> bool:
        """As `is_contradictory`, while there are systems left to be tried."""
        left[0] -= 1
        try:
            self.settle()
        except _Contradiction:
            return True
        if not self._choices:
            return False
        chosen = min(self._choices, key=len)
        if len(chosen) > left[0]:
            return False
        return all(self._with(branch, chosen)._fails(left) for branch in chosen)

    def contradicts(self, atoms: Iterable[Atom]) -> bool:
        """Whether it is proved that some atoms do not all hold."""
        system = self.copy()
        system.add(atoms)
        return system.is_contradictory()

    def settle(self) -> None:
        """Draw conclusions until nothing changes.

        Raises:
            _Contradiction: there is no solution.
        """
        for number in range(MAX_ROUNDS):
            self._changed = False
            self._solve()
            self._bound()
            self._decide()
            if number or not self._changed:  # around a cycle bounds would rise in each round
                self._look_for_cycles()
            if not self._changed:
                break
        self._combine()

    def reduced(self, total: Sum) -> Sum:
        """A sum in terms of variables that are neither defined by others nor known."""
        while True:
            defined = next((key for key in total if key in self._defined), None)
            if defined is None:
                return total
            factor = total[defined]
            rest = {key: value for key, value in total.items() if key != defined}
            total = plus(rest, self._defined[defined], factor)

    def range_of(self, total: Sum) -> tuple[float, float]:
        """Bounds of a sum, from those of its variables."""
        low: float = 0
        high: float = 0
        lows, highs = self.low, self.high
        for key, value in total.items():
            if value > 0:
                low += value * lows[key]
                high += value * highs[key]
            else:
                low += value * highs[key]
                high += value * lows[key]
        return low, high

    # ---- equations

    def _solve(self) -> None:
        todo, self._equal = self._equal, []
        while todo:
            total = self.reduced(todo.pop())
            terms = [key for key in total if key]
            if not terms:
                if total:
                    raise _Contradiction
                continue
            whole = gcd(*(total[key] for key in terms))
            if total.get(0, 0) % whole:
                raise _Contradiction
            if whole != 1:
                total = {key: value // whole for key, value in total.items()}
            low, high = self.range_of(total)
            if low > 0 or high < 0:
                raise _Contradiction
            parts = self._digits(total, terms) if len(terms) > 1 else None
            if parts is not None:
                todo.extend(parts)
            elif self._define(total, terms):
                self._changed = True
            else:
                self._equal.append(total)

    def _digits(self, total: Sum, terms: list[int]) -> tuple[Sum, Sum] | None:
        """Two equations that say the same, where multiples of a number and a rest that is smaller make one up."""
        ordered = sorted(terms, key=lambda key: -abs(total[key]))
        base = 0
        for count in range(1, len(ordered)):
            base = gcd(base, total[ordered[count - 1]])
            if base <= 1:
                return None
            rest = {key: total[key] for key in ordered[count:]}
            if 0 in total:
                rest[0] = total[0]
            low, high = self.range_of(rest)
            if high - low >= 2 * base or low == -inf or high == inf:
                continue
            first = -(-low // base) * base
            if first + base <= high:
                continue
            if first > high:
                raise _Contradiction
            top = {key: total[key] for key in ordered[:count]}
            return plus(top, {0: 1}, int(first)), plus(rest, {0: 1}, -int(first))
        return None

    def _define(self, total: Sum, terms: list[int]) -> bool:
        """Replace a variable by the others from here on."""
        units = [key for key in terms if abs(total[key]) == 1]
        if not units:
            return False
        chosen = max(units, key=lambda key: ((self.low[key] == -inf) + (self.high[key] == inf), key))
        sign = total[chosen]
        value = {key: -sign * number for key, number in total.items() if key != chosen}
        self._defined[chosen] = value
        low, high = self.low[chosen], self.high[chosen]
        if low != -inf:
            self._least.append(plus(value, {0: 1}, -int(low)))
        if high != inf:
            self._least.append(plus({0: int(high)}, value, -1))
        return True

    # ---- inequalities

    def _bound(self) -> None:
        kept: list[Sum] = []
        met: dict[frozenset[tuple[int, int]], int] = {}
        for item in self._least:
            total = self.reduced(item)
            low, high = self.range_of(total)
            if high < 0:
                raise _Contradiction
            if low >= 0:
                continue
            self._tighten(total, high)
            terms = [key for key in total if key]
            if len(terms) == 1:
                continue
            whole = gcd(*(total[key] for key in terms))
            shift = total.get(0, 0) // whole
            key = frozenset((k, total[k] // whole) for k in terms)
            if key in met and met[key] <= shift:
                continue
            met[key] = shift
            kept.append({**dict(key), **({0: shift} if shift else {})})
        self._least = kept
        for key, shift in met.items():
            other = met.get(frozenset((k, -value) for k, value in key))
            if other is None:
                continue
            if shift + other < 0:
                raise _Contradiction
            if shift + other == 0:
                self._equal.append({**dict(key), **({0: shift} if shift else {})})
                self._changed = True

    def _tighten(self, total: Sum, high: float) -> None:
        """Bounds of variables from a sum that is not negative and at most `high`."""
        for key, factor in total.items():
            if not key:
                continue
            own = factor * (self.high[key] if factor > 0 else self.low[key])
            if high == inf and own != inf:
                continue
            others = high - own if high != inf else self._rest(total, key)
            if others == inf:
                continue
            if factor > 0:
                least = -(int(others) // factor)
                if least > self.low[key]:
                    self._set(key, least, self.high[key])
            else:
                most = int(others) // -factor
                if most < self.high[key]:
                    self._set(key, self.low[key], most)

    def _rest(self, total: Sum, key: int) -> float:
        return self.range_of({k: value for k, value in total.items() if k != key})[1]

    def _set(self, key: int, low: float, high: float) -> None:
        if low > high:
            raise _Contradiction
        self.low[key], self.high[key] = low, high
        self._changed = True
        if low == high:
            self._equal.append(plus({key: 1}, {0: 1}, -int(low)))

    def _look_for_cycles(self) -> None:
        """Look for a variable that would have to be less than itself, along a cycle of differences of two.

        Reference: D. L. Dill, "Timing assumptions and verification of finite-state concurrent systems", 1989, whose
        difference bounds have no solution where a cycle is negative; R. Bellman, "On a routing problem", 1958.
        """
        differences = [found for total in self._least for found in self._differences(total)]
        most: dict[int, int] = {}  # of each variable, if all had been at most zero
        for _ in range(1 + len({number for pair in differences for number in pair[:2]})):
            lower = [(b, most.get(a, 0) + gap) for a, b, gap in differences if most.get(a, 0) + gap < most.get(b, 0)]
            if not lower:
                return
            for number, value in lower:
                most[number] = min(value, most.get(number, 0))
        raise _Contradiction

    def _differences(self, total: Sum) -> Iterator[tuple[int, int, int]]:
        """Numbers `a`, `b` and an integer `c` of each `b <= a + c` that follows from a sum that is not negative."""
        for a, factor in total.items():
            for b, other in total.items():
                if a and b and factor > 0 and other == -factor:
                    rest = self.range_of({key: value for key, value in total.items() if key not in (a, b)})[1]
                    if rest != inf:
                        yield a, b, int(rest) // factor

    def _combine(self) -> None:
        """Add up each two inequalities so that a variable goes away."""
        if len(self._least) > MAX_COMBINED:
            return
        for number, a in enumerate(self._least):
            for b in self._least[:number]:
                for key in a:
                    if key and a[key] * b.get(key, 0) < 0:
                        total = plus(scaled(a, abs(b[key])), b, abs(a[key]))
                        if self.range_of(total)[1] < 0:
                            raise _Contradiction

    # ---- alternatives

    def _decide(self) -> None:
        kept: list[Sequence[list[Atom]]] = []
        for choice in self._choices:
            left = []
            for branch in choice:
                known = self._truth(branch)
                if known is True:
                    break
                if known is None:
                    left.append(branch)
            else:
                if not left:
                    raise _Contradiction
                if len(left) == 1:
                    self.add(left[0])
                    self._changed = True
                else:
                    kept.append(left)
        self._choices = kept

    @deep
    def _truth(self, branch: list[Atom]) -> bool | None:
        """Whether all of some atoms hold, as far as bounds tell."""
        known: bool | None = True
        for atom in branch:
            holds = self._holds(atom)
            if holds is False:
                return False
            if holds is None:
                known = None
        return known

    def _holds(self, atom: Atom) -> bool | None:
        if atom[0] == "or":
            inside = [self._truth(branch) for branch in atom[1]]
            return True if True in inside else None if None in inside else False
        low, high = self.range_of(self.reduced(atom[1]))
        if atom[0] == ">=":
            return True if low >= 0 else False if high < 0 else None
        return True if low == high == 0 else False if low > 0 or high < 0 else None

    def _with(self, branch: list[Atom], choice: Sequence[list[Atom]]) -> LinearSystem:
        system = self.copy()
        system._choices = [other for other in self._choices if other is not choice]
        system.add(branch)
        return system
