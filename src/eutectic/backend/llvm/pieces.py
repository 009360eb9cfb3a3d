"""How many pieces a parallel loop is worth: as many as take long enough that taking one costs nothing beside it."""

from __future__ import annotations

from typing import Final

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Call, IntImm, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.schedule.rules.work import operations
from eutectic.tir.stmt import BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt, While

PIECE: Final = 20_000  # operations, of vectors or of numbers; some microseconds, where taking a piece is 20 to 100 ns
MANY: Final = 1 << 20
_VECTOR: Final = 16  # lanes of a vector of the widest registers


def pieces_worth(loop: For) -> int:
    """Pieces that a parallel loop is worth, from 1 on; many, when its work is not known before it runs."""
    work = _work(loop)
    return MANY if work is None else min(max(work // PIECE, 1), MANY)


@deep
def _work(stmt: Stmt) -> int | None:
    """Operations of a statement; None when that depends on what is not known."""
    match stmt:
        case For():
            inner = _work(stmt.body)
            return stmt.extent.value * inner if isinstance(stmt.extent, IntImm) and inner is not None else None
        case While():
            return None
        case SeqStmt():
            return _sum([_work(part) for part in stmt.seq])
        case BufferStore():
            return _expression(stmt.value) + _vectors(stmt.value.dtype)
        case IfThenElse():
            parts = [_work(stmt.then_case), 0 if stmt.else_case is None else _work(stmt.else_case)]
            return None if None in parts else max(part for part in parts if part is not None)
        case LetStmt():
            return _sum([_expression(stmt.value), _work(stmt.body)])
        case Evaluate():
            return _expression(stmt.value)
        case _:
            inner_stmt = getattr(stmt, "body", None)
            return _work(inner_stmt) if isinstance(inner_stmt, Stmt) else None


def _sum(parts: list[int | None]) -> int | None:
    return None if None in parts else sum(part for part in parts if part is not None)


def _expression(expr: Node) -> int:
    """Operations of an expression: its arithmetic on data and its loads, each as often as it needs vectors."""
    loads, lanes = 0, 1
    for part in post_order(expr):
        if isinstance(part, (BufferLoad, Call)):
            vectors = _vectors(part.dtype)
            lanes = max(lanes, vectors)
            loads += vectors if isinstance(part, BufferLoad) else 0
    return loads + lanes * operations(expr)


def _vectors(dtype: str) -> int:
    return -(-lanes_of(dtype) // _VECTOR)
