"""Comparisons of sums: decided where bounds or residues decide them, else with common terms taken out."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from eutectic.arith.division import Division
from eutectic.arith.facts import Facts
from eutectic.arith.polynomial import (
    ONE,
    Atom,
    AtomTable,
    Polynomial,
    constant,
    is_writable,
    number,
    plus,
    scaled,
    write,
)
from eutectic.ir.prim_expr import EQ, GE, GT, LE, LT, NE, Comparison

OPPOSITE: Final[dict[type[Comparison], type[Comparison]]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}


@dataclass(frozen=True)
class Comparer:
    """Compares sums of one dtype.

    Attributes:
        table: Where atoms are made.
        facts: What is known.
        division: Division rules of the dtype.
        dtype: Dtype of both sides.
    """

    table: AtomTable
    facts: Facts
    division: Division
    dtype: str

    def compare(self, kind: type[Comparison], a: Polynomial, b: Polynomial) -> Polynomial:
        """The comparison as 0, 1 or one atom."""
        answer = self._equality(a, b) if kind in (EQ, NE) else self._less(kind, a, b)
        if answer is not None:
            return ONE if answer != (kind is NE) else {}
        kind, a, b = self._reduced(kind, a, b)
        return self._atom(kind, a, b)

    def opposite(self, atom: Atom) -> Polynomial:
        """The negation of a comparison."""
        kind: type[Comparison] = OPPOSITE[type(atom.expr)]  # type: ignore[index]  # atoms of comparisons only
        return self._atom(kind, *atom.operands)

    def gap(self, kind: type[Comparison], a: Polynomial, b: Polynomial) -> Polynomial:
        """The sum that is not negative exactly where an ordered comparison holds."""
        below = kind in (LT, LE)
        difference = self.division.joined(plus(b, a, -1) if below else plus(a, b, -1))
        return plus(difference, ONE, -1) if kind in (LT, GT) else difference

    def _less(self, kind: type[Comparison], a: Polynomial, b: Polynomial) -> bool | None:
        gap = self.gap(kind, a, b)
        if self.division.proves(gap):
            return True
        return False if self.division.proves(plus(scaled(gap, -1), ONE, -1)) else None

    def _equality(self, a: Polynomial, b: Polynomial) -> bool | None:
        difference = self.division.joined(plus(a, b, -1))
        if not difference:
            return True
        if 0 not in self.facts.residue(difference) or constant(difference) is not None:
            return False
        above, below = plus(difference, ONE, -1), plus(scaled(difference, -1), ONE, -1)
        if self.division.proves(above) or self.division.proves(below):
            return False
        if self.division.proves(difference) and self.division.proves(scaled(difference, -1)):
            return True
        return None

    def _reduced(
        self, kind: type[Comparison], a: Polynomial, b: Polynomial
    ) -> tuple[type[Comparison], Polynomial, Polynomial]:
        """Common terms and factors out, where that makes the comparison shorter; unsigned values stay."""
        if self.dtype[0] == "u":
            return kind, a, b
        same = kind in (EQ, NE)  # the others hold where `-gap <= 0`
        difference = self.division.joined(plus(a, b, -1)) if same else scaled(self.gap(kind, a, b), -1)
        g = gcd(*(c for m, c in difference.items() if m))
        shift = difference.get((), 0)
        if g == 1 and len({*difference, ()}) >= len({*a, ()}) + len({*b, ()}) - 1 and not _has_loose_constant(a, b):
            return kind, a, b
        if same:
            terms = {m: c // g for m, c in difference.items()}
            left, right = _sides(terms)
            return kind, left, right
        terms = {m: c // g for m, c in difference.items() if m}
        return _ordered(plus(terms, number(-(-shift // g))))

    def _atom(self, kind: type[Comparison], a: Polynomial, b: Polynomial) -> Polynomial:
        if not (is_writable(a, self.dtype) and is_writable(b, self.dtype)):
            raise OverflowError(f"a constant leaves {self.dtype}")
        key = (kind.type_key, self.dtype, frozenset(a.items()), frozenset(b.items()))
        atom = self.table.find(key)
        if atom is None:
            expr = kind(write(a, self.dtype), write(b, self.dtype))  # type: ignore[arg-type,call-arg]  # as in prim_logic
            atom = self.table.make(key, kind.type_key, expr, (a, b))
        return {(atom,): 1}


def _has_loose_constant(a: Polynomial, b: Polynomial) -> bool:
    """Whether a constant is added on one side while the other has one too, or is one."""
    return (() in a and (() in b or not b)) or (() in b and not a)


def _sides(p: Polynomial) -> tuple[Polynomial, Polynomial]:
    """`p == 0` as two sides without negative factors; the constant stands right, beside terms if there are."""
    left = {m: c for m, c in p.items() if m and c > 0}
    right = {m: -c for m, c in p.items() if m and c < 0}
    shift = p.get((), 0)
    if not left:
        return right, number(shift)
    if right and shift > 0:
        return plus(left, number(shift)), right
    return left, plus(right, number(-shift))


def _ordered(p: Polynomial) -> tuple[type[Comparison], Polynomial, Polynomial]:
    """`p <= 0` as a comparison."""
    left = {m: c for m, c in p.items() if m and c > 0}
    right = {m: -c for m, c in p.items() if m and c < 0}
    shift = p.get((), 0)
    if not left:
        return GE, right, number(shift)
    if right and shift > 1:
        return LT, plus(left, number(shift - 1)), right
    return LT, left, plus(right, number(1 - shift))
