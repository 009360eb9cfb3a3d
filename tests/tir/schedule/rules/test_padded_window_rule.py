"""Windows of each channel over padded images in default schedules: no padded copy, and no condition."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.padded import Array, PaddedWindows, Pair
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.driver.inspect import kernel_source
from eutectic.ir.prim_expr import IntImm
from eutectic.ir.structural import structural_equal
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules import padded_window
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.schedule.rules.guards import changes_of
from eutectic.tir.schedule.rules.stage import Axis
from eutectic.tir.schedule.rules.walk import Span
from eutectic.tir.stmt import parts_of


class Window(PaddedWindows):
    """Windows of some size over images of `blocks` times `lanes` channels, with what is done to each sum.

    Args:
        blocks: Of channels.
        lanes: Channels of a block.
        batch: Images.
    """

    def __init__(
        self,
        image: Pair,
        kernel: Pair = (3, 3),
        stride: Pair = (1, 1),
        before: Pair = (1, 1),
        after: Pair = (1, 1),
        *,
        blocks: int = 8,
        lanes: int = 16,
        batch: int = 1,
    ) -> None:
        super().__init__(image, kernel, stride, before, after)
        self.blocks, self.lanes, self.batch = blocks, lanes, batch

    def shapes(self) -> list[tuple[int, ...]]:
        data = (self.batch, self.blocks, *self.image, self.lanes)
        return [data, (self.blocks, *self.kernel, self.lanes), (self.blocks, self.lanes)]

    def program(self) -> tir.PrimFunc:
        (low_y, low_x), (high_y, high_x), (step_y, step_x) = self.before, self.after, self.stride
        names = ("data", "weight", "bias")
        data, weight, bias = (te.placeholder(s, "float32", n) for s, n in zip(self.shapes(), names, strict=True))
        padded = topi.nn.pad(data, [0, 0, low_y, low_x, 0], [0, 0, high_y, high_x, 0], name="padded")
        ky, kx = (te.reduce_axis((0, size), name) for size, name in zip(self.kernel, ("ky", "kx"), strict=True))
        sums = te.compute(
            (self.batch, self.blocks, *self.out, self.lanes),
            lambda n, b, y, x, c: te.sum(
                padded[n, b, y * step_y + ky, x * step_x + kx, c] * weight[b, ky, kx, c], axis=[ky, kx]
            ),
            "sums",
        )
        out = topi.nn.relu(te.compute(sums.shape, lambda n, b, y, x, c: sums[n, b, y, x, c] + bias[b, c], "total"))
        return te.create_prim_func([data, weight, bias, out])

    def want(self, *arrays: Array) -> Array:
        data, weight, bias = arrays
        total = np.zeros((self.batch, self.blocks, *self.out, self.lanes))
        for (ky, kx), seen in self.seen(data):
            total += seen * weight[:, None, None, ky, kx]
        return np.maximum(total + bias[:, None, None], 0)


TAKEN = {
    "one tile a row": Window((14, 14)),
    "two tiles a row": Window((6, 28)),
    "tiles in the middle": Window((3, 64), lanes=32),
    "every other point": Window((14, 14), stride=(2, 2)),
    "five taps": Window((5, 7), (5, 5), before=(2, 2), after=(2, 2)),
    "padding on one side": Window((9, 8), before=(0, 0), after=(2, 2)),
    "padding of rows only": Window((9, 14), before=(1, 0), after=(1, 0)),
    "padding of points only": Window((9, 12), before=(0, 1), after=(0, 1)),
    "one row of taps": Window((5, 12), (1, 3), before=(0, 1), after=(0, 1)),
    "several images": Window((6, 8), batch=3),
    "one block of channels": Window((9, 14), blocks=1),
    "more padding than taps": Window((4, 8), before=(4, 4), after=(4, 4)),
    "too much code for rows in parts": Window((14, 14), (7, 7), before=(3, 3), after=(3, 3)),
    "bands of rows": Window((28, 14), blocks=3),
    "bands of rows of several images": Window((32, 8), blocks=2, batch=2),
    "bands by steps of two": Window((56, 28), stride=(2, 2), blocks=2),
    "the same by steps of two": Window((28, 28), (7, 7), (2, 2), before=(3, 3), after=(3, 3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("window", TAKEN.values(), ids=TAKEN.keys())
def test_values_without_a_padded_copy(window: Window):
    (line,) = window.chosen()
    assert line.startswith("padded_window@0: ")
    root = schedule_for_cpu(window.program(), Vectors()).body.block
    assert {buffer.scope() for buffer in root.alloc_buffers} == {"local"}  # sums, in registers
    window.check()


LEFT = {
    "no padding": Window((14, 14), before=(0, 0), after=(0, 0)),
    "few rows of channels for threads to share": Window((7, 14), blocks=1),
    "channels that are no whole vectors": Window((14, 14), lanes=12),
    "rows that no tile divides": Window((4, 17)),
    "too much to write out": Window((28, 28), (13, 13), before=(6, 6), after=(6, 6)),
}


@pytest.mark.parametrize("window", LEFT.values(), ids=LEFT.keys())
def test_left_to_other_rules(window: Window):
    assert not any("padded_window" in line for line in window.chosen())
    window.check()


@pytest.mark.parametrize("size", [8, 16, 32, 7])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_pools_of_row_major_images_are_left_to_other_rules(size: int, lanes: int):
    """Neighbours in memory are neighbours of a row, which the window moves along."""
    data = te.placeholder((1, 32, size, size), "float32", "data")
    pool = topi.nn.pool2d(data, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "avg")
    func = te.create_prim_func([data, te.compute(pool.shape, lambda *at: pool[at] - data[at], "mixed")])
    chosen = schedule_for_cpu(func, Vectors(32 * lanes, 16)).attrs["tir.chosen"]
    assert not any("padded_window" in str(line) for line in chosen)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.data())
def test_odd_sizes(data: st.DataObject):
    def pair(low: int, high: int) -> tuple[int, int]:
        return data.draw(st.integers(low, high)), data.draw(st.integers(low, high))

    window = Window(pair(5, 16), pair(1, 5), pair(1, 3), pair(0, 3), pair(0, 3), batch=data.draw(st.integers(1, 2)))
    assert not any("refused" in line for line in window.chosen())
    window.check()


@pytest.mark.parametrize(
    ("changes", "size", "tiles"),
    [((1, 27), 14, [1, 1]), ((1, 55), 14, [1, 2, 1]), ((1, 111), 16, [1, 5, 1]), ((16,), 8, [2, 5]), ((), 14, [4])],
)
def test_no_condition_changes_within_a_loop_over_tiles(changes: tuple[int, ...], size: int, tiles: list[int]):
    var = tir.Var("i", "int64")
    axis = Axis(var, IntImm("int64", sum(tiles) * size), var)
    axes = padded_window.Axes("pad", "sums", "last", axis, axis, axis, (), (), changes, 9, 2, 16)
    assert axes.parts(size)[1] == tiles


@pytest.mark.parametrize(
    ("window", "pieces"),
    [
        (Window((14, 14), blocks=3), 14),
        (Window((14, 14), blocks=3, batch=2), 2 * 14),
        (Window((28, 14), blocks=3), 4 * 3),
        (Window((32, 14), blocks=3, batch=2), 2 * 4 * 3),
        (Window((28, 14), (5, 5), before=(2, 2), after=(2, 2), blocks=3), 28),
        (Window((7, 7), blocks=3), 3 * 7),
        (Window((7, 7), blocks=3, batch=2), 2 * 3 * 7),
    ],
)
def test_threads_share_bands_or_rows_of_all_channels_where_there_are_many_else_those_of_each_block(
    window: Window, pieces: int
):
    (nest,) = parts_of(schedule_for_cpu(window.program(), Vectors()).body.block.body)
    while nest.extent.value == 1:  # images, of which there is one
        nest = nest.body
    assert (nest.kind, nest.extent.value) == ("parallel", pieces)


@pytest.mark.slow
def test_every_choice_gives_the_same(monkeypatch: pytest.MonkeyPatch):
    window = Window((4, 16))
    assert window.chosen() == ["padded_window@0: points=16, row_parts=true, rows_first=false (default)"]
    for size, row_parts, rows_first in product((16, 8, 4), (True, False), (True, False)):
        choice = {"points": size, "row_parts": row_parts, "rows_first": rows_first}
        monkeypatch.setattr(padded_window.PaddedWindow, "decide", lambda *_, choice=choice: choice)
        text = f"points={size}, row_parts={row_parts}, rows_first={rows_first}".lower()
        assert text in window.chosen()[0]
        window.check()


@pytest.mark.slow
def test_bands_give_the_same_as_rows(monkeypatch: pytest.MonkeyPatch):
    window = Window((32, 16))
    assert window.chosen() == ["padded_window@0: points=16, row_parts=false, rows_first=true, band=8 (default)"]
    for size, band in product((16, 4), (16, 8, 2)):
        choice = {"points": size, "row_parts": False, "rows_first": True, "band": band}
        monkeypatch.setattr(padded_window.PaddedWindow, "decide", lambda *_, choice=choice: choice)
        assert f"points={size}, row_parts=false, rows_first=true, band={band}" in window.chosen()[0]
        window.check()


@pytest.mark.parametrize(("cpu", "products"), [("x86-64-v3", 7 * 15), ("x86-64-v4", 7 * 14)])
def test_rows_of_a_window_are_asked_for_once_where_rows_are_one_loop(cpu: str, products: int):
    """No condition is left within a row of taps: the sums of a tile are vectors; of 256 bits there are 7 more."""
    window = Window((14, 14), (7, 7), before=(3, 3), after=(3, 3))
    assert "row_parts=false" in window.chosen()[0]
    text = kernel_source(window.program(), f"llvm -mcpu={cpu}", "llvm")
    assert len(re.findall("fmul contract <", text)) == products
    assert len(re.findall("select <", text)) == 14, "relu, for each point of a row"


def test_traces_make_the_same_program():
    func = Window((6, 28)).program()
    scheduled = schedule_for_cpu(func, Vectors())
    sch = tir.Schedule(func)
    trace_from_python(scheduled.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)


@given(st.integers(-3, 3).filter(bool), st.integers(-20, 20), st.sampled_from(["__ge__", "__gt__", "__le__", "__lt__"]))
def test_where_a_comparison_changes(step: int, rest: int, order: str):
    var = tir.Var("i", "int64")
    span = Span((Axis(var, IntImm("int64", 9), var),))
    truths = [getattr(step * i + rest, order)(0) for i in range(9)]
    want = {i for i in range(1, 9) if truths[i] != truths[i - 1]}
    assert changes_of(getattr(var * step + rest, order)(0), span) == want
