"""Windows of pools over padded images in blocks of channels: no padded copy, nothing following them or something."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu

NATIVE = Target("llvm")
LANES, BLOCKS = 16, 4
Array = npt.NDArray[Any]
Size = tuple[int, int]


def pool(kind: str, size: Size, kernel: int, stride: int, pad: int, *, follows: bool = False) -> tir.PrimFunc:
    data = te.placeholder((1, BLOCKS, *size, LANES), "float32", "data")
    out = topi.nn.pool2d(
        data, [kernel] * 2, [stride] * 2, [1, 1], [pad] * 4, kind, layout=f"NCHW{LANES}c", count_include_pad=True
    )
    return te.create_prim_func([data, topi.tanh(out) if follows else out])


def chosen(func: tir.PrimFunc) -> list[str]:
    return [str(line).partition(":")[0] for line in schedule_for_cpu(func, Vectors()).attrs["tir.chosen"]]


def run(func: tir.PrimFunc, data: Array, shape: tuple[int, ...], threads: int = 2) -> Array:
    out = np.full(shape, np.nan, "float32")
    NativePrimFunc(func, NATIVE, threads)(data, out)
    return out


def want(kind: str, data: Array, kernel: int, stride: int, pad: int) -> Array:
    """In float64; what is around an image counts as 0 for a mean, and is never the largest."""
    fill = -np.inf if kind == "max" else 0.0
    wide = np.pad(data.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0)], constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    return windows.max((-2, -1)) if kind == "max" else windows.mean((-2, -1))


WINDOWS = [((112, 112), 3, 2, 1), ((28, 28), 3, 2, 1), ((9, 15), 3, 2, 1), ((27, 27), 5, 3, 2)]
ALL_WINDOWS = [*WINDOWS, ((14, 14), 3, 1, 1), ((7, 24), 5, 1, 2), ((16, 16), 2, 2, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "kernel", "stride", "pad"),
    [*(("max", *window) for window in WINDOWS), *(("avg", *window) for window in ALL_WINDOWS)],
)
@pytest.mark.parametrize("follows", [False, True])
def test_values_without_a_padded_copy(kind: str, size: Size, kernel: int, stride: int, pad: int, follows: bool):
    func = pool(kind, size, kernel, stride, pad, follows=follows)
    assert chosen(func) == ["padded_window@0"]
    scheduled = schedule_for_cpu(func, machine_of(NATIVE))
    root = scheduled.body.block
    assert {buffer.scope() for buffer in root.alloc_buffers} <= {"local"}
    check_round_trip(scheduled)
    data = np.random.default_rng(0).standard_normal((1, BLOCKS, *size, LANES)).astype("float32")
    expected = want(kind, data, kernel, stride, pad)
    expected = np.tanh(expected) if follows else expected
    np.testing.assert_allclose(run(scheduled, data, expected.shape), expected, atol=1e-6)


@pytest.mark.parametrize(("kind", "threads"), [*product(["max", "avg"], [1, 2])])
def test_special_values_are_those_of_the_program_as_it_was(kind: str, threads: int):
    func = pool(kind, (14, 14), 3, 2, 1)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, BLOCKS, 14, 14, LANES)).astype("float32")
    for value, share in ((-0.0, 0.1), (-np.inf, 0.5), (np.inf, 0.05), (np.nan, 0.02)):
        data[rng.random(data.shape) < share] = value
    shape = (1, BLOCKS, 7, 7, LANES)
    before = run(func.with_attr("tir.is_scheduled", True), data, shape, 1)
    after = run(schedule_for_cpu(func, machine_of(NATIVE)), data, shape, threads)
    assert np.isnan(before).any()
    np.testing.assert_array_equal(before, after)


def test_largest_of_points_that_are_one_row_of_vectors_are_left_to_other_rules():
    """Without steps, and without weights, a row of points and channels is one axis."""
    assert chosen(pool("max", (14, 14), 3, 1, 1)) != ["padded_window@0"]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_large_images_of_such_points(kind: str):
    """Bands of rows are for convolutions: here the tile makes one axis of points and channels, and other loops."""
    func = pool(kind, (49, 56), 3, 1, 1)
    data = np.random.default_rng(0).standard_normal((1, BLOCKS, 49, 56, LANES)).astype("float32")
    expected = want(kind, data, 3, 1, 1)
    np.testing.assert_allclose(run(schedule_for_cpu(func, Vectors()), data, expected.shape), expected, atol=1e-6)


def test_without_padding_it_is_left_to_other_rules():
    assert chosen(pool("max", (14, 14), 2, 2, 0)) != ["padded_window@0"]
