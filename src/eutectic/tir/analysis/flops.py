"""How many floating-point operations a tensor program does."""

from __future__ import annotations

from eutectic.ir.dtype import is_float
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import BinaryExpr, Call, IntImm, element_dtype, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.block import Block
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt


@deep
def count_flops(item: PrimFunc | IRModule) -> int:
    """Floating-point operations of one run: arithmetic and intrinsic calls on floats count one per lane each.

    Branches count as taken; loops whose extent is not a constant as run once.

    Args:
        item: A tensor program, or a module with some.

    Reference: TVM tir.analysis.estimate_tir_flops.
    """
    if isinstance(item, IRModule):
        return sum(count_flops(f) for _, f in item.functions_items() if isinstance(f, PrimFunc))
    return _statement(item.body)


@deep
def _statement(stmt: Stmt) -> int:
    match stmt:
        case For():
            times = stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
            return times * _statement(stmt.body)
        case SeqStmt():
            return sum(map(_statement, stmt.seq))
        case BufferStore():
            return _expression(stmt.value)
        case IfThenElse():
            other = 0 if stmt.else_case is None else _statement(stmt.else_case)
            return max(_statement(stmt.then_case), other)
        case LetStmt():
            return _expression(stmt.value) + _statement(stmt.body)
        case Block():
            return _statement(stmt.body)
        case _:
            inner = getattr(stmt, "block", None) or getattr(stmt, "body", None)
            return _statement(inner) if isinstance(inner, Stmt) else 0


def _expression(expr: Node) -> int:
    count = 0
    for part in post_order(expr):
        if isinstance(part, (BinaryExpr, Call)) and is_float(element_dtype(part.dtype)):
            named = is_if_then_else(part)
            count += 0 if named else lanes_of(part.dtype)
    return count
