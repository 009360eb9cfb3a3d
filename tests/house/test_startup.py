"""What importing loads, and that each part works whichever part was imported first.

Each case is a process of its own: in the one of the tests everything is loaded already.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.house.imports import ROOT, SRC

HEAVY = ("islpy", "llvmlite", "ml_dtypes", "numpy", "pygments", "rich", "safetensors", "torch", "tvm_ffi", "typer")
COMPILER = ("arith", "backend", "compat", "driver", "dynamo", "ir", "relax", "script", "te", "testing", "tir", "topi")
PACKAGES = sorted(".".join(("eutectic", *path.relative_to(SRC).parent.parts)) for path in SRC.rglob("__init__.py"))

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({blocked!r}):
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Blocker())
"""


def python(code: str) -> str:
    """What a fresh process prints that runs some code."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def loaded_by(code: str) -> set[str]:
    """Modules that some code loads: ours by all of their names, others by the first part."""
    names = python(f"import sys\n{code}\nprint(*sys.modules)").split()
    return {name if name.startswith("eutectic") else name.partition(".")[0] for name in names}


@pytest.mark.parametrize("code", ["import eutectic", "import eutectic; dir(eutectic); hasattr(eutectic, 'nothing')"])
def test_import_loads_nothing_heavy(code: str):
    assert not loaded_by(code) & {*HEAVY, *(f"eutectic.{layer}" for layer in COMPILER)}


def test_command_line_loads_no_compiler():
    loaded = loaded_by("import eutectic.cli.main")
    assert not loaded & {"numpy", "torch", *(f"eutectic.{layer}" for layer in COMPILER)}


def test_dialects_load_what_they_need():
    """The optional and the large packages come with the code that calls them."""
    loaded = loaded_by("import eutectic\neutectic.relax, eutectic.tir, eutectic.te, eutectic.topi, eutectic.script")
    assert not loaded & {"islpy", "llvmlite", "rich", "torch", "tvm_ffi", "eutectic.driver", "eutectic.backend"}


def test_runtime_needs_no_compiler():
    """What was compiled runs where the compiler cannot be imported."""
    blocked = (*(f"eutectic.{layer}" for layer in COMPILER), "islpy", "llvmlite", "rich", "torch", "typer")
    modules = [f"eutectic.runtime.{path.stem}" for path in (SRC / "runtime").glob("*.py") if path.stem != "__init__"]
    code = BLOCKER.format(blocked=blocked) + "import eutectic, importlib\n"
    code += f"for name in {modules}: importlib.import_module(name)\nprint(eutectic.cpu(), eutectic.EutecticError)"
    assert python(code).startswith("cpu:0")


@pytest.mark.slow
@pytest.mark.parametrize("package", [name for name in PACKAGES if name.count(".") < 2])
def test_packages_can_be_first(package: str):
    """No package needs that another one was imported before it, and each exports what it says."""
    out = python(f"import {package} as p\nprint(*[n for n in getattr(p, '__all__', ()) if not hasattr(p, n)])")
    assert out.split() == []


@pytest.mark.slow
def test_modules_can_be_first():
    """As above, of modules; processes are copies of one that has loaded what is not ours."""
    modules = [
        ".".join(("eutectic", *path.relative_to(SRC).with_suffix("").parts)) for path in sorted(SRC.rglob("*.py"))
    ]
    modules = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    code = """
