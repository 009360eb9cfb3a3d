"""The root of scalar expressions: constants, variables, and how two operands get one dtype.

Python operators on expressions look their meaning up in `OPERATORS`, which
`prim_expr`, `prim_logic` and `prim_call` fill; so each family of nodes has its
own module. Import from `eutectic.ir.prim_expr`, which loads all of them.
"""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_type import Type
from eutectic.support.shown import shown

OPERATORS: Final[dict[str, Callable[..., PrimExpr]]] = {}


class ExprOp:
    """What scalar operators apply to: expressions, and comparisons of them by `==` and `!=`."""

    __slots__ = ()
    dtype: str

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

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """What NumPy's operators give: `np.int64(0) == x` is ours, which NumPy would decide; arrays go by elements."""
        compared = _COMPARED.get(ufunc)
        if compared is not None and not any(getattr(x, "shape", ()) for x in inputs):
            return compared(*(x.item() if isinstance(x, np.ndarray | np.generic) else x for x in inputs))
        return getattr(ufunc, method)(*map(_boxed, inputs), **options)

    def equal(self, other: Operand) -> PrimExpr:
        """The expression `self == other`."""
        return OPERATORS["eq"](self, other)

    def not_equal(self, other: Operand) -> PrimExpr:
        """The expression `self != other`."""
        return OPERATORS["ne"](self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """The value converted to `dtype`; constants are converted at once."""
        return OPERATORS["cast"](dtype, self)


def _boxed(value: Any) -> Any:
    """An expression as an array of one object, which NumPy computes with as it does with Python's."""
    if not isinstance(value, ExprOp):
        return value
    box = np.empty((), object)
    box[()] = value
    return box


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
_COMPARED: Final[dict[np.ufunc, Callable[[Any, Any], Any]]] = {
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}
_COMPARABLE: Final = (ExprOp, int, float, np.number, np.bool_)


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

_DTYPES: Final = 1024  # that are remembered, as most questions are about the same few
_VECTOR: Final = re.compile(r"(.*[a-z]\d+(?:_e\dm\dfn|_e\dm\d)?|bool)x(\d+)\Z")


@lru_cache(maxsize=_DTYPES)
def lanes_of(dtype: str) -> int:
    """Number of elements of a value: 4 for `float32x4`, 1 for scalars."""
    match = _VECTOR.match(dtype)
    return int(match[2]) if match else 1


@lru_cache(maxsize=_DTYPES)
def element_dtype(dtype: str) -> str:
    """The dtype of one element: `float32` for `float32x4`."""
    match = _VECTOR.match(dtype)
    return match[1] if match else dtype


@lru_cache(maxsize=_DTYPES)
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
