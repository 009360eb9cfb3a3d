"""Scalar expressions as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.ir.prim_expr import (
    Add,
    BinaryExpr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)

_INFIX: Final[dict[type[BinaryExpr], tuple[str, int]]] = {
    Add: ("+", 1),
    Sub: ("-", 1),
    Mul: ("*", 2),
    FloorDiv: ("//", 2),
    FloorMod: ("%", 2),
}
_CALLS: Final[dict[type[BinaryExpr], str]] = {Min: "T.min", Max: "T.max"}


def prim_text(expr: PrimExpr, name: Callable[[Var], str], plain_dtype: str = "int64") -> str:
    """A scalar expression; integers of `plain_dtype` are written bare.

    Args:
        expr: The expression.
        name: Names of variables.
        plain_dtype: Integer dtype that needs no wrapper in the surroundings.
    """
    return _text(expr, name, plain_dtype, 0)


def _text(expr: PrimExpr, name: Callable[[Var], str], plain: str, level: int) -> str:
    match expr:
        case IntImm():
            if expr.dtype == "bool":
                return str(bool(expr.value))
            return str(expr.value) if expr.dtype == plain else f"T.{expr.dtype}({expr.value})"
        case FloatImm():
            return f"T.{expr.dtype}({float_text(expr.value)})"
        case Var():
            return name(expr)
        case BinaryExpr() if type(expr) in _INFIX:
            sign, own = _INFIX[type(expr)]
            text = f"{_text(expr.a, name, plain, own)} {sign} {_text(expr.b, name, plain, own + 1)}"
            return f"({text})" if own < level else text
        case BinaryExpr():
            parts = ", ".join(_text(part, name, plain, 0) for part in (expr.a, expr.b))
            return f"{_CALLS[type(expr)]}({parts})"
        case _:
            return f"<{type(expr).__name__}>"


def float_text(value: float) -> str:
    """A float as text that reads back to the same value."""
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return repr(float(value))
