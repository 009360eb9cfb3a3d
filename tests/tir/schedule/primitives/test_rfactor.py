"""rfactor: partial results of reductions, exact where the order of the terms makes no difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import chain, integer_sum, keeps, refused, tiled
from tests.tir.transform.schedules import check_lowered, of, x

from eutectic import tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs, inputs


def reduction(sch: Schedule) -> str:
    """Name of the block that reduces."""
    sites = sch.state.index("main").blocks
    return next(site.block.name_hint for site in sites if site.block.init is not None)


def last_split(sch: Schedule, factor: int, which: int, axis: int) -> None:
    loop = sch.get_loops(reduction(sch))[-1]
    sch.rfactor(sch.split(loop, [None, factor])[which], axis)


def reduced(kind: Callable[..., Any], dtype: str) -> PrimFunc:
    return of(lambda t: kind(t, (0, 2)), x(3, 4, 5, dtype=dtype))


@T.prim_func(private=True)
def triangle(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k)
            T.where(k <= i)
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[v, vk]


def unknown_size() -> PrimFunc:
    return of(lambda t: topi.sum(t, 1), x(3, Var("n", "int64"), dtype="int64"))


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "outer": (integer_sum, lambda s: last_split(s, 2, 0, 0)),
    "inner": (integer_sum, lambda s: last_split(s, 2, 1, -1)),
    "one of two loops": (integer_sum, lambda s: s.rfactor(s.get_loops(reduction(s))[1], 1)),
    "the only loop": (
        lambda: of(lambda t: topi.sum(t, 1), x(3, 4, dtype="int32")),
        lambda s: s.rfactor(s.get_loops(reduction(s))[1], 0),
    ),
    "results that may have no term": (unknown_size, lambda s: last_split(s, 4, 1, 0)),
    "a fused loop": (
        integer_sum,
        lambda s: s.rfactor(s.split(s.fuse(*s.get_loops(reduction(s))[1:]), [None, 4])[1], 0),
    ),
    "to a scalar": (
        lambda: of(lambda t: topi.max(t), x(12, dtype="int32")),
        lambda s: last_split(s, 4, 1, 0),
    ),
    "products": (lambda: reduced(topi.prod, "int32"), lambda s: last_split(s, 3, 1, 0)),
    "maxima that keep NaN": (lambda: reduced(topi.max, "float32"), lambda s: last_split(s, 3, 1, 1)),
    "minima": (lambda: reduced(topi.min, "int64"), lambda s: last_split(s, 3, 0, 1)),
    "a size that is not known": (
        unknown_size,
        lambda s: last_split(s, 4, 0, 0),
    ),
    "a triangle": (lambda: triangle, lambda s: s.rfactor(s.get_loops("C")[1], 0)),
    "an integer product": (lambda: matmul(size=6, dtype="int32"), lambda s: last_split(s, 4, 1, 2)),
    "tiles": (
        lambda: matmul(size=6, dtype="int32"),
        lambda s: s.rfactor(tiled(s, "matmul", 3, 3, 4)[2], 0),
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


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_floats_are_combined_in_another_order_which_shows_only_when_it_rounds(kind: str):
    before = reduced(getattr(topi, kind), "float32")
    sch = Schedule(before, debug_mask="all")
    last_split(sch, 2, 1, 0)
    for func in (sch.func, tir.transform.lower(sch.func)):
        given, out = inputs(before, "small integers")
        want, got = np.copy(out), np.copy(out)
        run(before, given, want)
        run(func, given, got)
        np.testing.assert_array_equal(got, want)  # all partial results are exact
    check_lowered(tir.transform.lower(sch.func))
    check_round_trip(sch.func)
    replay = Schedule(before)
    sch.trace.apply_to_schedule(replay)
    assert replay.func.script() == sch.func.script()


def test_a_first_value_counts_once():
    @T.prim_func(private=True)
    def begun(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[v] = 10 + v
                C[v] = A[v, vk] + C[v]

    sch = Schedule(begun, debug_mask="all")
    sch.rfactor(sch.split(sch.get_loops("C")[1], [2, 4])[0], 0)
    keeps(begun, sch)


def test_handles_become_those_of_the_final_reduction():
    sch = Schedule(integer_sum())
    block = sch.get_block(reduction(sch))
    partial = sch.rfactor(sch.get_loops(block)[1], 0)
    assert [sch.get(b).name_hint for b in (partial, block)] == ["x_red_rf", "x_red"]
    assert len(sch.get_loops(partial)) == 3
    assert len(sch.get_loops(block)) == 2
    sch.parallel(sch.get_loops(partial)[1])  # partial results do not depend on each other


def test_partial_results_can_be_moved():
    before = matmul(size=6, dtype="int32")
    sch = Schedule(before, debug_mask="all")
    partial = sch.rfactor(sch.split(sch.get_loops("matmul")[2], [2, 3])[0], 2)
    sch.compute_at(partial, sch.get_loops("matmul")[1])
    keeps(before, sch)


@T.prim_func(private=True)
def backwards(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, 7 - k)
            with T.init():
                C[v] = 0
            C[v] = C[v] + A[v, vk]


@T.prim_func(private=True)
def difference(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[v] = 0
            C[v] = A[v, vk] - C[v]


@T.prim_func(private=True)
def last_of_nan(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[v] = T.float32("-inf")
            C[v] = T.Select(C[v] > A[v, vk], C[v], A[v, vk])


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "spatial": (integer_sum, lambda s: s.rfactor(s.get_loops("x_red")[0], 0), "is not one of the reduction"),
    "no reduction": (chain, lambda s: s.rfactor(s.get_loops("compute")[0], 0), "it has no init"),
    "axis": (integer_sum, lambda s: s.rfactor(s.get_loops("x_red")[1], 2), "of 2 axes have no axis 2"),
    "parallel": (
        lambda: matmul(size=4),
        lambda s: (s.unroll(s.get_loops("matmul")[2]), s.rfactor(s.get_loops("matmul")[2], 0)),
        "is unrolled, not serial",
    ),
    "fused with a spatial loop": (
        lambda: matmul(size=4),
        lambda s: s.rfactor(s.fuse(*s.get_loops("matmul")[1:]), 0),
        "is of spatial and of reduced axes",
    ),
    "several blocks": (
        softmax,
        lambda s: (s.compute_at("total", s.get_loops("y")[0]), s.rfactor(s.get_loops("y")[0], 0)),
        "there is not just one block under loop i",
    ),
    "backwards": (lambda: backwards, lambda s: s.rfactor(s.get_loops("C")[1], 0), "stores each initial value once"),
    "difference": (lambda: difference, lambda s: s.rfactor(s.get_loops("C")[1], 0), "does not reduce by a sum"),
    "NaN": (lambda: last_of_nan, lambda s: s.rfactor(s.get_loops("C")[1], 0), "does not reduce by a sum"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)


def test_a_refusal_shows_the_program(golden):
    sch = Schedule(backwards)
    loop = sch.get_loops("C")[1]
    golden(refused(sch, lambda: sch.rfactor(loop, 0)))


@settings(max_examples=max(20, settings.default.max_examples // 2), deadline=None)
@given(data=st.data())
def test_random_reductions(data: st.DataObject):
    """Splits and fusions of the loops of a reduction of integers, and any of them factored, once or twice."""
    kind = data.draw(st.sampled_from(["sum", "prod", "max", "min"]))
    before = of(lambda t: getattr(topi, kind)(t, (0, 2)), x(3, 2, 4, dtype="int32"))
    sch = Schedule(before, error_render_level="none")
    name = reduction(sch)
    for step in data.draw(st.lists(st.sampled_from(["split", "fuse", "reorder", "rfactor", "rfactor"]), max_size=6)):
        block = data.draw(st.sampled_from([s.block.name_hint for s in sch.state.index("main").blocks][1:]))
        loops = sch.get_loops(block if step == "rfactor" else name)
        at = data.draw(st.integers(0, len(loops) - 1))
        try:
            if step == "split":
                sch.split(loops[at], [None, data.draw(st.integers(1, 3))])
            elif step == "fuse":
                sch.fuse(*loops[at : at + 2])
            elif step == "reorder":
                sch.reorder(*data.draw(st.permutations(loops)))
            else:
                sch.rfactor(loops[at], data.draw(st.integers(-2, 2)))
        except ScheduleError:
            continue
    compare_programs(before, sch.func, str(sch.trace))
    compare_programs(before, tir.transform.lower(sch.func), f"lowering after {sch.trace}")
