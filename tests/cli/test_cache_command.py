"""`eutectic cache ls` and `eutectic cache clear`: what is kept, what is removed, and why there is nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import eutectic
from eutectic import IRModule, relax
from eutectic.cli.cache import readable_bytes
from eutectic.cli.main import app
from eutectic.driver import kept
from eutectic.script import relax as R
from eutectic.support import cache


@R.function
def main(x: R.Tensor((3, 5), "float32")):
    with R.dataflow():
        gv = R.nn.softmax(x)
        R.output(gv)
    return gv


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "kernels"


def run(*args: str) -> Any:
    result = CliRunner().invoke(app, ["cache", *args])
    assert result.exit_code == 0, result.output
    return result


def test_kernels_are_listed_and_removed(folder: Path):
    assert run("ls").stdout == f"Nothing is kept in {folder}.\n"
    built = relax.build(main)
    shown = run("ls").stdout
    assert len(cache.entries()) == 1
    entry = cache.entries()[0]
    for part in ("softmax", entry.meta["cpu"], readable_bytes(entry.bytes), "1 kernel, ", f"in {folder}"):
        assert part in shown
    os.utime(folder / f"{entry.key}.eutc", (0, 86_400 * 365))
    assert "1971-01-01" in run("ls").stdout
    assert run("clear").stdout == f"Removed 1 kernel, {readable_bytes(entry.bytes)}.\n"
    assert run("clear").stdout == "Removed 0 kernels, 0 B.\n"
    assert built["main"](np.zeros((3, 5), "float32")).numpy().sum() == pytest.approx(3)


def test_models_are_listed_and_removed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EUTECTIC_CACHE_MODELS")
    monkeypatch.setattr(kept, "additions", tuple)  # other tests register things in this process
    eutectic.compile(IRModule({"main": main}))
    kept.settle()
    (model,) = [entry for entry in cache.entries() if entry.is_model]
    shown = run("ls").stdout
    for part in (f"model {model.key[:12]}", readable_bytes(model.bytes), "1 kernel and 1 model, "):
        assert part in shown
    assert run("clear").stdout.startswith("Removed 1 kernel and 1 model, ")
    assert list(folder.iterdir()) == []


def test_damaged_entries_are_listed_too(folder: Path):
    folder.mkdir(mode=0o700)
    (folder / f"{'ab' * 32}.eutc").write_bytes(b"nothing")
    assert "abababababab (damaged)" in run("ls").stdout
    assert run("clear").stdout == "Removed 1 kernel, 7 B.\n"


@pytest.mark.parametrize("verb", ["ls", "clear"])
def test_a_cache_that_is_off_or_not_ours(verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    folder.mkdir()
    folder.chmod(0o777)
    assert f"The cache in {folder} is not used: it must be a folder that you own" in run(verb).stderr
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")
    assert "The cache is off: EUTECTIC_CACHE_DIR is empty" in run(verb).stderr


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes_are_readable(size: int, text: str):
    assert readable_bytes(size) == text
