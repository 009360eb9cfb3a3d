"""Proofs about sums with quotients by numbers, each of which is near what is divided: `n - n // 2` is not negative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.arith.facts import Facts
from eutectic.arith.polynomial import Atom, Monomial, Polynomial, constant, number, plus, scaled

_MOST: Final = 8  # quotients that a proof takes apart


def is_at_least_zero(p: Polynomial, facts: Facts, joined: Callable[[Polynomial], Polynomial]) -> bool:
    """Whether a sum is not negative, whatever its quotients are between their bounds.

    Of `x // d` is known that `d` of it are at most `x` and at least `x - d + 1`. A sum is multiplied by `d` to have
    that in its place: where the product is above `-d`, the sum is above -1.

    Args:
        p: A sum of integers.
        facts: What is known of its atoms.
        joined: Joins quotients and remainders.
    """
    factor = 1
    for _ in range(_MOST):
        found = _last_quotient(p)
        if found is None:
            return False
        term, divisor = found
        p = joined(_below(p, term, divisor))
        factor *= divisor
        if facts.interval(p).lo > -factor:
            return True
    return False


def _last_quotient(p: Polynomial) -> tuple[Monomial, int] | None:
    """The quotient by a number that was made last, as inner ones are made before, and what it is divided by."""
    terms = [monomial for monomial in p if len(monomial) == 1 and _divisor(monomial[0]) > 0]
    last = max(terms, key=lambda monomial: monomial[0].number, default=None)
    return None if last is None else (last, _divisor(last[0]))


def _divisor(atom: Atom) -> int:
    """The number that an atom is a quotient by; 0 for other ones."""
    is_quotient = atom.kind == "tir.FloorDiv" and len(atom.operands) == 2
    return (constant(atom.operands[1]) or 0) if is_quotient else 0


def _below(p: Polynomial, term: Monomial, divisor: int) -> Polynomial:
    """A sum that is at most `divisor` times another one, without one of its quotients."""
    factor, top = p[term], term[0].operands[0]
    least = top if factor < 0 else plus(top, number(divisor - 1), -1)
    rest = {monomial: each for monomial, each in p.items() if monomial != term}
    return plus(scaled(rest, divisor), least, factor)
