"""Models as files: the same results where there is neither the compiler nor torch, for several processors, or anew."""

from __future__ import annotations

import copy
import json
import os
import pickle  # noqa: TID251 - models have to come through it
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_safetensors
from torch import nn
from torch.export import Dim

import eutectic
from eutectic.artefact.file import Artefact
from eutectic.artefact.model import LoadedModel
from eutectic.backend.dnnl.library import availability
from eutectic.driver.compiled import CompiledModel
from eutectic.relax import op
from eutectic.runtime import processor
from eutectic.runtime.instructions import RunNative
from eutectic.support.errors import CallError, CodegenError, LoadError
from eutectic.testing.graphs import graph, weights

SRC = Path(__file__).parents[2] / "src"
TARGETS = ["llvm", *(["llvm -libs=dnnl"] if availability().ok else [])]
BLOCKED = (
    *(f"eutectic.{part}" for part in ("arith", "compat", "ir", "relax", "script", "te", "tir", "topi", "backend.llvm")),
    *("islpy", "llvmlite", "rich", "torch", "typer"),
)
LOAD = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == word or name.startswith(word + ".") for word in {BLOCKED!r}):
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
import eutectic
model = eutectic.load(sys.argv[1])
with np.load(sys.argv[2]) as given:
    results = model(*[given[name] for name in given.files])
np.savez(sys.argv[3], *(results if isinstance(results, tuple) else (results,)))
print(repr(model), model.variant, len(model.report.regions), model.script()[:1], sep="|")
"""


class Net(nn.Module):
    """Convolutions with a norm, a residual, an attention, and a result that is an integer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.norm(self.first(x)))
        y = torch.relu(self.second(y) + y).flatten(2).mT
        z = self.attend(y, y, y, need_weights=False)[0]
        return z, z.argmax(-1)


torch.manual_seed(0)
X = torch.randn(3, 3, 8, 8)


@cache
def model_for(target: str) -> CompiledModel:
    shapes = {"x": {0: Dim("batch", min=1, max=9)}}
    return eutectic.compile(Net().eval(), (X,), dynamic_shapes=shapes, target=target, threads=1)


@pytest.fixture(params=TARGETS)
def model(request: pytest.FixtureRequest) -> CompiledModel:
    return model_for(request.param)


def load_elsewhere(path: Path, arrays: list[np.ndarray], folder: Path) -> tuple[list[np.ndarray], list[str]]:
    """Results and words of a model in a process without the compiler and torch."""
    np.savez(folder / "given.npz", *arrays)
    names = [str(name) for name in (path, folder / "given.npz", folder / "results.npz")]
    env = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *names], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(folder / "results.npz") as found:
        return [found[name] for name in found.files], done.stdout.strip().split("|")


def test_the_same_bits_without_the_compiler_and_torch(model: CompiledModel, tmp_path: Path):
    path = model.save(tmp_path / "net.eut")
    got, (shown, variant, regions, begin) = load_elsewhere(path, [X.numpy()], tmp_path)
    for one, other in zip(got, model(X.numpy()), strict=True):
        np.testing.assert_array_equal(one, other)
    assert shown.startswith("LoadedModel(x")
    assert (variant, int(regions), begin) == (model.variant, len(model.report.regions), model.script()[:1])


def test_a_loaded_model_is_called_and_says_what_it_is_like_the_original(model: CompiledModel, tmp_path: Path):
    read = eutectic.load(model.save(tmp_path / "net.eut"))
    assert type(read) is LoadedModel
    assert (read.report, read.script(), read.signature) == (model.report, model.script(), model.signature)
    for size in (1, 3, 9):
        x = torch.randn(size, 3, 8, 8)
        assert all(map(torch.equal, read(x), model(x)))
        assert all(map(np.array_equal, read(x=x.numpy()), model(x.numpy())))
    for wrong in (X.double(), X[:, :2], torch.randn(10, 3, 8, 8)):
        with pytest.raises(CallError) as ours:
            read(wrong)
        with pytest.raises(CallError) as theirs:
            model(wrong)
        assert str(ours.value) == str(theirs.value)
    assert [step.name for step in read.profile(X)]
    with pytest.raises(LoadError, match="there is no module"):
        read.module  # noqa: B018


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "deepcopy", "pickle"]
)
def test_a_loaded_model_is_copied(way: Any, model: CompiledModel, tmp_path: Path):
    made = way(eutectic.load(model.save(tmp_path / "net.eut")))
    assert all(map(torch.equal, made(X), model(X)))
    assert made.variant == model.variant


def test_a_loaded_model_is_saved_again(model: CompiledModel, tmp_path: Path):
    first = model.save(tmp_path / "a.eut")
    again = eutectic.load(first).save(tmp_path / "b.eut")
    assert first.read_bytes() == again.read_bytes()
    eutectic.load(again).save(again)  # over the file that is mapped
    assert first.read_bytes() == again.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.eut", "b.eut"]


