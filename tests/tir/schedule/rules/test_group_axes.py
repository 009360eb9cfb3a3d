"""Axes of which a sum reads the quotient are two: channels in groups, heads that share keys."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import TRACE
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.schedule.rules.epilogues import with_epilogues
from eutectic.tir.schedule.rules.group_axes import groups_apart
from eutectic.tir.schedule.rules.stage import stages_of
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

NATIVE = Target("llvm")
Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Grouped:
    """A padded convolution in groups, with a bias.

    Attributes:
        groups: How many.
        depth: Channels of a group of the data.
        filters: Channels of a group of the result.
        size: Rows, and points of a row.
        taps: Rows, and points of a row, of a window.
        stride: From one window to the next, along both.
        lanes: Channels of a block of the data, and of one of the result; 1 for rows.
        images: How many.
    """

    groups: int = 2
    depth: int = 32
    filters: int = 64
    size: int = 9
    taps: int = 3
    stride: int = 1
    lanes: tuple[int, int] = (16, 32)
    images: int = 1

    def program(self) -> tir.PrimFunc:
        (v, b), border = self.lanes, self.taps // 2
        counts = self.images, self.groups * self.depth // v, self.size, self.size
        shapes = [self.groups * self.filters // b, self.depth // v, self.taps, self.taps]
        if b == 1:
            x, w = te.placeholder(counts, "float32", "x"), te.placeholder(shapes, "float32", "w")
            sums = topi.nn.conv2d(x, w, self.stride, border, groups=self.groups)
        else:
            x = te.placeholder((*counts, *([v] if v > 1 else [])), "float32", "x")
            w = te.placeholder((*shapes, *([v] if v > 1 else []), b), "float32", "w")
            sums = conv2d_nchwc(x, w, self.stride, border, 1, self.groups)
        bias = te.placeholder((self.groups * self.filters,), "float32", "bias")
        added = te.compute(sums.shape, lambda *at: sums[at] + bias[at[1] * b + at[4] if b > 1 else at[1]], "out")
        return te.create_prim_func([x, w, bias, added])

    def check(self, func: tir.PrimFunc) -> None:
        rng = np.random.default_rng(4)
        border = self.taps // 2
        data = rng.standard_normal((self.images, self.groups * self.depth, self.size, self.size), np.float32)
        weight = rng.standard_normal((self.groups * self.filters, self.depth, self.taps, self.taps), np.float32)
        bias = rng.standard_normal(self.groups * self.filters, np.float32)
        seen = np.lib.stride_tricks.sliding_window_view(
            np.pad(data.astype("f8"), [(0, 0), (0, 0), (border, border), (border, border)]),
            (self.taps, self.taps),
            axis=(2, 3),
        )[:, :, :: self.stride, :: self.stride]
        n, _, rows, points = seen.shape[:4]
        parts = seen.reshape(n, self.groups, self.depth, *seen.shape[2:])
        factors = weight.reshape(self.groups, self.filters, *weight.shape[1:]).astype("f8")
        want = np.einsum("ngcyxpq,gocpq->ngoyx", parts, factors).reshape(n, -1, rows, points) + bias[:, None, None]
        v, b = self.lanes
        if v > 1:
            data = data.reshape(n, -1, v, self.size, self.size).transpose(0, 1, 3, 4, 2)
            weight = weight.reshape(weight.shape[0], -1, v, self.taps, self.taps).transpose(0, 1, 3, 4, 2)
        if b > 1:
            weight = np.moveaxis(weight.reshape(-1, b, *weight.shape[1:]), 1, -1)
            want = np.moveaxis(want.reshape(n, -1, b, rows, points), 2, -1)
        out = np.full(want.shape, np.nan, "float32")
        NativePrimFunc(func, NATIVE, 2)(*map(np.ascontiguousarray, (data, weight, bias)), out)
        np.testing.assert_allclose(out, want, atol=1e-3)


def tile(func: tir.PrimFunc, processor: Vectors | None = None) -> dict[str, int]:
    """Rows and width of the tile of the sums."""
    lines = map(str, schedule_for_cpu(func, processor or Vectors()).attrs["tir.chosen"])
    (line,) = [line for line in lines if not line.startswith("elementwise")]
    return {name: int(value) for name, value in re.findall(r"(rows|points|width)=(\d+)", line)}


# ---- convolutions in groups


@pytest.mark.parametrize(
    "grouped",
    [
        Grouped(),
        Grouped(groups=8, depth=16, filters=32),
        Grouped(groups=2, depth=32, filters=32),  # as many blocks of one as of the other
        Grouped(lanes=(1, 32)),
        Grouped(stride=2),
        Grouped(taps=1),
        Grouped(images=3),
    ],
)
def test_sums_of_groups_are_tiles_of_rows_and_vectors(grouped: Grouped):
    found = tile(grouped.program())
    assert found["width"] == 32
    assert found["rows"] >= 5


@pytest.mark.parametrize(("groups", "channels", "expected"), [(2, 256, True), (4, 128, True), (8, 64, False)])
def test_weights_of_a_tile_are_those_of_one_group(groups: int, channels: int, expected: bool):
    """295 KB and 147 KB do not stay near, 74 KB do; weights of all groups are 1 to 5 MB."""
    func = Grouped(groups, channels, channels, size=14).program()
    assert any("rounds" in str(line) for line in schedule_for_cpu(func, Vectors()).attrs["tir.chosen"]) is expected


def test_rows_of_groups_are_tiles_too():
    found = tile(Grouped(lanes=(1, 1), size=32).program())
    assert found["width"] == 32
    assert found["rows"] >= 5


def test_groups_are_an_axis():
    text = schedule_for_cpu(Grouped(groups=4).program(), Vectors()).without_attr(TRACE).script()
    assert "pad_temp[0, v_ax1 * 2 + v_rc, v_ry + v_yy" in text, "two blocks of channels for each group"


@settings(max_examples=25, deadline=None)
@given(
    groups=st.integers(2, 5),
    depth=st.sampled_from([8, 16, 24]),
    blocks=st.integers(1, 3),
    size=st.integers(1, 8),
    taps=st.sampled_from([1, 3]),
    stride=st.integers(1, 2),
    lanes=st.sampled_from([(1, 1), (1, 8), (8, 8), (8, 16)]),
    images=st.integers(1, 2),
    processor=st.sampled_from([Vectors(), Vectors(256, 16), machine_of(NATIVE)]),
)
def test_values(
    groups: int,
    depth: int,
    blocks: int,
    size: int,
    taps: int,
    stride: int,
    lanes: tuple[int, int],
    images: int,
    processor: Vectors,
):
    grouped = Grouped(groups, depth, blocks * max(lanes), size, taps, stride, lanes, images)
    done = schedule_for_cpu(grouped.program(), processor)
    check_round_trip(done)
    grouped.check(done)


def test_it_is_a_trace_that_gives_the_same_again():
    func = Grouped().program()
    done = schedule_for_cpu(func, Vectors())
    sch = tir.Schedule(func)
    trace_from_python(done.attrs[TRACE]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, done.body)


# ---- other sums


def shared_heads(heads: int, keys: int, rows: int = 6, last: bool = False) -> tir.PrimFunc:
    """Scores of heads, several of which share keys; with the heads last, or first."""
    q = te.placeholder((heads, rows, 16), "float32", "q")
    k = te.placeholder((keys, 32, 16), "float32", "k")
    d = te.reduce_axis((0, 16), "d")
    shape = (rows, 32, heads) if last else (heads, rows, 32)

    def score(*at: tir.PrimExpr) -> tir.PrimExpr:
        row, column, head = at if last else (at[1], at[2], at[0])
        return te.sum(q[head, row, d] * k[head // (heads // keys), column, d], [d])

    sums = te.compute(shape, score, "sums")
    return te.create_prim_func([q, k, te.compute(shape, lambda *at: sums[at] * 0.25, "out")])


@pytest.mark.parametrize(("heads", "keys"), [(8, 2), (6, 3), (4, 4), (4, 1)])
def test_heads_that_share_keys(heads: int, keys: int):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((heads, 6, 16), np.float32), rng.standard_normal((keys, 32, 16), np.float32)
    out = np.full((heads, 6, 32), np.nan, "float32")
    NativePrimFunc(schedule_for_cpu(shared_heads(heads, keys), machine_of(NATIVE)), NATIVE, 2)(q, k, out)
    want = np.einsum("hrd,hcd->hrc", q.astype("f8"), np.repeat(k, heads // keys, 0).astype("f8")) * 0.25
    np.testing.assert_allclose(out, want, atol=1e-5)


def axes_after(func: tir.PrimFunc) -> list[int | None]:
    """Sizes of the axes of the sums, with groups apart."""
    sch = tir.Schedule(func)
    stages, intermediates = stages_of(func)
    sch = groups_apart(sch, with_epilogues(stages, intermediates)[0])
    found = stages_of(sch.func, counts_together=True)
    assert found is not None
    return [axis.size for axis in found[0][0].spatial]


def test_heads_and_groups_are_two_axes():
    assert axes_after(shared_heads(8, 2)) == [2, 4, 6, 32]


@pytest.mark.parametrize(
    "func",
    [
        shared_heads(8, 2, last=True),  # vectors lie along the heads
        shared_heads(4, 4),  # nothing is shared
        shared_heads(4, 1),
    ],
)
def test_others_stay_one(func: tir.PrimFunc):
    assert len(axes_after(func)) == 3


@pytest.mark.parametrize(("size", "divisors"), [(12, (3, 4)), (10, (4,))])
def test_quotients_by_several_numbers_or_with_a_rest_stay(size: int, divisors: tuple[int, ...]):
    x, r = te.placeholder((size, 4, 8), "float32", "x"), te.reduce_axis((0, 4), "r")
    parts = lambda o, v: sum((x[o // n, r, v] for n in divisors), te.const(0.0))  # noqa: E731
    sums = te.compute((size, 8), lambda o, v: te.sum(parts(o, v), [r]), "sums")
    func = te.create_prim_func([x, te.compute((size, 8), lambda o, v: sums[o, v] + 1.0, "out")])
    assert axes_after(func) == [size, 8]


def test_what_nobody_asked_to_count_together_is_no_stage():
    func = shared_heads(8, 2)
    sch = tir.Schedule(func)
    stages, intermediates = stages_of(func)
    sch = groups_apart(sch, with_epilogues(stages, intermediates)[0])
    assert stages_of(sch.func) is None
