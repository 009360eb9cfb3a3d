"""compile, run, bench, explain, lower, doctor: every option once, the output, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("torch")
from tests.cli.test_models import NETS, call, folder

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.narrow import computes_in, is_host
from eutectic.backend.llvm.dense_pack import narrow_weights
from eutectic.backend.llvm.machine import machine_of
from eutectic.cli import lower
from eutectic.driver.stages import STAGES
from eutectic.target import Target
from eutectic.testing.peers import PEERS

__all__ = ["folder"]
MLP, TWO, ODD = f"{NETS}:mlp", f"{NETS}:two", f"{NETS}:odd"
VERBS = ("compile", "run", "bench", "explain", "lower", "tune", "doctor", "demo", "verify", "verify model", "cache ls")


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str):
    assert "Example: eutectic" in call(*verb.split(), "--help").stdout


def test_compile_for_several_processors(folder: Path):
    options = ("--threads", "1", "--precision", "strict", "--fallback", "error", "--json")
    levels = ("--cpu", "x86-64-v3", "--cpu", "haswell")
    tree = json.loads(call("compile", MLP, "-o", "net.eut", *levels, *options).stdout)
    assert tree["bytes"] == (folder / "net.eut").stat().st_size
    call("compile", MLP, "--target", "llvm -mcpu=x86-64-v2")
    assert (folder / "mlp.eut").is_file()


def test_compile_in_a_narrow_precision(folder: Path):
    call("compile", MLP, "-o", "net.eut", "--precision", "bf16")
    assert 'precision="bf16": no operator is narrowed: ' in str(eutectic.load("net.eut").report)


@pytest.mark.parametrize("option", [("--cpu", "no-processor"), ("--target", "llvm -mcpu=no-processor")])
def test_a_processor_that_is_not_known(option: tuple[str, str], folder: Path):
    assert "LLVM does not know the processor 'no-processor'" in call("compile", MLP, *option, status=1).stderr


def test_a_file_that_cannot_be_written(folder: Path):
    for args in (("compile", MLP, "-o", "no/x.eut"), ("explain", MLP, "--html", "no/x.html")):
        assert "No such file or directory" in call(*args, status=1).stderr


@pytest.mark.parametrize(
    "args", [(), (MLP, "--precision", "x"), (MLP, "--fallback", "x"), (MLP, "--threads", "0"), (MLP, "--no-option")]
)
def test_usage_errors(args: tuple[str, ...]):
    assert call("compile", *args, status=2).stdout == ""


def test_run_reads_and_writes_arrays(folder: Path):
    np.save("a.npy", np.full((2, 3), 2, "float32"))
    np.save("s.npy", np.full(3, 10, "float32"))
    args = ("--input", "a.npy", "-i", "a.npy", "-i", "scale=s.npy", "--output", "out.npz", "--json")
    rows = json.loads(call("run", TWO, *args).stdout)["outputs"]
    assert rows[0] == {"output": 0, "dtype": "float32", "shape": [2, 3], "least": 22.0, "mean": 22.0, "largest": 22.0}
    assert np.load("out.npz")["output_1"] == 24


def test_run_refuses_inputs(folder: Path):
    np.savez("a.npz", a=np.ones(3))
    np.save("wide.npy", np.ones((2, 9), "float32"))
    for name, said in (("a.npz", "several arrays"), ("no.npy", "cannot be read"), ("wide.npy", "")):
        stderr = call("run", MLP, "-i", name, status=1).stderr
        assert said in stderr
        assert stderr.startswith("error[")


def test_nan_is_a_text_in_json(folder: Path):
    np.save("x.npy", np.full((2, 8), np.nan, "float32"))
    result = call("run", MLP, "-i", "x.npy", "--json")
    assert json.loads(result.stdout, parse_constant=pytest.fail)["outputs"][0]["mean"] == "nan"


def test_what_falls_back_is_said_once_with_the_line_and_the_output_is_json_alone():
    result = call("explain", ODD, "--diff", ODD, "--json")
    assert isinstance(json.loads(result.stdout), dict)
    assert result.stderr.count("advice: ") == 1
    assert "nets.py:" in result.stderr
    assert "a factory that prints" in result.stderr
    assert "refused" not in call("run", ODD, "--fallback", "error", status=1).stdout


def test_bench_beside_peers(monkeypatch: pytest.MonkeyPatch):
    for name in ("inductor", "onnxruntime", "openvino"):
        monkeypatch.delitem(PEERS, name)
    tree = json.loads(call("bench", MLP, "--peers", "--rounds", "1", "--threads", "1", "--json").stdout)
    assert set(tree["median_ms"]) == {"eutectic", "eager"}
    assert tree["ratio"]["eutectic"] == 1
    assert "without all peers: they need" in call("bench", TWO, "--peers", "--rounds", "1").stdout


def test_explain_writes_and_answers(folder: Path):
    call("explain", MLP, "--html", "net.html", "--trace", "net.json")
    assert json.loads((folder / "net.json").read_text())
    assert (folder / "net.html").read_text().startswith("<!")
    assert "together in group" in call("explain", MLP, "--why", "silu", "silu", "--no-measure").stdout
    assert "no operator 'nothing'" in call("explain", MLP, "--why", "silu", "nothing", status=1).stderr
    assert "us per call" not in call("explain", MLP, "--no-measure").stdout
    assert "only after" in call("explain", MLP, "--diff", TWO, "--no-measure").stdout


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_shown(stage: str):
    assert len(call("lower", MLP, "--stage", stage, "--target", "llvm").stdout) > 100


def test_the_stages_of_the_program_are_those_of_the_compiler():
    assert get_args(lower.Stage) == STAGES


def test_one_kernel_and_the_files(folder: Path):
    options = ("--target", "llvm", "--dump-dir", "steps", "--json")
    tree = json.loads(call("lower", MLP, "--stage", "tir", "--kernel", "fused_matmul1_add1", *options).stdout)
    assert "def fused_matmul1_add1" in tree["text"]
    names = [Path(name).name for name in tree["files"]]
    assert names == sorted(names)
    assert "00-imported.py" in names
    assert any(path.read_text().startswith("---") for path in (folder / "steps").glob("*.diff"))


def test_lower_refuses_names():
    assert "they are fused_" in call("lower", MLP, "--stage", "tir", "--kernel", "zzz", status=1).stderr
    assert "stage fused shows the whole model" in call("lower", MLP, "--kernel", "zzz", status=1).stderr


def test_a_model_without_kernels_of_its_own_says_so():
    from eutectic.backend.registry import available, backend
    from eutectic.target import Target

    if not available(backend("dnnl"), Target("llvm")).ok:
        pytest.skip("oneDNN is not here")
    result = call("lower", MLP, "--stage", "scheduled", "--target", "llvm -libs=dnnl")
    assert result.stdout == ""
    assert "--target llvm makes kernels" in result.stderr


@pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")
@pytest.mark.parametrize("share", [0.52, 1.93])
def test_doctor_says_what_narrow_precisions_are_worth(narrow_takes: Callable[[float], None], share: float):
    narrow_takes(share)
    facts = json.loads(call("doctor", "--json").stdout)["facts"]
    promised = computes_in("bfloat16", Target("llvm")).ok  # measured, too, where no other processor is named
    held = "bfloat16" in narrow_weights(machine_of(Target("llvm")))
    others = "not used but for weights: " if held else "not used: "
    said = "used: " if promised and (share < 1 or not is_host(Target("llvm"))) else others
    assert facts["precision bf16"].startswith(said)


def test_doctor(monkeypatch: pytest.MonkeyPatch):
    assert json.loads(call("doctor", "--json").stdout)["facts"]["numpy"] == np.__version__
    assert "processor" in call("doctor").stdout
    monkeypatch.setenv("EUTECTIC_THREADS", "many")
    assert "EUTECTIC_THREADS='many': expected a positive integer" in call("doctor", status=1).stderr


def test_the_program_as_a_process():
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    command = [sys.executable, "-m", "eutectic", "run", f"{NETS}:fails"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "ZeroDivisionError" in result.stderr