@pytest.mark.skipif(len(TARGETS) < 2, reason="oneDNN is not there")
@pytest.mark.filterwarnings("ignore:.*an input holds NaN:eutectic.EutecticAdvice")
def test_calls_with_nan_are_part_of_a_file(tmp_path: Path):
    model = model_for(TARGETS[1])
    x = X.clone()
    x[0, 0, 0, 0] = torch.nan
    got, want = eutectic.load(model.save(tmp_path / "net.eut"))(x), model(x)
    assert got[0].isnan().any()
    assert torch.equal(got[0].isnan(), want[0].isnan())


# ---- what is inside


def test_the_file_is_an_archive_that_others_read(model: CompiledModel, tmp_path: Path):
    path = model.save(tmp_path / "net.eut")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        manifest = json.loads(archive.read("manifest.json"))
        tensors = load_safetensors(archive.read("weights.safetensors"))
        text = archive.read(manifest["variants"][0]["text"]).decode()
    assert text == model.script()
    assert manifest["variants"][0]["target"] == model.variant
    assert any(array.dtype == np.float32 and array.ndim > 1 for array in tensors.values())


def test_weights_are_mapped_and_kept_once(tmp_path: Path):
    table = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)

    def body(bb: Any, x: Any) -> Any:
        return op.add(bb.emit(op.matmul(x, eutectic.relax.const(table))), eutectic.relax.const(table[:1].copy()))

    model = eutectic.compile(graph({"x": (2, 256)}, body), target="llvm", threads=1)
    path = model.save(tmp_path / "net.eut")
    with zipfile.ZipFile(path) as archive:
        assert table.nbytes < archive.getinfo("weights.safetensors").file_size < table.nbytes + 8192
    read = eutectic.load(path)
    (step,) = read.executable.instructions
    assert isinstance(step, RunNative)
    for array in step.code.constants:
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.__array_interface__["data"][0] % 64 == 0
    x = np.ones((2, 256), np.float32)
    np.testing.assert_array_equal(read(x), model(x))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool", "float64", "int64"])
def test_weights_of_every_dtype_come_back(dtype: str, tmp_path: Path):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.arange(12).reshape(3, 4).astype(kind)

    def body(bb: Any, x: Any) -> Any:
        picked = bb.emit(op.take(eutectic.relax.const(values, dtype), x, axis=0))
        return op.astype(picked, "float32")

    model = eutectic.compile(graph({"x": ((2,), "int64")}, body), target="llvm", threads=1)
    x = np.array([2, 0])
    np.testing.assert_array_equal(eutectic.load(model.save(tmp_path / "net.eut"))(x), values[x].astype(np.float32))


def test_equal_models_give_equal_files(tmp_path: Path):
    model = model_for("llvm")
    assert model.save(tmp_path / "a").read_bytes() == model.save(tmp_path / "b").read_bytes()


def test_weights_that_are_not_checked_are_not_read(tmp_path: Path):
    path = model_for("llvm").save(tmp_path / "net.eut")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("weights.safetensors")
    start = info.header_offset + 30 + len(info.filename) + len(info.extra)
    data[start + info.file_size - 70] ^= 64
    path.write_bytes(data)
    with pytest.raises(LoadError, match=r"weights\.safetensors is not what was written"):
        eutectic.load(path)
    assert eutectic.load(path, check=False).variant == "llvm"


