"""House rules that no other tool checks: who may import whom, sizes, names, what must not appear in the sources."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.house.imports import ROOT, SOURCES, SRC, imported_names, tree

MAY_IMPORT: dict[str, set[str]] = {
    "support": set(),
    "target": {"support"},
    "runtime": {"support", "target"},
    "artefact": {"support", "target", "runtime"},
    "ir": {"support"},
    "arith": {"support", "ir"},
    "tir": {"support", "ir", "arith", "target"},
    "te": {"support", "ir", "arith", "tir"},
    "topi": {"support", "ir", "arith", "tir", "te"},
    "relax": {"support", "ir", "arith", "tir", "te", "topi", "target"},
    "script": {"support", "ir", "arith", "tir", "te", "relax"},
    "backend": {"support", "ir", "arith", "tir", "te", "relax", "target", "runtime"},
}
ON_TOP = {"driver", "dynamo", "explain", "tune", "cli", "viz", "compat", "testing", "demo"}  # may import anything below
LAYERS = {*MAY_IMPORT, *ON_TOP}

# Optional dependency -> the folders of src/eutectic that may import it.
OWNERS: dict[str, tuple[str, ...]] = {
    "torch": ("relax/frontend/torch", "cli", "dynamo", "testing"),
    "islpy": ("arith",),
    "llvmlite": ("backend/llvm",),
    "cuda": ("backend/cuda",),
    "tvm_ffi": ("runtime",),
}

# (importing file, imported package) -> why this import against the table is right.
LAYER_EXCEPTIONS: dict[tuple[str, str], str] = {
    (f"relax/frontend/torch/{name}.py", "runtime"): "it says as data of the runtime how torch models are called"
    for name in ("arguments", "formulas", "graph_module", "results", "signature", "trees")
}

MAX_FILE_LINES, MAX_FUNCTION_LINES = 500, 60
# path, or path::function -> why it may be larger.
SIZE_EXCEPTIONS: dict[str, str] = {}

BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
BANNED_TEXT = re.compile(r"\bpickle\b|(?<![\w.])(?:eval|exec)\(|\bos\.system\b|\bshell=True")
# path -> why it contains what is banned.
TEXT_EXCEPTIONS: dict[str, str] = {}
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

EVERYTHING = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]


def _name(path: Path) -> str:
    base = SRC if path.is_relative_to(SRC) else ROOT
    return path.relative_to(base).as_posix()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _layer_faults(path: Path) -> Iterator[str]:
    parts = path.relative_to(SRC).parts
    layer = parts[0].removesuffix(".py")
    if layer in {*ON_TOP, "__init__", "__main__"}:
        return
    for name in imported_names(path):
        target = name.split(".")
        if target[0] != "eutectic" or len(target) < 2:
            continue
        allowed = target[1] not in LAYERS or target[1] == layer or target[1] in MAY_IMPORT.get(layer, set())
        if layer == target[1] == "backend" and len(target) > 2 and len(parts) > 2:
            allowed = target[2] == parts[1] or not (SRC / "backend" / target[2]).is_dir()
        if not allowed and (_name(path), target[1]) not in LAYER_EXCEPTIONS:
            yield f"{_name(path)} imports {name}"


def test_every_file_is_in_a_layer():
    assert {path.relative_to(SRC).parts[0].removesuffix(".py") for path in SOURCES} <= {*LAYERS, "__init__", "__main__"}


def test_imports_point_down():
    assert not sorted({fault for path in SOURCES for fault in _layer_faults(path)})


def test_optional_dependencies_have_one_owner():
    assert not sorted(
        f"{_name(path)} imports {name}"
        for path in SOURCES
        for name in set(imported_names(path))
        if (top := name.split(".")[0]) in OWNERS and not _name(path).startswith(OWNERS[top])
    )


def test_the_driver_does_not_import_what_explains_it():
    """`explain` is above `driver`, which finds it in the registry; only the type of a result is named."""
    named = {
        (_name(path), name)
        for path in sorted((SRC / "driver").glob("*.py"))
        for name in imported_names(path)
        if name.startswith("eutectic.explain")
    }
    assert {name for _, name in named} <= {"eutectic.explain.explanation.Explanation", "eutectic.explain.explanation"}
    assert {file for file, _ in named} <= {"driver/compiled.py"}


@functools.cache
def _declared() -> tuple[set[str], set[str]]:
    """Distributions that the package requires, and those it requires with some extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [
        {_canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}
        for requirements in (project["dependencies"], *project["optional-dependencies"].values())
    ]
    return names[0], set().union(*names)


def _canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _imported_first(path: Path) -> set[str]:
    """First parts of the names that the statements at the top of a file import."""
    return {
        name.split(".")[0]
        for statement in tree(path).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
        )
    }


def _undeclared(path: Path, distributions: Mapping[str, list[str]]) -> Iterator[str]:
    required, with_extras = _declared()
    at_import = _imported_first(path)  # what is imported within a function, when it is needed, may belong to an extra
    for top in {name.split(".")[0] for name in imported_names(path)} - set(sys.stdlib_module_names) - {"eutectic"}:
        providers = {_canonical(name) for name in distributions.get(top, [top])}
        owned = _name(path).startswith((*(f for folders in OWNERS.values() for f in folders), *ON_TOP))
        if not providers & (required if top in at_import and not owned else with_extras):
            yield f"{_name(path)} imports {top}, of {sorted(providers)}, which pyproject.toml lacks"


