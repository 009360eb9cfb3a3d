"""Windows whose taps are far apart: what points of a tile read is padding in places, and is left out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.transform import lower
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

NATIVE = Target("llvm")
WIDE = Vectors(512, 32)


def convolution(
    rows: int, points: int, dilation: int, taps: int = 3, stride: int = 1, filters: int = 2
) -> tir.PrimFunc:
    """A padded convolution of 32 channels in blocks of 16; its weights are finite."""
    data = te.placeholder((1, 2, rows, points, 16), "float32", "data")
    weight = te.placeholder((filters, 2, taps, taps, 16, 32), "float32", "weight")
    func = te.create_prim_func([data, weight, conv2d_nchwc(data, weight, stride, dilation * (taps // 2), dilation)])
    return func.with_attr(FINITE_PARAMS, (1,))


def asked(func: tir.PrimFunc) -> list[str]:
    """Predicates of what adds."""
    realizes = [item for item in post_order(schedule_for_cpu(func, WIDE).body) if isinstance(item, tir.BlockRealize)]
    return [str(item.predicate) for item in realizes if item.block.name_hint.endswith("_update")]


def want(data: np.ndarray, weight: np.ndarray, dilation: int, stride: int) -> np.ndarray:
    """The convolution in float64."""
    taps = weight.shape[2]
    rows, points = ((size - 1) // stride + 1 for size in data.shape[2:4])
    border = 2 * [dilation * (taps // 2)]
    image = np.pad(data.astype(np.float64), [(0, 0), (0, 0), border, border, (0, 0)])
    total = np.zeros((1, weight.shape[0], rows, points, 32))
    for ky, kx in product(range(taps), repeat=2):
        seen = image[:, :, ky * dilation :: stride, kx * dilation :: stride][:, :, :rows, :points]
        total += np.einsum("nchwi,fcio->nfhwo", seen, weight[:, :, ky, kx])
    return total


def check(func: tir.PrimFunc, dilation: int, stride: int = 1) -> None:
    """The program gives what float64 gives."""
    rng = np.random.default_rng(1)
    shapes = ([size.value for size in func.buffer_map[param].shape] for param in func.params[:2])
    data, weight = (rng.standard_normal(shape, "float32") for shape in shapes)
    expected = want(data, weight, dilation, stride)
    out = np.full(expected.shape, np.nan, "float32")
    scheduled = schedule_for_cpu(func, machine_of(NATIVE))
    check_round_trip(scheduled)
    NativePrimFunc(scheduled, NATIVE, 2)(data, weight, out)
    np.testing.assert_allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize(("points", "dilation"), [(14, 12), (14, 6), (28, 12), (33, 12), (33, 24)])
def test_each_point_asks_for_itself(points: int, dilation: int):
    conditions = asked(convolution(14, points, dilation))
    assert all("rx" in text and "xx_1" in text for text in conditions if text != "T.bool(True)")
    text = str(lower(schedule_for_cpu(convolution(14, points, dilation), WIDE)))
    assert not [line for line in text.splitlines() if "if " in line and "xx_1" in line], "it is known of each"


def test_terms_that_are_left_out_are_not_in_the_code():
    """Of 14 points two taps of three see nothing at 12 each, and at 13 with taps one further apart."""

    def products(dilation: int) -> int:
        text = str(lower(schedule_for_cpu(convolution(14, 14, dilation), WIDE)))
        return sum(" * " in line.split("=", 1)[-1] and "weight_1[" in line for line in text.splitlines())

    assert products(12) == 14 + 2 * 2
    assert products(13) == 14 + 2 * 1


@pytest.mark.parametrize(("points", "dilation"), [(14, 1), (56, 1), (130, 20), (130, 4)])
def test_where_little_is_padding_or_tiles_are_many_rows_ask_together(points: int, dilation: int):
    """Taps that are next to each other, and rows of more tiles than are written out."""
    assert not any("xx_1" in text for text in asked(convolution(14, points, dilation)))


@settings(max_examples=15)
@given(st.integers(1, 30), st.integers(1, 34), st.integers(1, 20), st.sampled_from([3, 5]), st.integers(1, 2))
def test_results(rows: int, points: int, dilation: int, taps: int, stride: int):
    check(convolution(rows, points, dilation, taps, stride), dilation, stride)


@pytest.mark.parametrize("filters", [1, 2, 9])
def test_few_and_many_filters(filters: int):
    func = convolution(9, 28, 12, filters=filters)
    check(func, 12)
    loops = [item for item in post_order(schedule_for_cpu(func, WIDE).body) if isinstance(item, tir.For)]
    shared = [loop.loop_var.name for loop in loops if loop.kind == "parallel"]
    assert len(shared) == 2, "threads share padding, and tiles"
