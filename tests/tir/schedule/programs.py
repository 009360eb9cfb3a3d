"""Programs to schedule, and what a schedule of them must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul
from tests.tir.transform.schedules import PROGRAMS as LOWERED
from tests.tir.transform.schedules import check_lowered, of, x

from eutectic import te, tir, topi
from eutectic.ir.structural import structural_equal
from eutectic.support.errors import ScheduleError
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import LoopRV, Schedule, Trace
from eutectic.tir.schedule.validate import compare_programs


def integer_sum() -> PrimFunc:
    """A sum over two axes of integers, which may be reordered."""
    return of(lambda t: topi.sum(t, (0, 2)), x(3, 4, 5, dtype="int32"))


def chain() -> PrimFunc:
    """Three blocks, each the only reader of the one before."""
    return of(lambda t: topi.tanh(topi.exp(topi.negative(t))), x(4, 6))


def dense_bias_relu() -> PrimFunc:
    """A product with a bias and a relu."""

    def definition(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        return topi.nn.relu(topi.add(topi.matmul(a, b), c))

    return of(definition, x(4, 6), x(6, 5, name="w"), x(5, name="b"))


def small_conv() -> PrimFunc:
    """A padded convolution and a relu, small enough to be interpreted many times."""
    return of(lambda t, w: topi.nn.relu(topi.nn.conv2d(t, w, 1, 1, 1)), x(1, 2, 2, 3), x(2, 2, 2, 2, name="w"))


def small_pool() -> PrimFunc:
    """A maximum over windows that overlap and reach beyond the border."""
    return of(lambda t: topi.nn.pool2d(t, (3, 2), (2, 1), (1, 1), (1, 0, 1, 0), "max"), x(1, 2, 4, 3))


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "matmul": lambda: matmul(size=6),
    "conv": LOWERED["conv"],
    "small conv": small_conv,
    "softmax": LOWERED["softmax"],
    "chain": chain,
    "sum": LOWERED["sum"],
    "transpose": LOWERED["transpose"],
    "pool": small_pool,
    "pad": LOWERED["pad"],
    "integer sum": integer_sum,
    "dense": dense_bias_relu,
}


def tiled(sch: Schedule, block: str, *factors: int) -> list[LoopRV]:
    """Tiles over the first loops of a block: the outer loops, and then the inner ones."""
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(sch.get_loops(block), factors, strict=False)]
    order = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    sch.reorder(*order)
    return order


def keeps(before: PrimFunc, sch: Schedule) -> None:
    """The scheduled program computes the same, also lowered, has a text, and the trace gives it again."""
    after = sch.func
    tir.verify_well_formed(after)
    compare_programs(before, after, "the schedule")
    lowered = tir.transform.lower(after)
    check_lowered(lowered)
    compare_programs(before, lowered, "lowering the schedule")
    check_round_trip(after)
    for replay in (
        lambda new: sch.trace.apply_to_schedule(new),
        lambda new: Trace.apply_json_to_schedule(sch.trace.as_json(), new),
    ):
        again = Schedule(before)
        replay(again)
        assert structural_equal(again.mod, sch.mod)


def refused(sch: Schedule, step: Callable[[], Any]) -> str:
    """The refusal of a step, which must leave everything as it was."""
    before, done = sch.mod, len(sch.trace)
    with pytest.raises(ScheduleError) as error:
        step()
    assert all(sch.mod[var] is made for var, made in before.functions_items())
    assert len(sch.trace) == done
    return str(error.value)
