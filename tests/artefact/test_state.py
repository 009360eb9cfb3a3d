"""Models that write to buffers: files and copies of them have buffers of their own, which calls go on to write."""

from __future__ import annotations

import copy
import json
import os
import pickle  # noqa: TID251 - models have to come through it
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.artefact import mutations
from torch import nn

import eutectic
from eutectic.artefact.model import LoadedModel
from eutectic.support.errors import CallError, LoadError

SRC = Path(__file__).parents[2] / "src"


class RunningNorm(nn.Module):
    """Batch norm as in training, with its counter and running statistics written out."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("var", torch.ones(6))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, var = x.mean(0), x.var(0, unbiased=False)
        self.num_batches_tracked += 1
        self.mean.mul_(0.9).add_(0.1 * mean)
        self.var.mul_(0.9).add_(0.1 * var)
        return (x - mean) / (var + 1e-5).sqrt() * self.var


class KeysAndValues(nn.Module):
    """Attention over a cache of keys and values, one place for each call."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(6, 18)
        self.register_buffer("keys", torch.zeros(4, 8, 6))
        self.register_buffer("values", torch.zeros(4, 8, 6))
        self.register_buffer("place", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        places = torch.arange(8)
        self.keys.copy_(torch.where((places == self.place)[:, None], key[:, None], self.keys))
        self.values.copy_(torch.where((places == self.place)[:, None], value[:, None], self.values))
        seen = places <= self.place
        self.place.copy_((self.place + 1) % 8)
        scores = (self.keys @ query[:, :, None]).squeeze(-1).masked_fill(~seen, -torch.inf)
        return (scores.softmax(-1)[:, :, None] * self.values).sum(1)


class Streaming(nn.Module):
    """A convolution over time that is given pieces, and keeps the end of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 5, 3)
        self.inner = nn.Module()
        self.inner.register_buffer("ring", torch.zeros(1, 4, 2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([self.inner.ring, x[None]], -1)
        self.inner.ring.copy_(whole[:, :, -2:])
        return self.conv(whole)


KINDS: dict[type[nn.Module], tuple[str, ...]] = {
    RunningNorm: ("mean", "var", "num_batches_tracked"),
    KeysAndValues: ("keys", "values", "place"),
    Streaming: ("inner.ring",),
}
WAYS: dict[str, Callable[[Any, Path], LoadedModel]] = {
    "file": lambda model, folder: eutectic.load(model.save(folder / "m.eut")),
    "file of a file": lambda model, folder: eutectic.load(
        eutectic.load(model.save(folder / "a.eut")).save(folder / "b.eut")
    ),
    "recompiled": lambda model, folder: eutectic.load(model.save(folder / "m.eut"), recompile=True),
    "other processor": lambda model, folder: eutectic.load(model.save(folder / "m.eut", targets=["x86-64-v2"])),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
}


def pieces(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(4, 6, generator=generator) for _ in range(count)]


def pair(kind: type[nn.Module]) -> tuple[nn.Module, eutectic.CompiledModel]:
    """A module in its first state, and a compiled model of another one of the same parameters."""
    torch.manual_seed(0)
    model = kind().eval().requires_grad_(False)
    return model, eutectic.compile(copy.deepcopy(model), (pieces(1)[0],))


def assert_close(received: Any, expected: Any) -> None:
    torch.testing.assert_close(received, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_goes_on_from_the_state_that_was_saved(kind: type[nn.Module], way: str, tmp_path: Path):
    model, compiled = pair(kind)
    for x in pieces(3):
        assert_close(compiled(x), model(x))
    read = WAYS[way](compiled, tmp_path)
    at_that_time = copy.deepcopy(model)
    for x in pieces(9):
        assert_close(read(x), model(x))
    for name, value in read.state_dict().items():
        assert_close(torch.from_numpy(value), model.get_buffer(name))
    for x in pieces(4):
        assert_close(compiled(x), at_that_time(x))  # it did not see the calls of the other one


@pytest.mark.parametrize("kind", KINDS)
def test_each_loaded_model_has_a_state_of_its_own(kind: type[nn.Module], tmp_path: Path):
    _, compiled = pair(kind)
    path = compiled.save(tmp_path / "m.eut")
    first, second = eutectic.load(path), eutectic.load(path)
    x = pieces(1)[0]
    expected = first(x)
    first(x)
    assert torch.equal(second(x), expected)
    assert torch.equal(eutectic.load(path)(x), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_read_and_set_by_name(kind: type[nn.Module], tmp_path: Path):
    model, compiled = pair(kind)
    read = eutectic.load(compiled.save(tmp_path / "m.eut"))
    assert tuple(read.state_dict()) == tuple(compiled.state_dict()) == KINDS[kind]
    begin = {name: array.copy() for name, array in read.state_dict().items()}
    for x in pieces(3):
        assert_close(read(x), model(x))
    tensors = {name: model.get_buffer(name).clone() for name in KINDS[kind]}
    read.load_state_dict(begin)
    for name, array in read.state_dict().items():
        assert np.array_equal(array, begin[name])
    read.load_state_dict(tensors)
    for model_like in (compiled, read):
        model_like.load_state_dict(tensors)
        assert_close(model_like(pieces(5)[4]), copy.deepcopy(model)(pieces(5)[4]))


def test_writing_to_the_arrays_is_seen_by_the_next_call(tmp_path: Path):
    _, compiled = pair(Streaming)
    read = eutectic.load(compiled.save(tmp_path / "m.eut"))
    x = pieces(1)[0]
    first = read(x)
    read.state_dict()["inner.ring"][...] = 0
    assert torch.equal(read(x), first)


def test_state_that_does_not_fit_is_refused(tmp_path: Path):
    read = eutectic.load(pair(RunningNorm)[1].save(tmp_path / "m.eut"))
    state = {name: array + 1 for name, array in read.state_dict().items()}
    wrong: dict[str, Any] = {
        "the model has no buffer men": {**state, "men": state["mean"]},
        "buffer mean is missing": {name: value for name, value in state.items() if name != "mean"},
        r"buffer var is float32\[6\], got float64\[6\]": {**state, "var": state["var"].astype(np.float64)},
        r"buffer var is float32\[6\], got float32\[2\]": {**state, "var": state["var"][:2]},
        "buffer var must be a tensor or a NumPy array, got list": {**state, "var": [1.0] * 6},
    }
    for message, values in wrong.items():
        with pytest.raises(CallError, match=message):
            read.load_state_dict(values)
    assert not np.array_equal(read.state_dict()["mean"], state["mean"])  # nothing was written


def test_models_without_state_say_so(tmp_path: Path):
    compiled = eutectic.compile(nn.Linear(6, 2).eval(), (pieces(1)[0],))
    for model in (compiled, eutectic.load(compiled.save(tmp_path / "m.eut"))):
        assert model.state_dict() == {}
        model.load_state_dict({})
        with pytest.raises(CallError, match="no buffer weight"):
            model.load_state_dict({"weight": np.zeros(2)})


def test_a_shallow_copy_shares_the_state(tmp_path: Path):
    model, compiled = pair(RunningNorm)
    for shared in (compiled, eutectic.load(compiled.save(tmp_path / "m.eut"))):
        other, like = copy.copy(shared), copy.deepcopy(model)
        for caller, x in zip((shared, other, shared), pieces(3), strict=True):
            assert_close(caller(x), like(x))
        shared.load_state_dict({name: model.get_buffer(name) for name in KINDS[RunningNorm]})


def test_a_buffer_that_the_module_lost_is_named(tmp_path: Path):
    model = RunningNorm().eval()
    compiled = eutectic.compile(model, (pieces(1)[0],))
    del model.mean
    with pytest.raises(LoadError, match="no buffer mean any more"):
        compiled.save(tmp_path / "m.eut")


def test_the_state_travels_as_weights(tmp_path: Path):
    _, compiled = pair(KeysAndValues)
    for x in pieces(2):
        compiled(x)
    with zipfile.ZipFile(compiled.save(tmp_path / "m.eut")) as archive:
        manifest, weights = archive.read("manifest.json"), archive.read("weights.safetensors")
    assert b'"state"' in manifest
    assert compiled.state_dict()["keys"].tobytes() in weights


def test_damaged_state_is_refused(tmp_path: Path):
    path = pair(RunningNorm)[1].save(tmp_path / "m.eut")
    members = mutations.members_of(path.read_bytes())
    manifest = json.loads(members["manifest.json"])
    (mean, var, count) = manifest["state"]["tuple"]
    wrong = {
        "2 values for 3 buffers": {"tuple": [mean, var]},
        "value of buffer num_batches_tracked": {"tuple": [mean, var, mean]},
        "value of buffer var": {"tuple": [mean, 3, count]},
        "not a tuple": [mean, var, count],
        "damaged": {"tuple": [mean, {"array": ["float32", [7], var["array"][2]]}, count]},
    }
    for message, state in wrong.items():
        changed = {**members, "manifest.json": json.dumps({**manifest, "state": state}).encode()}
        bad = tmp_path / "bad.eut"
        bad.write_bytes(mutations.archive_of(list(changed.items())))
        with pytest.raises(LoadError, match=message):
            eutectic.load(bad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.float64])
def test_state_of_every_dtype_comes_back(dtype: torch.dtype, tmp_path: Path):
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.ones(4, 6, dtype=dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.last.clone()
            self.last.copy_(x.to(dtype))
            return before

    model = Last().eval()
    compiled = eutectic.compile(model, (pieces(1)[0],))
    read, like = eutectic.load(compiled.save(tmp_path / "m.eut")), Last().eval()
    for x in pieces(3):
        assert torch.equal(read(x), like(x))
    name = str(dtype).removeprefix("torch.")
    assert read.state_dict()["last"].dtype == np.dtype(getattr(ml_dtypes, name, name))


ELSEWHERE = """
import sys
for name in ("torch", "llvmlite", "eutectic.relax", "eutectic.tir", "eutectic.driver"):
    sys.modules[name] = None
import numpy as np
import eutectic
model = eutectic.load(sys.argv[1])
with np.load(sys.argv[2]) as given:
    np.savez(sys.argv[3], *[model(given[name]) for name in given.files], *model.state_dict().values())
"""


def test_state_needs_neither_torch_nor_the_compiler(tmp_path: Path):
    model, compiled = pair(KeysAndValues)
    path, inputs, results = compiled.save(tmp_path / "m.eut"), tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, *[x.numpy() for x in pieces(5)])
    command = [sys.executable, "-c", ELSEWHERE, *map(str, (path, inputs, results))]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(results) as received:
        arrays = [torch.from_numpy(received[name]) for name in received.files]
    for array, x in zip(arrays[:5], pieces(5), strict=True):
        assert_close(array, model(x))
    for array, name in zip(arrays[5:], KINDS[KeysAndValues], strict=True):
        assert_close(array, model.get_buffer(name))


@cache
def counting() -> tuple[nn.Module, eutectic.CompiledModel]:
    return pair(RunningNorm)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["call", "copy", "bytes"]), max_size=8))
def test_copies_between_calls_change_nothing(steps: list[str]):
    model, current = map(copy.deepcopy, counting())
    for step, x in zip(steps, pieces(8), strict=False):
        if step == "call":
            assert_close(current(x), model(x))
        else:
            current = copy.deepcopy(current) if step == "copy" else LoadedModel.from_bytes(current.to_bytes())
    assert int(current.state_dict()["num_batches_tracked"]) == steps.count("call")
