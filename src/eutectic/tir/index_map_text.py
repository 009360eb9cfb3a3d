"""Index maps as Python lambdas, and lambdas read back: how traces keep them. Nothing of the text is ever executed."""

from __future__ import annotations

import ast
import keyword
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eutectic.ir.dtype import KNOWN
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from eutectic.support.deep import deep
from eutectic.tir import op as _op
from eutectic.tir.statement_mutator import operands_of

_COMPARISON, _SUM, _PRODUCT, _ATOM = 0, 2, 4, 6  # how tightly operators bind
_INFIX: Final[dict[type[PrimExpr], tuple[str, int]]] = {
    Add: ("+", _SUM),
    Sub: ("-", _SUM),
    Mul: ("*", _PRODUCT),
    Div: ("/", _PRODUCT),
    FloorDiv: ("//", _PRODUCT),
    FloorMod: ("%", _PRODUCT),
    LT: ("<", _COMPARISON),
    LE: ("<=", _COMPARISON),
    GT: (">", _COMPARISON),
    GE: (">=", _COMPARISON),
}
_NAMED: Final[dict[type[PrimExpr], str]] = {
    Min: "min",
    Max: "max",
    TruncDiv: "truncdiv",
    TruncMod: "truncmod",
    And: "logical_and",
    Or: "logical_or",
    Not: "logical_not",
    Select: "Select",
}
_CALLS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "if_then_else")
_METHODS: Final[dict[type[PrimExpr], str]] = {EQ: "equal", NE: "not_equal"}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(_op, name) for name in (*_CALLS, *(n for n in _NAMED.values() if n != "Select"), "const")},
    "Select": Select,
    "Cast": Cast,
}
_BINARY: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def lambda_text(inputs: Sequence[Var], outputs: Sequence[PrimExpr], free: Sequence[Var] = ()) -> str:
    """An index map as a Python lambda; integers of the dtype of the inputs are written bare.

    Args:
        inputs: The parameters.
        outputs: What it returns.
        free: Other variables, which are written by name.

    Raises:
        ValueError: an output has a variable that is neither, or an operation that has no text.
    """
    names = _names([*inputs, *free])
    dtype = inputs[0].dtype if inputs else next((item.dtype for item in outputs), "int64")
    parts = [_text(item, names, dtype, _COMPARISON) for item in outputs]
    head = "lambda " + ", ".join(names[var] for var in inputs) if inputs else "lambda"
    return f"{head}: ({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _names(inputs: Sequence[Var]) -> dict[Var, str]:
    """Distinct names that Python takes."""
    names: dict[Var, str] = {}
    for number, var in enumerate(inputs):
        legal = var.name.isidentifier() and not keyword.iskeyword(var.name) and var.name != "tir"
        name = base = var.name if legal else f"i{number}"
        count = 0
        while name in names.values():
            count += 1
            name = f"{base}_{count}"
        names[var] = name
    return names


@deep
def _text(expr: PrimExpr, names: Mapping[Var, str], dtype: str, level: int) -> str:
    match expr:
        case Var():
            if expr not in names:
                raise ValueError(f"variable {expr.name} is no input of the index map")
            return names[expr]
        case IntImm():
            return _integer(expr, dtype, level)
        case FloatImm():
            value = repr(expr.value) if math.isfinite(expr.value) else f'float("{expr.value}")'
            return f'tir.const({value}, "{expr.dtype}")'
        case Cast():
            return f'tir.Cast("{expr.dtype}", {_text(expr.value, names, dtype, _COMPARISON)})'
    kind = type(expr)
    parts = operands_of(expr)
    if kind in _INFIX:
        sign, own = _INFIX[kind]
        left_level = own + (own == _COMPARISON)  # Python chains comparisons
        left, right = _text(parts[0], names, dtype, left_level), _text(parts[1], names, dtype, own + 1)
        text = f"{left} {sign} {right}"
        return f"({text})" if own < level else text
    if kind in _METHODS:
        left, right = _text(parts[0], names, dtype, _ATOM), _text(parts[1], names, dtype, _COMPARISON)
        return f"{left}.{_METHODS[kind]}({right})"
    inside = ", ".join(_text(part, names, dtype, _COMPARISON) for part in parts)
    return f"tir.{_function(expr)}({inside})"


