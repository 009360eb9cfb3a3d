"""Sums of integer multiples of products of atoms, and how they are written back as expressions.

An atom is a variable, or an operation whose operands are such sums themselves.
Equal operations give the same `Atom` object, so that sums are compared by their
items and a shared operand costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

from eutectic.arith.interval import dtype_range
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, add, mul, sub

MAX_TERMS: Final = 64  # products with more terms, or a higher degree, are not multiplied out
MAX_DEGREE: Final = 8
MAX_TEXT: Final = 96


@dataclass(frozen=True, eq=False, slots=True)
class Atom:
    """What is not taken apart further.

    Attributes:
        number: Order of creation.
        kind: Type key of the operation, or `tir.Var`.
        operands: The operands as sums; empty when they are not looked into.
        expr: The atom as an expression.
        text: A name to sort by.
        origin: The node that the atom stands for, kept alive because its identity may be part of the key.
    """

    number: int
    kind: str
    operands: tuple[Polynomial, ...]
    expr: PrimExpr
    text: str
    origin: Node | None = None


Monomial: TypeAlias = tuple[Atom, ...]
Polynomial: TypeAlias = dict[Monomial, int]
ONE: Final[Polynomial] = {(): 1}


class AtomTable:
    """All atoms of one analyzer, by kind and operands."""

    def __init__(self) -> None:
        self._atoms: dict[object, Atom] = {}

    def find(self, key: object) -> Atom | None:
        """The atom of a key, if there is one."""
        return self._atoms.get(key)

    def make(
        self,
        key: object,
        kind: str,
        expr: PrimExpr,
        operands: tuple[Polynomial, ...] = (),
        text: str | None = None,
        origin: Node | None = None,
    ) -> Atom:
        """The atom of `key`, made when it is new."""
        atom = self._atoms.get(key)
        if atom is None:
            inner = ",".join(text_of(p) for p in operands)
            label = text if text is not None else f"{kind}({inner})"[:MAX_TEXT]
            atom = self._atoms[key] = Atom(len(self._atoms), kind, operands, expr, label, origin)
        return atom


def atom_key(kind: str, dtype: str, operands: tuple[Polynomial, ...]) -> object:
    """The key of an operation on sums."""
    return (kind, dtype, *(frozenset(p.items()) for p in operands))


def text_of(p: Polynomial) -> str:
    """A short text of a sum, to sort by."""
    return "+".join(f"{c}" + "".join(f"*{a.text}" for a in sorted_atoms(m)) for m, c in ordered(p))[:MAX_TEXT]


def constant(p: Polynomial) -> int | None:
    """The value of a sum without atoms."""
    if not p:
        return 0
    return p[()] if len(p) == 1 and () in p else None


def number(value: int) -> Polynomial:
    """The sum that is a constant."""
    return {(): value} if value else {}


def single(p: Polynomial) -> Atom | None:
    """The atom that the sum is, or None."""
    if len(p) != 1:
        return None
    ((monomial, coefficient),) = p.items()
    return monomial[0] if len(monomial) == 1 and coefficient == 1 else None


def plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """`a + b * factor`."""
    out = dict(a)
    for monomial, coefficient in b.items():
        value = out.get(monomial, 0) + coefficient * factor
        if value:
            out[monomial] = value
        else:
            out.pop(monomial, None)
    return out


def scaled(a: Polynomial, factor: int) -> Polynomial:
    """`a * factor`."""
    return {m: c * factor for m, c in a.items()} if factor else {}


def times_monomial(a: Polynomial, monomial: Monomial, factor: int = 1) -> Polynomial:
    """`a * monomial * factor`."""
    return {_merged_monomial(m, monomial): c * factor for m, c in a.items()} if factor else {}


def times(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """`a * b`, or None when it would be too large."""
    if len(a) * len(b) > MAX_TERMS and min(len(a), len(b)) > 1:
        return None
    if a and b and max(map(len, a)) + max(map(len, b)) > MAX_DEGREE:
        return None
    out: Polynomial = {}
    for monomial, coefficient in b.items():
        out = plus(out, times_monomial(a, monomial, coefficient))
    return out


def _merged_monomial(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    return tuple(sorted((*a, *b), key=lambda atom: atom.number))


def without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """The quotient of two products, or None when the second does not divide the first."""
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def atoms_of(p: Polynomial) -> list[Atom]:
    """Atoms of a sum, each once, in a fixed order."""
    return sorted({atom for m in p for atom in m}, key=lambda atom: atom.number)


def sorted_atoms(monomial: Monomial) -> list[Atom]:
    """Factors in the order in which they are written."""
    return sorted(monomial, key=lambda atom: (atom.text, atom.number))


def ordered(p: Polynomial) -> list[tuple[Monomial, int]]:
    """Terms in the order in which they are written: added ones, higher degrees and larger coefficients first."""

    def place(term: tuple[Monomial, int]) -> tuple[object, ...]:
        monomial, coefficient = term
        names = [(atom.text, atom.number) for atom in sorted_atoms(monomial)]
        return (not monomial, coefficient < 0, -len(monomial), -abs(coefficient), names)

    return sorted(p.items(), key=place)


def write(p: Polynomial, dtype: str) -> PrimExpr:
    """The sum as an expression; a constant comes last, unless everything else is subtracted from it."""
    terms = [([atom.expr for atom in sorted_atoms(m)], c) for m, c in ordered(p) if m]
    return written(terms, p.get((), 0), dtype)


def written(terms: Sequence[tuple[Sequence[PrimExpr], int]], last: int, dtype: str) -> PrimExpr:
    """The sum of some products and a constant as an expression.

    Args:
        terms: The factors of each product and its coefficient, as they are to follow each other; added ones first.
        last: The constant, which comes last, unless everything else is subtracted from it.
        dtype: Of the sum.
    """
    if not terms:
        return IntImm(dtype, last)
    first, coefficient = terms[0]
    if coefficient < 0 and last > 0:
        total: PrimExpr = IntImm(dtype, last)
        last = 0
    else:
        total = mul(reduce(mul, first), IntImm(dtype, coefficient))
        terms = terms[1:]
    for factors, c in terms:
        term = mul(reduce(mul, factors), IntImm(dtype, abs(c)))
        total = sub(total, term) if c < 0 else add(total, term)
    if last == 0:
        return total
    return add(total, IntImm(dtype, last)) if last > 0 else sub(total, IntImm(dtype, -last))


def is_writable(p: Polynomial, dtype: str) -> bool:
    """Whether the constants of the sum are values of the dtype."""
    limits = dtype_range(dtype)
    leading = min((c for m, c in p.items() if m), default=0)
    if dtype[0] == "u" and leading < 0 and not any(c > 0 for c in p.values()):
        return False
    return all((c if not m else abs(c)) in limits or -c in limits for m, c in p.items())
