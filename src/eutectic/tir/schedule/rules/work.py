"""How much a stage does: what decides whether vectors are wide and threads are worth waking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import BinaryExpr, Call, PrimExpr, Select
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.stage import Axis
from eutectic.tir.schedule.rules.walk import Span

_FREE: Final = (
    *("tir.if_then_else", "tir.likely", "tir.bitwise_and", "tir.bitwise_or"),
    *("tir.fabs", "tir.floor", "tir.ceil"),
)
_MANY: Final = 64  # iterations of which each thread gets as many as any other, nearly
_SMALL: Final = 4096  # elements below which one thread is faster than several


def operations(expr: Node) -> int:
    """Arithmetic on data in an expression; functions such as exp count as many."""
    count = 0
    on_data: set[int] = set()
    for part in post_order(expr):
        if isinstance(part, BufferLoad) or any(id(child) in on_data for child in children(part)):
            on_data.add(id(part))
        if isinstance(part, Call):
            count += 20 if _is_function(part) else 0
        elif isinstance(part, (BinaryExpr, Select)) and id(part) in on_data:
            count += 1
    return count


def has_functions(expr: Node) -> bool:
    """Whether an expression has functions such as exp, each a long chain of steps."""
    return any(isinstance(part, Call) and _is_function(part) for part in post_order(expr))


def _is_function(call: Call) -> bool:
    return str(getattr(call.op, "name", "")) not in _FREE


def points(spans: Sequence[Span | Axis]) -> int | None:
    """Iterations of spans, or of axes; None when they are not known."""
    total = 1
    for span in spans:
        if span.size is None:
            return None
        total *= span.size
    return total


def are_many(spans: Sequence[Span]) -> bool:
    """Whether spans have so many iterations that each thread gets as many as any other, nearly."""
    return (points(spans) or 0) >= _MANY


def is_small(spans: Sequence[Span], value: PrimExpr) -> bool:
    """Whether one thread computes a value at all points of spans before others would have begun."""
    total = points(spans)
    return total is not None and total * max(1, operations(value) // 4) < _SMALL


def lanes_of(dtype: str, processor: Processor) -> int:
    """Elements in a vector; narrow ones are computed with in 32 bits."""
    return processor.lanes(8 * max(item_bytes(dtype), 4))
