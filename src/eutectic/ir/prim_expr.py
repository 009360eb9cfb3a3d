"""Scalar expressions: integers, symbolic variables and arithmetic on them.

Shapes of graph values are tuples of these; tensor programs (`tir`) index with
them. Operators fold constants, and `x * 1`, `x + 0` as far as that is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from eutectic.ir.node import Node, field, node


class PrimExpr(Node):
    """A scalar expression; `dtype` is the type of its value."""

    __slots__ = ()
    dtype: str

    def __add__(self, other: PrimExpr | int) -> PrimExpr:
        return add(self, other)

    def __radd__(self, other: int) -> PrimExpr:
        return add(as_prim(other, self.dtype), self)

    def __sub__(self, other: PrimExpr | int) -> PrimExpr:
        return sub(self, other)

    def __rsub__(self, other: int) -> PrimExpr:
        return sub(as_prim(other, self.dtype), self)

    def __mul__(self, other: PrimExpr | int) -> PrimExpr:
        return mul(self, other)

    def __rmul__(self, other: int) -> PrimExpr:
        return mul(as_prim(other, self.dtype), self)

    def __floordiv__(self, other: PrimExpr | int) -> PrimExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> PrimExpr:
        return floordiv(as_prim(other, self.dtype), self)

    def __mod__(self, other: PrimExpr | int) -> PrimExpr:
        return floormod(self, other)

    def __neg__(self) -> PrimExpr:
        return sub(as_prim(0, self.dtype), self)


@node("ir.IntImm")
class IntImm(PrimExpr):
    """An integer (or bool) constant."""

    dtype: str
    value: int

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        """Compares with Python ints and other constants by value, so that `shape[0] == 3` reads naturally."""
        if isinstance(other, IntImm):
            return self.value == other.value
        return self.value == other if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)


@node("ir.FloatImm")
class FloatImm(PrimExpr):
    """A floating-point constant; `value` is held in double precision."""

    dtype: str
    value: float

    def __float__(self) -> float:
        return self.value


@node("tir.Var")
class Var(PrimExpr):
    """A symbolic scalar; identity is the variable."""

    name: str = field(role="ignore")
    dtype: str = "int32"
    is_variable: ClassVar[bool] = True


@node("tir.SizeVar")
class SizeVar(Var):
    """A symbolic scalar known to be non-negative."""


class BinaryExpr(PrimExpr):
    """Arithmetic of two operands of one dtype."""

    __slots__ = ()
    a: PrimExpr
    b: PrimExpr

    @property
    def dtype(self) -> str:  # type: ignore[override]  # derived here, stored in leaves
        """Dtype of the operands."""
        return self.a.dtype


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


EVALUATE: Final[dict[type[BinaryExpr], Callable[[int, int], int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}


def as_prim(value: PrimExpr | int | float | Any, dtype: str = "int64") -> PrimExpr:
    """`value` as an expression; Python numbers become constants of `dtype`.

    Raises:
        TypeError: the value is neither a number nor an expression.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, bool):
        return IntImm("bool", int(value))
    if isinstance(value, float):
        return FloatImm("float32" if dtype.startswith("int") else dtype, value)
    if hasattr(value, "__index__"):
        return IntImm(dtype, value.__index__())
    raise TypeError(f"expected an integer or a scalar expression, got {type(value).__name__}: {value!r}")


def _binary(kind: type[BinaryExpr], a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    left = as_prim(a, b.dtype if isinstance(b, PrimExpr) else "int64")
    right = as_prim(b, left.dtype)
    if isinstance(left, IntImm) and isinstance(right, IntImm):
        if kind in (FloorDiv, FloorMod) and right.value == 0:
            raise ZeroDivisionError(f"{left.value} divided by zero in a shape expression")
        return IntImm(left.dtype, EVALUATE[kind](left.value, right.value))
    return kind(left, right)  # type: ignore[call-arg]  # the concrete classes all take (a, b)


def _is(value: PrimExpr | int, number: int) -> bool:
    return (value.value if isinstance(value, IntImm) else value) == number if not isinstance(value, Var) else False


def add(a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    """`a + b`, folded when possible."""
    if _is(b, 0) and isinstance(a, PrimExpr):
        return a
    return b if _is(a, 0) and isinstance(b, PrimExpr) else _binary(Add, a, b)


def sub(a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    """`a - b`, folded when possible."""
    return a if _is(b, 0) and isinstance(a, PrimExpr) else _binary(Sub, a, b)


def mul(a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    """`a * b`, folded when possible."""
    if _is(b, 1) and isinstance(a, PrimExpr):
        return a
    return b if _is(a, 1) and isinstance(b, PrimExpr) else _binary(Mul, a, b)


def floordiv(a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    """`a // b`, folded when possible."""
    return a if _is(b, 1) and isinstance(a, PrimExpr) else _binary(FloorDiv, a, b)


def floormod(a: PrimExpr | int, b: PrimExpr | int) -> PrimExpr:
    """`a % b`, folded when possible."""
    return _binary(FloorMod, a, b)


def evaluate(expr: PrimExpr, values: dict[Var, int]) -> int:
    """Value of an integer expression under an assignment.

    Raises:
        KeyError: a variable has no value; the key is the variable.
    """
    match expr:
        case IntImm():
            return expr.value
        case Var():
            return values[expr]
        case BinaryExpr():
            return EVALUATE[type(expr)](evaluate(expr.a, values), evaluate(expr.b, values))
        case _:
            raise TypeError(f"{type(expr).__name__} has no integer value")
