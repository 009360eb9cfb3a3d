"""Which values are computed where they are read: what is gathered is gathered once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.tir.schedule.rules.processors import Vectors
from tests.tir.transform.schedules import of

from eutectic import te, topi
from eutectic.tir import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.schedule.rules.producers import inlining_of
from eutectic.tir.schedule.rules.stage import stages_of

ROWS = 49


def added(windows: int, value: Callable[[te.Tensor, te.Tensor], te.Tensor]) -> PrimFunc:
    """Values of pairs of a window, of six heads, that are added to the scores of windows."""

    def definition(scores: te.Tensor, table: te.Tensor, index: te.Tensor) -> te.Tensor:
        pairs = topi.transpose(topi.reshape(value(table, index), [ROWS, ROWS, 6]), [2, 0, 1])
        return topi.add(scores, topi.expand_dims(pairs, 0))

    return of(
        definition,
        te.placeholder((windows, 6, ROWS, ROWS), "float32", "scores"),
        te.placeholder((ROWS * ROWS, 6), "float32", "table"),
        te.placeholder((ROWS * ROWS,), "int64", "index"),
    )


@pytest.mark.parametrize(
    ("windows", "value", "left"),
    [
        (8, lambda table, index: topi.take(table, index, 0), ["T_expand_dims", "T_add"]),
        (1, lambda table, index: topi.take(table, index, 0), ["T_add"]),  # each value is read once
        (8, lambda table, index: table, ["T_add"]),  # a load is as fast from there
    ],
)
def test_what_is_gathered_is_gathered_once(windows: int, value: Callable[..., te.Tensor], left: list[str]):
    func = added(windows, value)
    found = stages_of(func)
    assert found is not None
    assert [stage.name for stage in inlining_of(*found).left] == left
    assert schedule_for_cpu(func, Vectors()).script().count("T.alloc_buffer") == len(left) - 1
