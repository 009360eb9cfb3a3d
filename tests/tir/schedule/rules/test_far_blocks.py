"""Each block of channels of a large image asks for the next one, which lies on another page."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.tir import PrimFunc
from eutectic.tir.function_attributes import TRACE
from eutectic.tir.schedule.rules import register_axes
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu

PROCESSOR = Vectors()


def convolution(channels: int, size: int, window: int = 1, batch: int = 1, block: int = 16) -> PrimFunc:
    """Windows over an image with channels in blocks, or in rows, to 64 channels."""
    rows = (size, size) if block == 1 else (size, size, block)
    data = te.placeholder((batch, channels // block, *rows), "float32", "data")
    inner = (32,) if block == 1 else (block, 32)
    weight = te.placeholder((2, channels // block, window, window, *inner), "float32", "weight")
    return te.create_prim_func([data, weight, topi.nn.relu(topi.nn.conv2d_nchwc(data, weight))])


def asked(func: PrimFunc) -> list[str]:
    script = schedule_for_cpu(func, PROCESSOR).without_attr(TRACE).script()
    return re.findall(r'"prefetch": \[\[(.*?)\]\]', script)


@pytest.mark.parametrize(("channels", "size", "batch"), [(1024, 64, 1), (256, 56, 8)])
def test_blocks_of_a_large_image_are_asked_for(channels: int, size: int, batch: int):
    assert set(asked(convolution(channels, size, batch=batch))) == {'"data", 1'}


@pytest.mark.parametrize(
    "func",
    [
        convolution(1024, 28),  # 3 MB stay near
        convolution(1024, 64, window=3),  # the next terms are those beside these
        convolution(1024, 64, block=1),  # terms are blocks of one
        convolution(16, 512),  # one block
    ],
    ids=["small", "windows", "rows", "one block"],
)
def test_others_are_not(func: PrimFunc):
    assert asked(func) == []


def test_it_is_a_choice():
    func = convolution(1024, 64)
    own, *others = choice_points(func, PROCESSOR)["register_tile@0"].alternatives()
    silent = {name: value for name, value in own.items() if name != "far"}
    assert own["far"]
    assert silent in others
    assert asked(with_decisions(func, {"register_tile@0": silent})) == []


def test_nothing_changes(monkeypatch: pytest.MonkeyPatch):
    """The last block asks for what is beyond the image, which is a hint and no access."""
    func = convolution(64, 40, batch=2)
    made = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(register_axes, "_OF_MEMORY", least)
        made.append(schedule_for_cpu(func, PROCESSOR))
    assert ["prefetch" in each.without_attr(TRACE).script() for each in made] == [True, False]
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal(shape, "float32") for shape in ((2, 4, 40, 40, 16), (2, 4, 1, 1, 16, 32)))
    outs = [np.full((2, 2, 40, 40, 32), np.nan, "float32") for _ in made]
    for each, out in zip(made, outs, strict=True):
        NativePrimFunc(each, Target("llvm"), threads=2)(data, weight, out)
    exact = np.einsum("ncyxi,ocpqij->noyxj", data.astype("float64"), weight.astype("float64"), optimize=True)
    np.testing.assert_array_equal(*outs)
    np.testing.assert_allclose(outs[0], np.maximum(exact, 0), rtol=0, atol=1e-4)