import importlib, os, sys
import islpy, llvmlite.binding, ml_dtypes, numpy, rich.console, safetensors.numpy, torch, typer
for name in {modules}:
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except Exception as error:
            if not isinstance(error, ModuleNotFoundError) or str(error.name).startswith("eutectic"):
                print(name, repr(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
    assert python(code.format(modules=modules)) == ""


def test_submodules_are_reached_by_name():
    """After `import eutectic` alone, and without importing the modules on the way by hand."""
    out = python(
        "import eutectic\n"
        "print(eutectic.relax.op.nn.relu.__name__, eutectic.driver.report.__name__, eutectic.runtime.tensor.cpu(),\n"
        "      eutectic.tir.schedule.Schedule.__name__, eutectic.testing.truth.__name__)"
    )
    assert out.split() == ["relu", "eutectic.driver.report", "cpu:0", "Schedule", "eutectic.testing.truth"]


ALONE = {
    "printer": ("print(eutectic.tir.Var('n', 'int64') + 1)", "n + 1"),
    "printer of a user": (
        "from eutectic.ir.printer import register_printer\n"
        "register_printer(lambda item, **options: 'mine')\nprint(eutectic.tir.Var('n', 'int64'))",
        "mine",
    ),
    "views": (
        "eutectic.te.create_prim_func([a := eutectic.te.placeholder((2,), 'float32', 'a'),"
        " eutectic.te.compute((2,), lambda i: a[i] + 1.0)]).show('llvm')\nprint('shown')",
        "shown",
    ),
    "operators on tensors": (
        "a = eutectic.te.placeholder((2,), 'float32')\nprint((a + a).shape, (-a).dtype)",
        "(T.int32(2),) float32",
    ),
    "operators by name": ("from eutectic.ir.op import Op\nprint(Op.get('relax.nn.conv2d').name)", "relax.nn.conv2d"),
    "intrinsics by name": ("from eutectic.ir.op import Op\nprint(Op.get('tir.exp').name)", "tir.exp"),
    "names of operators": (
        "from eutectic.ir.op import Op\nprint({'relax.add', 'tir.exp'} <= set(Op.list_op_names()))",
        "True",
    ),
    "options of passes": (
        "print(eutectic.PassContext(config={'relax.FuseOps.max_depth': 7}).option('tir.UnrollLoop.max_statements'))",
        "4096",
    ),
    "calls of functions": (
        "gv = eutectic.GlobalVar('f')\nprint(type(gv()).__module__)",
        "eutectic.relax.expr",
    ),
    "patterns": (
        "from eutectic.relax.dpl.table import get_patterns_with_prefix\n"
        "print(len(get_patterns_with_prefix('dnnl.')) > 5)",
        "True",
    ),
    "patterns of a user": (
        "from eutectic.relax.dpl import wildcard\n"
        "from eutectic.relax.dpl.table import get_patterns_with_prefix, register_patterns\n"
        "register_patterns([('dnnl.mine', wildcard())])\nprint(get_patterns_with_prefix('dnnl.')[0].name)",
        "dnnl.mine",
    ),
    "functions by name": ("print(eutectic.get_global_func('relax.ext.dnnl').__name__)", "compile_functions"),
    "functions that are taken": (
        "try: eutectic.register_global_func('eutectic.run_prim_func', print)\n"
        "except eutectic.EutecticError as error: print(error.message)",
        "register_global_func: global function 'eutectic.run_prim_func' is registered already",
    ),
    "functions that are replaced": (
        "eutectic.register_global_func('eutectic.run_prim_func', print, override=True)\n"
        "eutectic.driver.build_prim_func\nprint(eutectic.get_global_func('eutectic.run_prim_func') is print)",
        "True",
    ),
    "names of TVM's": (
        "print(eutectic.relax.build is eutectic.build, 'VMExecutable' in dir(eutectic.relax))",
        "True True",
    ),
    "doors": (
        "try: eutectic.compile(None, thread=2)\nexcept eutectic.EutecticError as error: print(error.message)",
        "eutectic.compile has no parameter 'thread'",
    ),
    "doors of classes": (
        "from eutectic.ir.module import IRModule\n"
        "try: IRModule(3)\nexcept eutectic.EutecticError as error: print(error.message)",
        "eutectic.IRModule: functions must be",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ALONE)
def test_registries_are_filled_when_they_are_asked(case: str):
    code, said = ALONE[case]
    assert said in python(f"import eutectic\n{code}")


def _told_to_type_checkers(path: Path) -> dict[str, set[str]]:
    """Names by module that a package imports for type checkers only."""
    found: dict[str, set[str]] = {}
    for block in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for item in block.body:
                if isinstance(item, ast.ImportFrom) and item.module is not None:
                    found.setdefault(item.module, set()).update(alias.name for alias in item.names)
    return found


def _members(module: ModuleType) -> Mapping[str, Any]:
    return {home: set(names) for home, names in getattr(module, "_MEMBERS", {}).items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_lazy_names_are_told_to_type_checkers(package: str):
    module = importlib.import_module(package)
    told = _told_to_type_checkers(Path(str(module.__file__)))
    submodules = told.pop(package, set())
    assert told == _members(module)
    assert submodules <= set(getattr(module, "__all__", ()))
    for name in {name for names in told.values() for name in names}:
        assert name in module.__all__
        assert importlib.util.find_spec(f"{package}.{name}") is None, "the submodule would take its place"


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_share_one_mechanism(package: str):
    module = importlib.import_module(package)
    assert module.__getattr__.__module__ == "eutectic.support.lazy"
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009 - mypy knows that there is none
    assert set(getattr(module, "__all__", ())) <= set(dir(module))
