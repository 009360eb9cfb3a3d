"""TVM's spelling of what `eutectic.tir` and `eutectic.te` have; also names of `tvm.tir` that are in `te` here."""

from __future__ import annotations

from typing import Any

from eutectic.ir.prim_base import Deferred
from eutectic.ir.prim_expr import Operand, PrimExpr, StringImm, as_prim
from eutectic.ir.prim_expr import add as _sum_of
from eutectic.ir.prim_expr import mul as _product_of
from eutectic.ir.prim_expr import sub as _difference_of
from eutectic.support.deep import deep
from eutectic.te.reduction import CommReducer, Reduce, comm_reducer, max, min, sum
from eutectic.te.tensor import ProducerLoad
from eutectic.tir import op as _op
from eutectic.tir.stmt import SeqStmt, Stmt

__all__ = [
    "CommReducer",
    "ProducerLoad",
    "Reduce",
    "add",
    "comm_reducer",
    "convert",
    "isnullptr",
    "logaddexp",
    "max",
    "min",
    "multiply",
    "stmt_list",
    "subtract",
    "sum",
]


def add(lhs: Operand, rhs: Operand) -> PrimExpr:
    """`lhs + rhs`."""
    return _sum_of(lhs, rhs)


def subtract(lhs: Operand, rhs: Operand) -> PrimExpr:
    """`lhs - rhs`."""
    return _difference_of(lhs, rhs)


def multiply(lhs: Operand, rhs: Operand) -> PrimExpr:
    """`lhs * rhs`."""
    return _product_of(lhs, rhs)


def logaddexp(a: Operand, b: Operand) -> PrimExpr:
    """`log(exp(a) + exp(b))`, without overflow."""
    larger, smaller = _op.max(a, b), _op.min(a, b)
    return _sum_of(larger, _op.log1p(_op.exp(_difference_of(smaller, larger))))


def isnullptr(x: PrimExpr) -> PrimExpr:
    """Whether a pointer is null."""
    return as_prim(_op.reinterpret("uint64", x), "uint64").equal(as_prim(0, "uint64"))


@deep
def convert(expr: Any) -> Any:
    """A Python value as an expression, element by element of lists and tuples; nodes are returned as they are.

    Raises:
        TypeError: it stands for no expression.
    """
    if isinstance(expr, list | tuple):
        return [convert(item) for item in expr]
    if isinstance(expr, str):
        return StringImm(expr)
    return as_prim(expr, "int32") if isinstance(expr, bool | int | float | Deferred) else expr


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; of any other statement that one."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]
