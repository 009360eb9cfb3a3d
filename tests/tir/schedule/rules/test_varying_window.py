"""Windows of each channel over padded images of any size in default schedules: no padded copy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import EXAMPLE_SIZES
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.transform.lower_tir import lowered

NATIVE, AVX2 = Target("llvm"), Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3")
H, W = tir.Var("h", "int64"), tir.Var("w", "int64")
LANES = 16
IMAGES = ((1, 1), (1, 9), (2, 3), (3, 7), (5, 8), (7, 14), (15, 16), (4, 23), (17, 2))
Array = np.ndarray[Any, Any]


def wide(*sizes: Any) -> tuple[Any, ...]:
    return tuple(tir.IntImm("int64", size) if isinstance(size, int) else size for size in sizes)


@cache
def windows(kernel: int, stride: int, blocks: int = 2, images: int = 1, example: int = 14) -> tir.PrimFunc:
    """Windows of each channel, and what is done to each sum."""
    x = te.placeholder(wide(images, blocks, H, W, LANES), "float32", "x")
    weight = te.placeholder(wide(blocks, 1, kernel, kernel, LANES), "float32", "weight")
    bias = te.placeholder(wide(1, blocks, 1, 1, LANES), "float32", "bias")
    sums = topi.nn.conv2d_nchwc(x, weight, stride, kernel // 2, groups=blocks * LANES)
    func = te.create_prim_func([x, weight, bias, topi.clip(topi.add(sums, bias), 0.0, 6.0)])
    return func.with_attr(EXAMPLE_SIZES, {"h": example, "w": example})


def arrays_for(func: tir.PrimFunc, image: tuple[int, int]) -> list[Array]:
    rng = np.random.default_rng(list(image))
    sizes = {H: image[0], W: image[1]}
    inputs = list(func.buffer_map.values())[:-1]
    shapes = [[sizes[size] if isinstance(size, tir.Var) else size.value for size in buffer.shape] for buffer in inputs]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def want(kernel: int, stride: int, x: Array, weight: Array, bias: Array) -> Array:
    """The same in float64."""
    around = kernel // 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (around, around), (around, around), (0, 0)])
    rows, points = ((size - 1) // stride + 1 for size in x.shape[2:4])
    total = np.zeros((*x.shape[:2], rows, points, LANES))
    for down, right in np.ndindex(kernel, kernel):
        seen = padded[:, :, down : down + rows * stride : stride, right : right + points * stride : stride]
        total += seen[:, :, :rows, :points] * weight[:, 0, down, right][:, None, None]
    return np.clip(total + bias[0], 0, 6)


def chosen(func: tir.PrimFunc, processor: Processor | None = None) -> list[str]:
    return [str(line) for line in schedule_for_cpu(func, processor or Vectors()).attrs["tir.chosen"]]


@pytest.mark.parametrize(
    ("kernel", "stride", "images", "example"),
    [(3, 1, 1, 14), (3, 2, 1, 28), (5, 1, 2, 7), (5, 2, 1, 11), (3, 1, 1, 40)],
)
def test_values_at_all_sizes(kernel: int, stride: int, images: int, example: int):
    func = windows(kernel, stride, images=images, example=example)
    (line,) = chosen(func)
    assert line.startswith("varying_window@0: ")
    done = schedule_for_cpu(func, machine_of(NATIVE))
    check_round_trip(done)
    assert {buffer.scope() for buffer in done.body.block.alloc_buffers} == {"local"}
    run = NativePrimFunc(done, NATIVE, 2)
    for image in IMAGES:
        arrays = arrays_for(func, image)
        expected = want(kernel, stride, *arrays)
        out = np.full(expected.shape, np.nan, "float32")
        run(*arrays, out)
        np.testing.assert_allclose(out, expected, atol=1e-5)


def test_padding_is_zero_times_the_weight():
    """What torch does: a weight that is infinite makes NaN of the padding."""
    func = windows(3, 1)
    x, weight, bias = arrays_for(func, (4, 9))
    weight[0, 0, 0, 0, 3] = np.inf
    out = np.zeros_like(x)
    NativePrimFunc(schedule_for_cpu(func, machine_of(NATIVE)), NATIVE, 2)(x, weight, bias, out)
    assert np.isnan(out[0, 0, 0, :, 3]).all()
    assert np.isnan(out[0, 0, :, 0, 3]).all()
    assert not np.isnan(out[0, 0, 1:, 1:, 3]).any()


@pytest.mark.parametrize(("example", "points"), [(14, 7), (7, 7), (12, 6), (40, 5), (11, 7)])
def test_tiles_divide_a_row_of_the_example(example: int, points: int):
    (line,) = chosen(windows(3, 1, example=example), machine_of(AVX2))
    assert f"points={points}," in line


def test_only_the_ends_of_a_tile_ask_whether_they_are_outside():
    """Of seven points and three taps the first tap of the first one, and the last tap of the last one."""
    lines = lowered(schedule_for_cpu(windows(3, 1, example=14), machine_of(AVX2))).script().splitlines()
    first, end = (next(k for k, line in enumerate(lines) if f"for {loop} in" in line) for loop in ("xx_0_0", "xx_0_1"))
    conditions = [line.split("T.if_then_else(")[1].split(", x_")[0] for line in lines[first:end] if "if_then" in line]
    assert len(conditions) == 7 * 3
    assert sum("xx" in condition for condition in conditions) == 2


@pytest.mark.parametrize("reads", ["all of a copy", "row-major images"])
def test_left_to_other_rules(reads: str):
    x = te.placeholder(wide(1, 4, H, W), "float32", "x")
    weight = te.placeholder(wide(4, 1, 3, 3), "float32", "weight")
    if reads == "row-major images":
        sums = topi.nn.conv2d(x, weight, 1, 1, groups=4)
        func = te.create_prim_func([x, weight, topi.nn.relu(sums)])
    else:
        padded = topi.nn.pad(x, [0, 0, 1, 1], [0, 0, 1, 1])
        func = te.create_prim_func([x, topi.nn.relu(topi.sum(padded, (2, 3)))])
    assert not any(line.startswith("varying_window") for line in chosen(func))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2)])
def test_every_candidate_and_its_trace(kernel: int, stride: int):
    func = windows(kernel, stride, example=12 * stride)
    point = choice_points(func, machine_of(NATIVE))["varying_window@0"]
    alternatives = point.alternatives()
    assert len(alternatives) >= 3
    arrays = arrays_for(func, (6, 13))
    expected = want(kernel, stride, *arrays)
    for decisions in alternatives:
        done = schedule_for_cpu(with_decisions(func, {"varying_window@0": decisions}), machine_of(NATIVE))
        out = np.full(expected.shape, np.nan, "float32")
        NativePrimFunc(done, NATIVE, 2)(*arrays, out)
        np.testing.assert_allclose(out, expected, atol=1e-5)
        replayed = tir.Schedule(func)
        trace_from_python(done.attrs["tir.schedule_trace"]).apply_to_schedule(replayed)
        assert structural_equal(replayed.func.body, done.body)
