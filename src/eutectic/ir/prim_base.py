"""The root of scalar expressions: constants, variables, and how two operands get one dtype.

Their Python operators are in `prim_operators`. Import from `eutectic.ir.prim_expr`, which loads all nodes.
"""

from __future__ import annotations

import numbers
import re
from typing import Any, ClassVar, Final

import numpy as np

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_operators import OPERATORS, Deferred, ExprOp, Operand
from eutectic.ir.prim_type import Type
from eutectic.support.shown import shown


class PrimExpr(ExprOp, Node):
    """A scalar expression; `dtype` is the type of its value.

    Operators build expressions and fold constants. `==` and `!=` give an `EqualOp` and a `NotEqualOp`: an expression
    where one is used, whose truth in Python is identity, as for every node.
    """

    __slots__ = ()
    dtype: str

    def __bool__(self) -> bool:
        """A condition that is not constant has no truth value.

        Raises:
            TypeError: the dtype is bool; an expression of another dtype is true, as any object.
        """
        if self.dtype == "bool":
            raise TypeError(
                f"{type(self).__name__} is symbolic, so Python cannot branch on it; build an expression with "
                "tir.all, tir.any, ~ or tir.if_then_else, or compare nodes with `is` or structural_equal"
            )
        return True


@node("ir.TypedExpr")
class TypedExpr(PrimExpr):
    """Base of expressions that keep the dtype they derive from their operands, so that reading it costs nothing."""

    dtype: str = field(role="ignore", default="", kw_only=True)


@node("ir.IntImm")
class IntImm(PrimExpr):
    """An integer (or bool) constant."""

    dtype: str
    value: int

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        """Whether the value is not zero."""
        return bool(self.value)

    def __eq__(self, other: object) -> bool:  # type: ignore[override]  # constants are decided at once
        """Compares with Python ints and other constants by value, so that `shape[0] == 3` reads naturally."""
        if isinstance(other, IntImm):
            return self.value == other.value
        return self.value == other if isinstance(other, int) else NotImplemented

    def __ne__(self, other: object) -> bool:  # type: ignore[override]  # as above
        """The opposite of `==`."""
        if isinstance(other, IntImm):
            return self.value != other.value
        return self.value != other if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)


@node("ir.FloatImm")
class FloatImm(PrimExpr):
    """A floating-point constant; `value` is held in double precision."""

    dtype: str
    value: float

    def __float__(self) -> float:
        return self.value


@node("tir.StringImm")
class StringImm(PrimExpr):
    """A string, as an argument of intrinsics and a message of assertions."""

    value: str

    @property
    def dtype(self) -> str:  # type: ignore[override]  # fixed here, stored in other leaves
        """Always `handle`."""
        return "handle"


@node("tir.Var")
class Var(PrimExpr):
    """A symbolic scalar; identity is the variable.

    Attributes:
        name: A hint for printing.
        dtype: Dtype of the value; a `Type` given here goes to `type_annotation`.
        type_annotation: The full type where the dtype does not say it, as for pointers.
    """

    name: str = field(role="ignore")
    dtype: str = "int32"
    type_annotation: Type | None = field(role="ignore", default=None, kw_only=True)
    is_variable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        received: Any = self.dtype
        if isinstance(received, Type):
            init_field(self, "type_annotation", received)
            init_field(self, "dtype", received.as_dtype)


@node("tir.SizeVar")
class SizeVar(Var):
    """A symbolic scalar known to be non-negative."""


# ---- dtypes of operands

_VECTOR: Final = re.compile(r"(.*[a-z]\d+(?:_e\dm\dfn|_e\dm\d)?|bool)x(\d+)\Z")


def lanes_of(dtype: str) -> int:
    """Number of elements of a value: 4 for `float32x4`, 1 for scalars."""
    match = _VECTOR.match(dtype)
    return int(match[2]) if match else 1


def element_dtype(dtype: str) -> str:
    """The dtype of one element: `float32` for `float32x4`."""
    match = _VECTOR.match(dtype)
    return match[1] if match else dtype


def with_lanes(dtype: str, lanes: int) -> str:
    """`dtype` with another number of elements."""
    element = element_dtype(dtype)
    return element if lanes == 1 else f"{element}x{lanes}"


def as_prim(value: Operand | Any, dtype: str = "int64") -> PrimExpr:
    """`value` as an expression; Python numbers become constants of `dtype`, what `==` gave the comparison.

    Raises:
        TypeError: the value is neither a number nor an expression.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, np.bool_)):
        return IntImm("bool", int(value))
    dtype = element_dtype(dtype)
    if hasattr(value, "__index__"):
        number = value.__index__()
        return FloatImm(dtype, float(number)) if is_float(dtype) else IntImm(dtype, number)
    if isinstance(value, Deferred):
        return value.asobject()
    if isinstance(value, (float, numbers.Real)):
        return FloatImm(dtype if is_float(dtype) else "float32", float(value))
    raise TypeError(f"expected an integer or a scalar expression, got {type(value).__name__}: {shown(value)}")


def match_operands(a: Operand, b: Operand, what: str) -> tuple[PrimExpr, PrimExpr]:
    """Two operands in one dtype.

    Python numbers and constants take the other operand's dtype; integers of one
    signedness become the wider of the two; a scalar beside a vector is repeated.

    Args:
        a: Left operand.
        b: Right operand.
        what: The operation, for messages.

    Raises:
        TypeError: the dtypes differ in another way; both are named.
    """
    left = as_prim(a, b.dtype if isinstance(b, ExprOp) else "int64")
    right = as_prim(b, left.dtype)
    if left.dtype == right.dtype:
        return left, right
    if lanes_of(left.dtype) != lanes_of(right.dtype):
        left, right = _same_lanes(left, right, what)
    target = _common_dtype(left, right)
    if target is None:
        raise TypeError(
            f"{what} of {left.dtype} with {right.dtype}: both operands need one dtype; convert one with .astype(...)"
        )
    return _to(left, target), _to(right, target)


def _same_lanes(a: PrimExpr, b: PrimExpr, what: str) -> tuple[PrimExpr, PrimExpr]:
    lanes = max(lanes_of(a.dtype), lanes_of(b.dtype))
    if min(lanes_of(a.dtype), lanes_of(b.dtype)) != 1:
        raise TypeError(f"{what} of {a.dtype} with {b.dtype}: vectors of different lengths")
    element = element_dtype(a.dtype if lanes_of(a.dtype) == lanes else b.dtype)
    widened = [
        OPERATORS["broadcast"](_to(x, element) if isinstance(x, (IntImm, FloatImm)) else x, lanes)
        if lanes_of(x.dtype) == 1
        else x
        for x in (a, b)
    ]
    return widened[0], widened[1]


def _common_dtype(a: PrimExpr, b: PrimExpr) -> str | None:
    kind_a, kind_b = element_dtype(a.dtype), element_dtype(b.dtype)
    if kind_a == kind_b:
        return a.dtype
    if is_integer(kind_a) and is_integer(kind_b) and (kind_a[0] == kind_b[0]):
        return a.dtype if _bits(kind_a) >= _bits(kind_b) else b.dtype
    for constant, other in ((a, b), (b, a)):
        element = element_dtype(other.dtype)
        if isinstance(constant, IntImm) and constant.dtype != "bool" and (is_float(element) or is_integer(element)):
            return other.dtype
    return None


def _bits(dtype: str) -> int:
    return int(re.sub(r"\D", "", dtype))


def _to(value: PrimExpr, dtype: str) -> PrimExpr:
    return value if value.dtype == dtype else OPERATORS["cast"](dtype, value)
