"""The door to the text form; `script` registers the real printer here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from eutectic.support.registry import load_providers

_PRINTERS: list[Callable[..., str]] = []
_VIEWS: dict[str, tuple[str, Callable[[Any], str]]] = {}


def register_printer(printer: Callable[..., str]) -> None:
    """Make `printer(node, **options) -> str` the text form of nodes."""
    load_providers("printers")  # so that it does not come later, and take the place of this one
    _PRINTERS[:] = [printer]


def register_view(name: str, language: str, view: Callable[[Any], str]) -> None:
    """Make `show(name)` print `view(item)`, coloured as a language that Pygments knows."""
    _VIEWS[name] = (language, view)


def render(item: object, **options: Any) -> str:
    """Text of `item`; Python's own form for what is shown while the printer is being imported."""
    load_providers("printers")
    return _PRINTERS[0](item, **options) if _PRINTERS else object.__repr__(item)


def show(item: object, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
    """Print `render(item)`, with syntax colours on a terminal and in a notebook.

    Args:
        item: What to print.
        style: Name of a Pygments style; `plain` for no colours, None for the terminal's own. `llvm` and `asm` print
            the code that a module or a tensor program becomes on this machine.
        black_format: Accepted as TVM does; the text has one layout.
        options: Handed to the printer.
    """
    if style is not None and style not in _VIEWS:
        load_providers("views")
    if style in _VIEWS:
        language, view = _VIEWS[style]
        show_text(view(item), language)
        return
    show_text(render(item, **options), "python", style)


def show_text(text: str, language: str, style: str | None = None) -> None:
    """Print a program, with syntax colours on a terminal and in a notebook.

    Args:
        text: The program.
        language: Name of its language in Pygments.
        style: As in `show`.
    """
    if style != "plain" and (sys.stdout.isatty() or _in_notebook()):
        from rich.console import Console  # heavy, and only wanted where there are colours
        from rich.syntax import Syntax

        Console().print(Syntax(text, language, theme=style or "ansi_dark", background_color="default"))
        return
    print(text)


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, which shows what rich prints as HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
