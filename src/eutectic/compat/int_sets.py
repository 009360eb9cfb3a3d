"""`tvm.arith.IntSet`: sets of integers between two ends, which may be expressions, and expressions over such sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.prim_expr import (
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
    as_prim,
    maximum,
    minimum,
)
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.iter_var import Range

__all__ = ["NEG_INF", "POS_INF", "IntSet", "IntervalSet", "evaluated"]

POS_INF: Final = Var("pos_inf", "handle")
NEG_INF: Final = Var("neg_inf", "handle")


class IntSet:
    """A set of integers."""

    def is_nothing(self) -> bool:
        """Whether it is empty."""
        return False

    def is_everything(self) -> bool:
        """Whether it has all integers."""
        return False

    @staticmethod
    def vector(vec: Any) -> IntervalSet:
        """The lanes of a vector: the values between the first and the last of a `Ramp`."""
        if not isinstance(vec, Ramp):
            return IntSet.single_point(vec)
        last = Analyzer().simplify(vec.base + vec.stride * (vec.lanes - 1))
        return IntervalSet(vec.base, last)

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """One value."""
        return IntervalSet(point, point)


@dataclass(frozen=True)
class IntervalSet(IntSet):
    """All integers from `min_value` to `max_value`; `NEG_INF` and `POS_INF` are no ends.

    Attributes:
        min_value: The smallest.
        max_value: The largest.
    """

    min_value: Any
    max_value: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_value", as_prim(self.min_value, "int32"))
        object.__setattr__(self, "max_value", as_prim(self.max_value, "int32"))

    def is_nothing(self) -> bool:
        """Whether it is empty, as far as its ends are numbers."""
        ends = self.min_value, self.max_value
        return all(isinstance(end, IntImm) for end in ends) and ends[0].value > ends[1].value

    def is_everything(self) -> bool:
        """Whether it has all integers."""
        return self.min_value is NEG_INF and self.max_value is POS_INF


_ALL: Final = IntervalSet(NEG_INF, POS_INF)


def evaluated(expr: PrimExpr, domains: Mapping[Var, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """A set that has every value of an expression.

    Args:
        expr: An integer expression.
        domains: Sets, or ranges, of some of its variables; the others are single values.
        analyzer: What is known about them.
    """
    rules = analyzer or Analyzer()
    known = {var: _as_set(domain, rules) for var, domain in domains.items()}
    interval = _over(expr, known, rules)
    return IntervalSet(*(_simplified(end, rules) for end in (interval.min_value, interval.max_value)))


def _as_set(domain: Any, rules: Analyzer) -> IntervalSet:
    if isinstance(domain, Range):
        return IntervalSet(domain.min, rules.simplify(domain.min + domain.extent - 1))
    if not isinstance(domain, IntervalSet):
        raise TypeError(f"the domain of a variable is an IntervalSet or a Range, got {type(domain).__name__}")
    return domain


def _simplified(end: PrimExpr, rules: Analyzer) -> PrimExpr:
    return end if end is POS_INF or end is NEG_INF else rules.simplify(end)


@deep
def _over(expr: PrimExpr, known: Mapping[Var, IntervalSet], rules: Analyzer) -> IntervalSet:
    if not any(item in known for item in post_order(expr) if isinstance(item, Var)):
        return IntSet.single_point(expr)
    if isinstance(expr, Var):
        return known[expr]
    if not isinstance(expr, Add | Sub | Mul | FloorDiv | FloorMod | Min | Max):
        return _ALL
    a, b = _over(expr.a, known, rules), _over(expr.b, known, rules)
    match expr:
        case Add():
            return IntervalSet(_plus(a.min_value, b.min_value), _plus(a.max_value, b.max_value))
        case Sub():
            return IntervalSet(_minus(a.min_value, b.max_value), _minus(a.max_value, b.min_value))
        case Min() | Max():
            choose = minimum if isinstance(expr, Min) else maximum
            ends = (a.min_value, b.min_value), (a.max_value, b.max_value)
            return IntervalSet(*(_chosen(choose, pair) for pair in ends)) if not _open(a, b) else _ALL
        case _:
            return _by_constant(expr, a, b, rules)


def _by_constant(expr: Mul | FloorDiv | FloorMod, a: IntervalSet, b: IntervalSet, rules: Analyzer) -> IntervalSet:
    """A product with a number, or what division by a positive one gives."""
    if isinstance(expr, Mul) and isinstance(a.min_value, IntImm) and a.min_value is a.max_value:
        a, b = b, a
    factor = b.min_value
    if not (isinstance(factor, IntImm) and b.max_value is factor) or (factor.value <= 0 and not isinstance(expr, Mul)):
        return _ALL
    if isinstance(expr, FloorMod):
        same = not _open(a) and rules.can_prove_equal(a.min_value // factor, a.max_value // factor)
        return IntervalSet(a.min_value % factor, a.max_value % factor) if same else IntervalSet(0, factor.value - 1)
    ends = [_scaled(expr, end, factor) for end in (a.min_value, a.max_value)]
    return IntervalSet(*(ends if factor.value >= 0 else reversed(ends)))


def _scaled(expr: Mul | FloorDiv, end: PrimExpr, factor: IntImm) -> PrimExpr:
    if end is POS_INF or end is NEG_INF:
        return end if factor.value > 0 else NEG_INF if end is POS_INF else POS_INF
    return end * factor if isinstance(expr, Mul) else end // factor


def _open(*sets: IntervalSet) -> bool:
    return any(s.min_value is NEG_INF or s.max_value is POS_INF for s in sets)


def _chosen(choose: Any, ends: tuple[PrimExpr, PrimExpr]) -> PrimExpr:
    return reduce(choose, ends)


def _plus(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return next((end for end in (a, b) if end is POS_INF or end is NEG_INF), None) or a + b


def _minus(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a is POS_INF or a is NEG_INF:
        return a
    return NEG_INF if b is POS_INF else POS_INF if b is NEG_INF else a - b
