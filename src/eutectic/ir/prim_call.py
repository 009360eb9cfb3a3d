"""Calls of intrinsics and functions in scalar expressions, and the bitwise operators, which are such calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.dtype import is_integer
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node, init_field, node
from eutectic.ir.op import Op, register_op
from eutectic.ir.prim_base import (
    OPERATORS,
    ExprOp,
    IntImm,
    Operand,
    PrimExpr,
    StringImm,
    as_prim,
    element_dtype,
    match_operands,
)
from eutectic.ir.prim_logic import NE, compare, logical_and, logical_not, logical_or

RESULT_DTYPE: Final = "TResultDtype"  # attribute of an operator: dtype of the result from the arguments


@node("tir.Call")
class Call(PrimExpr):
    """A call of an intrinsic, or of a function of the module.

    Attributes:
        dtype: Dtype of the result; `void` or `int32` where there is none.
        op: The intrinsic, or the function; a name stands for the intrinsic.
        args: Arguments.

    Raises:
        AttributeError: there is no intrinsic of the name.
    """

    dtype: str
    op: Op | GlobalVar
    args: tuple[PrimExpr, ...] = ()

    def __post_init__(self) -> None:
        callee: Any = self.op
        if isinstance(callee, str):
            init_field(self, "op", Op.get(callee))
        init_field(self, "args", tuple(map(_argument, self.args)))


def _argument(value: Any) -> Any:
    """An argument as a node; some intrinsics take nodes that are no expressions."""
    if isinstance(value, str):
        return StringImm(value)
    return value if isinstance(value, Node) else as_prim(value, "int32")


def same_dtype(args: tuple[Any, ...]) -> str:
    """The result dtype of intrinsics that keep the dtype of their first argument."""
    return str(args[0].dtype)


def intrinsic(name: str, dtype: Callable[[tuple[Any, ...]], str] | None = same_dtype) -> Op:
    """Register an intrinsic.

    Args:
        name: Full name, such as `tir.exp`.
        dtype: Dtype of the result from the arguments; None when the caller gives it.
    """
    op = register_op(name)
    if dtype is not None:
        op.set_attr(RESULT_DTYPE, dtype)
    return op


def call_dtype(call: Call) -> str | None:
    """The dtype that the arguments of a call imply, or None when the caller chose it."""
    rule = call.op.get_attr(RESULT_DTYPE) if isinstance(call.op, Op) else None
    try:
        return None if rule is None else str(rule(call.args))
    except (AttributeError, IndexError):  # arguments that the intrinsic does not take
        return None


_FOLD: Final[dict[str, Callable[[int, int], int]]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}
_BITWISE: Final = {name: intrinsic(f"tir.{name}") for name in (*_FOLD, "bitwise_not")}


def _bitwise(name: str, a: Operand, b: Operand) -> PrimExpr:
    left, right = match_operands(a, b, name)
    _need_integer(left, name)
    if isinstance(left, IntImm) and isinstance(right, IntImm):
        if name.startswith("shift") and right.value < 0:
            raise ValueError(f"{name} of {left.value} by {right.value}: the number of bits is negative")
        return IntImm(left.dtype, _FOLD[name](left.value, right.value))
    return Call(left.dtype, _BITWISE[name], (left, right))


def _need_integer(value: PrimExpr, name: str) -> None:
    if not is_integer(element_dtype(value.dtype)):
        raise TypeError(f"{name} needs integers, got {value.dtype}")


def _both_conditions(a: Any, b: Any) -> bool:
    return any(isinstance(x, ExprOp) and x.dtype == "bool" for x in (a, b)) and all(
        isinstance(x, bool) or (isinstance(x, ExprOp) and x.dtype == "bool") for x in (a, b)
    )


def bitwise_and(x: Operand, y: Operand) -> PrimExpr:
    """`x & y`; of conditions it is `x and y`."""
    return logical_and(x, y) if _both_conditions(x, y) else _bitwise("bitwise_and", x, y)


def bitwise_or(x: Operand, y: Operand) -> PrimExpr:
    """`x | y`; of conditions it is `x or y`."""
    return logical_or(x, y) if _both_conditions(x, y) else _bitwise("bitwise_or", x, y)


def bitwise_xor(x: Operand, y: Operand) -> PrimExpr:
    """`x ^ y`; of conditions it is `x != y`."""
    return compare(NE, x, y) if _both_conditions(x, y) else _bitwise("bitwise_xor", x, y)


def bitwise_not(x: Operand) -> PrimExpr:
    """`~x`; of a condition it is `not x`."""
    value = as_prim(x, "int32")
    if element_dtype(value.dtype) == "bool":
        return logical_not(value)
    _need_integer(value, "bitwise_not")
    return (
        IntImm(value.dtype, ~value.value)
        if isinstance(value, IntImm) and value.dtype[0] == "i"
        else Call(value.dtype, _BITWISE["bitwise_not"], (value,))
    )


def shift_left(x: Operand, y: Operand) -> PrimExpr:
    """`x << y`."""
    return _bitwise("shift_left", x, y)


def shift_right(x: Operand, y: Operand) -> PrimExpr:
    """`x >> y`; arithmetic for signed integers."""
    return _bitwise("shift_right", x, y)


OPERATORS.update(
    bitwise_and=bitwise_and,
    bitwise_or=bitwise_or,
    bitwise_xor=bitwise_xor,
    bitwise_not=bitwise_not,
    shift_left=shift_left,
    shift_right=shift_right,
)
