"""MODEL on the command line: what it may be, and what is said of what it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
import torch
from tests.cli import nets

from eutectic.cli.main import app

NETS = "tests.cli.nets"


def call(*args: str, status: int = 0) -> Any:
    """The result of the program in this process."""
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == status, (result.output, result.exception)
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["mlp", "two", "nested", "dynamic", "own"])
def test_every_kind_of_factory_runs(name: str):
    assert "float32" in call("run", f"{NETS}:{name}").stdout


def test_an_exported_program_from_a_file(folder: Path):
    torch.export.save(nets.dynamic(), folder / "mlp.pt2")
    result = call("run", "mlp.pt2")
    assert "[2, 4]" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("name", ["two", "nested", "dynamic"])
def test_a_compiled_file_gets_arguments_of_its_signature(name: str, folder: Path):
    call("compile", f"{NETS}:{name}", "-o", "net.eut")
    assert "float32" in call("run", "net.eut").stdout


def test_a_compiled_file_of_a_module_of_ours_wants_inputs(folder: Path):
    call("compile", f"{NETS}:own", "-o", "own.eut")
    assert "argument 'x' is missing" in call("run", "own.eut", status=1).stderr


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nothing", "'nothing' names no model"),
        (":", "':' names no model"),
        ("nothing.eut", "there is no file nothing.eut"),
        ("nothing.pt2", "there is no file nothing.pt2"),
        ("no_such_module:f", "there is no module no_such_module for no_such_module:f"),
        ("tests.cli.no_such_module:f", "there is no module tests.cli.no_such_module"),
        (f"{NETS}:mpl", "did you mean mlp?"),
        (f"{NETS}:zzzzzz", "write a function zzzzzz"),
        (f"{NETS}:SOURCE", "is no factory but"),
        (f"{NETS}:takes", "cannot be called without arguments: missing a required argument: 'width'"),
        (f"{NETS}:number", "gives 42, and no arguments to call it with"),
    ],
)
def test_what_names_no_model(model: str, said: str):
    result = call("run", model, status=1)
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_error_in_the_factory_shows_the_lines_of_the_user():
    said = call("run", f"{NETS}:fails", status=1).stderr
    assert f"{NETS}:fails failed with ZeroDivisionError: division by zero" in said
    assert "    return 1 / number" in said
    assert "called from" in said
    assert "return _divided(0)" in said
    assert "importlib" not in said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import math\nimport no_such_package\n", "no_such_package"),
        ("def f(:\n", "def f(:"),
        ("import sys\nsys.exit(0)\n", "failed with SystemExit: 0"),
    ],
)
def test_an_error_while_importing(source: str, said: str, folder: Path, request: pytest.FixtureRequest):
    name = f"user_{abs(hash(request.node.name))}"
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    stderr = call("run", f"{name}:f", status=1).stderr
    assert said in stderr
    assert f"{name}.py:{len(source.splitlines())}" in stderr


def test_debug_shows_the_traceback():
    result = call("run", f"{NETS}:fails", "--debug", status=1)
    assert isinstance(result.exception.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("name", ["bad.eut", "bad.pt2"])
def test_damaged_files(name: str, folder: Path, caplog: pytest.LogCaptureFixture):
    (folder / name).write_bytes(b"nothing of use")
    result = call("run", name, status=1)
    assert name in result.stderr
    assert result.stderr.startswith("error[X0100]")
    assert not caplog.records
