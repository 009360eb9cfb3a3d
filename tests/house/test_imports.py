"""No circles among the modules, however an import is written, and none that is put off without a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house.imports import (
    MODULES,
    NOT_IMPORTED,
    SOURCES,
    SRC,
    by_name,
    circles,
    executed,
    imported_modules,
    is_for_type_checkers,
    tree,
)

# Modules that import each other -> why.
CIRCLES: dict[frozenset[str], str] = {}


def test_no_circles():
    graph = {name: imported_modules(path) for name, path in MODULES.items()}
    assert {frozenset(circle) for circle in circles(graph)} == set(CIRCLES)


def test_the_search_finds_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}}) == [["b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from eutectic.ir import node", {"eutectic.ir.node"}),
        ("from eutectic.ir.node import Node", {"eutectic.ir.node"}),
        ("import eutectic.ir.node", {"eutectic.ir.node"}),
        ("from eutectic import compile", {"eutectic"}),
        ("def f():\n    if f:\n        from eutectic.ir import node", {"eutectic.ir.node"}),
        ("import_module('eutectic.ir.node')", {"eutectic.ir.node"}),
        ("_TABLE = {'eutectic.ir.node': ('Node',)}", {"eutectic.ir.node"}),
        ("if TYPE_CHECKING:\n    from eutectic.ir import node", set()),
        ("if typing.TYPE_CHECKING:\n    pass\nelse:\n    from eutectic.ir import node", {"eutectic.ir.node"}),
        ("NAME = 'eutectic.no.module'", set()),
    ],
)
def test_every_way_to_import_is_seen(text: str, found: set[str], tmp_path: Path):
    path = SRC / f"{tmp_path.name}.py"  # a place within the package; nothing is written there
    tree.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, **_: text)
        assert imported_modules(path) == found
    tree.cache_clear()


def _put_off(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports inside functions."""
    for function in executed(tree(path)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (item for item in executed(function) if isinstance(item, (ast.Import, ast.ImportFrom)))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_imports_inside_functions_say_why(path: Path):
    """At the top they would be seen by readers; a comment on the first of a group says what that would cost."""
    lines = path.read_text(encoding="utf-8").splitlines()
    last = -1
    for item in sorted(_put_off(path), key=lambda item: item.lineno):
        assert item.lineno == last + 1 or "#" in lines[item.lineno - 1], f"{path.name}:{item.lineno}"
        last = item.end_lineno or item.lineno


def test_exceptions_are_still_needed():
    for (name, text), why in NOT_IMPORTED.items():
        assert why
        found = [item.value for item in ast.walk(tree(SRC / name)) if isinstance(item, ast.Constant)]
        assert text in found
        assert text not in by_name(SRC / name, ast.walk(tree(SRC / name)))


def test_only_names_for_type_checkers_are_left_out():
    assert is_for_type_checkers(ast.parse("if TYPE_CHECKING:\n    pass").body[0])
    assert not is_for_type_checkers(ast.parse("if not TYPE_CHECKING:\n    pass").body[0])
