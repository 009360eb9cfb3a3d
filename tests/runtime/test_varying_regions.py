"""Regions of oneDNN whose sizes vary: data like all others, part of the one native call, the bits of fixed sizes."""

from __future__ import annotations

import copy
import gc
import pickle  # noqa: TID251 - models have to come through it
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.test_load_only import read_elsewhere
from tests.runtime.varying_networks import NETWORKS, SIZES, compiled, image, network

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.loading import KEPT_SIZES, StaticRegion, VaryingRegion
from eutectic.driver.compiled import CompiledModel
from eutectic.runtime.encoding import to_bytes
from eutectic.runtime.instructions import RunNative

pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")
TARGET = "llvm -libs=dnnl"


@cache
def model_of(name: str) -> CompiledModel:
    return compiled(name)


@cache
def data_of(name: str) -> bytes:
    return model_of(name).to_bytes()


@pytest.fixture(params=list(NETWORKS))
def pair(request: pytest.FixtureRequest) -> tuple[str, CompiledModel]:
    return request.param, model_of(request.param)


@pytest.fixture(params=["resnet", pytest.param("mobilenet", marks=pytest.mark.slow)])
def written(request: pytest.FixtureRequest) -> tuple[str, CompiledModel]:
    """A model that is written: kernels of our own are compiled then for all that libraries compute."""
    return request.param, model_of(request.param)


def test_the_bits_are_those_of_fixed_sizes():
    """Of a network that oneDNN computes as a whole: kernels of our own may add in another order for fixed sizes."""
    model = model_of("resnet")
    assert all("dnnl" in region.codegen for region in model.report.regions)
    for size in SIZES["resnet"][1:4]:
        fixed = eutectic.compile(network("resnet"), (image(*size),), target=TARGET, threads=2)
        assert torch.equal(model(image(*size)), fixed(image(*size))), size


def test_they_compute_what_torch_does(pair: tuple[str, CompiledModel]):
    name, model = pair
    for size in SIZES[name]:
        torch.testing.assert_close(model(image(*size)), network(name)(image(*size)), rtol=1e-4, atol=1e-4)


def test_they_are_part_of_the_one_native_call(pair: tuple[str, CompiledModel], monkeypatch: pytest.MonkeyPatch):
    name, model = pair
    assert [type(step) for step in model.executable.instructions] == [RunNative]
    assert any(kernel.sizes for kernel in model.executable.instructions[0].code.libraries)

    def called(*args: Any) -> None:
        raise AssertionError("a region was called from Python")

    monkeypatch.setattr(StaticRegion, "__call__", called)
    monkeypatch.setattr(VaryingRegion, "__call__", called)
    x = image(*SIZES[name][1])
    torch.testing.assert_close(model(x), network(name)(x), rtol=1e-4, atol=1e-4)


def test_what_is_read_computes_the_same_bits(written: tuple[str, CompiledModel]):
    name, model = written
    made = CompiledModel.from_bytes(data_of(name))
    for size in SIZES[name]:
        assert torch.equal(made(image(*size)), model(image(*size))), size


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_a_copy_computes_the_same_bits(way: Any):
    made = way(CompiledModel.from_bytes(data_of("resnet")))
    for size in SIZES["resnet"]:
        assert torch.equal(made(image(*size)), model_of("resnet")(image(*size))), size


def test_without_the_compiler_they_compute_the_same_bits(written: tuple[str, CompiledModel], tmp_path: Path):
    name, model = written
    data = to_bytes(model.executable.complete())
    for number, size in enumerate(SIZES[name][:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (got,) = read_elsewhere(data, [image(*size).numpy()], folder)
        np.testing.assert_array_equal(got, model(image(*size)).numpy())


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")  # of the first such call
def test_nan_takes_the_other_way_at_every_size(written: tuple[str, CompiledModel]):
    name, model = written
    again = CompiledModel.from_bytes(data_of(name))
    for size in SIZES[name][:3]:
        x = image(*size)
        x[-1, 0, 3, 3] = torch.nan
        for made in (model, again):
            got = made(x)
            torch.testing.assert_close(got, network(name)(x), rtol=1e-4, atol=1e-4, equal_nan=True)
            assert got.isnan().any()


def test_threads_call_with_sizes_of_their_own():
    """More sizes than are kept, so that kernels go while other threads call theirs."""
    model, other = (CompiledModel.from_bytes(data_of("resnet")) for _ in range(2))
    batches = range(1, KEPT_SIZES + 4)
    wanted = {batch: other(image(batch, 32)) for batch in batches}
    wrong: list[Any] = []

    def work(first: int) -> None:
        for round_ in range(2):
            for batch in [*batches][first:] + [*batches][:first]:
                try:
                    if not torch.equal(model(image(batch, 32)), wanted[batch]):
                        wrong.append((batch, round_))
                except Exception as error:  # of a thread, which pytest would not see
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_regions_of_different_sizes_share_packed_constants():
    model = CompiledModel.from_bytes(data_of("resnet"))
    varying = max(model.executable.libraries(), key=lambda kernel: len(kernel._kernel.constants))
    first, second = (varying.at((batch,)).region for batch in (4, 6))
    mine, others = ({id(array) for array in region._open().plan.constants} for region in (first, second))
    assert len(mine & others) >= len(mine) // 2
    for batch in range(10, 10 + KEPT_SIZES):
        varying.at((batch,))
    assert len(varying._made) == KEPT_SIZES
    kept = len(varying._packed._known)
    del first, second
    varying._made._entries.clear()
    gc.collect()
    assert (kept > 0, len(varying._packed._known)) == (True, 0)


def test_an_empty_batch_is_computed():
    model = model_of("mobilenet")
    assert model(image(0, 32)).shape == (0, 10)
