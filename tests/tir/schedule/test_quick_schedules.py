"""Schedules of tiled kernels and refusals of layouts need no answers of isl, which take a hundred times as long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from tests.tir.schedule.programs import keeps, of, x

from eutectic import te, topi
from eutectic.arith import sets
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """The questions that isl is asked."""
    questions: list[str] = []
    answered = sets._answered

    def noted(question: str, texts: tuple[str, ...]) -> bool:
        questions.append(question)
        return answered(question, texts)

    with patch.object(sets, "_answered", noted):
        yield questions


def blocked_conv(size: int = 5, lanes: int = 2) -> PrimFunc:
    data = te.placeholder((1, 2, size + 2, size + 2, lanes), "float32", "data")
    weight = te.placeholder((2, 2, 3, 3, lanes, lanes), "float32", "weight")
    c, kh, kw, ii = (te.reduce_axis((0, n), name) for n, name in ((2, "c"), (3, "kh"), (3, "kw"), (lanes, "ii")))

    def term(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        return te.sum(data[n, c, y + kh, x + kw, ii] * weight[o, c, kh, kw, ii, lane], [c, kh, kw, ii])

    return te.create_prim_func([data, weight, te.compute((1, 2, size, size, lanes), term, "conv")])


def test_a_blocked_convolution_with_a_tail(asked: list[str]):
    before = blocked_conv()
    sch = Schedule(before)
    n, o, y, x_, lane, c, kh, kw, ii = sch.get_loops("conv")
    outer, vectors = sch.split(o, [None, 2])
    tiles, points = sch.split(x_, [None, 3])
    local = sch.cache_write("conv", 0, "local")
    sch.reorder(n, outer, y, tiles, c, kh, kw, ii, points, vectors, lane)
    sch.reverse_compute_at(local, tiles)
    parts = sch.loop_partition(tiles, [1, 1])
    for suffix in ("", "_partition_1"):
        loops = sch.get_loops(f"conv{suffix}")[4:]
        sch.decompose_reduction(f"conv{suffix}", loops[0])
        sch.vectorize(loops[-1])
        sch.unroll(loops[-2])
    sch.parallel(outer)
    sch.loop_join(*parts)
    assert len(asked) <= 1  # whether a tile is all of the buffer, which it is not
    keeps(before, sch)


def test_an_update_in_place(asked: list[str]):
    sch = Schedule(of(lambda a, b: topi.matmul(a, b), x(8, 12, name="a"), x(12, 6, name="b")))
    block = sch.get_block("T_matmul")
    (io, ii), (jo, ji), (ko, ki) = (
        sch.split(v, [None, f]) for v, f in zip(sch.get_loops(block), (4, 3, 6), strict=True)
    )
    sch.reorder(jo, ko, io, ki, ii, ji)
    sch.decompose_reduction(block, ko)
    sch.blockize(ki)
    sch.cache_inplace(block, 0, "local")
    sch.parallel(jo)
    assert not asked


def test_a_layout_that_is_refused(asked: list[str]):
    """The order of the terms would change; this took half a minute."""
    sch = Schedule(of(lambda t, w: topi.nn.conv2d(t, w, 1, 1, 1), x(1, 64, 56, 56), x(64, 64, 3, 3, name="w")))
    with pytest.raises(ScheduleError, match="cannot run in this order"):
        sch.transform_block_layout(
            "conv2d_nchw", lambda n, o, y, x, c, kh, kw: (n, o // 16, y, x, o % 16, c // 16, kh, kw, c % 16)
        )
    assert len(asked) < 10  # of more than 400 questions
