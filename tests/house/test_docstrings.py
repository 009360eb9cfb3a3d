"""Docstrings read as reStructuredText what they say: the reference is built from them, with warnings as errors."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house.imports import SOURCES, SRC, tree

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _hanging(text: str) -> Iterator[str]:
    """Lines that hang below one of their paragraph, which goes on: a definition that "ends without a blank line"."""
    for line, following in itertools.pairwise(text.splitlines()):
        if line.startswith(" ") and following[:1] not in ("", " ", "*"):
            yield line.strip()


def _faults(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, _DOCUMENTED):
            for line in _hanging(ast.get_docstring(node) or ""):
                yield f"{path.relative_to(SRC)}: {line}"


def test_paragraphs_do_not_hang():
    assert [fault for path in SOURCES for fault in _faults(path)] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Say it.\n\nAccuracy: of a\n    few bits.\nCost: none.", ["few bits."]),
        ("Say it.\n\nAccuracy: of a\nfew bits.\nCost: none.", []),
        ("Say it.\n\nArgs:\n    a: One,\n        of many.\n\nRaises:\n    X: Never.", []),
        ("Say it.\n\nbefore:   after:\n    a         b", []),
    ],
)
def test_hanging_lines_are_seen(text: str, lines: list[str]):
    assert list(_hanging(text)) == lines
