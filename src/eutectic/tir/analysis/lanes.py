"""Vectors as functions of the number of a lane."""

from __future__ import annotations

from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    And,
    BinaryExpr,
    Broadcast,
    Comparison,
    LogicalBinary,
    Not,
    PrimExpr,
    Ramp,
    Var,
    add,
    cast,
    compare,
    element_dtype,
    lanes_of,
    logical_and,
    logical_not,
    logical_or,
    mul,
)
from eutectic.support.deep import deep
from eutectic.tir.statement_mutator import binary


@deep
def of_lane(expr: PrimExpr, lane: Var) -> PrimExpr | None:
    """The value of one lane; a scalar has the same in all, and None says that it cannot be written down.

    Args:
        expr: A scalar, or a vector of integers or conditions.
        lane: Stands for the number of the lane.
    """
    if lanes_of(expr.dtype) == 1:
        return expr
    if not (is_integer(element_dtype(expr.dtype)) or element_dtype(expr.dtype) == "bool"):
        return None
    match expr:
        case Broadcast() if lanes_of(expr.value.dtype) == 1:
            return expr.value
        case Ramp() if lanes_of(expr.base.dtype) == 1:
            return add(expr.base, mul(cast(expr.base.dtype, lane), expr.stride))
        case Not():
            inner = of_lane(expr.a, lane)
            return None if inner is None else logical_not(inner)
        case BinaryExpr() | Comparison() | LogicalBinary():
            a, b = of_lane(expr.a, lane), of_lane(expr.b, lane)
            return None if a is None or b is None else _joined(expr, a, b)
        case _:
            return None


def _joined(expr: BinaryExpr | Comparison | LogicalBinary, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    match expr:
        case BinaryExpr():
            return binary(type(expr), a, b)
        case Comparison():
            return compare(type(expr), a, b)
        case _:
            return logical_and(a, b) if isinstance(expr, And) else logical_or(a, b)