def test_weights_that_are_copied_are_the_same_and_no_longer_in_the_file(tmp_path: Path):
    path = model_for("llvm").save(tmp_path / "net.eut")
    want, served = eutectic.load(path)(X.numpy()), eutectic.load(path, copied=True)
    with open(path, "r+b") as file:
        file.write(bytes(path.stat().st_size))  # what is mapped shows it
    for one, other in zip(served(X.numpy()), want, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- several processors

LEVELS = ["x86-64-v2", "llvm -mcpu=x86-64-v3", "x86-64-v4"]


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_for("llvm").save(tmp_path_factory.mktemp("levels") / "net.eut", targets=LEVELS)


@pytest.mark.slow
def test_variants_share_the_weights_that_are_equal(levels: Path, tmp_path: Path):
    same = model_for("llvm").save(tmp_path / "same.eut", targets=["x86-64-v3", "haswell"])
    one = model_for("llvm").save(tmp_path / "one.eut", targets=["x86-64-v3"])
    sizes = []
    for path, variants in ((same, 2), (one, 1), (levels, len(LEVELS))):
        with zipfile.ZipFile(path) as archive:
            sizes.append(archive.getinfo("weights.safetensors").file_size)
            assert sum(info.filename.startswith("programs/") for info in archive.infolist()) == variants
    assert sizes[0] < 1.1 * sizes[1]
    assert sizes[2] < 1.1 * len(LEVELS) * sizes[1]  # wider vectors have weights in other layouts


def test_each_variant_computes_the_same(levels: Path):
    artefact, want = Artefact(levels), model_for("llvm")(X)
    for number, row in enumerate(artefact.manifest.variants):
        if not processor.features().issuperset(row.features):
            continue
        got = LoadedModel(artefact.saved(number))(X)
        torch.testing.assert_close(got[0], want[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("has", "name"),
    [
        ("sse3 ssse3 sse4.1 sse4.2 popcnt", "llvm -mcpu=x86-64-v2"),
        ("sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2 lzcnt movbe", "llvm -mcpu=x86-64-v3"),
    ],
)
def test_the_best_variant_that_runs_is_taken(has: str, name: str, levels: Path, monkeypatch: pytest.MonkeyPatch):
    if not processor.features().issuperset(has.split()):
        pytest.skip("this processor has less")
    for module in ("eutectic.artefact.file", "eutectic.runtime.processor"):
        monkeypatch.setattr(f"{module}.features", lambda: frozenset(has.split()))
    model = eutectic.load(levels)
    assert model.variant == name
    torch.testing.assert_close(model(X)[0], model_for("llvm")(X)[0], atol=1e-6, rtol=1e-5)


def test_a_file_for_other_processors_says_what_is_missing(levels: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eutectic.artefact.file.features", lambda: frozenset(("sse3", "ssse3")))
    with pytest.raises(LoadError, match=r"this one lacks popcnt, sse4\.1, sse4\.2") as error:
        eutectic.load(levels)
    assert "recompile=True" in (error.value.help or "")
    assert any("x86-64-v4" in note and "avx512f" in note for note in error.value.facts)
    again = eutectic.load(levels, recompile=True)
    torch.testing.assert_close(again(X)[0], model_for("llvm")(X)[0], atol=1e-6, rtol=1e-5)


def test_targets_that_are_none_are_refused(tmp_path: Path):
    model = model_for("llvm")
    for targets, words in (
        (["x86 64"], "expected -option=value"),
        (["a/b"], "names no processor"),
        ("x86-64-v3", "a list"),
    ):
        with pytest.raises(CodegenError, match=words):
            model.save(tmp_path / "net.eut", targets=targets)
    with pytest.raises(CodegenError, match="given twice"):
        model.save(tmp_path / "net.eut", targets=["x86-64-v3", "llvm -mcpu=x86-64-v3"])
    assert not list(tmp_path.iterdir())


# ---- made again


@pytest.mark.parametrize("target", [True, "llvm"])
def test_a_file_is_compiled_again_from_its_text(target: bool | str, model: CompiledModel, tmp_path: Path):
    again = eutectic.load(model.save(tmp_path / "net.eut"), recompile=target)
    assert isinstance(again, CompiledModel)
    assert again.variant == (model.variant if target is True else target)
    for size in (1, 3):
        x = torch.randn(size, 3, 8, 8)
        got, want = again(x=x), model(x)
        torch.testing.assert_close(got[0], want[0], atol=1e-6, rtol=1e-5)
        if target is True:
            assert torch.equal(got[0], want[0])
    assert eutectic.load(again.save(tmp_path / "more.eut"))(X)[1].dtype == torch.int64


def test_without_the_compiler_nothing_is_compiled_again(tmp_path: Path):
    path = model_for("llvm").save(tmp_path / "net.eut")
    code = LOAD.partition("model = ")[0] + "eutectic.load(sys.argv[1], recompile=True)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the compiler is not installed: blocked" in done.stderr
    assert "pip install 'eutectic[compiler]'" in done.stderr


# ---- refusals when saving


def test_what_cannot_be_written_leaves_no_file(tmp_path: Path):
    def body(bb: Any, x: Any) -> Any:
        sizes = bb.emit(op.shape_to_tensor(bb.emit(op.shape_of(x))))
        return op.sin(bb.emit(op.reshape(x, bb.emit(op.tensor_to_shape(sizes)))))

    model = eutectic.compile(graph({"x": (8,)}, body), target="llvm")
    with pytest.raises(LoadError, match=r"relax\.sin runs in Python"):
        model.save(tmp_path / "net.eut")
    with pytest.raises(LoadError, match="cannot be written"):
        model_for("llvm").save(tmp_path / "no folder" / "net.eut")
    assert not list(tmp_path.iterdir())


def test_functions_of_arrays_are_saved(tmp_path: Path):
    mod = graph({"x": (1, 3, 6, 6)}, lambda bb, x: op.nn.relu(op.nn.conv2d(x, weights(4, 3, 3, 3))))
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
    model = eutectic.compile(mod, target="llvm", threads=1)
    np.testing.assert_array_equal(eutectic.load(model.save(tmp_path / "net.eut"))(x), model(x))
