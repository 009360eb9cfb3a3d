"""Native code that takes the times of its steps."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.runtime.encoding import to_bytes
from eutectic.runtime.instructions import RunNative
from eutectic.runtime.native_code import TimedCode
from eutectic.support.errors import LoadError


class Product(torch.nn.Module):
    """A large product, whose rows are then sorted out by a small kernel; the input is returned, too."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Three results: two of kernels, and one that is copied."""
        y = self.wide(x)
        return y, torch.softmax(y[:, :16], -1), x.reshape(-1)


def timed(threads: int, target: str | None = None) -> tuple[eutectic.CompiledModel, torch.Tensor]:
    x = torch.randn(256, 512)
    named = {} if target is None else {"target": target}
    return eutectic.compile(Product().eval(), (x,), threads=threads, **named), x


@pytest.mark.parametrize("threads", [1, 2])
def test_each_kernel_has_its_time(threads: int):
    fast, x = timed(threads, "llvm")
    begin = time.perf_counter()
    times = fast.profile(x)
    whole = time.perf_counter() - begin
    (native,) = [step for step in fast._timed().instructions if isinstance(step, RunNative)]
    assert isinstance(native.code, TimedCode)
    assert [time.name for time in times if time.instruction == times[0].instruction] == list(native.code.steps)
    assert len(native.code.steps) == len([group for group in fast.report.plan.groups if group.kind == "kernel"]) > 1
    assert all(time.seconds >= 0 for time in times)
    assert 0 < sum(time.seconds for time in times) < whole


@pytest.mark.serial
@pytest.mark.parametrize("threads", [1, 2])
def test_time_is_that_of_the_kernel_that_took_it(threads: int):
    fast, x = timed(threads, "llvm")
    rows = [fast.profile(x) for _ in range(9)]
    best = {column[0].name: min(time.seconds for time in column) for column in zip(*rows, strict=True)}
    product = max(best, key=lambda name: best[name])
    assert "dense" in product or "matmul" in product
    others = sum(seconds for name, seconds in best.items() if name != product)
    assert best[product] > 2 * others  # 134 MFLOP beside a softmax of 4,096 numbers and a copy


def test_results_are_those_of_the_code_without_times():
    fast, x = timed(2)
    results, _ = fast._timed().profile([x.numpy()])
    for ours, want in zip(results, fast(x), strict=True):
        np.testing.assert_array_equal(ours, want.numpy())


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
def test_calls_of_a_library_have_times():
    model = torch.nn.Sequential(torch.nn.ConvTranspose2d(16, 32, 4, 2), torch.nn.Softmax(1)).eval()
    x = torch.randn(1, 16, 64, 64)
    fast = eutectic.compile(model, (x,), threads=1, target="llvm -libs=dnnl")
    kinds = [group.kind for group in fast.report.plan.groups]
    assert "library" in kinds
    times = fast.profile(x)
    assert len(times) == len([kind for kind in kinds if kind in ("kernel", "library")])
    assert all(time.seconds >= 0 for time in times)
    assert max(time.seconds for time in times) > 0


def test_code_that_takes_times_is_not_written():
    fast, _ = timed(1, "llvm")
    with pytest.raises(LoadError, match="TimedCode cannot be written"):
        to_bytes(fast._timed().program)
