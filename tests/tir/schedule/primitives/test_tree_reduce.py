"""tree_reduce: partial results are combined by halves, and only where nobody else needs them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tir.transform.schedules import of, x

from eutectic import topi
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule, trace_from_python


def factored(func: PrimFunc, factor: int) -> tuple[Schedule, str]:
    sch = Schedule(func)
    name = next(site.block.name_hint for site in sch.state.index("main").blocks if site.block.init is not None)
    sch.rfactor(sch.split(sch.get_loops(name)[-1], [None, factor])[1], -1)
    return sch, name


def check(before: PrimFunc, after: PrimFunc, dtype: str) -> None:
    shape = [int(size) for size in next(iter(before.buffer_map.values())).shape]
    given = (np.random.default_rng(2).standard_normal(shape) * 9).astype(dtype)
    want, got = np.zeros(shape[:-1], dtype), np.zeros(shape[:-1], dtype)
    run(before, given, want)
    run(after, given, got)
    if dtype == "float32":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("kind", [topi.sum, topi.max, topi.min, topi.prod])
@pytest.mark.parametrize("factor", [2, 8])
def test_results(kind, dtype: str, factor: int):
    func = of(lambda t: kind(t, 1), x(3, 19, dtype=dtype))
    sch, name = factored(func, factor)
    halves = sch.tree_reduce(name)
    assert len(halves) == factor.bit_length() - 1
    for rv in halves:
        sch.vectorize(sch.get_loops(rv)[-1])
    check(func, sch.func, dtype)


def test_each_half_is_a_loop():
    sch, name = factored(of(lambda t: topi.sum(t, 1), x(3, 16)), 8)
    sizes = [sch.get(sch.get_loops(rv)[-1]).extent.value for rv in sch.tree_reduce(name)]
    assert sizes == [4, 2, 1]
    assert sch.get(sch.get_loops(name)[-1]).extent.value == 1


def test_traces_keep_it():
    func = of(lambda t: topi.sum(t, 1), x(3, 16))
    sch, name = factored(func, 8)
    sch.tree_reduce(name)
    again = Schedule(func)
    trace_from_python(sch.trace.as_python()).apply_to_schedule(again)
    assert again.func.script() == sch.func.script()


@pytest.mark.parametrize(
    ("shape", "factor", "why"), [((3, 18), 6, "2, 4, 8"), ((3, 16), 1, "2, 4, 8")], ids=["six", "one"]
)
def test_refuses_other_numbers(shape, factor: int, why: str):
    sch, name = factored(of(lambda t: topi.sum(t, 1), x(*shape)), factor)
    with pytest.raises(ScheduleError, match=why):
        sch.tree_reduce(name)


def test_refuses_what_is_no_reduction_of_elements():
    sch = Schedule(of(lambda t: topi.sum(topi.multiply(t, t), 1), x(3, 16)))
    sch.compute_inline(sch.get_child_blocks(sch.get_block("root"))[0])
    name = next(site.block.name_hint for site in sch.state.index("main").blocks if site.block.init is not None)
    with pytest.raises(ScheduleError, match="not a sum, product"):
        sch.tree_reduce(name)


def test_refuses_memory_of_the_caller():
    sch = Schedule(of(lambda t: topi.sum(t, 1), x(3, 16)))
    name = next(site.block.name_hint for site in sch.state.index("main").blocks if site.block.init is not None)
    with pytest.raises(ScheduleError, match="not allocated"):
        sch.tree_reduce(name)


@T.prim_func
def read_again(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4, 8), "float32")):
    p = T.alloc_buffer((4, 8), "float32")
    for i, k in T.grid(4, 8):
        with T.block("p"):
            vi, vk = T.axis.remap("SS", [i, k])
            p[vi, vk] = a[vi, vk] * 2.0
    for i, k in T.grid(4, 8):
        with T.block("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                b[vi] = 0.0
            b[vi] = b[vi] + p[vi, vk]
    for i, k in T.grid(4, 8):
        with T.block("c"):
            vi, vk = T.axis.remap("SS", [i, k])
            c[vi, vk] = p[vi, vk]


@T.prim_func
def shared(a: T.Buffer((8,), "float32"), b: T.Buffer((4,), "float32")):
    p = T.alloc_buffer((8,), "float32")
    for k in range(8):
        with T.block("p"):
            vk = T.axis.spatial(8, k)
            p[vk] = a[vk] * 2.0
    for i, k in T.grid(4, 8):
        with T.block("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                b[vi] = 0.0
            b[vi] = b[vi] + p[vk]


@pytest.mark.parametrize(("func", "why"), [(read_again, "used by others"), (shared, "once")], ids=["after", "by rows"])
def test_refuses_elements_that_are_needed_again(func: PrimFunc, why: str):
    sch = Schedule(func)
    before = sch.func
    with pytest.raises(ScheduleError, match=why):
        sch.tree_reduce("b")
    assert sch.func is before
    assert list(post_order(before.body))
