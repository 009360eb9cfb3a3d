"""What the files of the package import: at the top, inside functions, and by name."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "eutectic"
SOURCES = sorted(SRC.rglob("*.py"))

# (path, text) -> why a string that is the name of a module of ours imports nothing.
NOT_IMPORTED: dict[tuple[str, str], str] = {
    ("script/text.py", "eutectic.script"): "what a text may say that it imports; it is compared with",
}


def module_name(path: Path) -> str:
    """Full name of the module that a file of the package is."""
    return ".".join(("eutectic", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_name(path): path for path in SOURCES}


@functools.cache
def tree(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def is_for_type_checkers(node: ast.AST) -> bool:
    """Whether what is below a node runs never."""
    return isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING"


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The syntax below a node, at any depth, without what only type checkers see."""
    for item in ast.iter_child_nodes(node):
        yield item
        if not is_for_type_checkers(item):
            yield from executed(item)
        else:
            yield from (part for other in item.orelse for part in (other, *executed(other)))


def by_name(path: Path, parts: Iterable[ast.AST]) -> Iterator[str]:
    """Modules of ours that are named by a text: in a call of `import_module`, or in a table of lazy names.

    A text that is the full name of a module is taken for an import wherever it stands, as a table may be anywhere,
    and so is one to which the rest of a name is added; that of the whole package is a word of many messages.
    """
    base = path.relative_to(SRC).as_posix() if path.is_relative_to(SRC) else path.name
    for item in parts:
        text = item.value.rstrip(".") if isinstance(item, ast.Constant) and isinstance(item.value, str) else None
        if text in MODULES and text != "eutectic" and (base, text) not in NOT_IMPORTED:
            yield str(text)


@functools.cache
def imported_names(path: Path) -> tuple[str, ...]:
    """Dotted names of all that a file imports, also for type checkers; `from a import b` also gives `a.b`."""
    names: list[str] = []
    for item in ast.walk(tree(path)):
        if isinstance(item, ast.Import):
            names += (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom) and item.module is not None:
            names += (item.module, *(f"{item.module}.{alias.name}" for alias in item.names))
    return (*names, *by_name(path, ast.walk(tree(path))))


def imported_modules(path: Path, for_type_checkers: bool = False) -> set[str]:
    """Modules of ours that running a file can import.

    The packages on the way to a module are not counted: that `a` runs before `a.b` does is how Python works, and `a`
    shows its parts.

    Args:
        path: The file.
        for_type_checkers: Whether imports count too that only type checkers see.
    """
    parts = list(ast.walk(tree(path)) if for_type_checkers else executed(tree(path)))
    found = set(by_name(path, parts))
    for item in parts:
        if isinstance(item, ast.Import):
            found.update(alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom) and item.module is not None:
            names = {alias.name: f"{item.module}.{alias.name}" for alias in item.names}
            found.update(full if full in MODULES else item.module for full in names.values())
    return (found & set(MODULES)) - {module_name(path)}


def import_graph(for_type_checkers: bool = False) -> dict[str, set[str]]:
    """What each module of ours imports; see `imported_modules`."""
    return {name: imported_modules(path, for_type_checkers) for name, path in MODULES.items()}


def within_packages(graph: dict[str, set[str]]) -> dict[str, dict[str, set[str]]]:
    """By package: which of its parts import which other ones.

    A part is a module or a package directly in it, with all that is inside of that. An import between two modules is
    one between the parts that they are in, of the innermost package that has both.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for module, imported in graph.items():
        for other in imported:
            line, path = module.split("."), other.split(".")
            depth = next((k for k, pair in enumerate(zip(line, path, strict=False)) if pair[0] != pair[1]), None)
            if depth is None:
                continue  # a package and something in it
            parts = found.setdefault(".".join(line[:depth]), {})
            parts.setdefault(".".join(line[: depth + 1]), set()).add(".".join(path[: depth + 1]))
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The largest sets of nodes that all reach each other, of more than one node.

    Reference: R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1(2), 1972.
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_nodes: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        open_nodes.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_nodes:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            start = open_nodes.index(node)
            if len(open_nodes) - start > 1:
                found.append(sorted(open_nodes[start:]))
            del open_nodes[start:]

    for node in graph:
        if node not in order:
            visit(node)
    return found
