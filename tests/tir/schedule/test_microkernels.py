"""Microkernels for CPUs: every family in many sizes, in registers, and in programs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import matmul
from tests.tir.schedule.primitives.test_tensorize import inner
from tests.tir.schedule.programs import keeps

from eutectic import te
from eutectic.driver.inspect import kernel_spills
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import PrimFunc, TensorIntrin
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.legality.tensor_check import agreement
from eutectic.tir.schedule.tensor_intrin import _REGISTERED
from eutectic.tir.schedule.validate import inputs
from eutectic.tir.tensor_intrin_cpu import FORMS

FLOATS = ("f32", "f64", "f16f32", "bf16f32", "f32f64")
INTEGERS = ("s32", "i8s32", "u8s32", "u8i8s32", "i8i8i32")


@pytest.fixture(autouse=True)
def _names() -> Iterator[None]:
    """What a test makes is forgotten."""
    before = dict(_REGISTERED)
    yield
    _REGISTERED.clear()
    _REGISTERED.update(before)


def made(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


# ---- what they compute

small = st.integers(1, 5)


@st.composite
def names(draw: Callable[[Any], Any]) -> str:
    rows, columns, terms, taps = (draw(small) for _ in range(4))
    stride = draw(st.integers(1, taps))
    step = draw(st.sampled_from(["", "s1"])) if stride == 1 else f"s{stride}"
    dtypes = draw(st.sampled_from([*FLOATS, *INTEGERS]))
    windows = (
        f"conv_{rows}x{columns}x{taps}x{terms}{step}_{dtypes}",
        f"depthwise_{rows}x{columns}x{taps}{step}_{dtypes}",
    )
    others = f"matmul_{rows}x{columns}x{terms}_{dtypes}", f"fill_{rows}x{columns}_{dtypes}"
    dot = f"dot_{rows}x4_{draw(st.sampled_from(INTEGERS))}"
    return str(draw(st.sampled_from([*windows, *others, dot])))


@settings(max_examples=60)
@given(name=names())
def test_vector_code_gives_the_bits_of_the_description(name: str):
    """What `get` says of all: that they are exact."""
    found = made(name)
    assert found.exact
    assert agreement(name, found.desc, found.impl)


def test_one_name_is_one_intrinsic():
    assert made("matmul_6x16x8_f32") is made("matmul_6x16x8_f32")
    assert TensorIntrin.get("matmul_6x16_f32", allow_missing=True) is None


REFUSED = {
    "matmul_6x0x4_f32": "no size is zero",
    "matmul_64x64x4_f32": "a tile has 1 to 1024 elements",
    "matmul_6x16x4_i8f32": "products of int8 and int8 are not added up in float32",
    "matmul_6x16x4_f16": "products of float16 and float16 are not added up in float16",
    "conv_2x8x1x3s2_f32": "windows of 1 that move by 2 leave data out",
    "dot_4x4_f32": "four terms at once are integers",
    "matmul_6x16_f32": "no tensor intrinsic is called matmul_6x16_f32",
    "matmul_6x16x4_f31": "no tensor intrinsic is called matmul_6x16x4_f31",
}


@pytest.mark.parametrize("name", REFUSED)
def test_names_of_nothing(name: str):
    with pytest.raises(ScheduleError) as error:
        TensorIntrin.get(name)
    assert REFUSED[name] in str(error.value)
    assert all(form in str(error.value) for form in FORMS)


# ---- in programs


def convolution(channels: int, filters: int, points: int, window: int, stride: int) -> PrimFunc:
    """Channels in blocks of four, filters in blocks of sixteen, of padded rows."""
    blocks, size = channels // 4, (points - 1) * stride + window
    data = te.placeholder((blocks, size, size, 4), "float32", "data")
    weight = te.placeholder((filters // 16, blocks, window, window, 4, 16), "float32", "weight")
    c, kh, kw, ci = (
        te.reduce_axis((0, n), name)
        for n, name in zip((blocks, window, window, 4), ("c", "kh", "kw", "ci"), strict=True)
    )

    def element(o: Any, y: Any, x: Any, lane: Any) -> Any:
        term = data[c, y * stride + kh, x * stride + kw, ci] * weight[o, c, kh, kw, ci, lane]
        return te.sum(term, [c, kh, kw, ci])

    return te.create_prim_func([data, weight, te.compute((filters // 16, points, points, 16), element, "conv")])


def with_windows(sch: Schedule, points: int, taps: int, stride: int) -> None:
    o, y, x, lane, c, kh, kw, ci = sch.get_loops("conv")
    outer, inside = sch.split(x, [None, points])
    sch.reorder(o, y, outer, c, kh, inside, lane, kw, ci)
    sch.decompose_reduction("conv", c)
    sch.tensorize(inside, f"conv_{points}x16x{taps}x4s{stride}_f32")


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_a_convolution(stride: int):
    before = convolution(8, 16, 6, 3, stride)
    sch = Schedule(before)
    with_windows(sch, 3, 3, stride)
    data, weight, want = inputs(before, "numbers")
    got = want.copy()
    native(before, schedule=False)(data, weight, want)
    native(sch.func, schedule=False)(data, weight, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_keep_every_result(stride: int):
    before = convolution(4, 16, 2, 3, stride)
    sch = Schedule(before, debug_mask="all")
    with_windows(sch, 2, 3, stride)
    keeps(before, sch)


def depthwise(stride: int) -> PrimFunc:
    data = te.placeholder((9, 8), "float32", "data")
    weight = te.placeholder((3, 8), "float32", "weight")
    k = te.reduce_axis((0, 3), "k")
    points = (9 - 3) // stride + 1
    row = te.compute((points, 8), lambda x, c: te.sum(data[x * stride + k, c] * weight[k, c], [k]), "row")
    return te.create_prim_func([data, weight, row])


PROGRAMS: dict[str, tuple[Callable[[], PrimFunc], str, tuple[int, ...], str]] = {
    "matmul": (lambda: matmul(size=6), "matmul", (3, 6, 2), "matmul_3x6x2_f32"),
    "depthwise": (lambda: depthwise(1), "row", (7, 8, 3), "depthwise_7x8x3_f32"),
    "depthwise by twos": (lambda: depthwise(2), "row", (2, 8, 3), "depthwise_2x8x3s2_f32"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str):
    make, block, tiles, intrinsic = PROGRAMS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    sch.tensorize(inner(sch, block, *tiles), intrinsic)
    keeps(before, sch)


# ---- in registers

ALONE = {
    "llvm -mcpu=x86-64-v3": [
        "matmul_6x16x64_f32",
        "matmul_6x8x64_f64",
        "matmul_4x24x64_f32",
        "conv_6x16x3x16_f32",
        "conv_6x16x3x16s2_f32",
        "conv_6x16x1x64_f32",
        "conv_6x16x7x3s2_f32",
        "depthwise_12x8x3_f32",
        "depthwise_6x8x3s2_f32",
        "matmul_4x16x32_bf16f32",
    ],
    "llvm -mcpu=x86-64-v4": [
        "matmul_14x32x64_f32",
        "matmul_14x16x64_f64",
        "conv_14x32x3x16_f32",
        "conv_14x32x3x16s2_f32",
        "conv_14x32x7x3s2_f32",
        "depthwise_14x16x3_f32",
    ],
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
@pytest.mark.parametrize(("target", "name"), [(target, name) for target, names in ALONE.items() for name in names])
def test_sums_stay_in_registers(target: str, name: str):
    assert kernel_spills(made(name).impl, target) == {"main": 0}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
def test_tiles_that_are_too_large_spill():
    """What is counted is there to be counted."""
    assert kernel_spills(made("matmul_8x32x64_f32").impl, "llvm -mcpu=x86-64-v3")["main"] > 0
