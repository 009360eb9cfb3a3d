"""Scalar expressions as text, up to what only tensor programs have (`tir_expr.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
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
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    add,
    compare,
    div,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    sub,
    truncdiv,
    truncmod,
)
from eutectic.support.deep import deep

# How tightly an operator binds in Python.
OR, AND, NOT, COMPARISON, SUM, PRODUCT = 1, 2, 3, 4, 5, 6
Builder = Callable[[Any, Any], PrimExpr]


def _compares(kind: type[Comparison]) -> Builder:
    return lambda a, b: compare(kind, a, b)


_INFIX: Final[dict[type[PrimExpr], tuple[str, int, Builder]]] = {
    Add: ("+", SUM, add),
    Sub: ("-", SUM, sub),
    Mul: ("*", PRODUCT, mul),
    Div: ("/", PRODUCT, div),
    FloorDiv: ("//", PRODUCT, floordiv),
    FloorMod: ("%", PRODUCT, floormod),
    EQ: ("==", COMPARISON, _compares(EQ)),
    NE: ("!=", COMPARISON, _compares(NE)),
    LT: ("<", COMPARISON, _compares(LT)),
    LE: ("<=", COMPARISON, _compares(LE)),
    GT: (">", COMPARISON, _compares(GT)),
    GE: (">=", COMPARISON, _compares(GE)),
    And: ("and", AND, logical_and),
    Or: ("or", OR, logical_or),
}
_CALLS: Final[dict[type[PrimExpr], tuple[str, Builder]]] = {
    Min: ("T.min", minimum),
    Max: ("T.max", maximum),
    TruncDiv: ("T.truncdiv", truncdiv),
    TruncMod: ("T.truncmod", truncmod),
}
_RIGHT_OPEN: Final = (COMPARISON,)  # Python chains comparisons, so both sides need parentheses


class PrimPrinter:
    """Prints scalar expressions.

    An operator is written as such only where reading it back, which folds
    constants and converts operands, makes the same node; else by its class: `T.Add(1, 2)`.

    Args:
        name: Names of variables.
        plain_dtype: Integer dtype that needs no wrapper in the surroundings.
    """

    def __init__(self, name: Callable[[Var], str], plain_dtype: str) -> None:
        self._name = name
        self.plain_dtype = plain_dtype

    @deep
    def text(self, expr: Any, level: int = 0) -> str:
        """An expression, in parentheses when it binds less tightly than `level`."""
        match expr:
            case IntImm() | FloatImm() | StringImm():
                return self.literal(expr)
            case Var():
                return self.variable(expr)
            case Not() if _same(logical_not, expr, expr.a):
                text = f"not {self.text(expr.a, NOT)}"
                return f"({text})" if level > NOT else text
            case BinaryExpr() | Comparison() | LogicalBinary():
                return self.binary(expr, level)
            case Not():
                return f"T.Not({self.text(expr.a)})"
            case Select():
                return f"T.Select({self.joined((expr.condition, expr.true_value, expr.false_value))})"
            case Cast():
                return f'T.Cast("{expr.dtype}", {self.text(expr.value)})'
            case Ramp():
                return f"T.Ramp({self.joined((expr.base, expr.stride))}, {expr.lanes})"
            case Broadcast():
                return f"T.Broadcast({self.text(expr.value)}, {expr.lanes})"
            case Shuffle():
                return f"T.Shuffle([{self.joined(expr.vectors)}], [{self.joined(expr.indices)}])"
            case _:
                return self.other(expr)

    def joined(self, items: Any) -> str:
        """Expressions separated by commas."""
        return ", ".join(self.text(item) for item in items)

    def variable(self, var: Var) -> str:
        """Name of a variable."""
        return self._name(var)

    def literal(self, expr: IntImm | FloatImm | StringImm) -> str:
        """A constant."""
        if isinstance(expr, StringImm):
            return quoted(expr.value)
        if isinstance(expr, FloatImm):
            return f"T.{expr.dtype}({float_text(expr.value)})"
        if expr.dtype == "bool":
            return str(bool(expr.value))
        return str(expr.value) if expr.dtype == self.plain_dtype else f"T.{expr.dtype}({expr.value})"

    def binary(self, expr: BinaryExpr | Comparison | LogicalBinary, level: int) -> str:
        """A binary operation; chains that lean to the left are walked without recursion."""
        chain: list[Any] = []
        item: Any = expr
        while type(item) in _INFIX and _same(_INFIX[type(item)][2], item, item.a, item.b):
            chain.append(item)
            item = item.a
        if not chain:
            return self.by_name(item)
        text = self.text(item, _left_level(chain[-1])) if not _is_binary(item) else self.by_name(item)
        for index in range(len(chain) - 1, -1, -1):
            item = chain[index]
            sign, own, _ = _INFIX[type(item)]
            text = f"{text} {sign} {self.text(item.b, own + 1)}"
            around = _left_level(chain[index - 1]) if index else level
            if own < around:
                text = f"({text})"
        return text

    def by_name(self, expr: Any) -> str:
        """A binary operation as a call: of the function that builds it, or of its class."""
        shown, build = _CALLS.get(type(expr), ("", None))
        if build is None or not _same(build, expr, expr.a, expr.b):
            shown = f"T.{type(expr).__name__}"
        return f"{shown}({self.joined((expr.a, expr.b))})"

    def other(self, expr: Any) -> str:
        """What has no scalar syntax here."""
        if isinstance(expr, Call):
            return f'T.Call("{expr.dtype}", "{getattr(expr.op, "name", "")}", [{self.joined(expr.args)}])'
        return f"<{type(expr).__name__}>"


def _is_binary(item: Any) -> bool:
    return isinstance(item, (BinaryExpr, Comparison, LogicalBinary))


def _left_level(item: Any) -> int:
    own = _INFIX[type(item)][1]
    return own + 1 if own in _RIGHT_OPEN else own


def _same(build: Callable[..., PrimExpr], expr: Any, *operands: PrimExpr) -> bool:
    """Whether building the operation again makes the same node."""
    try:
        rebuilt: Any = build(*operands)
    except (TypeError, ValueError, ZeroDivisionError):
        return False
    if type(rebuilt) is not type(expr):
        return False
    return rebuilt.a is operands[0] and (len(operands) == 1 or rebuilt.b is operands[1])


def prim_text(expr: PrimExpr, name: Callable[[Var], str], plain_dtype: str = "int64") -> str:
    """A scalar expression; integers of `plain_dtype` are written bare.

    Args:
        expr: The expression.
        name: Names of variables.
        plain_dtype: Integer dtype that needs no wrapper in the surroundings.
    """
    return PrimPrinter(name, plain_dtype).text(expr)


def float_text(value: float) -> str:
    """A float as text that reads back to the same value."""
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return repr(float(value))


def quoted(text: str) -> str:
    """A string literal in double quotes."""
    body = repr(text)[1:-1]
    return '"' + (body if repr(text)[0] == '"' else body.replace("\\'", "'").replace('"', '\\"')) + '"'
