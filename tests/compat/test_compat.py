"""Scripts written for TVM run on Eutectic, and `tvm` means Eutectic only while it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from eutectic.compat.table import MODULES

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
ALONE = {"bias_patterns_from_torch", "conv2d_relu_orders", "graph_rewriting", "mlp_to_machine_code", "own_fusion_pass"}
ENV = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": "/nonexistent"}


def python(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], cwd=cwd, env=ENV, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, str]]:
    """What the scripts that need no process of their own print: they run in one, as in a notebook."""
    together = [str(script) for script in SCRIPTS if script.stem not in ALONE]
    done = python(str(Path(__file__).parent / "one_process.py"), *together)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(line["script"]).stem: line for line in lines}


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem not in ALONE], ids=lambda path: path.stem)
def test_scripts_run_together(script: Path, outcomes: dict[str, dict[str, str]]):
    assert not outcomes[script.stem]["error"], outcomes[script.stem]["error"][-3000:]
    assert outcomes[script.stem]["out"].splitlines()[-1] == "done"


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem in ALONE], ids=lambda path: path.stem)
def test_scripts_run(script: Path):
    # The order table warns that a pattern hides another one; everything else is an error.
    done = python("-W", "error", "-W", "default:pattern dnnl", "-m", "eutectic.compat", str(script))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "done"
    assert ("comes before" in done.stderr) == (script.stem == "conv2d_relu_orders")


def test_there_are_scripts():
    assert len(SCRIPTS) >= 50


def test_arguments_reach_the_script(tmp_path: Path):
    script = tmp_path / "show.py"
    script.write_text("import sys, tvm\nimport beside\nprint(sys.argv, __name__, tvm.__name__, beside.x)\n")
    (tmp_path / "beside.py").write_text("x = 3\n")
    done = python("-m", "eutectic.compat", str(script), "--flag", "7")
    assert done.stdout.strip() == f"['{script}', '--flag', '7'] __main__ tvm 3", done.stderr


def test_a_missing_script_is_said():
    done = python("-m", "eutectic.compat", "no_such_script.py")
    assert done.returncode == 2
    assert "there is no script no_such_script.py" in done.stderr


def run(code: str, cwd: Path) -> str:
    done = python("-c", code, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_real_tvm_is_left_alone(tmp_path: Path):
    (tmp_path / "tvm.py").write_text("real = True\n")
    code = """
import tvm
from eutectic.compat import install_as_tvm, uninstall
try:
    install_as_tvm()
except ImportError as error:
    print("refused" if "replace=True" in str(error) else error)
install_as_tvm(replace=True)
import tvm as ours
print(hasattr(ours, "real"), ours.IRModule.__module__)
uninstall()
import tvm as again
print(again is tvm, again.real)
"""
    assert run(code, tmp_path).split("\n") == ["refused", "False eutectic.ir.module", "True True"]


def test_what_is_lacking_is_said(tmp_path: Path):
    code = """
from eutectic.compat import install_as_tvm
install_as_tvm()
install_as_tvm()
import tvm
for name in ("tvm.relax.transform.DeadCodeEliminatio", "tvm.topi.nn.dens"):
    module, _, attribute = name.rpartition(".")
    try:
        getattr(__import__(module, fromlist=["x"]), attribute)
    except AttributeError as error:
        print(error)
try:
    import tvm.meta_schedule
except ModuleNotFoundError as error:
    print(error)
try:
    from tvm.relax import NoSuchThing
except ImportError as error:
    print("ImportError")
"""
    lines = run(code, tmp_path).split("\n")
    assert lines[0].startswith("eutectic 0.1")
    assert "did you mean DeadCodeElimination" in lines[0]
    assert "has no tvm.topi.nn.dens" in lines[1]
    assert "has no module tvm.meta_schedule" in lines[2]
    assert lines[3] == "ImportError"


@pytest.mark.parametrize("name", sorted({source for sources in MODULES.values() for source in sources}))
def test_every_row_of_the_table_exists(name: str):
    import_module(name)


def test_every_module_imports_with_its_names(tmp_path: Path):
    code = """
from eutectic.compat import install_as_tvm
from eutectic.compat.table import MODULES
from importlib import import_module
install_as_tvm()
for name in MODULES:
    module = import_module(name)
    for attribute in dir(module):
        getattr(module, attribute)
print(len(MODULES))
"""
    assert int(run(code, tmp_path)) == len(MODULES)


def test_tensors_and_devices(tmp_path: Path):
    code = """
from eutectic.compat import install_as_tvm
install_as_tvm()
import numpy as np
import tvm
a = tvm.nd.array(np.arange(6, dtype="int32").reshape(2, 3))
b = tvm.runtime.tensor([[1.5, 2.5]], tvm.cpu())
print(a.shape, a.dtype, b.dtype, b.numpy().tolist(), np.from_dlpack(a).sum(), tvm.device("cuda:1"))
tvm.testing.assert_allclose(b, [[1.5, 2.5]])
try:
    tvm.testing.assert_allclose(np.zeros(2), np.zeros((1, 2)))
except AssertionError:
    print("shapes differ")
try:
    tvm.nd.array([1.0], tvm.cuda())
except ValueError as error:
    print(error)
"""
    lines = run(code, tmp_path).split("\n")
    assert lines[0] == "(2, 3) int32 float32 [[1.5, 2.5]] 15 cuda:1"
    assert lines[1:] == ["shapes differ", "tensors cannot be placed on cuda:0 yet"]
