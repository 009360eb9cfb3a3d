"""Scalar expressions: arithmetic, and the names of all scalar expressions in one place.

Shapes of graph values are tuples of these; tensor programs (`tir`) index with
them. Operators fold integer constants, and `x * 1`, `x + 0` as far as that is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.dtype import is_float
from eutectic.ir.node import init_field, node
from eutectic.ir.prim_base import (
    OPERATORS,
    EqualOp,
    ExprOp,
    FloatImm,
    IntImm,
    NotEqualOp,
    Operand,
    PrimExpr,
    SizeVar,
    StringImm,
    TypedExpr,
    Var,
    as_prim,
    element_dtype,
    lanes_of,
    match_operands,
    with_lanes,
)
from eutectic.ir.prim_call import (
    Call,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right,
)
from eutectic.ir.prim_logic import (
    DECIDE,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Cast,
    Comparison,
    LogicalBinary,
    Not,
    Or,
    Select,
    cast,
    compare,
    logical_and,
    logical_not,
    logical_or,
)
from eutectic.ir.prim_vector import Broadcast, Ramp, Shuffle, broadcast
from eutectic.support.deep import deep

__all__ = [
    "DECIDE",
    "EQ",
    "EVALUATE",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryExpr",
    "Broadcast",
    "Call",
    "Cast",
    "Comparison",
    "Div",
    "EqualOp",
    "ExprOp",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "LogicalBinary",
    "Max",
    "Min",
    "Mul",
    "Not",
    "NotEqualOp",
    "Operand",
    "Or",
    "PrimExpr",
    "Ramp",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Sub",
    "TruncDiv",
    "TruncMod",
    "TypedExpr",
    "Var",
    "add",
    "as_prim",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "cast",
    "compare",
    "div",
    "element_dtype",
    "evaluate",
    "floordiv",
    "floormod",
    "lanes_of",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "shift_left",
    "shift_right",
    "sub",
    "truncdiv",
    "truncmod",
    "with_lanes",
]


class BinaryExpr(TypedExpr):
    """Arithmetic of two operands of one dtype; Python numbers are taken as int32 or float32."""

    __slots__ = ()
    a: PrimExpr
    b: PrimExpr

    def __post_init__(self) -> None:
        a: Any = self.a
        b: Any = self.b
        if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
            init_field(self, "a", as_prim(a, "int32"))
            init_field(self, "b", as_prim(b, "int32"))
        init_field(self, "dtype", self.a.dtype)


@node("tir.Add")
class Add(BinaryExpr):
    """`a + b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Sub")
class Sub(BinaryExpr):
    """`a - b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Mul")
class Mul(BinaryExpr):
    """`a * b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Div")
class Div(BinaryExpr):
    """`a / b` of floats."""

    a: PrimExpr
    b: PrimExpr


@node("tir.TruncDiv")
class TruncDiv(BinaryExpr):
    """The quotient of integers, rounded towards zero as in C."""

    a: PrimExpr
    b: PrimExpr


@node("tir.TruncMod")
class TruncMod(BinaryExpr):
    """The remainder of `TruncDiv`, with the sign of `a`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.FloorDiv")
class FloorDiv(BinaryExpr):
    """`a // b`, rounded towards minus infinity."""

    a: PrimExpr
    b: PrimExpr


