"""Index expressions and conditions as sums and atoms of a linear system.

Quotients and remainders by constants, minima and maxima become variables of their own with what defines them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.arith.linear_system import FALSE, Atom, LinearSystem, Sum, plus, scaled
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)
from eutectic.support.deep import deep

_OPPOSITE: Final[dict[type[Comparison], type[Comparison]]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}
_ONE: Final[Sum] = {0: 1}


class NotLinearError(Exception):
    """An expression that is no sum of multiples; never leaves this package."""


class Parameters:
    """Variables that have one value in all of a question.

    Args:
        system: Where their numbers come from.
        bound: Variables that are not parameters: they are bound by a part of the question.
    """

    def __init__(self, system: LinearSystem, bound: frozenset[Var]) -> None:
        self.system = system
        self._bound = bound
        self._known: dict[Var, int] = {}
        self._divisions: dict[tuple[frozenset[tuple[int, int]], int], tuple[int, int]] = {}

    def number(self, var: Var) -> int:
        """The number of a variable.

        Raises:
            NotLinearError: it is no integer, or is bound somewhere else.
        """
        number = self._known.get(var)
        if number is None:
            if var in self._bound or not is_integer(var.dtype):
                raise NotLinearError
            number = self._known[var] = self.system.variable(0) if isinstance(var, SizeVar) else self.system.variable()
        return number

    def division(self, total: Sum, divisor: int) -> tuple[int, int]:
        """The numbers of quotient and remainder of a sum by a positive constant."""
        key = (frozenset(total.items()), divisor)
        numbers = self._divisions.get(key)
        if numbers is None:
            quotient, remainder = self.system.variable(), self.system.variable(0, divisor - 1)
            self.system.add([("=", plus(total, {quotient: divisor, remainder: 1}, -1))])
            numbers = self._divisions[key] = (quotient, remainder)
        return numbers


class Reader:
    """Reads expressions, some variables of which stand for sums.

    Args:
        parameters: The other variables.
        values: What variables stand for; more may be added.
    """

    def __init__(self, parameters: Parameters, values: Mapping[Var, Sum] | None = None) -> None:
        self.parameters = parameters
        self.values: dict[Var, Sum] = dict(values or {})
        self._met: dict[tuple[int, bool], tuple[PrimExpr, list[Atom]]] = {}

    def total(self, expr: PrimExpr) -> Sum:
        """An integer as a sum.

        Raises:
            NotLinearError: it is none.
        """
        if isinstance(expr, Var):
            value = self.values.get(expr)
            return {self.parameters.number(expr): 1} if value is None else value
        if isinstance(expr, IntImm) and expr.dtype != "bool":
            return {0: expr.value} if expr.value else {}
        return self._arithmetic(expr)

    @deep
    def _arithmetic(self, expr: PrimExpr) -> Sum:
        match expr:
            case Add() | Sub() if expr.dtype[0] != "u":
                return plus(self.total(expr.a), self.total(expr.b), 1 if isinstance(expr, Add) else -1)
            case Mul(a=IntImm(value=factor), b=other) | Mul(a=other, b=IntImm(value=factor)) if expr.dtype[0] != "u":
                return scaled(self.total(other), factor)
            case FloorDiv(a=top, b=IntImm(value=divisor)) if divisor > 0 and expr.dtype[0] != "u":
                return {self.parameters.division(self.total(top), divisor)[0]: 1}
            case FloorMod(a=top, b=IntImm(value=divisor)) if divisor > 0 and expr.dtype[0] != "u":
                return {self.parameters.division(self.total(top), divisor)[1]: 1}
            case Min() | Max() if expr.dtype[0] != "u":
                return self._extreme(self.total(expr.a), self.total(expr.b), 1 if isinstance(expr, Max) else -1)
            case Cast() if expr.widens:
                return self.total(expr.value)
            case _:
                raise NotLinearError

    def conjunction(self, condition: PrimExpr, holds: bool = True) -> list[Atom]:
        """A condition, or its opposite, as atoms that all hold.

        Raises:
            NotLinearError: it is not one of sums.
        """
        key = (id(condition), holds)
        entry = self._met.get(key)
        if entry is None:  # conditions have parts in common; they are kept, so that their identities stay theirs
            entry = self._met[key] = (condition, self._atoms(condition, holds))
        return entry[1]

    @deep
    def _atoms(self, condition: PrimExpr, holds: bool) -> list[Atom]:
        match condition:
            case IntImm(dtype="bool"):
                return [] if bool(condition.value) == holds else [FALSE]
            case Not():
                return self.conjunction(condition.a, not holds)
            case And() | Or() if isinstance(condition, And) == holds:
                return [*self.conjunction(condition.a, holds), *self.conjunction(condition.b, holds)]
            case And() | Or():
                either: Atom = ("or", self._branches(condition, holds))
                return [either]
            case Comparison() if is_integer(condition.a.dtype):
                return self._compared(condition, holds)
            case _:
                raise NotLinearError

    @deep
    def _branches(self, condition: PrimExpr, holds: bool) -> list[list[Atom]]:
        if isinstance(condition, And | Or) and isinstance(condition, Or) == holds:
            return [*self._branches(condition.a, holds), *self._branches(condition.b, holds)]
        return [self.conjunction(condition, holds)]

    def _compared(self, condition: Comparison, holds: bool) -> list[Atom]:
        kind = type(condition) if holds else _OPPOSITE[type(condition)]
        difference = plus(self.total(condition.a), self.total(condition.b), -1)
        if kind is EQ:
            return [("=", difference)]
        below, above = plus(scaled(difference, -1), _ONE, -1), plus(difference, _ONE, -1)
        if kind is NE:
            branches: list[list[Atom]] = [[(">=", below)], [(">=", above)]]
            return [("or", branches)]
        if kind in (LT, GT):
            return [(">=", below if kind is LT else above)]
        return [(">=", scaled(difference, -1) if kind is LE else difference)]

    def _extreme(self, a: Sum, b: Sum, sign: int) -> Sum:
        """The larger of two sums, or with -1 the smaller one."""
        extreme = {self.parameters.system.variable(): 1}
        over = [scaled(plus(extreme, item, -1), sign) for item in (a, b)]
        either: list[list[Atom]] = [[("=", over[0])], [("=", over[1])]]
        self.parameters.system.add([(">=", over[0]), (">=", over[1]), ("or", either)])
        return extreme
