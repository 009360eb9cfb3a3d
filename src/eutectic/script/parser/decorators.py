"""Which dialect a definition of a script belongs to."""

from __future__ import annotations

import ast
from typing import Any

from eutectic.script.parser.evaluate import Evaluator


def decorator_of(node: ast.FunctionDef | ast.ClassDef, evaluator: Evaluator) -> tuple[str, dict[str, Any]]:
    """Kind and keyword arguments of the decorator that makes a definition part of a script.

    Args:
        node: The definition.
        evaluator: Knows what the decorators' names mean.

    Returns:
        Such as `("relax.function", {"pure": False})`.

    Raises:
        ScriptError: no decorator does, or one that does is given positional arguments.
    """
    decoration: tuple[str, dict[str, Any]] | None = None
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        value = evaluator.value(call.func if call else decorator)
        kind = getattr(value, "script_kind", None)
        if kind is None or decoration is not None:
            if not evaluator.environment.trusted:
                evaluator.source.refuse(decorator, "this decorator may not be used in a text from outside")
            continue
        if call is not None and call.args:
            evaluator.source.refuse(call, "this decorator takes keyword arguments only")
        options = evaluator.keywords(call) if call else {}
        known = getattr(value, "script_options", ())
        for name in options:
            if name not in known:
                evaluator.source.refuse(decorator, f"unknown option {name!r}; there are: {', '.join(known)}")
        decoration = str(kind), options
    if decoration is not None:
        return decoration
    expected = "@I.ir_module" if isinstance(node, ast.ClassDef) else "@R.function or @T.prim_func"
    raise evaluator.source.error(node, f"{node.name} is not part of a script", help=f"decorate it with {expected}")