@node("tir.FloorMod")
class FloorMod(BinaryExpr):
    """`a % b`, with the sign of `b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Min")
class Min(BinaryExpr):
    """The smaller of `a` and `b`."""

    a: PrimExpr
    b: PrimExpr


@node("tir.Max")
class Max(BinaryExpr):
    """The larger of `a` and `b`."""

    a: PrimExpr
    b: PrimExpr


def _truncated_quotient(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


EVALUATE: Final[dict[type[BinaryExpr], Callable[[int, int], int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    TruncDiv: _truncated_quotient,
    TruncMod: lambda a, b: a - b * _truncated_quotient(a, b),
    Min: min,
    Max: max,
}
_DIVISIONS: Final = (FloorDiv, FloorMod, TruncDiv, TruncMod)


def _binary(kind: type[BinaryExpr], a: Operand, b: Operand) -> PrimExpr:
    left, right = match_operands(a, b, kind.__name__)
    if isinstance(left, IntImm) and isinstance(right, IntImm):
        if kind in _DIVISIONS and right.value == 0:
            raise ZeroDivisionError(f"{left.value} divided by zero in a shape expression")
        return IntImm(left.dtype, EVALUATE[kind](left.value, right.value))
    return kind(left, right)  # type: ignore[arg-type,call-arg]  # the concrete classes all take (a, b)


def _drops(value: Operand, number: int, other: Operand) -> bool:
    """Whether `value` is the neutral `number` beside `other`, and leaving it out keeps the dtype."""
    if not isinstance(other, PrimExpr) or isinstance(value, float):
        return False
    if not isinstance(value, IntImm):
        return not isinstance(value, ExprOp) and value == number and not is_float(element_dtype(other.dtype))
    return value.value == number and _absorbs(other.dtype, value.dtype)


def _absorbs(dtype: str, constant: str) -> bool:
    return dtype == constant or (dtype == "int64" and constant == "int32")


def add(a: Operand, b: Operand) -> PrimExpr:
    """`a + b`, folded when possible."""
    if isinstance(a, PrimExpr) and _drops(b, 0, a):
        return a
    return b if isinstance(b, PrimExpr) and _drops(a, 0, b) else _binary(Add, a, b)


def sub(a: Operand, b: Operand) -> PrimExpr:
    """`a - b`, folded when possible."""
    return a if isinstance(a, PrimExpr) and _drops(b, 0, a) else _binary(Sub, a, b)


def mul(a: Operand, b: Operand) -> PrimExpr:
    """`a * b`, folded when possible."""
    if isinstance(a, PrimExpr) and _drops(b, 1, a):
        return a
    return b if isinstance(b, PrimExpr) and _drops(a, 1, b) else _binary(Mul, a, b)


def neg(a: PrimExpr) -> PrimExpr:
    """`-a`: `0 - a` of integers, `a * -1.0` of floats, which keeps the sign of zero; constants are negated."""
    if isinstance(a, FloatImm):
        return FloatImm(a.dtype, -a.value)
    return mul(a, -1.0) if is_float(element_dtype(a.dtype)) else sub(as_prim(0, a.dtype), a)


def div(a: Operand, b: Operand) -> PrimExpr:
    """`a / b` of floats.

    Raises:
        TypeError: the operands are integers, where the rounding must be said.
    """
    left, right = match_operands(a, b, "division")
    if not is_float(element_dtype(left.dtype)):
        raise TypeError(
            f"`/` of {left.dtype} with {right.dtype} is not defined: write `a // b` (tir.floordiv) to round down, "
            "tir.truncdiv(a, b) to round towards zero, or convert with .astype(...)"
        )
    return Div(left, right)


def floordiv(a: Operand, b: Operand) -> PrimExpr:
    """`a // b`, folded when possible."""
    return a if isinstance(a, PrimExpr) and _drops(b, 1, a) else _binary(FloorDiv, a, b)


def floormod(a: Operand, b: Operand) -> PrimExpr:
    """`a % b`, folded when possible."""
    return _binary(FloorMod, a, b)


def truncdiv(a: Operand, b: Operand) -> PrimExpr:
    """The quotient rounded towards zero, folded when possible."""
    return a if isinstance(a, PrimExpr) and _drops(b, 1, a) else _binary(TruncDiv, a, b)


def truncmod(a: Operand, b: Operand) -> PrimExpr:
    """The remainder of `truncdiv`, folded when possible."""
    return _binary(TruncMod, a, b)


def minimum(a: Operand, b: Operand) -> PrimExpr:
    """The smaller of two values; constants are folded."""
    return _binary(Min, a, b)


def maximum(a: Operand, b: Operand) -> PrimExpr:
    """The larger of two values; constants are folded."""
    return _binary(Max, a, b)


OPERATORS.update(add=add, sub=sub, mul=mul, neg=neg, div=div, floordiv=floordiv, floormod=floormod)


@deep
def evaluate(expr: PrimExpr, values: dict[Var, int]) -> int:
    """Value of an integer expression under an assignment; conditions give 0 or 1.

    Raises:
        KeyError: a variable has no value; the key is the variable.
        TypeError: the expression has no integer value.
    """
    match expr:
        case IntImm():
            return expr.value
        case Var():
            return values[expr]
        case Select():
            chosen = expr.true_value if evaluate(expr.condition, values) else expr.false_value
            return evaluate(chosen, values)
        case Not():
            return int(not evaluate(expr.a, values))
        case Comparison() | LogicalBinary():
            return int(DECIDE[type(expr)](evaluate(expr.a, values), evaluate(expr.b, values)))
        case Cast():
            return _converted(expr, evaluate(expr.value, values))
        case BinaryExpr() if type(expr) in EVALUATE:
            return EVALUATE[type(expr)](evaluate(expr.a, values), evaluate(expr.b, values))
        case _:
            raise TypeError(f"{type(expr).__name__} has no integer value")


def _converted(expr: Cast, value: int) -> int:
    done = cast(expr.dtype, as_prim(value, expr.value.dtype))
    if not isinstance(done, IntImm):
        raise TypeError(f"{value} converted to {expr.dtype} has no integer value")
    return done.value
