"""Comparisons, logic, selection and conversion of scalars; model file: `prim_expr.py`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import KNOWN, SIGNED, integer_bits, is_float, to_numpy
from eutectic.ir.node import init_field, node
from eutectic.ir.prim_base import (
    OPERATORS,
    ExprOp,
    FloatImm,
    IntImm,
    Operand,
    PrimExpr,
    TypedExpr,
    as_prim,
    element_dtype,
    lanes_of,
    match_operands,
    with_lanes,
)


class _Condition(TypedExpr):
    """Two operands and a bool result, one per lane."""

    __slots__ = ()
    a: PrimExpr
    b: PrimExpr

    def __post_init__(self) -> None:
        a: Any = self.a
        b: Any = self.b
        if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
            init_field(self, "a", as_prim(a, "int32"))
            init_field(self, "b", as_prim(b, "int32"))
        init_field(self, "dtype", with_lanes("bool", lanes_of(self.a.dtype)))


class Comparison(_Condition):
    """A comparison of two operands of one dtype."""

    __slots__ = ()


class LogicalBinary(_Condition):
    """A connective of two conditions."""

    __slots__ = ()


@node("tir.EQ")
class EQ(Comparison):
    """`a == b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.NE")
class NE(Comparison):
    """`a != b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.LT")
class LT(Comparison):
    """`a < b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.LE")
class LE(Comparison):
    """`a <= b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.GT")
class GT(Comparison):
    """`a > b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.GE")
class GE(Comparison):
    """`a >= b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.And")
class And(LogicalBinary):
    """`a and b`; `b` counts only where `a` holds."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Or")
class Or(LogicalBinary):
    """`a or b`; `b` counts only where `a` does not hold."""

    a: PrimExpr
    b: PrimExpr


DECIDE: Final[dict[type[TypedExpr], Callable[[int, int], bool]]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    And: lambda a, b: bool(a and b),
    Or: lambda a, b: bool(a or b),
}


@node("tir.Not")
class Not(TypedExpr):
    """`not a`."""

    a: PrimExpr

    def __post_init__(self) -> None:
        init_field(self, "a", as_prim(self.a, "bool"))
        init_field(self, "dtype", self.a.dtype)


@node("tir.Select")
class Select(TypedExpr):
    """`true_value` where `condition` holds, else `false_value`; both may be computed.

    Attributes:
        condition: A bool.
        true_value: Value where it holds.
        false_value: Value elsewhere, of the same dtype.

    Raises:
        TypeError: the condition is not bool, or the values differ in dtype.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def __post_init__(self) -> None:
        init_field(self, "condition", as_prim(self.condition, "bool"))
        if element_dtype(self.condition.dtype) != "bool":
            raise TypeError(f"the condition of Select must be bool, got {self.condition.dtype}")
        other: Any = self.false_value
        literal = other.dtype if isinstance(other, ExprOp) else "int32"
        init_field(self, "true_value", as_prim(self.true_value, literal))
        init_field(self, "false_value", as_prim(self.false_value, self.true_value.dtype))
        if self.true_value.dtype != self.false_value.dtype:
            raise TypeError(
                f"Select between {self.true_value.dtype} and {self.false_value.dtype}: both values need one dtype"
            )
        init_field(self, "dtype", self.true_value.dtype)


@node("tir.Cast")
class Cast(PrimExpr):
    """`value` converted to `dtype`.

    Attributes:
        dtype: Dtype of the result.
        value: What is converted; floats to integers round towards zero.
    """

    dtype: str
    value: PrimExpr

    def __post_init__(self) -> None:
        init_field(self, "value", as_prim(self.value, "int32"))

    @property
    def widens(self) -> bool:
        """Whether one signed integer becomes another that holds all its values, so that it stays what it is."""
        to, source = self.dtype, self.value.dtype
        return to in SIGNED and source in SIGNED and integer_bits(to) >= integer_bits(source)


# ---- construction with folding


def compare(kind: type[Comparison], a: Operand, b: Operand) -> PrimExpr:
    """A comparison; constants are decided at once."""
    left, right = match_operands(a, b, kind.__name__)
    if isinstance(left, IntImm) and isinstance(right, IntImm):
        return IntImm("bool", int(DECIDE[kind](left.value, right.value)))
    return kind(left, right)  # type: ignore[arg-type,call-arg]  # the concrete classes all take (a, b)


def _compares(kind: type[Comparison]) -> Callable[[Operand, Operand], PrimExpr]:
    return lambda a, b: compare(kind, a, b)


def _condition(value: Operand | bool, what: str) -> PrimExpr:
    condition = as_prim(value, "bool")
    if element_dtype(condition.dtype) != "bool":
        raise TypeError(f"{what} needs bool operands, got {condition.dtype}; write a comparison such as `x != 0`")
    return condition


def logical_and(a: Operand | bool, b: Operand | bool) -> PrimExpr:
    """`a and b`; constants are folded.

    Raises:
        TypeError: an operand is not bool.
    """
    left, right = _condition(a, "and"), _condition(b, "and")
    for constant, other in ((left, right), (right, left)):
        if isinstance(constant, IntImm):
            return other if constant.value else constant
    return And(left, right)


def logical_or(a: Operand | bool, b: Operand | bool) -> PrimExpr:
    """`a or b`; constants are folded.

    Raises:
        TypeError: an operand is not bool.
    """
    left, right = _condition(a, "or"), _condition(b, "or")
    for constant, other in ((left, right), (right, left)):
        if isinstance(constant, IntImm):
            return constant if constant.value else other
    return Or(left, right)


def logical_not(a: Operand | bool) -> PrimExpr:
    """`not a`; constants are folded.

    Raises:
        TypeError: the operand is not bool.
    """
    value = _condition(a, "not")
    return IntImm("bool", 1 - value.value) if isinstance(value, IntImm) else Not(value)


def cast(dtype: str, value: Operand) -> PrimExpr:
    """`value` converted to `dtype`; constants are converted at once where the result is exact in range.

    Args:
        dtype: Dtype of the result; a scalar dtype keeps the lanes of `value`.
        value: What is converted.
    """
    operand = as_prim(value, "int32")
    if lanes_of(dtype) == 1 and lanes_of(operand.dtype) > 1:
        dtype = with_lanes(dtype, lanes_of(operand.dtype))
    if operand.dtype == dtype:
        return operand
    if dtype in KNOWN and isinstance(operand, (IntImm, FloatImm)):
        folded = _constant(dtype, operand.value)
        if folded is not None:
            return folded
    return Cast(dtype, operand)


def _constant(dtype: str, value: int | float) -> PrimExpr | None:
    """The constant `value` of `dtype`, or None when the conversion would leave its range."""
    if is_float(dtype):
        return FloatImm(dtype, float(value))
    if value != value or abs(value) == float("inf"):
        return None
    if dtype == "bool":
        return IntImm("bool", int(value != 0))
    limits: Any = np.iinfo(to_numpy(dtype))
    return IntImm(dtype, int(value)) if int(limits.min) <= int(value) <= int(limits.max) else None


COMPARISONS: Final[dict[str, type[Comparison]]] = {"eq": EQ, "ne": NE, "lt": LT, "le": LE, "gt": GT, "ge": GE}
OPERATORS.update({name: _compares(kind) for name, kind in COMPARISONS.items()})
OPERATORS.update(cast=cast, logical_and=logical_and, logical_or=logical_or, logical_not=logical_not)