def _integer(expr: IntImm, dtype: str, level: int) -> str:
    if expr.dtype == "bool":
        return f"tir.const({bool(expr.value)})"
    bare = expr.dtype == dtype and level < _ATOM  # a number has no methods
    return str(expr.value) if bare else f'tir.const({expr.value}, "{expr.dtype}")'


def _function(expr: PrimExpr) -> str:
    function = _NAMED.get(type(expr))
    if isinstance(expr, Call):
        name = str(getattr(expr.op, "name", ""))
        function = name.removeprefix("tir.") if name.startswith("tir.") else None
        function = function if function in _CALLS else None
    if function is None:
        raise ValueError(f"{type(expr).__name__} has no text in an index map")
    return function


# ---- reading


def parse_lambda(text: str | ast.expr, dtype: str = "int64") -> tuple[tuple[Var, ...], tuple[PrimExpr, ...]]:
    """Inputs and outputs of a lambda as `lambda_text` writes it.

    Args:
        text: The lambda.
        dtype: Dtype of the inputs, and of integers written bare.

    Raises:
        ValueError: it is no such lambda.
    """
    tree = _tree(text) if isinstance(text, str) else text
    if not isinstance(tree, ast.Lambda):
        raise ValueError(f"{ast.unparse(tree)} is no lambda")
    parameters = tree.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.defaults or parameters.posonlyargs:
        raise ValueError("the lambda of an index map takes positional parameters only")
    inputs = {arg.arg: Var(arg.arg, dtype) for arg in parameters.args}
    body = tree.body
    items = body.elts if isinstance(body, ast.Tuple | ast.List) else [body]
    try:
        outputs = tuple(_output(_value(item, inputs), dtype) for item in items)
    except (TypeError, ZeroDivisionError, RecursionError, AttributeError) as error:
        raise ValueError(f"{ast.unparse(tree)} is no lambda of indices: {error}") from error
    return tuple(inputs.values()), outputs


def parse_map(text: str) -> tuple[str, str | None]:
    """The lambda of an index map as `IndexMap.as_python` writes it, and that of its inverse or None.

    Raises:
        ValueError: it is no such text.
    """
    tree = _tree(text)
    if isinstance(tree, ast.Lambda):
        return text, None
    named = isinstance(tree, ast.Call) and ast.unparse(tree.func) == "tir.IndexMap.from_func"
    if isinstance(tree, ast.Call) and named and len(tree.args) == 1:
        options = {item.arg: item.value for item in tree.keywords}
        if set(options) == {"inverse_index_map"}:
            return ast.unparse(tree.args[0]), ast.unparse(options["inverse_index_map"])
    raise ValueError(f"{text} is no index map")


def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{text} is no index map") from error


def _output(value: Any, dtype: str) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return IntImm(dtype, value)
    raise ValueError(f"{value!r} is no index")


@deep
def _value(tree: ast.expr, inputs: Mapping[str, Var]) -> Any:
    match tree:
        case ast.Name(id=name) if name in inputs:
            return inputs[name]
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, inputs)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            by = _value(right, inputs)
            if isinstance(sign, ast.FloorDiv | ast.Mod) and isinstance(by, int | IntImm) and int(by) == 0:
                raise ZeroDivisionError("a division by zero")
            return _BINARY[type(sign)](_value(left, inputs), by)
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _BINARY:
            return _BINARY[type(sign)](_value(left, inputs), _value(right, inputs))
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=("inf" | "-inf" | "nan") as value)]):
            return float(value)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="tir"), attr=name), args=args, keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](*(_argument(item, inputs) for item in args))
        case ast.Call(func=ast.Attribute(value=left, attr=name), args=[right]) if name in _METHODS.values():
            return getattr(_value(left, inputs), name)(_value(right, inputs))
        case _:
            raise ValueError(f"{ast.unparse(tree)} has no meaning in an index map")


def _argument(tree: ast.expr, inputs: Mapping[str, Var]) -> Any:
    """A value, or the name of a dtype."""
    match tree:
        case ast.Constant(value=str() as name) if name in KNOWN:
            return name
        case _:
            return _value(tree, inputs)