def test_imported_packages_are_declared():
    """What a file imports is a requirement of ours, not something that came with another package."""
    distributions = packages_distributions()  # it reads what is installed at each call
    assert not [fault for path in SOURCES for fault in _undeclared(path, distributions)]


def _private_faults(path: Path) -> Iterator[str]:
    package = ["eutectic", *path.relative_to(SRC).parts[:-1]]
    for name in imported_names(path):
        private = any(p.startswith("_") and not p.startswith("__") for p in name.split("."))
        if name.startswith("eutectic.") and private and name.split(".")[: len(package)] != package:
            yield f"{_name(path)} imports {name}"


def test_private_names_stay_in_their_package():
    assert not [fault for path in SOURCES for fault in _private_faults(path)]


def _function_lines(f: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (f.end_lineno or f.lineno) - f.lineno + 1
    if ast.get_docstring(f) is not None:
        lines -= (f.body[0].end_lineno or 0) - f.body[0].lineno + 1
    return lines


def _too_large(path: Path) -> Iterator[str]:
    name = _name(path)
    lines = len(_text(path).splitlines())
    if lines > MAX_FILE_LINES and name not in SIZE_EXCEPTIONS:
        yield f"{name} has {lines} lines"
    functions = (f for f in ast.walk(tree(path)) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef))
    for f in functions:
        if _function_lines(f) > MAX_FUNCTION_LINES and f"{name}::{f.name}" not in SIZE_EXCEPTIONS:
            yield f"{name}::{f.name} has {_function_lines(f)} lines"


def test_sizes():
    assert not [fault for path in EVERYTHING for fault in _too_large(path)]


def test_names_have_a_subject():
    assert not [
        _name(path)
        for path in EVERYTHING
        if BANNED_NAMES & {p.removesuffix(".py") for p in path.relative_to(SRC if path in SOURCES else ROOT).parts}
    ]


def test_folders_are_at_most_three_deep_below_the_package():
    assert not [_name(path) for path in SOURCES if len(path.relative_to(SRC).parts) > 4]


def test_nothing_banned():
    assert not [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in SOURCES
        if _name(path) not in TEXT_EXCEPTIONS
        for number, line in enumerate(_text(path).splitlines(), 1)
        if BANNED_TEXT.search(line)
    ]


def test_nothing_unfinished():
    assert not [_name(path) for path in EVERYTHING if path != Path(__file__) and UNFINISHED.search(_text(path))]


def test_modules_say_what_they_are():
    assert not [_name(path) for path in EVERYTHING if len(ast.get_docstring(tree(path)) or "") < 10]


def test_exceptions_are_still_needed():
    """An exception for a file that is gone would hide the next fault of that name."""
    names = {_name(p) for p in EVERYTHING}
    listed = [*(f for f, _ in LAYER_EXCEPTIONS), *(s.split("::")[0] for s in SIZE_EXCEPTIONS), *TEXT_EXCEPTIONS]
    assert not set(listed) - names


def test_documented_extras_exist():
    """The extras that the documentation tells users to install are the ones the package declares."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8"), re.M)
    assert table
    for extra in table:
        assert re.search(rf"^{extra} = \[", project, re.M), extra


def test_no_backend_is_imported_by_name():
    """The registry finds them, for whoever asks: at the top, inside functions, and by name."""
    paths = [path for folder in ("driver", "runtime") for path in sorted((SRC / folder).glob("*.py"))]
    assert not {_name(path): found for path in paths if (found := _named_backends(imported_names(path)))}


def test_the_driver_names_no_backend():
    """No text outside of documentation has the name of one."""
    assert not [
        f"{_name(path)} says {name}"
        for path in sorted((SRC / "driver").glob("*.py"))
        for name in BACKENDS
        if re.search(rf"\b{name}\b", " ".join(_strings(path)))
    ]


BACKENDS = {folder.name for folder in (SRC / "backend").iterdir() if (folder / "__init__.py").is_file()}


def _named_backends(names: Iterable[str]) -> set[str]:
    """Folders of backends among names of modules."""
    return {name.split(".")[2] for name in names if name.startswith("eutectic.backend.")} & BACKENDS


@pytest.mark.parametrize(
    "text",
    [
        "from eutectic.backend.llvm.machine import machine_of",
        "def f():\n    from eutectic.backend import llvm",
        "import_module('eutectic.backend.llvm.backend')",
        "import_module(f'eutectic.backend.llvm.{part}')",
        "_PROVIDERS = {'schedulers': ('eutectic.backend.llvm.default_schedule',)}",
        "lazy(globals(), {'eutectic.backend.llvm.machine': ('machine_of',)})",
    ],
)
def test_every_way_to_name_a_backend_is_seen(text: str, tmp_path: Path):
    path = SRC / "driver" / f"{tmp_path.name}.py"  # a place within the package; nothing is written there
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, **_: text)
        assert _named_backends(imported_names(path)) == {"llvm"}


def _strings(path: Path) -> Iterator[str]:
    """The text constants of a module that are not documentation."""
    documents = {
        id(n.body[0].value)
        for n in ast.walk(tree(path))
        if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef) and n.body and isinstance(n.body[0], ast.Expr)
    }
    for n in ast.walk(tree(path)):
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in documents:
            yield n.value
