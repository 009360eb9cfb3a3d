"""`eutectic verify MODEL`: right models, and where wrong ones begin to be wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from tests.cli.test_models import NETS, call

from eutectic.ir.op import Op
from eutectic.relax.frontend.torch import table

MLP = f"{NETS}:mlp"


@pytest.fixture
def wrong_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The operator silu is lowered to the program of relu."""
    from eutectic.relax.op import nn
    from eutectic.relax.transform import legalize_ops

    usual = legalize_ops._Rewriter._rule

    def rule(self, op):
        if op.name != "relax.nn.silu":
            return usual(self, op)
        return lambda builder, call: usual(self, Op.get("relax.nn.relu"))(builder, nn.relu(call.args[0]))

    monkeypatch.setattr(legalize_ops._Rewriter, "_rule", rule)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.mark.parametrize("name", ["mlp", "two", "nested", "dynamic", "odd"])
def test_right_models(name: str):
    result = call("verify", f"{NETS}:{name}", "--json")
    tree = json.loads(result.stdout)
    assert tree["first"] is None
    assert all(row["ok"] and row["ours"] < 1e-5 for row in tree["outputs"])


def test_the_options_of_a_compilation():
    options = ("--target", "llvm", "--threads", "1", "--precision", "strict", "--fallback", "error")
    assert "ok" in call("verify", "model", MLP, *options).stdout


def test_a_wrong_legalization_is_named_with_its_pass(wrong_kernel: None):
    result = call("verify", MLP, "--target", "llvm", status=3)
    assert "WRONG" in result.stdout
    assert "first value that differs: relax.nn.silu" in result.stdout
    assert "first pass that changes results: pass LegalizeOps changes what main computes" in result.stdout
    script = Path(re.search(r"python (\S+reproduce\.py) shows it again", result.stdout)[1])
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert "before" in said
    assert "after" in said


def test_a_wrong_converter_is_named_with_the_operator(monkeypatch: pytest.MonkeyPatch):
    usual = table.TABLE.get("aten.relu.default")
    monkeypatch.setitem(table.TABLE, "aten.silu.default", usual)
    result = call("verify", MLP, status=3)
    assert "first value that differs: aten.silu.default, as it was imported" in result.stdout


@pytest.mark.parametrize("name", ["own", "nothing"])
def test_what_is_no_torch_model(name: str):
    assert "error[" in call("verify", f"{NETS}:{name}", status=1).stderr
