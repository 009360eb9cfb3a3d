"""What is known about variables and conditions, and what follows for sums of atoms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eutectic.arith.bounds import converted, unknown
from eutectic.arith.interval import INF, Interval, ModularSet, dtype_range
from eutectic.arith.polynomial import (
    Atom,
    Monomial,
    Polynomial,
    atoms_of,
    constant,
    number,
    plus,
    scaled,
    times_monomial,
)
from eutectic.ir.prim_expr import Cast, SizeVar, Var
from eutectic.support.deep import deep

Merge = Callable[[Polynomial], Polynomial]
SPLIT_DEPTH: Final = 3  # nested minima and maxima that a proof looks into
MAX_FACTS: Final = 32  # conditions that a proof tries

_BY_OPERANDS: Final[dict[str, Callable[[Interval, Interval], Interval]]] = {
    "tir.FloorDiv": Interval.floordiv,
    "tir.FloorMod": Interval.floormod,
    "tir.TruncDiv": Interval.truncdiv,
    "tir.TruncMod": Interval.truncmod,
    "tir.Min": Interval.minimum,
    "tir.Max": Interval.maximum,
    "tir.Add": Interval.__add__,
    "tir.Sub": Interval.__sub__,
    "tir.Mul": Interval.__mul__,
}


@dataclass
class Facts:
    """Ranges of variables and conditions that hold.

    Attributes:
        ranges: Constant bounds of variables.
        limits: First and last value of variables, where these are expressions; in the order of binding.
        modular: Residue classes of variables.
        values: Variables that are bound to an expression.
        refined: Bounds of atoms that follow from conditions.
        positive: Sums that conditions say are not negative.
        truths: Conditions that are known to hold, or not to.
    """

    ranges: dict[Var, Interval] = field(default_factory=dict)
    limits: dict[Var, tuple[Atom, Polynomial, Polynomial]] = field(default_factory=dict)
    modular: dict[Var, ModularSet] = field(default_factory=dict)
    values: dict[Var, Polynomial] = field(default_factory=dict)
    refined: dict[Atom, Interval] = field(default_factory=dict)
    positive: list[Polynomial] = field(default_factory=list)
    truths: dict[Atom, bool] = field(default_factory=dict)
    _intervals: dict[Atom, Interval] = field(default_factory=dict)
    _classes: dict[Atom, ModularSet] = field(default_factory=dict)

    def copy(self) -> Facts:
        """The same facts, to be extended apart from these."""
        return Facts(
            dict(self.ranges),
            dict(self.limits),
            dict(self.modular),
            dict(self.values),
            dict(self.refined),
            list(self.positive),
            dict(self.truths),
        )

    def forget_derived(self) -> None:
        """Drop what was computed from facts that have changed."""
        self._intervals.clear()
        self._classes.clear()

    # ---- constant bounds

    def interval(self, p: Polynomial) -> Interval:
        """Bounds of a sum."""
        total = Interval.point(0)
        for monomial, coefficient in p.items():
            total = total + self.of_monomial(monomial).scaled(coefficient)
        return total

    def of_monomial(self, monomial: Monomial) -> Interval:
        """Bounds of a product."""
        out = Interval.point(1)
        for atom in dict.fromkeys(monomial):
            out = out * self.of_atom(atom).power(monomial.count(atom))
        return out

    def of_atom(self, atom: Atom) -> Interval:
        """Bounds of an atom."""
        interval = self._intervals.get(atom)
        if interval is None:
            interval = self._derived(atom)
            if atom in self.refined:
                narrowed = interval.intersect(self.refined[atom])
                interval = interval if narrowed.is_empty else narrowed
            self._intervals[atom] = interval
        return interval

    @deep
    def _derived(self, atom: Atom) -> Interval:
        expr = atom.expr
        if isinstance(expr, Var):
            return self._of_var(expr)
        if atom.kind in _BY_OPERANDS:
            a, b = (self.interval(p) for p in atom.operands)
            interval = _BY_OPERANDS[atom.kind](a, b)
            return (
                interval
                if dtype_range(expr.dtype).covers(interval) or expr.dtype[0] != "u"
                else dtype_range(expr.dtype)
            )
        if atom.kind in ("tir.Select", "tir.if_then_else") and atom.operands:
            return self.interval(atom.operands[1]).union(self.interval(atom.operands[2]))
        if isinstance(expr, Cast) and atom.operands:
            return converted(self.interval(atom.operands[0]), expr.value.dtype, expr.dtype)
        if atom.kind == "tir.bitwise_and" and atom.operands:
            tops = [interval.hi for p in atom.operands if (interval := self.interval(p)).lo >= 0]
            return Interval(0, min(tops)) if tops else unknown(expr.dtype)
        return unknown(expr.dtype)

    def _of_var(self, var: Var) -> Interval:
        interval = self.ranges.get(var)
        if interval is None:
            interval = unknown(var.dtype)
            if isinstance(var, SizeVar):
                interval = interval.intersect(Interval(0, INF))
        if var in self.limits:
            _, low, high = self.limits[var]
            ends = Interval(self.interval(low).lo, self.interval(high).hi)
            interval = interval if interval.intersect(ends).is_empty else interval.intersect(ends)
        return interval

    # ---- residue classes

    def residue(self, p: Polynomial) -> ModularSet:
        """The residue class of a sum."""
        total = ModularSet(0, 0)
        for monomial, coefficient in p.items():
            term = ModularSet(0, 1)
            for atom in monomial:
                term = term * self._residue_of_atom(atom)
            total = total + term.scaled(coefficient)
        return total

    def _residue_of_atom(self, atom: Atom) -> ModularSet:
        residue = self._classes.get(atom)
        if residue is None:
            residue = self._classes[atom] = self._derived_residue(atom)
        return residue

    @deep
    def _derived_residue(self, atom: Atom) -> ModularSet:
        value = self.of_atom(atom).value
        if value is not None:
            return ModularSet(0, value)
        if isinstance(atom.expr, Var):
            return self.modular.get(atom.expr, ModularSet())
        if atom.kind in ("tir.Min", "tir.Max"):
            return self.residue(atom.operands[0]).union(self.residue(atom.operands[1]))
        if atom.kind in ("tir.Select", "tir.if_then_else") and atom.operands:
            return self.residue(atom.operands[1]).union(self.residue(atom.operands[2]))
        if atom.kind in ("tir.FloorDiv", "tir.FloorMod"):
            divisor = constant(atom.operands[1])
            if divisor:
                dividend = self.residue(atom.operands[0])
                return dividend.floordiv(divisor) if atom.kind == "tir.FloorDiv" else dividend.floormod(divisor)
        return ModularSet()

    # ---- proofs

    def at_least_zero(self, p: Polynomial, merge: Merge, depth: int = SPLIT_DEPTH) -> bool:
        """Whether a sum is proved not to be negative.

        Args:
            p: The sum.
            merge: Joins quotients and remainders in sums that are made here.
            depth: Minima and maxima to look into.
        """
        if self.interval(p).lo >= 0:
            return True
        if self.limits and self.interval(merge(self._least(p))).lo >= 0:
            return True
        for fact in self.positive[-MAX_FACTS:]:
            rest = merge(plus(p, fact, -1))
            if self.interval(rest).lo >= 0 or (self.limits and self.interval(merge(self._least(rest))).lo >= 0):
                return True
        return depth > 0 and self._by_cases(p, merge, depth)

    def _least(self, p: Polynomial) -> Polynomial:
        """A sum that is never above `p`: variables with symbolic limits are replaced by these."""
        for var in reversed(self.limits):
            atom, low, high = self.limits[var]
            out: Polynomial = {}
            for monomial, coefficient in p.items():
                bound = self._end(monomial, coefficient, atom, low, high)
                out = plus(out, {monomial: coefficient} if bound is None else bound)
            p = out
        return p

    def _end(self, monomial: Monomial, c: int, atom: Atom, low: Polynomial, high: Polynomial) -> Polynomial | None:
        if monomial.count(atom) != 1:
            return None
        rest = tuple(factor for factor in monomial if factor is not atom)
        sign = self.of_monomial(rest)
        if sign.lo < 0 and sign.hi > 0:
            return None
        rising = (c > 0) == (sign.lo >= 0)
        return times_monomial(low if rising else high, rest, c)

    @deep
    def _by_cases(self, p: Polynomial, merge: Merge, depth: int) -> bool:
        """A minimum is one of its operands, and not above either."""
        for atom in atoms_of(p):
            coefficient = p.get((atom,), 0)
            if atom.kind not in ("tir.Min", "tir.Max") or not coefficient:
                continue
            if sum(atom in m for m in p) > 1:
                continue
            rest = {m: c for m, c in p.items() if m != (atom,)}
            cases = (
                self.at_least_zero(merge(plus(rest, operand, coefficient)), merge, depth - 1)
                for operand in atom.operands
            )
            return all(cases) if (atom.kind == "tir.Min") == (coefficient > 0) else any(cases)
        return False

    # ---- conditions

    def assume_at_least_zero(self, p: Polynomial) -> None:
        """Take it that a sum is not negative."""
        self.positive.append(p)
        terms = [(m, c) for m, c in p.items() if m]
        if len(terms) == 1 and len(terms[0][0]) == 1:
            (atom,), coefficient = terms[0]
            offset = p.get((), 0)
            bound = (
                Interval(-(offset // coefficient), INF) if coefficient > 0 else Interval(-INF, offset // -coefficient)
            )
            known = self.refined.get(atom, Interval()).intersect(bound)
            self.refined[atom] = known
        self.forget_derived()

    def assume_zero(self, p: Polynomial) -> None:
        """Take it that a sum is zero."""
        self.assume_at_least_zero(p)
        self.assume_at_least_zero(scaled(p, -1))


def constant_limits(low: Polynomial, extent: Polynomial) -> Interval | None:
    """The interval of a range with constant ends; None when they are not constant or the range is empty."""
    first, count = constant(low), constant(extent)
    if first is None or count is None:
        return None
    return Interval(first, first + count - 1) if count > 0 else Interval()


def last_of(low: Polynomial, extent: Polynomial) -> Polynomial:
    """The last value of a range."""
    return plus(plus(low, extent), number(1), -1)
