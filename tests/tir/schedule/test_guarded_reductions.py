"""Initial values under predicates: one definition, whatever the loops, in the interpreter, lowered and compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.guarded import SUMS, arguments, wanted
from tests.tir.schedule.odd_programs import PROGRAMS as ODD
from tests.tir.schedule.programs import integer_sum, keeps, refused

from eutectic import tir
from eutectic.driver.build_prim_func import build
from eutectic.script import tir as T
from eutectic.support.errors import CodegenError, ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs, inputs


def check(name: str, func: PrimFunc, compiled: bool = True) -> None:
    """The program computes what the definition says."""
    programs: list[Callable[..., Any]] = [partial(run, func, check=True), partial(run, tir.transform.lower(func))]
    given = arguments(name)
    want = wanted(name, given)
    for program in [*programs, *([build(func)] if compiled else [])]:
        got = [np.copy(item) for item in given]
        program(*got)
        np.testing.assert_array_equal(got[1], want)


@pytest.mark.parametrize("name", SUMS)
def test_programs_compute_what_the_definition_says(name: str):
    check(name, SUMS[name][0])


def loops(s: Schedule) -> list[Any]:
    return s.get_loops("B")


def has(s: Schedule, name: str) -> bool:
    return any(site.block.name_hint == name for site in s.state.index("main").blocks)


STEPS: dict[str, Callable[[Schedule], Any]] = {
    "reorder": lambda s: s.reorder(*loops(s)[::-1]),
    "fuse": lambda s: s.fuse(*loops(s)),
    "fuse after reorder": lambda s: (s.reorder(*loops(s)[::-1]), s.fuse(*loops(s))),
    "split and fuse": lambda s: (s.split(loops(s)[0], [None, 4]), s.fuse(*loops(s))),
    "fuse and split": lambda s: (s.fuse(*loops(s)), s.split(loops(s)[0], [None, 7])),
    "fuse and split evenly": lambda s: (s.fuse(*loops(s)), s.split(loops(s)[0], [None, 4])),
    "split and reorder": lambda s: (
        s.split(loops(s)[1], [None, 3]),
        s.split(loops(s)[0], [None, 4]),
        s.reorder(*loops(s)[::-1]),
    ),
    "tiles": lambda s: (
        s.split(loops(s)[1], [None, 3]),
        s.split(loops(s)[0], [None, 4]),
        s.reorder(*(loops(s)[k] for k in (2, 0, 1, 3))),
    ),
    "block layout": lambda s: s.transform_block_layout("B", lambda *i: i[::-1]),
    "block layout in parts": lambda s: s.transform_block_layout("B", lambda i, *k: (i // 2, *k, i % 2)),
    "reindex": lambda s: s.reindex("B", ("write", 0)),
    "reindex, split and fuse": lambda s: (
        s.reindex("B", ("write", 0)),
        s.split(loops(s)[0], [None, 4]),
        s.fuse(*loops(s)),
    ),
    "reindex what is read": lambda s: s.reindex("B", ("read", 0)),
    "unit": lambda s: s.add_unit_loop("B"),
    "partition": lambda s: s.loop_partition(loops(s)[0], [2, None]),
    "partition inside": lambda s: s.loop_partition(loops(s)[1], [2, None]),
    "partition outside after reorder": lambda s: (
        s.reorder(*loops(s)[::-1]),
        s.loop_partition(loops(s)[0], [1, None]),
    ),
    "single term": lambda s: (
        s.loop_partition(loops(s)[1], [1, None]),
        s.split(loops(s)[1], [None, 1], preserve_unit_iters=False),
    ),
    "units dropped": lambda s: s.split(loops(s)[1], [None, 4], preserve_unit_iters=False),
    "parallel": lambda s: s.parallel(loops(s)[0]),
    "parallel rows inside": lambda s: (s.reorder(*loops(s)[::-1]), s.parallel(loops(s)[-1])),
    "vectors": lambda s: (s.reorder(*loops(s)[::-1]), s.vectorize(loops(s)[-1])),
    "unrolled": lambda s: (s.reorder(*loops(s)[::-1]), s.unroll(loops(s)[0])),
    "decomposed": lambda s: s.decompose_reduction("B", loops(s)[1]),
    "decomposed outside": lambda s: s.decompose_reduction("B", loops(s)[0]),
    "decomposed after reorder": lambda s: (
        s.reorder(*loops(s)[::-1]),
        s.decompose_reduction("B", loops(s)[0]),
    ),
    "decomposed after fuse": lambda s: (s.fuse(*loops(s)), s.decompose_reduction("B", loops(s)[0])),
    "rfactor": lambda s: s.rfactor(loops(s)[-1], 0),
    "rfactor outside": lambda s: (s.reorder(*loops(s)[::-1]), s.rfactor(loops(s)[0], 0)),
    "rfactor of a split": lambda s: (s.split(loops(s)[-1], [None, 2]), s.rfactor(loops(s)[-2], 0)),
    "rfactor of a ragged split": lambda s: (s.split(loops(s)[-1], [None, 3]), s.rfactor(loops(s)[-2], 0)),
    "blockize": lambda s: s.blockize(loops(s)[0]),
    "blockize inside": lambda s: s.blockize(loops(s)[1]),
    "blockize innermost": lambda s: s.blockize(loops(s)[-1]),
    "blockize after reorder": lambda s: (s.reorder(*loops(s)[::-1]), s.blockize(loops(s)[1])),
    "blockize tiles": lambda s: (s.split(loops(s)[0], [None, 2]), s.blockize(loops(s)[1])),
    "copy of the result": lambda s: s.cache_write("B", 0, "global"),
    "copy of the terms": lambda s: s.cache_read("B", 0, "global"),
    "padded": lambda s: s.pad_einsum("B", [4] * len(loops(s))),
    "layout of a copy": lambda s: (
        s.cache_write("B", 0, "global"),
        s.transform_layout("B", ("write", 0), lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2)),
    ),
    "axes": lambda s: s.reorder_block_iter_var("B", list(range(len(loops(s))))[::-1]),
    "under its reader": lambda s: s.compute_at("B", s.get_loops("D")[0]),
    "with its reader": lambda s: s.reverse_compute_at("D", loops(s)[0]),
    "with its reader after reorder": lambda s: (
        s.reorder(*loops(s)[::-1]),
        s.reverse_compute_at("D", loops(s)[0]),
    ),
    "merged with its reader": lambda s: s.merge(loops(s)[0], s.get_loops("D")[0]),
    "inlined": lambda s: s.reverse_compute_inline("D"),
    "inlined into its reader": lambda s: s.compute_inline("B"),
    "epilogue": lambda s: s.fuse_reduction_epilogue("B", "D"),
    "epilogue after reorder": lambda s: (
        s.reorder(*loops(s)[::-1]),
        s.fuse_reduction_epilogue("B", "D"),
    ),
    "epilogue of a split": lambda s: (
        s.split(loops(s)[1], [None, 3]),
        s.split(loops(s)[0], [None, 4]),
        s.fuse_reduction_epilogue("B", "D"),
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", SUMS)
def test_steps_keep_the_result_or_are_refused(name: str, step: str):
    """What is accepted of a step, and of what it consists of, computes the same."""
    sch = Schedule(SUMS[name][0], error_render_level="none")
    with suppress(ScheduleError):
        STEPS[step](sch)
    check(name, sch.func, compiled=False)


@pytest.mark.parametrize("name", ODD)
def test_odd_programs_are_lowered_to_the_same(name: str):
    compare_programs(ODD[name], tir.transform.lower(ODD[name]), "lowering")
    given = inputs(ODD[name], "small integers")
    want = [np.copy(item) for item in given]
    run(ODD[name], *want)
    build(ODD[name])(*given)
    for a, b in zip(want, given, strict=True):
        np.testing.assert_array_equal(a, b)


@T.prim_func(private=True)
def read_in_the_loop(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32"), n: T.int32):
    """Initial values come from what is stored in the loops of the reduction, which may have no iterations."""
    for k in range(n):
        for i in range(4):
            with T.block("b"):
                _vk, vi = T.axis.remap("SS", [k, i])
                b[vi] = 2
            with T.block("B"):
                _vk, vi = T.axis.remap("RS", [k, i])
                T.where(k != i)
                with T.init():
                    B[vi] = b[vi]
                B[vi] = B[vi] + A[vi]


@T.prim_func(private=True)
def nothing_inside(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32"), n: T.int32):
    """Of two loops of a reduction the inner one may have no iterations, and cannot be left for the initial values."""
    for k in range(2):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                b[vi] = b[vi] + 2
        for m in range(n):
            for i in range(4):
                with T.block("B"):
                    _vk, _vm, vi = T.axis.remap("RRS", [k, m, i])
                    with T.init():
                        B[vi] = b[vi]
                    B[vi] = B[vi] + A[vi]


@pytest.mark.parametrize(
    ("func", "size", "want"),
    [
        (read_in_the_loop, 0, [7, 7, 7, 7]),
        (read_in_the_loop, 1, [2, 3, 3, 3]),
        (read_in_the_loop, 3, [4, 4, 4, 5]),
        (nothing_inside, 0, [9, 9, 9, 9]),
        (nothing_inside, 1, [11, 11, 11, 11]),
        (nothing_inside, 2, [13, 13, 13, 13]),
    ],
)
def test_initial_values_that_stay_in_the_loops_are_stored_without_terms(func: PrimFunc, size: int, want: list[int]):
    lowered = tir.transform.lower(func)
    for program in (partial(run, func), partial(run, lowered), build(func)):
        a, b, first = np.ones(4, "int32"), np.full(4, 77, "int32"), np.full(4, 7, "int32")
        program(a, b, first, size)
        np.testing.assert_array_equal(b, want)


def test_a_condition_on_terms_does_not_become_one_on_initial_values(golden: Any):
    sch = Schedule(SUMS["late terms"][0])
    rows, terms = loops(sch)
    golden(refused(sch, lambda: sch.fuse(rows, terms)))


@T.prim_func(private=True)
def twice_first(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32")):
    for k in range(4):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(2, k // 2)
            T.where(k != 2)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vk]


def test_a_reduction_begins_once():
    """Two iterations have the first values of the axes; the first of them begins the sum."""
    for program in (partial(run, twice_first), partial(run, tir.transform.lower(twice_first)), build(twice_first)):
        b = np.full(1, 77, "int32")
        program(np.array([1, 10, 100, 1000], "int32"), b)
        assert b.tolist() == [3 + 1 + 1 + 10]


@T.prim_func(private=True)
def never_clear(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32")):
    for k in range(4):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(2, 1 - k // 2)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vk]


def test_a_reduction_of_which_the_beginning_is_not_known_is_not_lowered():
    with pytest.raises(CodegenError, match="it is not proved where the reduction of block B begins"):
        tir.transform.lower(never_clear)


def test_aligned_memory_keeps_strides_of_its_own():
    sch = Schedule(ODD["strided"])
    assert "has strides of its own" in refused(sch, lambda: sch.storage_align("B", 0, -1, 2, 0))
    sch.annotate("B", "buffer_dim_align", [[0, 1, 2, 0]])
    sch.vectorize(sch.get_loops("B")[1])
    keeps(ODD["strided"], sch)


def test_initial_values_under_another_name_stay_in_their_block():
    sch = Schedule(ODD["initial values aliased"])
    loop = sch.get_loops("B")[1]
    assert "uses Q, which exists in this block only" in refused(sch, lambda: sch.decompose_reduction("B", loop))


def test_a_block_of_initial_values_stays_in_its_init():
    sch = Schedule(integer_sum())
    sch.blockize(sch.get_loops("x_red")[0])
    said = refused(sch, lambda: sch.reindex("x_red_init", ("write", 0)))
    assert "block x_red_init is in the init of block x_red_o" in said
