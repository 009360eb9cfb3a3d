"""Where a node of an exported graph comes from: the user's module path and innermost source line."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from eutectic.ir.span import Span
from eutectic.support.errors import Excerpt

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_LIBRARY: Final = str(Path(torch.__file__).resolve().parent)
_PYTHON: Final = sysconfig.get_path("stdlib")
_OWN: Final = str(Path(__file__).resolve().parents[3])
_MODELS: Final = str(Path(_OWN) / "testing" / "models")  # networks like a user's, though they come with the package
_REPEATED: Final = re.compile(r"@\d+$")


def span_of(node: fx.Node) -> Span | None:
    """The span of a node; None when torch recorded neither line nor module."""
    module = module_path(node)
    file, line = _user_line(str(node.meta.get("stack_trace") or ""))
    return Span(file, line, module=module) if file or module else None


def place_of(node: fx.Node) -> str:
    """Module path and source line in one line of text; the node's name when nothing is known."""
    span = span_of(node)
    if span is None:
        return f"node {node.name}"
    return str(span) if span.file else str(span.module)


def excerpt_of(node: fx.Node) -> Excerpt | None:
    """The user's line that a node comes from, for an error; None when it is not recorded."""
    span = span_of(node)
    return span.excerpt() if span is not None and span.file else None


def module_path(node: fx.Node) -> str | None:
    """Path of the innermost module, such as `features.3.conv`; None for the root or when not recorded."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    for entry in reversed(list(stack.values())):
        path = str(entry[0] if isinstance(entry, tuple) else entry)
        if "_empty_nn_module_stack" in path:
            continue
        path = _REPEATED.sub("", path.removeprefix("L['self']").lstrip("."))
        return path or None
    return None


def _user_line(trace: str) -> tuple[str, int]:
    """File and line of the innermost frame outside torch; an empty name when there is none."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    own = [frame for frame in frames if is_user_file(frame[0])]
    return own[-1] if own else ("", 0)


def is_user_file(file: str) -> bool:
    """Whether a source file is neither of torch, nor of Python's library, nor of this package."""
    if file.startswith(_MODELS):
        return True
    if file.startswith((_LIBRARY, "torch/", "<", _OWN)):
        return False
    return not file.startswith(_PYTHON) or "site-packages" in file or "dist-packages" in file
