"""Convolutions of large padded images of few channels in default schedules: a band of rows is padded and read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.padded import NATIVE, Array, PaddedWindows, Pair
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu


class Convolution(PaddedWindows):
    """A padded convolution with bias and ReLU, to channels in blocks.

    Args:
        channels: Of the image.
        blocks: Of output channels.
        lanes: Channels of a block.
        batch: Images.
        last: Whether channels of the image are its last axis.
    """

    def __init__(
        self,
        image: Pair,
        kernel: Pair = (3, 3),
        stride: Pair = (2, 2),
        before: Pair = (1, 1),
        after: Pair = (1, 1),
        *,
        channels: int = 3,
        blocks: int = 1,
        lanes: int = 32,
        batch: int = 1,
        last: bool = False,
    ) -> None:
        super().__init__(image, kernel, stride, before, after)
        self.channels, self.blocks, self.lanes, self.batch, self.last = channels, blocks, lanes, batch, last

    def shapes(self) -> list[tuple[int, ...]]:
        data = (*self.image, self.channels) if self.last else (self.channels, *self.image)
        return [(self.batch, *data), (self.blocks, self.channels, *self.kernel, self.lanes), (self.blocks, self.lanes)]

    def widths(self, spatial: tuple[int, int]) -> list[int]:
        return [0, *spatial, 0] if self.last else [0, 0, *spatial]

    def program(self) -> tir.PrimFunc:
        names = ("data", "weight", "bias")
        data, weight, bias = (te.placeholder(s, "float32", n) for s, n in zip(self.shapes(), names, strict=True))
        padded = topi.nn.pad(data, self.widths(self.before), self.widths(self.after), name="padded")
        rc, ky, kx = (
            te.reduce_axis((0, size), name) for size, name in zip(weight.shape[1:4], ("rc", "ky", "kx"), strict=True)
        )

        def term(n: Any, b: Any, y: Any, x: Any, c: Any) -> Any:
            place = (y * self.stride[0] + ky, x * self.stride[1] + kx)
            value = padded[(n, *place, rc) if self.last else (n, rc, *place)]
            return te.sum(value * weight[b, rc, ky, kx, c], axis=[rc, ky, kx])

        sums = te.compute((self.batch, self.blocks, *self.out, self.lanes), term, "sums")
        out = topi.nn.relu(te.compute(sums.shape, lambda n, b, y, x, c: sums[n, b, y, x, c] + bias[b, c], "total"))
        return te.create_prim_func([data, weight, bias, out])

    def want(self, *arrays: Array) -> Array:
        data, weight, bias = arrays
        total = np.zeros((self.batch, self.blocks, *self.out, self.lanes))
        for (ky, kx), seen in self.seen(data.transpose(0, 3, 1, 2) if self.last else data):
            total += np.einsum("ncyx,bcv->nbyxv", seen, weight[:, :, ky, kx].astype(np.float64))
        return np.maximum(total + bias[:, None, None], 0)


TAKEN = {
    "every other point": Convolution((224, 224)),
    "every point": Convolution((150, 168), stride=(1, 1), lanes=16),
    "a large window": Convolution((224, 224), (7, 7), before=(3, 3), after=(3, 3), lanes=16, blocks=2),
    "several images": Convolution((108, 112), batch=4),
    "channels last": Convolution((160, 224), last=True),
    "padding on one side": Convolution((161, 161), before=(0, 0), after=(2, 2), stride=(2, 2)),
    "padding of rows only": Convolution((160, 225), before=(1, 0), after=(1, 0)),
    "one channel": Convolution((320, 448), channels=1),
    "lines that are no vectors": Convolution((162, 167)),
}


@pytest.mark.parametrize("convolution", TAKEN.values(), ids=TAKEN.keys())
def test_a_band_is_padded_and_read(convolution: Convolution):
    (line,) = convolution.chosen()
    assert line.startswith("padded_bands@0: band=")
    scheduled = schedule_for_cpu(convolution.program(), machine_of(NATIVE))
    assert {buffer.scope() for buffer in scheduled.body.block.alloc_buffers} == {"local"}  # no copy is for all threads
    convolution.check(scheduled)


LEFT = {
    "a small image": Convolution((112, 112)),
    "no padding": Convolution((224, 224), before=(0, 0), after=(0, 0)),
    "large weights": Convolution((56, 56), channels=64, stride=(1, 1), blocks=2),
    "rows that are a prime number": Convolution((226, 224), lanes=16),
    "tiles along rows": Convolution((160, 151)),
    "padding of points only": Convolution((161, 224), before=(0, 1), after=(0, 1)),
    "few bands": Convolution((26, 1024), stride=(2, 1)),
}


@pytest.mark.parametrize("convolution", LEFT.values(), ids=LEFT.keys())
def test_others_are_left_to_other_rules(convolution: Convolution):
    assert not any("padded_bands" in line for line in convolution.chosen())
    convolution.check()


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_any_sizes(data: st.DataObject):
    number = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    kernel, stride = (number(1, 4), number(1, 4)), (number(1, 3), number(1, 3))
    pads = [(number(0, 3), number(0, 3)) for _ in range(2)]
    channels, last = number(1, 4), data.draw(st.booleans())
    image = (number(8, 30) * 8, number(200, 300))
    convolution = Convolution(image, kernel, stride, *pads, channels=channels, lanes=16, last=last)
    assert not any("refused" in line for line in convolution.chosen())
    convolution.check()


def test_nan_and_infinities_stay_where_they_are():
    convolution = TAKEN["every other point"]
    arrays = convolution.arrays()
    arrays[0][0, 1, 27, 0], arrays[0][0, 2, 28, 223] = np.nan, np.inf
    want = convolution.want(*arrays)
    out = np.zeros(want.shape, "float32")
    NativePrimFunc(schedule_for_cpu(convolution.program(), machine_of(NATIVE)), NATIVE, 2)(*arrays, out)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(want))
    assert 0 < np.isnan(out).sum() < out.size


def test_traces_make_the_same_program():
    func = TAKEN["every other point"].program()
    scheduled = schedule_for_cpu(func, Vectors())
    sch = tir.Schedule(func)
    trace_from_python(scheduled.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["every other point", "several images", "channels last"])
def test_every_candidate_computes_the_same(name: str):
    convolution, machine = TAKEN[name], machine_of(NATIVE)
    func = convolution.program()
    points = choice_points(func, machine)
    assert list(points) == ["padded_bands@0"]
    candidates = points["padded_bands@0"].alternatives()
    assert len({decisions["band"] for decisions in candidates}) > 1
    for decisions in candidates:
        convolution.check(schedule_for_cpu(with_decisions(func, {"padded_bands@0": decisions}), machine))
