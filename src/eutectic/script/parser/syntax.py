"""Questions about syntax and values that several parsers ask."""

from __future__ import annotations

import ast
from typing import Any

from eutectic.relax.base import Expr
from eutectic.relax.expr import const, convert
from eutectic.script.parser.source import Source
from eutectic.support.deep import deep


@deep
def as_value(value: Any) -> Expr:
    """What a script gives for a graph value, as an expression."""
    if isinstance(value, (bool, int, float)):
        return const(value)
    if isinstance(value, (tuple, list)):
        return convert(tuple(as_value(item) for item in value))
    return convert(value)


@deep
def is_graph_tuple(value: Any) -> bool:
    """Whether a Python tuple or list holds nothing but graph values and tuples of them."""
    return isinstance(value, (tuple, list)) and all(isinstance(v, Expr) or is_graph_tuple(v) for v in value)


def kind_of(value: Any) -> str:
    """A value in a message: its kind, and itself when that is short."""
    return (
        f"{type(value).__name__} {str(value)[:40]!r}" if isinstance(value, (str, int, float)) else type(value).__name__
    )


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body after its docstring."""
    first = body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def parameters(node: ast.FunctionDef, source: Source) -> list[ast.arg]:
    """The parameters of a function: positional ones, each with a type and without a default.

    Raises:
        ScriptError: one is something else, or two have one name.
    """
    args = node.args
    for extra in (args.vararg, args.kwarg, *args.kwonlyargs):
        if extra is not None:
            source.refuse(extra, "functions of a script take positional parameters only")
    if args.defaults:
        source.refuse(args.defaults[0], "parameters of a script have no default values")
    params = [*args.posonlyargs, *args.args]
    for index, arg in enumerate(params):
        if arg.annotation is None:
            help = 'such as R.Tensor((2, 3), "float32") or T.Buffer((2, 3), "float32")'
            source.refuse(arg, f"parameter {arg.arg} has no type", help=help)
        if any(arg.arg == other.arg for other in params[:index]):
            source.refuse(arg, f"two parameters are called {arg.arg}")
    return params


def is_output(node: ast.expr) -> bool:
    """Whether an expression calls `R.output`."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func
    return isinstance(name, ast.Attribute) and name.attr == "output"


@deep
def bound_names(statement: ast.stmt) -> list[str]:
    """Names that a statement binds."""
    match statement:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            return [part.id for part in parts if isinstance(part, ast.Name)]
        case ast.FunctionDef():
            return [statement.name]
        case ast.If():
            return bound_names(statement.body[-1])
        case _:
            return []
