"""Quick answers of no to questions about sets of index tuples: a point that shows it, or a number that is too small.

Most of what is asked and not proved is wrong for a simple reason, which isl takes milliseconds to confirm: two rounds
of a reduction write the same element, or what one iteration writes is not all that others read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import prod
from typing import Final

from eutectic.arith.quick_proofs import Tuples
from eutectic.ir.prim_expr import LT, NE, Add, IntImm, PrimExpr, Var, evaluate
from eutectic.ir.visit import post_order


def refutes(question: str, sets: Sequence[Tuples], assumption: PrimExpr) -> bool:
    """Whether a question is known to be answered with no; otherwise nothing is known.

    Args:
        question: `covers`, `disjoint`, or another one, of which nothing is known.
        sets: What it is about.
        assumption: A condition that holds.
    """
    refuted = {"covers": _has_too_few, "disjoint": _has_common}.get(question)
    if refuted is None:
        return False
    try:
        return any(refuted(values, *sets) for values in _assignments(sets, assumption))
    except _NO_VALUE:
        return False


_MANY: Final = 1009  # of a variable that nothing bounds, such as a size: more than a tile, and no multiple of one
_NO_VALUE: Final = (KeyError, TypeError, ZeroDivisionError)  # what `evaluate` says of an expression that has none here


def _assignments(sets: Sequence[Tuples], assumption: PrimExpr) -> Iterator[dict[Var, int]]:
    """Values of the variables that no set iterates over, for which the assumption holds."""
    iterated = {var for item in sets for var in item.ends}
    mentioned = [assumption, *chain.from_iterable((*item.indices, *item.conditions) for item in sets)]
    mentioned += [end for item in sets for ends in item.ends.values() for end in ends]
    free = {node for root in mentioned for node in post_order(root) if isinstance(node, Var)} - iterated
    bounds = _Bounds(assumption)
    many = dict.fromkeys(free - bounds.limited, _MANY)
    for sizes in ({}, many) if many else ({},):
        values = bounds.least({**dict.fromkeys(free, 0), **sizes})
        for one in (None, *(var for var in bounds.apart if var in free)):
            others = values if one is None else {**values, one: values[one] + 1}
            if evaluate(assumption, others):
                yield others


class _Bounds:
    """What a condition says of variables.

    Attributes:
        apart: Those of which two are different.
        limited: Those that are less than something.
    """

    def __init__(self, assumption: PrimExpr) -> None:
        self.apart: dict[Var, None] = {}
        self.limited: set[Var] = set()
        self._above: list[tuple[Var, PrimExpr, int]] = []  # of loops outside first, on which others depend
        for node in post_order(assumption):
            match node:
                case NE(a=Var() as a, b=Var() as b):
                    self.apart |= {a: None, b: None}
                case LT(a=Var() as below):
                    self.limited.add(below)
                case LT(a=below, b=Add(a=Var() as var, b=IntImm(value=more))):
                    self._above.append((var, below, more))

    def least(self, values: dict[Var, int]) -> dict[Var, int]:
        """The smallest values that are not below some."""
        values = dict(values)
        for var, below, more in self._above:
            if var in values:
                values[var] = max(values[var], evaluate(below, values) - more + 1)
        return values


def _has_common(values: dict[Var, int], first: Tuples, second: Tuples) -> bool:
    """Whether the first iterations of two sets reach the same tuple."""
    reached = _first(first, values)
    return reached is not None and reached == _first(second, values)


def _first(item: Tuples, values: dict[Var, int]) -> list[int] | None:
    """The tuple that the first iteration reaches; None where there is none."""
    values = dict(values)
    for var, (low, extent) in item.ends.items():
        if evaluate(extent, values) < 1:
            return None
        values[var] = evaluate(low, values)
    if not all(evaluate(condition, values) for condition in item.conditions):
        return None
    return [evaluate(index, values) for index in item.indices]


def _has_too_few(values: dict[Var, int], wide: Tuples, narrow: Tuples) -> bool:
    """Whether a set has fewer iterations than another one, of which each axis is a loop, has tuples."""
    if any(not isinstance(condition, IntImm) or not condition.value for condition in narrow.conditions):
        return False
    axes = {index for index in narrow.indices if isinstance(index, Var) and index in narrow.ends}
    wanted = {var: evaluate(extent, values) for var, (_, extent) in narrow.ends.items()}
    iterations = prod(max(0, evaluate(extent, values)) for _, extent in wide.ends.values())
    never = any(isinstance(condition, IntImm) and not condition.value for condition in wide.conditions)
    return min(wanted.values(), default=1) > 0 and prod(wanted[var] for var in axes) > (0 if never else iterations)
