"""cache_inplace: tiles that are loaded, updated and stored back, and what is no such tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tir.programs import matmul
from tests.tir.schedule.programs import keeps, of, refused, x

from eutectic import topi
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import BlockRV, LoopRV, Schedule
from eutectic.tir.schedule.validate import compare_programs


def blocked(sch: Schedule, name: str = "matmul", terms: int = 2) -> tuple[BlockRV, LoopRV]:
    """A product in blocks of terms, each of which updates one tile."""
    block = sch.get_block(name)
    i, j, k = sch.get_loops(block)
    io, ii = sch.split(i, [None, 2])
    jo, ji = sch.split(j, [None, 3])
    ko, ki = sch.split(k, [None, terms])
    sch.reorder(io, jo, ko, ki, ii, ji)
    return block, ki


def decomposed(sch: Schedule) -> None:
    """Initial values beforehand, in memory; then the tile is updated block by block."""
    block, ki = blocked(sch)
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.blockize(ki)
    load, store = sch.cache_inplace(block, 0, "local")
    for copy in (load, store):
        sch.vectorize(sch.get_loops(copy)[-1])
        sch.unroll(sch.get_loops(copy)[-2])


def with_initial_values(sch: Schedule) -> None:
    """The block around keeps the initial values, and stores them where the tile is loaded from."""
    block, ki = blocked(sch)
    sch.blockize(ki)
    sch.cache_inplace(block, 0, "local")


def parallel(sch: Schedule) -> None:
    """Threads that have a tile each."""
    decomposed(sch)
    sch.parallel(sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0])[0])


def in_one(sch: Schedule) -> None:
    """Without a block around the tile, all is one tile; the copies can be moved where that is proved."""
    block = sch.get_block("matmul")
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.cache_inplace(block, 0, "global")


STEPS: dict[str, Callable[[Schedule], Any]] = {
    "decomposed": decomposed,
    "initial values": with_initial_values,
    "parallel": parallel,
    "in one": in_one,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    before = matmul(size=6)
    sch = Schedule(before, debug_mask="all")
    STEPS[name](sch)
    keeps(before, sch)
    golden(sch.func.script())


@T.prim_func
def guarded(A: T.Buffer((10, 4), "float32"), B: T.Buffer((10,), "float32")):
    for io, ko in T.grid(3, 2):
        with T.block("tile"):
            vo, wo = T.axis.remap("SO", [io, ko])
            T.reads(B[vo * 4 : vo * 4 + 4], A[vo * 4 : vo * 4 + 4, wo * 2 : wo * 2 + 2])
            T.writes(B[vo * 4 : vo * 4 + 4])
            for k, i in T.grid(2, 4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.where(vo * 4 + i < 10)
                    T.reads(B[vo * 4 + vi], A[vo * 4 + vi, wo * 2 + vk])
                    T.writes(B[vo * 4 + vi])
                    B[vo * 4 + vi] = B[vo * 4 + vi] + A[vo * 4 + vi, wo * 2 + vk]


def test_a_tile_that_reaches_beyond_the_buffer_is_cut_off(golden):
    sch = Schedule(guarded, debug_mask="all")
    sch.cache_inplace("update", 0, "local")
    keeps(guarded, sch)
    golden(sch.func.script())


@T.prim_func
def strided(A: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("update"):
            vi = T.axis.spatial(4, i)
            A[vi * 2] = A[vi * 2] + T.float32(1)


@T.prim_func
def shifted(A: T.Buffer((8,), "float32")):
    for i in range(7):
        with T.block("update"):
            vi = T.axis.opaque(7, i)
            A[vi] = A[vi] + A[vi + 1]


@T.prim_func
def some(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("update"):
            vi = T.axis.spatial(8, i)
            T.where(A[i] > T.float32(0))
            B[vi] = B[vi] + A[vi]


@T.prim_func
def anew(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("first"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.float32(0)
        with T.block("update"):
            vi = T.axis.spatial(8, i)
            B[vi] = B[vi] + A[vi]


@T.prim_func
def gathered(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("update"):
            vi = T.axis.opaque(8, i)
            B[A[vi]] = B[A[vi]] + T.float32(1)


@T.prim_func
def lanes(A: T.Buffer((8, 4), "float32")):
    for i in T.vectorized(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                with T.block("update"):
                    vj = T.axis.spatial(4, j)
                    A[vi, vj] = A[vi, vj] + T.float32(1)


REFUSALS: dict[str, tuple[PrimFunc, str, int, str]] = {
    "gaps": (strided, "update", 0, "it is not proved that block update updates all of a tile of A"),
    "more is read": (shifted, "update", 0, "it is not proved that block update updates all of a tile of A"),
    "some": (some, "update", 0, "it is not proved that block update updates all of a tile of B"),
    "initial values": (anew, "update", 0, "B is stored beside block update without being read"),
    "unknown": (gathered, "update", 0, "which elements of B are updated is not known along axis 0"),
    "lanes": (lanes, "update", 0, "block outer is in the vectorized loop i"),
    "no update": (anew, "update", 1, "it is not proved that block update updates all of a tile of A"),
    "no buffer": (strided, "update", 1, "block update reads no buffer 1; it reads: A"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    func, block, number, said = REFUSALS[name]
    sch = Schedule(func)
    assert said in refused(sch, lambda: sch.cache_inplace(block, number, "local"))


def test_a_scope_is_one_of_the_known():
    sch = Schedule(strided)
    assert "'nowhere' is no scope" in refused(sch, lambda: sch.cache_inplace("update", 0, "nowhere"))


def test_a_reduction_with_its_initial_values_is_for_cache_write():
    sch = Schedule(matmul(size=4))
    assert "block matmul reads no buffer 2" in refused(sch, lambda: sch.cache_inplace("matmul", 2, "local"))


def test_natively():
    before = of(lambda a, b: topi.matmul(a, b), x(24, 20, name="a"), x(20, 18, name="b"))
    sch = Schedule(before)
    block = sch.get_block("T_matmul")
    i, j, k = sch.get_loops(block)
    order = [sch.split(loop, [None, size]) for loop, size in ((i, 6), (j, 6), (k, 5))]
    (io, ii), (jo, ji), (ko, ki) = order
    sch.reorder(io, jo, ko, ki, ii, ji)
    sch.decompose_reduction(block, ko)
    sch.blockize(ki)
    sch.cache_inplace(block, 0, "local")
    sch.parallel(io)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((24, 20), (20, 18)))
    out = np.full((24, 18), np.nan, np.float32)
    native(sch.func, threads=2)(a, b, out)
    np.testing.assert_allclose(out, a.astype("f8") @ b.astype("f8"), rtol=1e-5, atol=1e-5)


tried: Counter[bool] = Counter()
OTHERS = ("reorder", "split", "unroll", "vectorize", "parallel", "fuse", "decompose", "blockize")
step = st.tuples(st.sampled_from(OTHERS), st.integers(0, 3), st.integers(0, 7), st.integers(2, 3))


def prepare(sch: Schedule, steps: list[tuple[str, int, int, int]]) -> None:
    """Other primitives at random."""
    for kind, which, depth, factor in steps:
        blocks = [site.block.name_hint for site in sch.state.index("main").blocks[1:]]
        loops = sch.get_loops(blocks[which % len(blocks)])
        if not loops:
            continue
        loop, name = loops[depth % len(loops)], blocks[which % len(blocks)]
        made: dict[str, Callable[[], Any]] = {
            "reorder": lambda loops=loops: sch.reorder(*reversed(loops[-2:])),
            "split": lambda loop=loop, factor=factor: sch.split(loop, [None, factor]),
            "fuse": lambda loops=loops: sch.fuse(*loops[:2]),
            "decompose": lambda loop=loop, name=name: sch.decompose_reduction(name, loop),
            "blockize": lambda loop=loop: sch.blockize(loop),
        }
        try:
            made.get(kind, lambda loop=loop, kind=kind: getattr(sch, kind)(loop))()
        except ScheduleError:
            continue


@given(st.lists(step, max_size=5), st.booleans(), st.booleans(), st.integers(0, 2), st.lists(step, max_size=3))
def test_random_schedules(before: Any, sums: bool, guards: bool, number: int, after: Any):
    program = guarded if guards else matmul(size=6)
    sch = Schedule(program, error_render_level="none")
    if sums and not guards:
        block, ki = blocked(sch, terms=4)  # four do not divide six
        try:
            sch.decompose_reduction(block, sch.get_loops(block)[2])
            sch.blockize(ki)
        except ScheduleError:
            pass
    prepare(sch, before)
    for site in sch.state.index("main").blocks[1:]:
        try:
            sch.cache_inplace(site.block.name_hint, number, "local")
        except ScheduleError:
            tried[False] += 1
        else:
            tried[True] += 1
    prepare(sch, after)
    if sch.func is not program:
        compare_programs(program, sch.func, str(sch.trace))


def test_both_answers_were_given():
    if sum(tried.values()) > 60:
        assert min(tried[True], tried[False]) > 0, tried
