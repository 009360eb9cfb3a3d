"""loop_partition: loops that follow each other in the place of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import PROGRAMS, chain, dense_bias_relu, keeps, refused
from tests.tir.transform.schedules import of, x

from eutectic import topi
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, Var, evaluate
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.rewriting.loop_trim import iterations_reached
from eutectic.tir.stmt import Evaluate, seq


def at(name: str, depth: int, *factors: int | None) -> Callable[[Schedule], Any]:
    return lambda s: s.loop_partition(s.get_loops(name)[depth], list(factors))


def nested(sch: Schedule) -> None:
    """A loop with a block in a block, which has memory of its own."""
    outer = sch.blockize(sch.get_loops("compute")[1])
    sch.parallel(sch.get_loops("compute")[0])
    sch.loop_partition(sch.get_loops(outer)[0], [1, 2])


def peeled(sch: Schedule) -> None:
    """The tail of a tiled loop apart from the rest, which needs no condition then."""
    i0, _ = sch.split(sch.get_loops("compute")[1], [None, 4])
    sch.loop_partition(i0, [1, 1])


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "three parts": (chain, at("compute", 1, 2, None, 1)),
    "the rest": (chain, at("compute", 0, 1)),
    "all in one": (chain, at("compute", 0, 4)),
    "none left": (chain, at("compute", 0, 4, None)),
    "none first": (lambda: matmul(size=4), at("matmul", 2, None, 4)),
    "a reduction": (lambda: matmul(size=4), at("matmul", 2, 1, 2)),
    "around a reduction": (lambda: matmul(size=4), at("matmul", 1, 1)),
    "parts of parts": (
        lambda: matmul(size=4),
        lambda s: s.loop_partition(s.loop_partition(s.get_loops("matmul")[2], [1, 3])[1], [1, 2]),
    ),
    "nested": (chain, nested),
    "peeled": (chain, peeled),
    "two blocks": (
        softmax,
        lambda s: (s.reverse_compute_at("total", s.get_loops("e")[0]), at("e", 0, 3)(s)),
    ),
    "threads": (
        chain,
        lambda s: (s.bind(s.get_loops("compute")[1], "threadIdx.x"), at("compute", 0, 1)(s)),
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


def test_handles_are_those_of_the_first_part():
    sch = Schedule(matmul(size=4))
    block = sch.get_block("matmul")
    parts = sch.loop_partition(sch.get_loops(block)[0], [1, 2])
    assert [sch.get(loop).loop_var.name for loop in parts] == ["i_0", "i_1", "i_2"]
    assert [(sch.get(loop).min.value, sch.get(loop).extent.value) for loop in parts] == [(0, 1), (1, 2), (3, 1)]
    assert sch.get(sch.get_loops(block)[0]) is sch.get(parts[0])
    names = [site.block.name_hint for site in sch.state.index("main").blocks]
    assert names == ["root", "matmul", "matmul_partition_1", "matmul_partition_2"]


@pytest.mark.parametrize("factors", [[1], [None, 1], [1, None]])
def test_a_loop_of_unknown_extent(factors: list[int | None]):
    """It is not known to have an iteration."""
    n = Var("n", "int64")
    sch = Schedule(of(topi.exp, x(n, 3)))
    loop = sch.get_loops("compute")[0]
    said = refused(sch, lambda: sch.loop_partition(loop, factors))
    assert "1 iterations are not proved to be among the n of loop i0" in said


def test_natively():
    before = matmul(size=32)
    sch = Schedule(before)
    i, j, k = sch.get_loops("matmul")
    sch.loop_partition(k, [5, 20])
    sch.parallel(i)
    _, rest = sch.loop_partition(j, [30])
    sch.vectorize(sch.split(rest, [None, 2])[1])
    a, b = (np.random.default_rng(n).standard_normal((32, 32), np.float32) for n in range(2))
    got, want = np.empty_like(a), np.empty_like(a)
    native(sch.func, schedule=False)(a, b, got)
    native(before, schedule=False)(a, b, want)
    np.testing.assert_array_equal(got, want)


def test_parts_are_scheduled_apart():
    before = PROGRAMS["small conv"]()
    sch = Schedule(before, debug_mask="all")
    rows = sch.get_loops("pad_temp")[2]
    border, middle, _ = sch.loop_partition(rows, [1, 2, 1])
    sch.unroll(border)
    sch.parallel(middle)
    sch.vectorize(sch.get_loops("pad_temp_partition_1")[-1])
    keeps(before, sch)


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "nothing": (chain, at("compute", 0), "factors [] are not all positive"),
    "zero": (chain, at("compute", 0, 0, None), "factors [0, None] are not all positive"),
    "two unknown": (chain, at("compute", 0, None, None), "two of the factors [None, None] are None"),
    "too many": (chain, at("compute", 0, 3, 2), "5 iterations are not proved to be among the 4 of loop i0"),
    "kind": (
        chain,
        lambda s: (s.parallel(s.get_loops("compute")[0]), at("compute", 0, 1)(s)),
        "loop i0 is parallel, not serial",
    ),
    "annotations": (
        chain,
        lambda s: (s.annotate(s.get_loops("compute")[0], "user.key", 1), at("compute", 0, 1)(s)),
        "loop i0 has annotations: user.key",
    ),
    "inlining a part": (
        chain,
        lambda s: (at("T_negative", 0, 1)(s), s.compute_inline("T_negative")),
        "compute_inline:",
    ),
    "inlining parts backwards": (
        chain,
        lambda s: (at("compute", 0, 1)(s), s.reverse_compute_inline("compute_1")),
        "reverse_compute_inline:",
    ),
    "moving a part": (
        chain,
        lambda s: (at("T_negative", 0, 1)(s), s.compute_at("T_negative", s.get_loops("compute")[0])),
        "compute_at: buffer T_negative has other writers than block T_negative",
    ),
    "moving under a part": (
        chain,
        lambda s: (at("compute", 0, 1)(s), s.reverse_compute_at("compute_1", s.get_loops("compute")[0])),
        "reverse_compute_at:",
    ),
    "initial values of a part": (
        lambda: matmul(size=4),
        lambda s: (at("matmul", 2, 1)(s), s.decompose_reduction("matmul_partition_1", s.get_loops("matmul")[1])),
        "block matmul_partition_1 has no init",
    ),
    "initial values around all parts": (
        lambda: matmul(size=4),
        lambda s: (at("matmul", 2, 1)(s), s.decompose_reduction("matmul", s.get_loops("matmul")[0])),
        "C is accessed in the loop outside of block matmul",
    ),
    "an epilogue of a part": (
        dense_bias_relu,
        lambda s: (at("T_matmul", 2, 1)(s), s.fuse_reduction_epilogue("T_matmul", "T_add")),
        "fuse_reduction_epilogue:",
    ),
    "an epilogue of the last part": (
        dense_bias_relu,
        lambda s: (at("T_matmul", 2, 1)(s), s.fuse_reduction_epilogue("T_matmul_partition_1", "T_add")),
        "fuse_reduction_epilogue:",
    ),
    "an epilogue of some rows": (
        dense_bias_relu,
        lambda s: (at("T_matmul", 0, 1)(s), s.fuse_reduction_epilogue("T_matmul", "T_add")),
        "fuse_reduction_epilogue:",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    before = make()
    sch = Schedule(before)
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)
    if sch.func is not before:
        keeps(before, sch)


def test_the_first_part_of_a_reduction_can_be_decomposed():
    before = matmul(size=4)
    sch = Schedule(before, debug_mask="all")
    first, _ = sch.loop_partition(sch.get_loops("matmul")[2], [1, 3])
    sch.decompose_reduction("matmul", first)
    keeps(before, sch)


def test_parts_of_an_integer_sum_can_be_factored():
    before = matmul(size=4, dtype="int32")
    sch = Schedule(before, debug_mask="all")
    first, second = sch.loop_partition(sch.get_loops("matmul")[2], [2, 2])
    sch.rfactor(first, 0)
    keeps(before, sch)
    assert "rfactor: " in refused(sch, lambda: sch.rfactor(second, 0))


@T.prim_func(private=True)
def sums_by_rows(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4))
    B = T.match_buffer(b, (4,))
    for k, i in T.grid(n, 4):
        with T.block("B"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vk, vi]


def test_initial_values_of_a_sum_that_may_have_no_terms_stay():
    sch = Schedule(sums_by_rows, debug_mask="all")
    loop = sch.get_loops("B")[1]
    assert "it is not proved that the reduction of block B has terms" in refused(
        sch, lambda: sch.loop_partition(loop, [1])
    )
    init = sch.decompose_reduction("B", sch.get_loops("B")[0])
    sch.loop_partition(sch.get_loops("B_update")[1], [1])
    sch.loop_partition(sch.get_loops(init)[0], [2])
    keeps(sums_by_rows, sch)


@pytest.mark.parametrize("factor", [1, 3, 8])
def test_whole_tiles_of_a_loop_of_any_extent(factor: int):
    func = of(topi.exp, x(Var("n", "int64")))
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("compute")[0], [None, factor])
    if factor == 1:
        with pytest.raises(ScheduleError, match="no condition"):
            sch.loop_partition(outer, ["whole", None])
        return
    sch.loop_partition(outer, ["whole", None])
    whole, rest = (sch.state.index("main").blocks[k].stmt for k in (1, 2))
    assert whole.always_runs
    assert not rest.always_runs
    for size in (0, 1, 7, 8, 9, 31):
        given = np.arange(size, dtype="float32")
        want, got = np.zeros(size, "float32"), np.zeros(size, "float32")
        run(func, given, want)
        run(sch.func, given, got)
        np.testing.assert_array_equal(got, want)


def test_whole_iterations_alone_leave_out_what_does_not_run():
    """Single iterations run as a whole or not at all: behind those that do, nothing is left."""
    func = of(topi.exp, x(Var("n", "int64")))
    sch = Schedule(func, debug_mask="all")
    outer, inner = sch.split(sch.get_loops("compute")[0], [None, 8])
    _, rest = sch.loop_partition(outer, ["whole", None])
    single, _ = sch.split(sch.get_loops(sch.get_child_blocks(rest)[0])[-1], [None, 1])
    assert len(sch.loop_partition(single, ["whole"])) == 1
    assert len(sch.loop_partition(sch.split(inner, [None, 3])[0], ["whole"])) == 2
    assert all(site.stmt.always_runs for site in sch.state.index("main").blocks[1:3])
    for size in (0, 1, 7, 8, 9, 31):
        given = np.arange(size, dtype="float32")
        want, got = np.zeros(size, "float32"), np.zeros(size, "float32")
        run(func, given, want)
        run(sch.func, given, got)
        np.testing.assert_array_equal(got, want)


def test_whole_tiles_of_a_loop_of_known_extent_are_as_many_as_fit():
    sch = Schedule(of(topi.exp, x(19)))
    outer, _ = sch.split(sch.get_loops("compute")[0], [None, 8])
    whole, rest = sch.loop_partition(outer, ["whole", None])
    assert (sch.get(whole).extent.value, sch.get(rest).extent.value) == (2, 1)


def rows_of_tiles(size: int | Var, *factors: int) -> Schedule:
    """A loop split twice, so that its parts have two conditions."""
    sch = Schedule(of(topi.exp, x(size)), debug_mask="all")
    loop = sch.get_loops("compute")[0]
    for factor in factors:
        loop, _ = sch.split(loop, [None, factor])
    return sch


@pytest.mark.parametrize("size", [Var("n", "int64"), 37, 64], ids=str)
def test_of_several_conditions_the_one_counts_that_holds_least_often(size: int | Var):
    sch = rows_of_tiles(size, 4, 3)
    func = sch.func
    sch.loop_partition(sch.get_loops("compute")[0], ["whole", None])
    assert sch.state.index("main").blocks[1].stmt.always_runs or isinstance(size, Var)
    for length in (0, 5, 11, 12, 13, 37, 64) if isinstance(size, Var) else (size,):
        given = np.arange(length, dtype="float32")
        want, got = np.zeros(length, "float32"), np.zeros(length, "float32")
        run(func, given, want)
        run(sch.func, given, got)
        np.testing.assert_array_equal(got, want)


def same_for(before: PrimFunc, after: PrimFunc, *sizes: int) -> None:
    for size in sizes:
        given = np.arange(size, dtype="float32")
        want, got = np.zeros(size, "float32"), np.zeros(size, "float32")
        run(before, given, want)
        run(after, given, got)
        np.testing.assert_array_equal(got, want)


def test_loops_in_the_rest_end_where_the_size_says():
    """Of 16 tiles of 8 only those are gone through that are there; the last loop is as long as it is, for vectors."""
    n = Var("n", "int64")
    sch = Schedule(of(topi.exp, x(n)), debug_mask="all")
    before = sch.func
    sch.loop_partition(sch.split(sch.get_loops("compute")[0], [None, 16, 8])[0], ["whole", None])
    blocks, tiles, within = (sch.get(loop) for loop in sch.get_loops("compute_partition_1"))
    assert not isinstance(tiles.extent, IntImm)
    assert within.extent.value == 8
    for size in (1, 8, 9, 127, 129):
        values = {n: size, blocks.loop_var: size // 128}
        assert evaluate(tiles.extent, values) == -(-(size % 128) // 8)
    same_for(before, sch.func, 0, 1, 7, 8, 9, 127, 128, 129, 300)


@pytest.mark.parametrize("tile", [6, 7])
def test_what_remains_in_smaller_and_smaller_tiles(tile: int):
    sch = Schedule(of(topi.exp, x(Var("n", "int64"))), debug_mask="all")
    before, block = sch.func, "compute"
    sch.split(sch.get_loops(block)[0], [None, tile])
    sch.loop_partition(sch.get_loops(block)[0], ["whole", None])
    depth = 1
    while tile > 2:
        tile, block = -(-tile // 2), f"{block}_partition_1"
        sch.split(sch.get_loops(block)[depth], [None, tile])
        sch.loop_partition(sch.get_loops(block)[depth], ["whole", None])
        assert sch.get_sref(sch.get_block(block)).stmt.always_runs
        depth += 1
    same_for(before, sch.func, *range(30))


def test_a_loop_is_not_shortened_where_something_else_is_done_in_it():
    sch = Schedule(of(topi.exp, x(Var("n", "int64"))))
    sch.loop_partition(sch.split(sch.get_loops("compute")[0], [None, 16, 8])[0], ["whole", None])
    blocks, tiles, _ = (sch.get(loop) for loop in sch.get_loops("compute_partition_1"))
    site = sch.state.index("main").loops[blocks.loop_var]
    whole = replace(tiles, extent=IntImm("int64", 16))
    assert iterations_reached(site, [blocks], whole) is not None
    beside = replace(whole, body=seq(Evaluate(IntImm("int32", 0)), whole.body))
    assert iterations_reached(site, [blocks], beside) is None


@pytest.mark.parametrize("factors", [["whole", 1], [2, "whole"], ["some"]])
def test_refuses_other_factors_in_words(factors: list):
    sch = Schedule(of(topi.exp, x(19)))
    outer, _ = sch.split(sch.get_loops("compute")[0], [None, 8])
    with pytest.raises(ScheduleError, match="factor"):
        sch.loop_partition(outer, factors)
