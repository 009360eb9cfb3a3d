"""Rules of floor division on sums: what divides goes out, what is small goes away, digits are joined again.

All rules hold for negative dividends too; those that need an operand to be
small or positive ask the facts. Divisors are not zero: a division by zero has no
value that a rewrite could change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Final

from eutectic.arith.facts import Facts
from eutectic.arith.interval import Interval, dtype_range
from eutectic.arith.polynomial import (
    Atom,
    AtomTable,
    Monomial,
    Polynomial,
    atom_key,
    atoms_of,
    constant,
    is_writable,
    number,
    ordered,
    plus,
    scaled,
    single,
    times,
    times_monomial,
    without,
    write,
)
from eutectic.ir.prim_expr import FloorDiv, FloorMod
from eutectic.support.deep import deep

DIV: Final = "tir.FloorDiv"
MOD: Final = "tir.FloorMod"
MAX_FACTORS: Final = 16  # factors of a divisor that are tried
MAX_JOINED: Final = 12  # sums with more divisions are not searched for digits to join
MAX_PROOFS: Final = 3  # proofs within proofs
MAX_STEPS: Final = 32  # steps of one polynomial division


@dataclass
class Division:
    """Divides sums of one dtype.

    Attributes:
        table: Where atoms are made.
        facts: What is known about the atoms.
        dtype: Dtype of the expressions.
    """

    table: AtomTable
    facts: Facts
    dtype: str
    _done: dict[object, tuple[Polynomial, Polynomial]] = field(default_factory=dict)
    _busy: set[object] = field(default_factory=set)
    _proofs: int = 0

    def floordiv(self, top: Polynomial, bottom: Polynomial) -> Polynomial:
        """`top // bottom`."""
        return self._divide(top, bottom)[0]

    def floormod(self, top: Polynomial, bottom: Polynomial) -> Polynomial:
        """`top % bottom`."""
        d = constant(bottom)
        return self._divide(self._without_remainders(top, d) if d else top, bottom)[1]

    def _without_remainders(self, top: Polynomial, d: int) -> Polynomial:
        """`(p % e + q) % d` is `(p + q) % d` when `d` divides `e`."""
        changed = True
        while changed:
            changed = False
            for monomial, coefficient in ordered(top):
                atom = monomial[0] if len(monomial) == 1 else None
                if atom is None or atom.kind != MOD:
                    continue
                e = constant(atom.operands[1])
                if e is not None and (coefficient * e) % d == 0:
                    rest = {m: c for m, c in top.items() if m != monomial}
                    top, changed = plus(rest, atom.operands[0], coefficient), True
                    break
        return top

    @deep
    def _divide(self, top: Polynomial, bottom: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Quotient and remainder."""
        key = (frozenset(top.items()), frozenset(bottom.items()))
        quotient_and_remainder = self._done.get(key)
        if quotient_and_remainder is None:
            if key in self._busy:  # a proof about this division meets it again
                return self._atom(DIV, top, bottom), self._atom(MOD, top, bottom)
            self._busy.add(key)
            try:
                d = constant(bottom)
                quotient_and_remainder = self._by_sum(top, bottom) if d is None else self._by_constant(top, d)
            finally:
                self._busy.discard(key)
            self._done[key] = quotient_and_remainder
        return quotient_and_remainder

    # ---- constant divisors

    def _by_constant(self, top: Polynomial, d: int) -> tuple[Polynomial, Polynomial]:
        if d < 0:
            quotient, remainder = self._divide(scaled(top, -1), number(-d))
            return quotient, scaled(remainder, -1)
        whole, rest = _split(top, d)
        if not rest:
            return whole, {}
        block = _block(self.facts.interval(rest), d)
        if block is not None:
            return plus(whole, number(block)), plus(rest, number(block * d), -1)
        for g in _factors(rest, d):
            coarse, fine = _parts(rest, g)
            block = _block(self.facts.interval(fine), g)
            if block is not None and coarse:
                quotient, remainder = self._divide(plus(coarse, number(block)), number(d // g))
                low = plus(fine, number(block * g), -1)
                return plus(whole, quotient), plus(scaled(remainder, g), low)
        quotient, remainder = self._of_digit(rest, d)
        return plus(whole, quotient), remainder

    def _of_digit(self, rest: Polynomial, d: int) -> tuple[Polynomial, Polynomial]:
        """Quotients of quotients and of remainders."""
        bottom = number(d)
        shift = rest.get((), 0)
        outer = self._of_quotient(rest, d)
        if outer is not None:
            return outer, self._atom(MOD, rest, bottom)
        atom = single({m: c for m, c in rest.items() if m})
        if atom is not None and atom.kind == MOD and not shift:
            inner, e = atom.operands
            size = constant(e)
            if size is not None and size > 0 and size % d == 0:
                quotient = self.floordiv(inner, bottom)
                return self.floormod(quotient, number(size // d)), self.floormod(inner, bottom)
        return self._atom(DIV, rest, bottom), self._atom(MOD, rest, bottom)

    def _of_quotient(self, rest: Polynomial, d: int) -> Polynomial | None:
        """`(p // e + q) // d` as `(p + q * e) // (e * d)`; None when there is no such quotient in the sum."""
        for monomial, c in ordered(rest):
            if c != 1 or len(monomial) != 1 or monomial[0].kind != DIV:
                continue
            inner, e = monomial[0].operands
            others = {m: k for m, k in rest.items() if m != monomial}
            moved = times(others, e)
            if moved is not None and (not others or constant(e) is not None):
                return self.floordiv(plus(inner, moved), scaled(e, d))
        return None

    # ---- divisors that are sums

    def _by_sum(self, top: Polynomial, bottom: Polynomial) -> tuple[Polynomial, Polynomial]:
        if not top:
            return {}, {}
        whole, rest = self._long_division(top, bottom)
        if not rest:
            return whole, {}
        if self._is_remainder(rest, bottom):
            return whole, rest
        if self._is_remainder(top, bottom):
            return {}, top
        if len(bottom) > 1:
            whole, rest = {}, top
        atom = single(rest)
        if atom is not None and atom.kind == DIV and self.facts.interval(bottom).lo >= 0:
            combined = times(atom.operands[1], bottom)
            if combined is not None:
                return plus(whole, self.floordiv(atom.operands[0], combined)), self._atom(MOD, rest, bottom)
        return plus(whole, self._atom(DIV, rest, bottom)), self._atom(MOD, rest, bottom)

    def _long_division(self, top: Polynomial, bottom: Polynomial) -> tuple[Polynomial, Polynomial]:
        """`top` as `bottom * quotient + rest`."""
        lead, scale = next((m, c) for m, c in sorted(ordered(bottom), key=lambda term: -len(term[0])))
        whole: Polynomial = {}
        for _ in range(MAX_STEPS):
            for monomial, coefficient in ordered(top):
                factors = without(monomial, lead)
                if factors is not None and coefficient % scale == 0:
                    step = coefficient // scale
                    whole = plus(whole, {factors: step})
                    top = plus(top, times_monomial(bottom, factors, step), -1)
                    break
            else:
                break
        return whole, top

    def _is_remainder(self, rest: Polynomial, bottom: Polynomial) -> bool:
        above = plus(plus(bottom, rest, -1), number(1), -1)
        return self.proves(rest) and self.proves(above)

    def proves(self, p: Polynomial) -> bool:
        """Whether a sum is not negative."""
        if self._proofs >= MAX_PROOFS:
            return self.facts.interval(p).lo >= 0
        self._proofs += 1
        try:
            return self.facts.at_least_zero(p, self.joined)
        finally:
            self._proofs -= 1

    # ---- atoms

    def _atom(self, kind: str, top: Polynomial, bottom: Polynomial) -> Polynomial:
        key = atom_key(kind, self.dtype, (top, bottom))
        atom = self.table.find(key)
        if atom is None:
            for p in (top, bottom):
                fits = self.dtype[0] != "u" or dtype_range(self.dtype).covers(self.facts.interval(p))
                if not (fits and is_writable(p, self.dtype)):
                    raise OverflowError(f"a part of a quotient leaves {self.dtype}")
            make = FloorDiv if kind == DIV else FloorMod
            expr = make(write(top, self.dtype), write(bottom, self.dtype))
            atom = self.table.make(key, kind, expr, (top, bottom))
        value = self.facts.of_atom(atom).value
        return {(atom,): 1} if value is None else number(value)

    # ---- joining quotients and remainders

    def joined(self, p: Polynomial) -> Polynomial:
        """`x // d * d + x % d` becomes `x`, `x - x // d * d` becomes `x % d`, and so for single digits."""
        for _ in range(MAX_JOINED):
            atoms = [atom for atom in atoms_of(p) if atom.kind in (DIV, MOD)]
            if not atoms or len(atoms) > MAX_JOINED:
                return p
            better = next((q for atom in atoms for q in self._joins(p, atom) if _is_simpler(q, p)), None)
            if better is None:
                return p
            p = better
        return p

    def _joins(self, p: Polynomial, atom: Atom) -> list[Polynomial]:
        top, bottom = atom.operands
        joins: list[Polynomial] = []
        for monomial, c in ordered(p):
            rest = without(monomial, (atom,))
            if rest is None or atom in rest:
                continue
            left = {m: k for m, k in p.items() if m != monomial}
            if atom.kind == MOD:
                joins += self._joins_of_remainder(left, rest, c, top, bottom)
                continue
            d = constant(bottom)
            if d and c % d == 0:  # c * (top // d) is (c / d) * (top - top % d)
                whole = plus(top, self.floormod(top, bottom), -1)
                joins.append(plus(left, times_monomial(whole, rest, c // d)))
        return joins

    def _joins_of_remainder(
        self, left: Polynomial, rest: Monomial, c: int, top: Polynomial, bottom: Polynomial
    ) -> list[Polynomial]:
        quotient = self.floordiv(top, bottom)
        back = times(quotient, bottom)
        joins = [] if back is None else [plus(left, times_monomial(plus(top, back, -1), rest, c))]
        d = constant(bottom)
        for monomial, k in left.items():
            digit = next((a for a in monomial if a.kind == MOD and a.operands[0] == quotient), None)
            if digit is None or d is None or d < 0 or k != c * d or without(monomial, (digit,)) != rest:
                continue
            size = constant(digit.operands[1])
            if size is not None and size > 0:
                others = {m: x for m, x in left.items() if m != monomial}
                joins.append(plus(others, times_monomial(self.floormod(top, number(d * size)), rest, c)))
        return joins


def _is_simpler(p: Polynomial, than: Polynomial) -> bool:
    """Whether a sum has fewer divisions; of as many, whether fewer are within them, which later joins can take away."""
    weights = _weight(p), _weight(than)
    return weights[0] < weights[1] or (weights[0] == weights[1] and _divisions(p) < _divisions(than))


@deep
def _divisions(p: Polynomial) -> int:
    """Divisions in a sum, those within others among them."""
    found = [atom for atom in atoms_of(p) if atom.kind in (DIV, MOD)]
    return len(found) + sum(_divisions(operand) for atom in found for operand in atom.operands)


def _weight(p: Polynomial) -> tuple[int, int, int]:
    divisions = [atom.kind for atom in atoms_of(p) if atom.kind in (DIV, MOD)]
    return (len(divisions), len(p), divisions.count(DIV))


def _split(top: Polynomial, d: int) -> tuple[Polynomial, Polynomial]:
    """`top` as `d * whole + rest`; rests keep the sign of their terms, the constant is from 0 to `d - 1`."""
    whole: Polynomial = {}
    rest: Polynomial = {}
    for monomial, c in top.items():
        part = c % d if not monomial or c > 0 else -(-c % d)
        if part:
            rest[monomial] = part
        if c != part:
            whole[monomial] = (c - part) // d
    return whole, rest


def _block(interval: Interval, d: int) -> int | None:
    """The one quotient by `d` of all values, or None."""
    if not (isinstance(interval.lo, int) and isinstance(interval.hi, int)) or interval.is_empty:
        return None
    return interval.lo // d if interval.lo // d == interval.hi // d else None


def _factors(rest: Polynomial, d: int) -> list[int]:
    """Divisors of `d` that terms of the sum share, larger first."""
    factors: set[int] = set()
    for monomial, c in ordered(rest):
        if monomial and len(factors) < MAX_FACTORS:
            g = gcd(c, d)
            factors |= {g, *(gcd(g, other) for other in factors)}
    return sorted(factors - {1, d}, reverse=True)


def _parts(rest: Polynomial, g: int) -> tuple[Polynomial, Polynomial]:
    """`rest` as `g * coarse + fine`."""
    coarse = {m: c // g for m, c in rest.items() if m and c % g == 0}
    fine = {m: c for m, c in rest.items() if m and c % g}
    shift = rest.get((), 0)
    return plus(coarse, number(shift // g)), plus(fine, number(shift % g))
