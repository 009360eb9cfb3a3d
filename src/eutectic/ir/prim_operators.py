"""Python operators on scalar expressions; `==` and `!=` give what is an expression only where it is used as one.

`prim_expr`, `prim_logic` and `prim_call` fill `OPERATORS` with the meanings; so each family of nodes has its own module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from eutectic.ir.prim_base import PrimExpr

OPERATORS: Final[dict[str, Callable[..., PrimExpr]]] = {}


class ExprOp:
    """What scalar operators apply to: expressions, and comparisons of them by `==` and `!=`."""

    __slots__ = ()
    dtype: str
    __array_priority__: ClassVar[float] = 100.0  # numbers of NumPy leave `np.int64(0) == x` to the expression

    def __add__(self, other: Operand) -> PrimExpr:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Operand) -> PrimExpr:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Operand) -> PrimExpr:
        return OPERATORS["sub"](self, other)

    def __rsub__(self, other: Operand) -> PrimExpr:
        return OPERATORS["sub"](other, self)

    def __mul__(self, other: Operand) -> PrimExpr:
        return OPERATORS["mul"](self, other)

    def __rmul__(self, other: Operand) -> PrimExpr:
        return OPERATORS["mul"](other, self)

    def __truediv__(self, other: Operand) -> PrimExpr:
        return OPERATORS["div"](self, other)

    def __rtruediv__(self, other: Operand) -> PrimExpr:
        return OPERATORS["div"](other, self)

    def __floordiv__(self, other: Operand) -> PrimExpr:
        return OPERATORS["floordiv"](self, other)

    def __rfloordiv__(self, other: Operand) -> PrimExpr:
        return OPERATORS["floordiv"](other, self)

    def __mod__(self, other: Operand) -> PrimExpr:
        return OPERATORS["floormod"](self, other)

    def __rmod__(self, other: Operand) -> PrimExpr:
        return OPERATORS["floormod"](other, self)

    def __neg__(self) -> PrimExpr:
        return OPERATORS["neg"](self)

    def __lt__(self, other: Operand) -> PrimExpr:
        return OPERATORS["lt"](self, other)

    def __le__(self, other: Operand) -> PrimExpr:
        return OPERATORS["le"](self, other)

    def __gt__(self, other: Operand) -> PrimExpr:
        return OPERATORS["gt"](self, other)

    def __ge__(self, other: Operand) -> PrimExpr:
        return OPERATORS["ge"](self, other)

    def __and__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_and"](self, other)

    def __rand__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_and"](other, self)

    def __or__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_or"](self, other)

    def __ror__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_or"](other, self)

    def __xor__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_xor"](self, other)

    def __rxor__(self, other: Operand) -> PrimExpr:
        return OPERATORS["bitwise_xor"](other, self)

    def __lshift__(self, other: Operand) -> PrimExpr:
        return OPERATORS["shift_left"](self, other)

    def __rlshift__(self, other: Operand) -> PrimExpr:
        return OPERATORS["shift_left"](other, self)

    def __rshift__(self, other: Operand) -> PrimExpr:
        return OPERATORS["shift_right"](self, other)

    def __rrshift__(self, other: Operand) -> PrimExpr:
        return OPERATORS["shift_right"](other, self)

    def __invert__(self) -> PrimExpr:
        return OPERATORS["bitwise_not"](self)

    def __eq__(self, other: object) -> EqualOp:  # type: ignore[override]  # a comparison that can be asked for its truth
        return EqualOp(self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    def __ne__(self, other: object) -> NotEqualOp:  # type: ignore[override]  # as above
        return NotEqualOp(self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    __hash__ = object.__hash__  # identity, which is also the truth of `==`

    def equal(self, other: Operand) -> PrimExpr:
        """The expression `self == other`."""
        return OPERATORS["eq"](self, other)

    def not_equal(self, other: Operand) -> PrimExpr:
        """The expression `self != other`."""
        return OPERATORS["ne"](self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """The value converted to `dtype`; constants are converted at once."""
        return OPERATORS["cast"](dtype, self)


class Deferred(ExprOp):
    """A comparison that nobody has used yet; making it checks nothing and never fails."""

    __slots__ = ("a", "b")
    meaning: ClassVar[str]
    sign: ClassVar[str]

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def asobject(self) -> PrimExpr:
        """The expression; constants are decided.

        Raises:
            TypeError: the operands have no common dtype.
        """
        return OPERATORS[self.meaning](self.a, self.b)

    @property
    def dtype(self) -> str:  # type: ignore[override]  # derived here, stored in expressions
        """Dtype of the expression."""
        return self.asobject().dtype

    def __repr__(self) -> str:
        try:
            return repr(self.asobject())
        except TypeError:  # operands that do not go together can be looked at
            return f"{self.a!r} {self.sign} {self.b!r}"


def expressed(value: Any) -> Any:
    """The expression of a comparison by `==` or `!=`; any other value is itself."""
    return value.asobject() if isinstance(value, Deferred) else value


class EqualOp(Deferred):
    """What `a == b` gives: the expression where one is needed, and true in Python where both are one object.

    So `tir.Select(i == j, x, y)` compares values, while `in`, dictionaries and `if a == b` ask for identity.

    Attributes:
        a: Left operand.
        b: Right operand, an expression or a number.

    Reference: TVM `tir.expr.EqualOp`.
    """

    __slots__ = ()
    meaning = "eq"
    sign = "=="

    def __bool__(self) -> bool:
        """Whether the operands are one object."""
        return self.a is self.b


class NotEqualOp(Deferred):
    """What `a != b` gives: the expression where one is needed, and true in Python where these are two objects.

    Attributes:
        a: Left operand.
        b: Right operand, an expression or a number.

    Reference: TVM `tir.expr.NotEqualOp`.
    """

    __slots__ = ()
    meaning = "ne"
    sign = "!="

    def __bool__(self) -> bool:
        """Whether the operands are two objects."""
        return self.a is not self.b


Operand: TypeAlias = ExprOp | int | float
_COMPARABLE: Final = (ExprOp, int, float, np.number, np.bool_)
