"""loop_join, and tails: parts of a loop that are scheduled apart and run at once by one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import matmul
from tests.tir.schedule.programs import chain, keeps, of, x

from eutectic import topi
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import LoopRV, Schedule
from eutectic.tir.schedule.validate import compare_programs


def tiled(sch: Schedule, name: str, tile: int) -> LoopRV:
    """A product in tiles of rows, which are accumulated in memory of their own."""
    block = sch.get_block(name)
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, [None, tile])
    copy = sch.cache_write(block, 0, "local")
    sch.reorder(outer, k, inner, j)
    sch.reverse_compute_at(copy, outer)
    return outer


def tail(sch: Schedule) -> None:
    outer = tiled(sch, "matmul", 4)
    sch.parallel(sch.loop_join(*sch.loop_partition(outer, [1, 1])))


def three(sch: Schedule) -> None:
    """Parts of parts, which are joined as they follow each other."""
    i, *_ = sch.get_loops("matmul")
    sch.loop_join(*sch.loop_partition(i, [2, 3, None]))


def strangers(sch: Schedule) -> None:
    """Loops over different values that have nothing to do with each other."""
    first, second = (sch.get_loops(name)[0] for name in ("T_negative", "compute"))
    sch.loop_join(first, sch.split(second, [2, None])[0])


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "tail": (lambda: matmul(size=6), tail),
    "three": (lambda: matmul(size=6), three),
    "strangers": (chain, strangers),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


def test_tiles_of_parts_are_as_small_as_they_are():
    """Each part allocates its own tile, within the loop that both are run by, without a condition per element."""
    from eutectic import tir

    sch = Schedule(matmul(size=6))
    tail(sch)
    text = tir.transform.lower(sch.func).script()
    assert "T.allocate([24]" in text
    assert "T.allocate([12]" in text
    assert text.count("if ") == 1


def test_natively():
    before = of(lambda a, b: topi.matmul(a, b), x(23, 9, name="a"), x(9, 16, name="b"))
    sch = Schedule(before)
    outer = tiled(sch, "T_matmul", 6)
    sch.parallel(sch.loop_join(*sch.loop_partition(outer, [3, 1])))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((23, 9), np.float32), rng.standard_normal((9, 16), np.float32)
    out = np.full((23, 16), np.nan, np.float32)
    native(sch.func, threads=2)(a, b, out)
    np.testing.assert_allclose(out, a.astype("f8") @ b.astype("f8"), rtol=1e-5, atol=1e-5)


@T.prim_func
def apart(A: T.Buffer((8,), "float32")):
    for i in range(4):
        A[i] = T.float32(1)
    A[4] = T.float32(2)
    for j in range(5, 8):
        A[j] = T.float32(3)


@T.prim_func
def dtypes(A: T.Buffer((8,), "float32")):
    for i in range(4):
        A[i] = T.float32(1)
    for j in T.serial(T.int64(4), T.int64(8)):
        A[j] = T.float32(3)


REFUSALS: dict[str, tuple[PrimFunc, Callable[[LoopRV, LoopRV], tuple[LoopRV, ...]], str]] = {
    "one": (dtypes, lambda i, j: (i,), "fewer than two loops are given"),
    "between": (apart, lambda i, j: (i, j), "loops i, j do not follow each other directly, in the order given"),
    "order": (dtypes, lambda i, j: (j, i), "loops j, i do not follow each other directly, in the order given"),
    "twice": (dtypes, lambda i, j: (i, i), "loops i, i do not follow each other directly, in the order given"),
    "dtypes": (dtypes, lambda i, j: (i, j), "the loops have different dtypes"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    func, chosen, said = REFUSALS[name]
    sch = Schedule(func)
    edit = sch._edit("test")
    loops = [edit.loop_rv("main", site.stmt) for site in sch.state.index("main").loops.values()]
    sch._bound.update(edit.bound)
    with pytest.raises(ScheduleError, match=said):
        sch.loop_join(*chosen(*loops))
    assert sch.func is func


def test_a_loop_that_is_not_serial_is_refused():
    sch = Schedule(matmul(size=4))
    first, second = sch.loop_partition(sch.get_loops("matmul")[0], [1, 3])
    sch.parallel(second)
    with pytest.raises(ScheduleError, match="loop i_1 is parallel, not serial"):
        sch.loop_join(first, second)


@settings(max_examples=settings.default.max_examples // 2)
@given(
    st.integers(3, 7),
    st.integers(1, 5),
    st.integers(0, 2),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from(["none", "copy", "decompose"]),
    st.booleans(),
)
def test_random_tails(size: int, tile: int, depth: int, parts: list[int], memory: str, joins: bool):
    """Tiles of any size, parts of any of the loops: results stay, and so do the loops that are run at once."""
    before = matmul(size=size)
    sch = Schedule(before, error_render_level="none")
    block = sch.get_block("matmul")
    try:
        if memory == "copy" and depth == 0:
            loop = tiled(sch, "matmul", tile)
        else:
            loop, _ = sch.split(sch.get_loops(block)[depth], [None, tile])
            if memory == "decompose":
                sch.decompose_reduction(block, loop)
        made = sch.loop_partition(loop, [*parts, None])
        if joins and len(made) > 1:
            sch.parallel(sch.loop_join(*made))
    except ScheduleError:
        pass
    if sch.func is not before:
        compare_programs(before, sch.func, str(sch.trace))
        keeps(before, sch)
