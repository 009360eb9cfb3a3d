"""The analyzer: facts about variables, and what they make of index expressions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, runtime_checkable

from eutectic.arith.bounds import bounds, fitted
from eutectic.arith.facts import Facts, constant_limits, last_of
from eutectic.arith.interval import Interval, ModularSet
from eutectic.arith.normal_form import Normalizer
from eutectic.arith.polynomial import AtomTable, Polynomial, constant, number, plus, scaled, single
from eutectic.arith.quotients import is_at_least_zero
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import EQ, NE, And, Comparison, ExprOp, IntImm, Operand, Or, PrimExpr, Var, as_prim
from eutectic.ir.structural import structural_equal

MAX_ROUNDS: Final = 4  # normalisations until nothing changes; the second one nearly always ends it


@runtime_checkable
class RangeLike(Protocol):
    """What has a first value and a number of values, as `tir.Range` has."""

    @property
    def min(self) -> PrimExpr:
        """First value."""

    @property
    def extent(self) -> PrimExpr:
        """Number of values."""


class Analyzer:
    """Simplifies and proves under what it was told about variables.

    Operations on signed integers are taken not to overflow, divisors not to be
    zero, and a `SizeVar` not to be negative. Everything else holds for all values
    in the ranges that were bound.

    Reference: TVM `arith.Analyzer`, for the names of the methods.
    """

    def __init__(self) -> None:
        self._table = AtomTable()
        self._facts = Facts()
        self._normalizer: Normalizer | None = None

    def copy(self) -> Analyzer:
        """An analyzer with the same facts, to be told more apart from this one."""
        copy = Analyzer()
        copy._table, copy._facts = self._table, self._facts.copy()
        return copy

    def bind(self, var: Var, value: RangeLike | Interval | PrimExpr | int) -> None:
        """Say what a variable is; a later call for the same variable replaces what an earlier one said.

        Args:
            var: The variable.
            value: Its range; or an interval; or the expression that it stands for.
        """
        if isinstance(value, Interval):
            self._forgetting(var).ranges[var] = value
        elif isinstance(value, ExprOp | int):
            form = self._form(as_prim(value, var.dtype))
            self._forgetting(var).values[var] = form
        else:
            low, extent = self._form(as_prim(value.min, var.dtype)), self._form(as_prim(value.extent, var.dtype))
            interval = constant_limits(low, extent)
            if interval is not None:
                self._forgetting(var).ranges[var] = interval
            else:
                atom = self._table.make(("var", id(var)), "tir.Var", var, text=var.name, origin=var)
                self._forgetting(var).limits[var] = (atom, low, last_of(low, extent))

    def bind_modular(self, var: Var, known: ModularSet) -> None:
        """Say which residue class a variable belongs to."""
        facts = self._facts.copy()
        facts.modular[var] = known
        self._know(facts)

    @contextmanager
    def constraint_scope(self, condition: Operand) -> Iterator[None]:
        """Within the `with` block the condition holds.

        Args:
            condition: A condition; its conjuncts are used one by one.
        """
        before = self._facts
        facts = before.copy()
        self._assume(facts, as_prim(condition, "bool"))
        self._know(facts)
        try:
            yield
        finally:
            self._know(before)

    def simplify(self, expr: Operand) -> PrimExpr:
        """An equal expression in normal form; `expr` itself when it has that form already.

        Args:
            expr: Any scalar expression; floats are not reordered, only what is within them.
        """
        current = as_prim(expr)
        for _ in range(MAX_ROUNDS):
            simplified = self._rules().written(current)
            if simplified is current or structural_equal(simplified, current):
                break
            current = simplified
        return current

    def rewrite_simplify(self, expr: Operand) -> PrimExpr:
        """The same as `simplify`: there is one normal form."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Operand) -> PrimExpr:
        """The same as `simplify`: there is one normal form."""
        return self.simplify(expr)

    def can_prove(self, condition: Operand) -> bool:
        """Whether a condition is proved to hold; False says only that no proof was found."""
        asked = as_prim(condition, "bool")
        form = self._form(asked)
        if constant(form) is not None:
            return bool(form)
        simplified = self.simplify(asked)
        if isinstance(simplified, And):
            return self.can_prove(simplified.a) and self.can_prove(simplified.b)
        return constant(self._form(simplified)) == 1

    def can_prove_equal(self, a: Operand, b: Operand) -> bool:
        """Whether two expressions are proved to have one value."""
        left, right = self._pair(a, b)
        if left.dtype != right.dtype or not is_integer(left.dtype):
            return left is right or (left.dtype == right.dtype and self._form(left) == self._form(right))
        difference = self._difference(left, right)
        return self._rules().division(left.dtype).facts.interval(difference).value == 0 or (
            self._proves(difference, left.dtype) and self._proves(scaled(difference, -1), left.dtype)
        )

    def can_prove_less(self, a: Operand, b: Operand) -> bool:
        """Whether `a < b` is proved."""
        left, right = self._pair(a, b)
        return self._proves(plus(self._difference(right, left), number(1), -1), left.dtype)

    def can_prove_greater_equal(self, a: Operand, b: Operand) -> bool:
        """Whether `a >= b` is proved."""
        left, right = self._pair(a, b)
        return self._proves(self._difference(left, right), left.dtype)

    def can_prove_at_least(self, a: Operand, b: Operand) -> bool:
        """Whether `a >= b` is proved, also by what is known of quotients by numbers."""
        left, right = self._pair(a, b)
        difference = self._difference(left, right)
        if self._proves(difference, left.dtype):
            return True
        is_signed = is_integer(left.dtype) and left.dtype[0] == "i"
        return is_signed and is_at_least_zero(difference, self._facts, self._rules().division(left.dtype).joined)

    def const_int_bound(self, expr: Operand) -> Interval:
        """Constant bounds of an integer expression."""
        expr = as_prim(expr)
        walked = bounds(expr, self._facts.ranges)
        if not is_integer(expr.dtype):
            return walked
        narrowed = fitted(self._facts.interval(self._form(expr)), expr.dtype).intersect(walked)
        return walked if narrowed.is_empty else narrowed

    def modular_set(self, expr: Operand) -> ModularSet:
        """The residue class of an integer expression."""
        return self._facts.residue(self._form(as_prim(expr)))

    # ---- within

    def _rules(self) -> Normalizer:
        if self._normalizer is None:
            self._normalizer = Normalizer(self._table, self._facts)
        return self._normalizer

    def _know(self, facts: Facts) -> None:
        self._facts = facts
        self._normalizer = None

    def _forgetting(self, var: Var) -> Facts:
        """Facts that know nothing of a variable, to be told more; the present ones if nothing relies on them."""
        if self._normalizer is not None:
            self._know(self._facts.copy())
        facts = self._facts
        facts.forget_derived()
        for known in (facts.ranges, facts.limits, facts.values, facts.modular):
            known.pop(var, None)
        return facts

    def _form(self, expr: PrimExpr) -> Polynomial:
        if isinstance(expr, IntImm):  # known without rules, whose making is most of the work of binding loops
            return number(expr.value)
        return self._rules().form(expr)

    def _pair(self, a: Operand, b: Operand) -> tuple[PrimExpr, PrimExpr]:
        left = as_prim(a, b.dtype if isinstance(b, ExprOp) else "int64")
        return left, as_prim(b, left.dtype)

    def _difference(self, a: PrimExpr, b: PrimExpr) -> Polynomial:
        return self._rules().division(a.dtype).joined(plus(self._form(a), self._form(b), -1))

    def _proves(self, p: Polynomial, dtype: str) -> bool:
        return is_integer(dtype) and self._rules().division(dtype).proves(p)

    def _assume(self, facts: Facts, condition: PrimExpr) -> None:
        atom = single(self._form(condition))
        parts = [(atom, True)] if atom is not None else []
        while parts:
            atom, holds = parts.pop()
            facts.truths[atom] = holds
            if isinstance(atom.expr, And if holds else Or):
                parts += [(part, holds) for p in atom.operands if (part := single(p)) is not None]
            elif atom.kind == "tir.Not":
                parts += [(part, not holds) for p in atom.operands if (part := single(p)) is not None]
            elif isinstance(atom.expr, Comparison) and len(atom.operands) == 2:
                self._assume_comparison(facts, atom.expr, atom.operands, holds)

    def _assume_comparison(self, facts: Facts, expr: Comparison, sides: tuple[Polynomial, ...], holds: bool) -> None:
        comparer = self._rules().comparer(expr.a.dtype)
        kind = type(expr)
        if kind in (EQ, NE):
            if (kind is EQ) == holds:
                facts.assume_zero(comparer.division.joined(plus(sides[0], sides[1], -1)))
            return
        gap = comparer.gap(kind, sides[0], sides[1])
        facts.assume_at_least_zero(gap if holds else plus(scaled(gap, -1), number(1), -1))
