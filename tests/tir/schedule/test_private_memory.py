"""Loops run at once although iterations write the same elements: each has memory of its own for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tir.schedule.programs import keeps, of, refused, x

from eutectic import topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.node import replace
from eutectic.ir.visit import rewrite
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import For, PrimFunc, Schedule, SeqStmt, Var
from eutectic.tir.interpret import run
from eutectic.tir.schedule.primitives.loop_kinds import require_still_independent


def conv() -> PrimFunc:
    return of(lambda t, w: topi.nn.conv2d(t, w, 1, 1, 1), x(1, 2, 5, 4), x(2, 2, 3, 3, name="w"))


def same_natively(func: PrimFunc, threads: int = 2) -> None:
    """Native code with threads and the interpreter agree, ten times."""
    rng = np.random.default_rng(5)
    shapes = [[int(size) for size in buffer.shape] for buffer in func.buffer_map.values()]
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    want = [array.copy() for array in given]
    run(func, *want)
    made = build(func, threads=threads)
    for _ in range(10):
        got = [array.copy() for array in given]
        made(*got)
        np.testing.assert_allclose(got[-1], want[-1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_windows_that_overlap(rows: int):
    """Each tile of rows pads what its windows need, some of it twice."""
    before = conv()
    sch = Schedule(before)
    outer, _ = sch.split(sch.get_loops("conv2d_nchw")[2], [None, rows])
    sch.compute_at("pad_temp", outer)
    sch.parallel(outer)
    keeps(before, sch)
    same_natively(sch.func)


def test_all_channels_pad_for_themselves():
    before = conv()
    sch = Schedule(before)
    channel = sch.get_loops("conv2d_nchw")[1]
    sch.compute_at("pad_temp", channel)
    sch.parallel(channel)
    keeps(before, sch)
    same_natively(sch.func)


def test_lanes_of_vectors_share_memory():
    sch = Schedule(conv())
    columns = sch.get_loops("conv2d_nchw")[1]
    sch.compute_at("pad_temp", columns)
    said = refused(sch, lambda: sch.vectorize(columns))
    assert "two iterations write an element of pad_temp" in said


def test_threads_have_local_memory_of_their_own_and_share_the_other():
    def at(scope: str) -> tuple[Schedule, object]:
        sch = Schedule(conv())
        channel = sch.get_loops("conv2d_nchw")[1]
        sch.compute_at("pad_temp", channel)
        sch.set_scope("pad_temp", 0, scope)
        return sch, channel

    for scope, axis in (("local", "threadIdx.x"), ("shared", "blockIdx.x")):
        sch, channel = at(scope)
        sch.bind(channel, axis)
        keeps(conv(), sch)
    for scope, axis in (("shared", "threadIdx.x"), ("global", "blockIdx.x")):
        sch, channel = at(scope)
        assert "pad_temp" in refused(sch, lambda s=sch, c=channel, a=axis: s.bind(c, a))


@T.prim_func
def tiles(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32"), F: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,), "float32")
    E = T.alloc_buffer((16,), "float32")
    for i0 in range(4):
        for i1 in range(6):
            with T.block("B"):
                v = T.axis.spatial(18, i0 * 4 + i1)
                B[v] = A[v] * T.float32(3)
        for i1 in range(4):
            with T.block("C"):
                v = T.axis.spatial(16, i0 * 4 + i1)
                C[v] = B[v] + B[v + 2]
        for i1 in range(4):
            with T.block("E"):
                v = T.axis.spatial(16, i0 * 4 + i1)
                E[v] = B[v + 1] * T.float32(2)
    for i in range(16):
        with T.block("F"):
            v = T.axis.spatial(16, i)
            F[v] = E[v] + T.float32(1)


def test_a_later_step_must_leave_the_memory_to_the_iterations():
    """Outside of its tile block E would read what another thread has in memory of its own."""
    sch = Schedule(tiles)
    sch.parallel(sch.get_loops("C")[0])
    same_natively(sch.func)
    for made in (sch, sch.copy()):
        edit = made._edit("moving")
        site, place = edit.block("E"), edit.block("F")
        (loop, around), last = site.loops[::-1], place.loops[0]
        assert isinstance(around.body, SeqStmt)
        rest = replace(around, body=SeqStmt(tuple(part for part in around.body.seq if part is not loop)))
        whole = For(around.loop_var, around.min, around.extent, "serial", loop)
        fresh = rewrite(whole, {around.loop_var: Var("i2", "int32"), loop.loop_var: Var("i3", "int32")}.get)
        edit.replace("main", {around: rest, last: SeqStmt((fresh, last))})
        with pytest.raises(ScheduleError, match="parallel loop i0, which have memory of their own, would depend on"):
            require_still_independent(edit)


@T.prim_func
def accumulating(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for j in range(8):
        with T.block("zero"):
            vj = T.axis.spatial(8, j)
            B[vj] = T.float32(0)
    for i in range(4):
        for j in range(8):
            with T.block("add"):
                vi = T.axis.opaque(4, i)
                vj = T.axis.spatial(8, j)
                B[vj] = B[vj] + A[vi, vj]
        for j in range(8):
            with T.block("store"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj]


def test_values_of_earlier_iterations_are_not_private():
    sch = Schedule(accumulating)
    loop = sch.get_loops("store")[0]
    assert "an element of B" in refused(sch, lambda: sch.parallel(loop))


def test_blocks_move_under_loops_that_are_parallel_already():
    """The order of the steps does not matter: padding moves under the parallel loop, which then has its own."""
    before = conv()
    sch = Schedule(before)
    outer, _ = sch.split(sch.get_loops("conv2d_nchw")[2], [None, 2])
    sch.parallel(outer)
    sch.compute_at("pad_temp", outer)
    keeps(before, sch)
    same_natively(sch.func)


def parts(first: int, second: int, step: int, read: int) -> PrimFunc:
    """Each row of 6 writes the start of its memory and, from `second` on, every `step`-th element; it reads some."""
    rest = -(-(6 - second) // step)

    @T.prim_func
    def made(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
        B = T.alloc_buffer((6,), "float32")
        for i in range(4):
            for j in range(first):
                with T.block("start"):
                    vi = T.axis.opaque(4, i)
                    vj = T.axis.opaque(6, j)
                    B[vj] = A[vi, vj]
            for j in range(rest):
                with T.block("rest"):
                    vi = T.axis.opaque(4, i)
                    vj = T.axis.opaque(6, j * step + second)
                    B[vj] = A[vi, vj] * T.float32(2)
            for j in range(read):
                with T.block("read"):
                    vi = T.axis.opaque(4, i)
                    vj = T.axis.opaque(6, j)
                    C[vi, vj] = B[vj]

    return made


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 2), st.integers(1, 6))
def test_parts_written_one_after_the_other(first: int, second: int, step: int, read: int):
    """Memory is private exactly where all parts together are what is read."""
    func = parts(first, second, step, read)
    sch = Schedule(func)
    rows = sch.get_loops("read")[0]
    if {*range(first), *range(second, 6, step)} >= set(range(read)):
        sch.parallel(rows)
        keeps(func, sch)
    else:
        assert "an element of B" in refused(sch, lambda: sch.parallel(rows))


@T.prim_func
def growing(A: T.Buffer((2, 4, 4), "float32"), C: T.Buffer((2, 4, 4), "float32")):
    B = T.alloc_buffer((20,), "float32")
    for o in range(2):
        for i in range(4):
            for j in range(i + 1):
                with T.block("write"):
                    vo, vi = T.axis.opaque(2, o), T.axis.opaque(4, i)
                    vj = T.axis.opaque(4, j)
                    B[vi * 5 + vj] = A[vo, vi, vj]
                with T.block("read"):
                    vo, vi = T.axis.opaque(2, o), T.axis.opaque(4, i)
                    vj = T.axis.opaque(4, j)
                    C[vo, vi, vj] = T.if_then_else(vi > 0 and vj == 0, B[T.max((vi - 1) * 5 + vi, 0)], T.float32(0))


def test_earlier_iterations_have_ends_of_their_own():
    """Row i has i + 1 elements; that of the row before, which has one less, is not one of them."""
    sch = Schedule(growing)
    loop = sch.get_loops("write")[0]
    assert "an element of B" in refused(sch, lambda: sch.parallel(loop))
