"""No circles among modules or packages, however an import is written, and none that is put off without a reason."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house.imports import (
    NOT_IMPORTED,
    SOURCES,
    SRC,
    by_name,
    circles,
    executed,
    import_graph,
    imported_modules,
    is_for_type_checkers,
    tree,
    within_packages,
)

# Modules, or parts of a package, that import each other, be it for type checkers only -> why.
CIRCLES: dict[frozenset[str], str] = {
    frozenset(f"eutectic.runtime.{name}" for name in ("executable", "instructions", "loading", "program")): (
        "for type checkers: an instruction that runs a program is part of programs, and is told who loads it"
    ),
}


def _circles(for_type_checkers: bool) -> set[frozenset[str]]:
    graph = import_graph(for_type_checkers)
    found = [circles(graph), *map(circles, within_packages(graph).values())]
    return {frozenset(circle) for circle in itertools.chain.from_iterable(found)}


def test_no_circles():
    """Not among modules, and not among the parts of a package, which are modules and packages with all in them."""
    assert _circles(for_type_checkers=False) == set()


def test_no_circles_for_type_checkers():
    assert _circles(for_type_checkers=True) == set(CIRCLES)
    assert all(CIRCLES.values())


def test_the_search_finds_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}}) == [["b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_packages_hold_the_imports_of_what_is_in_them():
    graph = {"p.a.x": {"p.b.y", "p.a.z"}, "p.b.v": {"p.a.w"}, "p.c": {"p"}, "q": {"p.a.x"}}
    assert circles(graph) == []
    parts = within_packages(graph)
    assert parts == {"p": {"p.a": {"p.b"}, "p.b": {"p.a"}}, "p.a": {"p.a.x": {"p.a.z"}}, "": {"q": {"p"}}}
    assert circles(parts["p"]) == [["p.a", "p.b"]]


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, **_: text)
        assert imported_modules(path) == found
        assert imported_modules(path, for_type_checkers=True) >= found


def _put_off(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports inside functions."""
    for function in executed(tree(path)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (item for item in executed(function) if isinstance(item, (ast.Import, ast.ImportFrom)))


def _without_reason(path: Path) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    last = -1
    for item in sorted(_put_off(path), key=lambda item: item.lineno):
        if item.lineno != last + 1 and "#" not in lines[item.lineno - 1]:
            yield f"{path.relative_to(SRC).as_posix()}:{item.lineno}"
        last = item.end_lineno or item.lineno


def test_imports_inside_functions_say_why():
    """At the top they would be seen by readers; a comment on the first of a group says what that would cost."""
    assert not [fault for path in SOURCES for fault in _without_reason(path)]


def test_exceptions_are_still_needed():
    for (name, text), why in NOT_IMPORTED.items():
        assert why
        found = [item.value for item in ast.walk(tree(SRC / name)) if isinstance(item, ast.Constant)]
        assert text in found
        assert text not in by_name(SRC / name, ast.walk(tree(SRC / name)))


def test_only_names_for_type_checkers_are_left_out():
    assert is_for_type_checkers(ast.parse("if TYPE_CHECKING:\n    pass").body[0])
    assert not is_for_type_checkers(ast.parse("if not TYPE_CHECKING:\n    pass").body[0])
