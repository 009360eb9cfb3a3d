"""The rule of inverted residuals: same values as torch in float64, by bands of rows, and traces that make it again."""

from __future__ import annotations

import platform
from math import gcd
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.relax.transform.inverted_residual.choice import ResidualOffer
from eutectic.relax.transform.inverted_residual.pack import packed
from eutectic.target import Target
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu

NATIVE = Target("llvm")
TARGETS = ["llvm", "llvm -mcpu=x86-64-v3"] if platform.machine() == "x86_64" else ["llvm"]


class Block:
    """A block of random weights, as a program and as torch computes it."""

    def __init__(self, sizes: tuple[int, ...], kernel: int, stride: int, expands: bool = True, panel: int = 16) -> None:
        batch, channels, height, width, wide, filters = sizes
        channels = channels if expands else wide
        rng = np.random.default_rng(0)
        self.options: dict[str, Any] = {"strides": stride, "padding": kernel // 2}
        self.x = noise(rng, batch, channels, height, width)
        self.first = (noise(rng, wide, channels, 1, 1), noise(rng, wide)) if expands else None
        self.window = noise(rng, wide, 1, kernel, kernel), noise(rng, wide)
        self.last, self.bias = noise(rng, filters, wide, 1, 1), noise(rng, filters)
        self.is_residual = stride == 1 and channels == filters
        lanes = 2 * panel if wide % (2 * panel) == 0 else wide
        self.operands = packed(self.first, self.window, self.last, ResidualOffer(lanes, panel, 0.0, 1.0))

    def program(self, layout: str) -> tuple[tir.PrimFunc, list[np.ndarray]]:
        """With bias and residual, and its arguments."""
        x = np.ascontiguousarray(self.x.transpose(0, 2, 3, 1)) if layout == "NHWC" else self.x
        arrays = [x, *self.operands, self.bias]
        data, *rest, bias = [te.placeholder(a.shape, "float32", f"p{k}") for k, a in enumerate(arrays)]
        options = {**self.options, "filters": len(self.bias), "lower": 0.0, "upper": 6.0, "data_layout": layout}
        made = topi.nn.inverted_residual(data, *rest, **options)
        axis = layout.index("C")

        def element(*at: Any) -> Any:
            total = made(*at) + bias(at[axis])
            return total + data(*at) if self.is_residual else total

        out = te.compute(made.shape, element, "out")
        return te.create_prim_func([data, *rest, bias, out]), arrays

    def reference(self, layout: str) -> np.ndarray:
        """In float64."""
        x = h = torch.tensor(self.x).double()
        if self.first is not None:
            h = F.conv2d(h, *map(doubles, self.first)).clamp(0, 6)
        h = F.conv2d(
            h, *map(doubles, self.window), self.options["strides"], self.options["padding"], groups=h.shape[1]
        ).clamp(0, 6)
        h = F.conv2d(h, doubles(self.last), doubles(self.bias))
        h = h + x if self.is_residual else h
        return (h.permute(0, 2, 3, 1) if layout == "NHWC" else h).numpy()


def noise(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def doubles(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array).double()


def check(block: Block, layout: str = "NHWC", threads: int = 1, target: Target = NATIVE) -> tir.PrimFunc:
    func, arrays = block.program(layout)
    scheduled = schedule_for_cpu(func, machine_of(target))
    want = block.reference(layout)
    out = np.full(want.shape, np.nan, np.float32)
    NativePrimFunc(scheduled, target, threads)(*arrays, out)
    assert np.linalg.norm(out - want) <= 4e-7 * np.linalg.norm(want)

    return scheduled


def is_by_bands(func: tir.PrimFunc) -> bool:
    """Whether all stages are computed within one loop."""
    trace = "\n".join(func.attrs["tir.schedule_trace"])
    return trace.count("compute_at") >= 4


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("expands", [True, False])
def test_bands_of_rows(target: str, layout: str, stride: int, expands: bool):
    block = Block((1, 24, 28, 14, 96, 24), 3, stride, expands)
    assert is_by_bands(check(block, layout, threads=2, target=Target(target)))


@pytest.mark.parametrize("panel", [24, 40, 48])
def test_panels_that_are_no_two_vectors(panel: int):
    """Of vectors where these divide it, or of halves."""
    block = Block((1, 24, 28, 14, 2 * panel, panel), 3, 1, panel=panel)
    scheduled = check(block, threads=2)
    assert is_by_bands(scheduled)
    lanes = machine_of(NATIVE).lanes()
    assert f"v_p = T.axis.spatial({panel}, ax5_0 * {gcd(panel, lanes)} + ax5_1)" in scheduled.script()


@settings(max_examples=8)
@given(st.data())
def test_odd_sizes(data: st.DataObject):
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    sizes = (draw(1, 2), draw(1, 9), draw(3, 19), draw(3, 19), draw(1, 20), draw(1, 20))
    check(Block(sizes, data.draw(st.sampled_from([1, 3, 5])), draw(1, 3), data.draw(st.booleans())))


def test_traces_make_the_same_program():
    func, _ = Block((1, 24, 28, 14, 96, 24), 3, 1).program("NHWC")
    scheduled = schedule_for_cpu(func, machine_of(NATIVE))
    sch = tir.Schedule(func)
    trace_from_python(scheduled.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)


def test_nan_stays():
    block = Block((1, 24, 28, 14, 96, 24), 3, 1)
    block.x[0, 3, 5, 6] = np.nan
    func, arrays = block.program("NHWC")
    out = np.zeros(block.reference("NHWC").shape, np.float32)
    NativePrimFunc(schedule_for_cpu(func, machine_of(NATIVE)), NATIVE, 1)(*arrays, out)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(block.reference("NHWC")))
    assert 0 < np.isnan(out).sum() < out.size
