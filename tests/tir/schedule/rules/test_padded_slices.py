"""Convolutions that are padded along one axis in default schedules: tiles within a slice leave taps out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.padded import NATIVE, BlockedConvolution, Pair
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.tir.function_attributes import FINITE_PARAMS, TRACE
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.topi.nn.conv_blocked import conv3d_ncdhwc


class Convolution(BlockedConvolution):
    """Rows of an image are slices; the weights are finite, as constants of networks are known to be."""

    def __init__(self, image: Pair, kernel: Pair = (3, 1), stride: Pair = (1, 1), before: int = 1, after: int = 1):
        super().__init__(image, kernel, stride, (before, 0), (after, 0))

    def program(self) -> tir.PrimFunc:
        return super().program().with_attr(FINITE_PARAMS, [1])


def is_by_slices(func: tir.PrimFunc) -> bool:
    return any(line.startswith("padded_slices@0") for line in choice_points(func, Vectors()))


@settings(max_examples=12)
@given(
    image=st.tuples(st.integers(3, 6), st.sampled_from([14, 28, 56])),
    window=st.sampled_from([(3, 1), (2, 1), (3, 3)]),
    step=st.integers(1, 2),
    before=st.integers(0, 2),
    after=st.integers(0, 3),
)
def test_results(image: Pair, window: Pair, step: int, before: int, after: int):
    """Also slices that see nothing but padding, and windows that move within slices."""
    convolution = Convolution(image, window, (step, 1), before, after)
    convolution.check()


@pytest.mark.parametrize(
    ("convolution", "wanted"),
    [
        (Convolution((8, 28)), True),
        (Convolution((8, 28), stride=(2, 1)), True),
        (Convolution((8, 28), (3, 3)), True),  # rows are apart then
        (Convolution((8, 49)), False),  # tiles of 14 would be in two slices
    ],
    ids=["slices", "steps", "windows within", "tiles across"],
)
def test_which(convolution: Convolution, wanted: bool):
    func = convolution.program()
    assert is_by_slices(func) == wanted
    script = schedule_for_cpu(func, Vectors()).without_attr(TRACE).script()
    assert ("pad_temp" in script) != wanted
    assert not is_by_slices(func.without_attr(FINITE_PARAMS)), "padding times infinity is NaN"


def test_padding_along_several_axes_is_copied():
    around = Convolution((8, 28), (3, 3))
    around.before = around.after = (1, 1)
    assert not is_by_slices(around.program())


def test_all_tiles_are_within_slices():
    func = Convolution((8, 28)).program()
    own, *others = choice_points(func, Vectors())["padded_slices@0"].alternatives()
    assert others
    for way in (own, *others):
        assert 28 % way["rows"] == 0
        schedule = schedule_for_cpu(with_decisions(func, {"padded_slices@0": way}), Vectors())
        assert "pad_temp" not in schedule.without_attr(TRACE).script()


def test_traces_make_the_same_program():
    func = Convolution((8, 28)).program()
    scheduled = schedule_for_cpu(func, Vectors())
    sch = tir.Schedule(func)
    trace_from_python(scheduled.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)


@pytest.mark.parametrize("step", [1, 2])
def test_volumes(step: int):
    rng = np.random.default_rng(step)
    data, weight = (rng.standard_normal(s, "float32") for s in ((2, 2, 5, 6, 14, 16), (2, 2, 3, 1, 1, 16, 32)))
    tensors = [te.placeholder(array.shape, "float32", name) for array, name in zip((data, weight), "dw", strict=True)]
    result = topi.nn.relu(conv3d_ncdhwc(*tensors, (step, 1, 1), (1, 0, 0)))
    func = te.create_prim_func([*tensors, result]).with_attr(FINITE_PARAMS, [1])
    assert is_by_slices(func)
    padded = np.pad(data.astype("float64"), [(0, 0), (0, 0), (1, 1), *[(0, 0)] * 3])
    seen = [padded[:, :, tap : tap + 4 * step + 1 : step][:, :, : int(result.shape[2])] for tap in range(3)]
    exact = sum(np.einsum("ncdhwi,fcio->nfdhwo", seen[tap], weight[:, :, tap, 0, 0]) for tap in range(3))
    out = np.full(exact.shape, np.nan, "float32")
    NativePrimFunc(schedule_for_cpu(func, machine_of(NATIVE)), NATIVE, 2)(data, weight, out)
    np.testing.assert_allclose(out, np.maximum(exact, 0), atol=1e-4)


@pytest.mark.parametrize(("padding", "step"), [(1, 1), (1, 2), (0, 2)])
def test_large_slices_are_read_at_one_place_of_all(padding: int, step: int):
    """Threads share places of a slice, and go through all slices there, so that windows find most of what they see."""
    x, w = (
        te.placeholder((1, 2, 6, 56, 56, 32), "float32", "x"),
        te.placeholder((1, 2, 3, 1, 1, 32, 32), "float32", "w"),
    )
    sums = conv3d_ncdhwc(x, w, (step, 1, 1), (padding, 0, 0))
    func = te.create_prim_func([x, w, topi.nn.relu(sums)]).with_attr(FINITE_PARAMS, [1])
    assert is_by_slices(func) == bool(padding)
    script = schedule_for_cpu(func, Vectors()).without_attr(TRACE).script()
    assert re.search(r"in T.parallel\(224\):\n +for zz", script)  # 3136 points in tiles of 14
