"""Expressions that can be speculated, that is computed where they were not before: nothing in them can fail."""

from __future__ import annotations

from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import (
    Add,
    Call,
    Cast,
    Comparison,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    LogicalBinary,
    Max,
    Min,
    Mul,
    Not,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let

_DIVISIONS: Final = (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)
_HARMLESS: Final = (
    Add,
    Sub,
    Mul,
    Min,
    Max,
    Var,
    IntImm,
    FloatImm,
    BufferLoad,
    Let,
    Cast,
    Comparison,
    LogicalBinary,
    Not,
    Select,
)
_OF_INTEGERS: Final = frozenset(
    "tir." + name
    for name in (
        *("if_then_else", "likely", "abs", "isnan", "isinf", "isfinite"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    )
)


def why_not_speculatable(root: PrimExpr) -> str | None:
    """Why an expression could fail for some values of its variables, in words; None when it cannot.

    Accesses of memory are not looked at: whether they are in bounds is for the caller to know.
    """
    for item in post_order(root, enter=lambda n: not isinstance(n, Buffer)):
        why = _why(item)
        if why is not None:
            return why
    return None


def _why(item: Node) -> str | None:
    if isinstance(item, _DIVISIONS):
        # the smallest integer by -1 overflows
        safe = is_float(item.dtype) or (isinstance(item.b, IntImm) and item.b.value not in (0, -1))
        return None if safe else "it divides integers by what is not a constant"
    if isinstance(item, _HARMLESS):
        return None
    if isinstance(item, Call):
        name = getattr(item.op, "name", "a function")
        known = name.startswith("tir.") and not name.startswith("tir.call_")
        return None if known and (is_float(item.dtype) or name in _OF_INTEGERS) else f"it calls {name}"
    if isinstance(item, PrimExpr):
        return f"it has a {type(item).__name__}"
    return None
