"""`tvm.relax.testing`: trees of expressions as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.relax.expr import Call, Constant, describe_info
from eutectic.support.deep import deep

_SKIPPED = ("span", "struct_info")


def dump_ast(
    exp: Any,
    indent_str: str = "    ",
    include_struct_info_annotations: bool = True,
    include_call_attrs: bool = True,
) -> str:
    """An expression as text in which every node is written out: its class, then its fields.

    Args:
        exp: A function or an expression.
        indent_str: What each level is indented by.
        include_struct_info_annotations: Whether types of values are written.
        include_call_attrs: Whether options of operators are written.

    Reference: TVM relax.testing.dump_ast.
    """

    @deep
    def text(value: Any, level: int) -> str:
        if isinstance(value, Op):
            return f'Op(name="{value.name}")'
        if isinstance(value, Node):
            return block(type(value).__name__, parts(value), level)
        if isinstance(value, (tuple, list)):
            return block("", [("", item) for item in value], level, "[]")
        if isinstance(value, Mapping):
            return block("", [(str(key), item) for key, item in value.items()], level, "{}")
        return f'"{value}"' if isinstance(value, str) else str(value)

    def parts(value: Any) -> list[tuple[str, Any]]:
        if isinstance(value, Constant):
            return [("data", value.data)]
        names = [item.name for item in fields(value) if item.name not in _SKIPPED] if is_dataclass(value) else []
        if isinstance(value, Call) and (not include_call_attrs or value.attrs is None):
            names = [name for name in names if name != "attrs"]
        listed = [(name, getattr(value, name)) for name in names]
        info = getattr(value, "struct_info", None)
        if include_struct_info_annotations and info is not None:
            listed.append(("struct_info", describe_info(info)))
        return listed

    @deep
    def block(name: str, inner: list[tuple[str, Any]], level: int, marks: str = "()") -> str:
        if not inner:
            return name + marks
        pad = indent_str * (level + 1)
        lines = [f"{pad}{key + '=' if key else ''}{text(value, level + 1)}" for key, value in inner]
        return f"{name}{marks[0]}\n" + ",\n".join(lines) + f"\n{indent_str * level}{marks[1]}"

    return text(exp, 0)
