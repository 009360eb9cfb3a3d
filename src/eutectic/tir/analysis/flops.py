"""How many floating-point operations a tensor program does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import BinaryExpr, Call, IntImm, Max, PrimExpr, as_prim, element_dtype, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.block import Block
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, While

_EXTERNAL: Final = frozenset(f"tir.{name}" for name in ("call_packed", "call_extern", "call_pure_extern"))


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
    counted = _statement(item.body, lambda extent: 1)
    assert isinstance(counted, int)  # no extent that varies is in it
    return counted


def work_of(function: PrimFunc) -> int | PrimExpr:
    """The same with extents that are not constant as they are, as an expression of the program's variables.

    Args:
        function: A tensor program. Where the extent of a loop depends on another loop, that one's variable is in the
            result.
    """
    return _statement(function.body, lambda extent: extent)


def is_counted(function: PrimFunc) -> bool:
    """Whether `count_flops` knows all that a program does: it has no loop whose end varies, and calls nothing else."""
    return all(map(_is_known, post_order(function.body)))


def _is_known(part: Node) -> bool:
    match part:
        case While():
            return False
        case For(extent=extent):
            return isinstance(extent, IntImm)
        case Call(op=Op(name=name)):
            return name not in _EXTERNAL
        case _:
            return True


@deep
def _statement(stmt: Stmt, varying: Callable[[PrimExpr], int | PrimExpr]) -> int | PrimExpr:
    """Operations of a statement; `varying` says what an extent that is not constant counts."""
    match stmt:
        case For():
            times = stmt.extent.value if isinstance(stmt.extent, IntImm) else varying(stmt.extent)
            each = _statement(stmt.body, varying)
            return 0 if isinstance(each, int) and each == 0 else times * each
        case SeqStmt():
            return sum(_statement(part, varying) for part in stmt.seq)
        case BufferStore():
            return _expression(stmt.value)
        case IfThenElse():
            other = 0 if stmt.else_case is None else _statement(stmt.else_case, varying)
            return _larger(_statement(stmt.then_case, varying), other)
        case LetStmt():
            return _expression(stmt.value) + _statement(stmt.body, varying)
        case Block():
            return _statement(stmt.body, varying)
        case _:
            inner = getattr(stmt, "block", None) or getattr(stmt, "body", None)
            return _statement(inner, varying) if isinstance(inner, Stmt) else 0


def _larger(a: int | PrimExpr, b: int | PrimExpr) -> int | PrimExpr:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return Max(as_prim(a, "int64"), as_prim(b, "int64"))


def _expression(expr: Node) -> int:
    count = 0
    for part in post_order(expr):
        if isinstance(part, (BinaryExpr, Call)) and is_float(element_dtype(part.dtype)):
            named = is_if_then_else(part)
            count += 0 if named else lanes_of(part.dtype)
    return count
