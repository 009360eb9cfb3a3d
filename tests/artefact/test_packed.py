"""Constants in files as oneDNN packs them: once, used as they are, and packed again where others are wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_safetensors
from torch import nn

import eutectic
from eutectic.artefact.file import Artefact
from eutectic.backend.dnnl import plan
from eutectic.backend.dnnl.library import availability
from eutectic.runtime.packed_array import PackedArray

SRC = Path(__file__).parents[2] / "src"
pytestmark = pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
LOAD = """
import sys
import numpy as np
import eutectic
from eutectic.backend.dnnl.library import availability
model = eutectic.load(sys.argv[1])
x = np.load(sys.argv[2])
x[0, 0, 0, 0] = float(sys.argv[4])
np.save(sys.argv[3], model(x))
print(availability().isa)
"""


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """The maximum pool loses NaN, so the file also has kernels of our own, which read the same weights."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 40, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(40, 72, 3, groups=2), nn.ReLU(), nn.Conv2d(72, 24, 1)
    ).eval()


X = torch.randn(1, 3, 20, 20, generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def file(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiled = eutectic.compile(network, (X,), target="llvm -libs=dnnl", threads=1)
    return compiled.save(tmp_path_factory.mktemp("packed") / "net.eut")


def test_weights_are_in_the_file_once(file: Path):
    with zipfile.ZipFile(file) as archive:
        arrays = load_safetensors(archive.read("weights.safetensors"))
    packed = Artefact(file).manifest.packed
    assert len(packed) >= 4
    assert not [digest for digest, row in packed.items() if digest in arrays and digest != row.elements]


def test_nothing_is_packed_at_a_load_on_the_same_processor(
    network: nn.Module, file: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*args: object) -> None:
        raise AssertionError("something was packed")

    monkeypatch.setattr(plan, "reorder", refuse)
    monkeypatch.setattr(PackedArray, "__call__", refuse)
    model = eutectic.load(file)
    torch.testing.assert_close(model(X), network(X), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("value", ["0.5", "nan"])
def test_a_processor_that_wants_another_order_computes_the_same(
    isa: str, value: str, network: nn.Module, file: Path, tmp_path: Path
):
    np.save(tmp_path / "x.npy", X.numpy())
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"} | ({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})
    paths = [str(file), str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), value]
    done = subprocess.run([sys.executable, "-c", LOAD, *paths], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert isa.lower() in done.stdout
    x = X.clone()
    x[0, 0, 0, 0] = float(value)
    with torch.no_grad():
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), network(x).numpy(), rtol=1e-4, atol=1e-5)


def test_a_loaded_model_is_saved_and_compiled_again(network: nn.Module, file: Path, tmp_path: Path):
    model = eutectic.load(file)
    assert model.save(tmp_path / "again.eut").read_bytes() == file.read_bytes()
    want = model(X)
    assert torch.equal(eutectic.load(file, recompile=True)(X), want)
    assert torch.equal(type(model).from_bytes(model.to_bytes())(X), want)


def test_damaged_orders_are_refused(file: Path):
    artefact = Artefact(file)
    row = next(iter(artefact.manifest.packed.values()))
    for wrong in ([[[2, 1]]], [[["a", 1]]], None, [[[1.5, 1]]]):
        object.__setattr__(row, "packed", wrong)
        with pytest.raises(eutectic.support.errors.LoadError, match="damaged"):
            artefact.saved(0)
