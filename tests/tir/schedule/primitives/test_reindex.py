"""reindex: copies that a block accesses by its axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul
from tests.tir.schedule.programs import chain, keeps, small_conv, tiled
from tests.tir.transform.schedules import of, x

from eutectic import topi
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule

STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "the columns of a convolution": (small_conv, lambda s: s.reindex("conv2d_nchw", ("read", 0))),
    "both operands": (
        lambda: matmul(size=4),
        lambda s: (s.reindex("matmul", ("read", 0)), s.reindex("matmul", ("read", 1))),
    ),
    "a result": (lambda: matmul(size=4), lambda s: s.reindex("matmul", ("write", 0))),
    "a transposition": (
        lambda: of(lambda t: topi.transpose(t), x(3, 5)),
        lambda s: (s.reindex("T_transpose", ("read", 0)), s.reindex("T_transpose", ("write", 0))),
    ),
    "under tiles": (
        lambda: matmul(size=6),
        lambda s: (
            tiled(s, "matmul", 3, 2),
            s.reverse_compute_at(s.reindex("matmul", ("write", 0)), s.get_loops("matmul")[1]),
            s.compute_at(s.reindex("matmul", ("read", 1)), s.get_loops("matmul")[1]),
        ),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


@T.prim_func(private=True)
def neighbours(A: T.Buffer((9,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + A[v + 1]


@T.prim_func(private=True)
def partly(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.where(i != 2)
            C[v] = A[v]


@T.prim_func(private=True)
def in_place(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] + T.float32(1)


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "no buffer": (chain, lambda s: s.reindex("compute", ("read", 1)), "reads no buffer 1"),
    "no kind": (chain, lambda s: s.reindex("compute", ("reads", 0)), "is no buffer of a block"),
    "two places": (lambda: neighbours, lambda s: s.reindex("C", ("read", 0)), "at several places"),
    "a hole": (lambda: partly, lambda s: s.reindex("C", ("read", 0)), "reads all elements of A"),
    "a hole in the result": (lambda: partly, lambda s: s.reindex("C", ("write", 0)), "writes all elements of C"),
    "a condition": (small_conv, lambda s: s.reindex("pad_temp", ("read", 0)), "reads x only where a condition holds"),
    "in place": (lambda: in_place, lambda s: s.reindex("A", ("read", 0)), "A is written in the part of the scope"),
    "in place, written": (lambda: in_place, lambda s: s.reindex("A", ("write", 0)), "reads A, which it writes"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    before = sch.func
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)
    assert sch.func is before
