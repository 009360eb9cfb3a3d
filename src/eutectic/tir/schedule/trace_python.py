"""Traces read from the Python that they print as; nothing of the text is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, Final

from eutectic.support.deep import deep
from eutectic.support.errors import ScheduleError
from eutectic.support.spelling import did_you_mean
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.handles import BlockRV, ExprRV, Handle, LoopRV
from eutectic.tir.schedule.primitive import PRIMITIVES
from eutectic.tir.schedule.trace import Instruction, Trace

_HANDLES: Final[dict[str, Callable[[], Handle]]] = {"b": BlockRV, "l": LoopRV, "v": ExprRV}


def trace_from_python(lines: Sequence[str]) -> Trace:
    """The trace that `Trace.as_python` wrote.

    Args:
        lines: Calls of primitives of `sch`, one in each line, such as
            `l1, l2 = sch.split(loop=l0, factors=[None, 4])`.

    Raises:
        ScheduleError: a line is no call of a primitive, or names a handle that no line before has given.
    """
    known: dict[str, Handle] = {}
    return Trace([_instruction(line, known) for line in lines])


def _instruction(line: str, known: dict[str, Handle]) -> Instruction:
    call, targets = _parts(line)
    kind = call.func.attr  # type: ignore[attr-defined]  # checked by _parts
    primitive = PRIMITIVES.get(kind)
    if primitive is None:
        raise ScheduleError(f"no schedule primitive is called {kind}: {line}", help=did_you_mean(kind, PRIMITIVES))
    parameters = primitive.signature.parameters.values()
    rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
    arguments: list[tuple[str, Any]] = []
    if rest is not None:
        arguments.append((rest, tuple(_value(item, line, known) for item in call.args)))
    elif call.args:
        raise _refusal(line, "the arguments of this primitive are given by name")
    decision = None
    for keyword in call.keywords:
        value = _value(keyword.value, line, known)
        if keyword.arg == "decision":
            decision = value
        else:
            arguments.append((str(keyword.arg), value))
    outputs = tuple(_output(name, line, known) for name in targets)
    return Instruction(kind, tuple(arguments), outputs, decision)


def _parts(line: str) -> tuple[ast.Call, list[str]]:
    """The call in a line, and the names that its results get."""
    try:
        (stmt,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError) as error:
        raise _refusal(line, "it is not one statement of Python") from error
    value = stmt.value if isinstance(stmt, ast.Assign | ast.Expr) else None
    targets = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
    names = targets.elts if isinstance(targets, ast.Tuple) else [targets] if targets is not None else []
    of_schedule = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    if not isinstance(value, ast.Call) or not of_schedule or not all(isinstance(name, ast.Name) for name in names):
        raise _refusal(line, "it is not a call of a primitive")
    return value, [name.id for name in names if isinstance(name, ast.Name)]


def _refusal(line: str, why: str) -> ScheduleError:
    return ScheduleError(f"this is not a line of a trace: {line}", notes=[why], help="as Trace.as_python gives it")


def _output(name: str, line: str, known: dict[str, Handle]) -> Handle:
    if name[:1] not in _HANDLES:
        raise _refusal(line, f"{name} is no name of a block (b0), loop (l0) or number (v0)")
    known[name] = _HANDLES[name[0]]()
    return known[name]


@deep
def _value(node: ast.expr, line: str, known: dict[str, Handle]) -> Any:
    match node:
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Name(id=name):
            raise _refusal(line, f"no line before gives {name}")
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, line, known) for item in items]
        case ast.Dict():
            keys = [_value(key, line, known) for key in node.keys if key is not None]
            return dict(zip(keys, (_value(value, line, known) for value in node.values), strict=True))
        case ast.Lambda() | ast.Call(func=ast.Attribute(attr="from_func")):
            return IndexMap.from_text(ast.get_source_segment(line.strip(), node) or "")
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return float(text)
        case _:
            try:
                return ast.literal_eval(node)
            except (ValueError, TypeError) as error:
                raise _refusal(line, f"{ast.unparse(node)} is no value of a trace") from error
