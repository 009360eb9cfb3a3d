"""No function of the compiler recurses over a program without room to do so: each cycle of calls has a deep one.

Calls are found within a module by name: of functions, of methods of `self`, and of functions inside of functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.imports import SOURCES, SRC, tree

# path -> functions that call themselves, and why they do not need room.
BOUNDED: dict[str, dict[str, str]] = {
    "arith/analyzer.py": {"Analyzer.can_prove": "once, on the two sides of a comparison"},
    "backend/dnnl/lower.py": {"_binary": "on the ends of a list of post-operations, of which oneDNN takes 32"},
    "backend/dnnl/plan.py": {"Planner.version": "once, for the layout a value has"},
    "backend/dnnl/steps.py": {"_value_to_json": "fields of our own descriptions"},
    "backend/llvm/casts.py": {"_to_bool": "once", "cast": "once", "_from_float": "once, through a wider type"},
    "backend/llvm/requirements.py": {"_as_double": "once, for an operand"},
    "driver/compile.py": {"compile": "what it gives back compiles again when weights change, which is after it ended"},
    "ir/attrs.py": {"freeze": "nested literals of a source", "make_attrs": "nested literals of a source"},
    "ir/node.py": {"_add_nodes": "tuples in a field, as the class declares them"},
    "ir/structural.py": {
        "_value_text": "tuples in a field, as the class declares them",
        "structural_digest": "containers that the caller nested",
        "_plain_digest": "containers that the caller nested",
    },
    "ir/visit.py": {"_map_value": "tuples in a field, as the class declares them"},
    "relax/dpl/context.py": {"Search._place": "patterns of one context"},
    "relax/dpl/match.py": {"_assign": "parts of one pattern", "Matcher.solve_all": "parts of one pattern"},
    "relax/frontend/torch/ops_index.py": {"pad": "once", "_padded": "once", "_widths": "once"},
    "relax/frontend/torch/symbols.py": {
        "Symbols._convert": "sizes as torch writes them",
        "free_symbols": "lists as torch nests them in one value",
    },
    "relax/op/registry.py": {"_arrays": "tuples among the operands of one call"},
    "script/annotations.py": {"_tensor": "once, with the device in place of its text"},
    "script/parser/evaluate.py": {"Evaluator._loops": "loops of one comprehension"},
    "support/annotations.py": dict.fromkeys(
        ("accepts", "_accepts_generic", "described", "_options", "_word", "_container"),
        "types as a function of ours declares them",
    ),
    "tir/access.py": {"relax": "once"},
    "tir/schedule/primitives/annotate.py": {"_plain": "nested literals of a source"},
    "tir/schedule/handles.py": {"handles_in": "nested literals of a source"},
    "tir/schedule/schedule.py": {"Schedule._found": "once"},
    "topi/broadcast.py": {"_integer_power.step": "the logarithm of an exponent"},
    "topi/indexing.py": {"take": "once"},
    "topi/transform.py": {"repeat": "once", "concatenate.between": "the logarithm of the number of parts, and 8"},
    "support/deep.py": {},
}


def _functions(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Qualified name, what `self` or a plain name is looked up in, and syntax, of all functions."""
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from _functions(item.body, f"{item.name}.")
        elif isinstance(item, ast.FunctionDef):
            yield f"{owner}{item.name}", owner, item
            inner = [part for part in ast.walk(item) if isinstance(part, ast.FunctionDef) and part is not item]
            yield from ((f"{item.name}.{part.name}", f"{item.name}.", part) for part in inner)


def _mentions(function: ast.FunctionDef, owner: str) -> set[str]:
    """Functions that are called, or handed to another one that may call them."""
    nodes = list(ast.walk(function))
    local = {item.arg for item in nodes if isinstance(item, ast.arg)}
    local |= {item.id for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    found: set[str] = set()
    for call in nodes:
        for part in (call.func, *call.args) if isinstance(call, ast.Call) else ():
            if isinstance(part, ast.Name) and part.id not in local:
                found.add(f"{owner}{part.id}" if owner.lstrip("_")[:1].islower() else part.id)
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                found.add(f"{owner}{part.attr}")
    return found


def _on_cycles(calls: dict[str, set[str]]) -> list[str]:
    """Functions that reach themselves."""
    out = []
    for start in calls:
        seen: set[str] = set()
        todo = [start]
        while todo:
            fresh = {name for name in calls[todo.pop()] if name in calls} - seen
            seen |= fresh
            todo.extend(fresh)
        if start in seen:
            out.append(start)
    return out


def _is_deep(function: ast.FunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "deep" for item in function.decorator_list)


def unbounded(path: Path, syntax: ast.Module) -> list[str]:
    """Functions on cycles of calls that no deep function is on."""
    known = BOUNDED.get(path.as_posix(), {})
    calls = {
        name: _mentions(function, owner)
        for name, owner, function in _functions(syntax.body, "")
        if not _is_deep(function) and name not in known
    }
    return _on_cycles(calls)


def test_recursion_has_room():
    assert not [
        f"{path.as_posix()}::{name}"
        for path in (source.relative_to(SRC) for source in SOURCES)
        if path.parts[0] != "testing"
        for name in unbounded(path, tree(SRC / path))
    ]


def test_the_search_finds_cycles():
    text = "def f(x):\n    g(x)\ndef g(x):\n    return map(f, x)\ndef h(x):\n    return f(x)\n"
    assert unbounded(Path("made.py"), ast.parse(text)) == ["f", "g"]
    assert unbounded(Path("made.py"), ast.parse(text.replace("def g", "@deep\ndef g"))) == []


def test_exceptions_exist():
    """A function that is gone, or has become deep, is no exception any more."""
    for name, functions in BOUNDED.items():
        found = {made: f for made, _, f in _functions(tree(SRC / name).body, "")}
        assert not [f for f in functions if f not in found or _is_deep(found[f])], name
