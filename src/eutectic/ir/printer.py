"""The door to the text form; `script` registers the real printer here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from eutectic.ir.node import Node, fields_of

_PRINTERS: list[Callable[..., str]] = []


def register_printer(printer: Callable[..., str]) -> None:
    """Make `printer(node, **options) -> str` the text form of nodes."""
    _PRINTERS[:] = [printer]


def render(item: object, **options: Any) -> str:
    """Text of `item`; a plain constructor form when no dialect printer is registered."""
    if _PRINTERS:
        return _PRINTERS[0](item, **options)
    return plain(item)


def plain(item: object) -> str:
    """Constructor-like text, for nodes that have no surface syntax."""
    if isinstance(item, Node):
        inner = ", ".join(f"{name}={plain(value)}" for name, role, value in fields_of(item) if role != "ignore")
        return f"{type(item).__name__}({inner})"
    if isinstance(item, tuple):
        return "(" + ", ".join(plain(part) for part in item) + ")"
    return repr(item)


def show(item: object, style: str | None = None, **options: Any) -> None:
    """Print `render(item)`; colours only when standard output is a terminal."""
    text = render(item, **options)
    if style != "plain" and sys.stdout.isatty():
        from rich.console import Console  # heavy, and only wanted on a terminal
        from rich.syntax import Syntax

        Console().print(Syntax(text, "python", theme=style or "ansi_dark", background_color="default"))
        return
    print(text)
