"""Primitives that move computations: inlining, caches, initial values of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import PROGRAMS, chain, dense_bias_relu, keeps, refused
from tests.tir.transform.schedules import of, x

from eutectic import te, tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule


def blocks(sch: Schedule) -> list[str]:
    return [site.block.name_hint for site in sch.state.index("main").blocks if site.block.iter_vars]


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "inline a chain": (chain, lambda s: [s.compute_inline(b) for b in blocks(s)[:-1]]),
    "inline backwards": (chain, lambda s: [s.reverse_compute_inline(b) for b in blocks(s)[:0:-1]]),
    "inline the padding": (PROGRAMS["conv"], lambda s: s.compute_inline("pad_temp")),
    "inline into two readers": (softmax, lambda s: s.compute_inline("e")),
    "epilogue": (dense_bias_relu, lambda s: s.reverse_compute_inline("compute")),
    "inline the bias": (dense_bias_relu, lambda s: s.compute_inline("T_add")),
    "initial values": (lambda: matmul(size=4), lambda s: s.decompose_reduction("matmul", s.get_loops("matmul")[2])),
    "initial values outside": (
        lambda: matmul(size=4),
        lambda s: s.decompose_reduction("matmul", s.get_loops("matmul")[0]),
    ),
    "read a copy": (lambda: matmul(size=4), lambda s: s.cache_read("matmul", 0, "shared")),
    "read two copies": (
        softmax,
        lambda s: (s.cache_read("top", 0, "local"), s.cache_read("y", 0, "global", consumer_blocks=["y"])),
    ),
    "write a copy": (lambda: matmul(size=4), lambda s: s.cache_write("matmul", 0, "local")),
    "write copies": (softmax, lambda s: (s.cache_write("total", 0, "local"), s.cache_write("y", 0, "global"))),
    "copies of a copy": (
        chain,
        lambda s: (s.cache_read("compute", 0, "local"), s.cache_read("compute", 0, "shared")),
    ),
    "scopes": (softmax, lambda s: (s.set_scope("e", 0, "shared"), s.set_scope("total", "total", "local"))),
    "alignment": (
        softmax,
        lambda s: (
            s.storage_align("e", 0, -2, 8, 1),
            s.storage_align("e", 0, 0, 16, 1),
            s.storage_align("e", 0, 1, 4, 0),
        ),
    ),
    "all of it": (
        dense_bias_relu,
        lambda s: (
            s.reverse_compute_inline("compute"),
            s.cache_write(blocks(s)[0], 0, "local"),
            s.decompose_reduction(blocks(s)[0], s.get_loops(blocks(s)[0])[2]),
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


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "output": (chain, lambda s: s.compute_inline("compute_1"), "is not allocated in the block around"),
    "reduction": (softmax, lambda s: s.compute_inline("total"), "it is a reduction"),
    "input": (chain, lambda s: s.reverse_compute_inline("T_negative"), "must read one buffer that one other block"),
    "two readers": (softmax, lambda s: s.reverse_compute_inline("y"), "must read one buffer"),
    "root": (chain, lambda s: s.compute_inline("root"), "compute_inline: block root does not compute one element"),
    "no init": (chain, lambda s: s.decompose_reduction("compute", s.get_loops("compute")[0]), "has no init"),
    "other loop": (
        softmax,
        lambda s: s.decompose_reduction("total", s.get_loops("top")[0]),
        "loop i is not around block total",
    ),
    "no buffer": (chain, lambda s: s.cache_read("compute", 1, "local"), "reads no buffer 1; it reads: T_negative"),
    "no scope": (chain, lambda s: s.cache_write("compute", 0, "nowhere"), "'nowhere' is no scope"),
    "consumers": (
        chain,
        lambda s: s.cache_write("compute", 0, "local", ["compute_1"]),
        "consumer_blocks are not taken",
    ),
    "caller's": (chain, lambda s: s.set_scope("compute_1", 0, "local"), "belongs to the caller"),
    "caller's strides": (chain, lambda s: s.storage_align("compute_1", 0, 0, 4, 1), "belongs to the caller"),
    "axis": (softmax, lambda s: s.storage_align("e", 0, 2, 4, 1), "of 2 axes has no axis 2"),
    "factor": (softmax, lambda s: s.storage_align("e", 0, 1, 0, 1), "factor 0 is not positive"),
    "detect": (
        chain,
        lambda s: s.annotate(s.get_block("compute"), "tir.script_parsing_detect_access", 3),
        "use another key",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    before = sch.func
    with pytest.raises(tir.schedule.ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert sch.func is before


def test_reduction_over_split_loops_is_decomposed_where_it_begins():
    before = matmul(size=6)
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("matmul")
    k0, k1 = sch.split(k, [None, 4])
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, k0, i1, j, k1)
    block = sch.get_block("matmul")
    assert "loop k_0 outside of i_1 runs over the reduction" in refused(sch, lambda: sch.decompose_reduction(block, i1))
    init = sch.decompose_reduction("matmul", k0)
    assert sch.get(init).name_hint == "matmul_init"
    keeps(before, sch)


def test_handles_of_a_reduction_become_those_of_its_update():
    sch = Schedule(matmul(size=4))
    block = sch.get_block("matmul")
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    assert sch.get(block).name_hint == "matmul_update"
    assert len(sch.get_loops(block)) == 3


def test_a_reduction_over_nothing_leaves_its_initial_values():
    n = Var("n", "int64")
    before = of(lambda t: topi.sum(t, 1), x(3, n))
    sch = Schedule(before, debug_mask="all")
    (name,) = blocks(sch)
    sch.decompose_reduction(name, sch.get_loops(name)[0])
    keeps(before, sch)
    for func in (sch.func, tir.transform.lower(sch.func), tir.transform.lower(before)):
        out = np.full(3, 7, "f4")
        run(func, np.zeros((3, 0), "f4"), out)
        np.testing.assert_array_equal(out, np.zeros(3, "f4"))


@T.prim_func(private=True)
def backwards(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, 7 - k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(private=True)
def repeated(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for i, _again, k in T.grid(4, 2, 8):
        with T.block("sum"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(private=True)
def watched(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4, 8), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("look"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = C[vi]
        with T.block("sum"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@pytest.mark.parametrize(
    ("func", "loop", "said"),
    [
        (backwards, 1, "could be updated before its initial value is stored"),
        (repeated, 1, "it is not proved that the init stores each element of C once"),
        (watched, 1, "C is accessed in the loop outside of block sum"),
    ],
)
def test_initial_values_that_cannot_come_first(func: PrimFunc, loop: int, said: str):
    sch = Schedule(func)
    block = sch.get_block("sum")
    at = sch.get_loops(block)[loop]
    assert said in refused(sch, lambda: sch.decompose_reduction(block, at))


def test_a_repeated_reduction_is_decomposed_inside_of_what_repeats_it():
    sch = Schedule(repeated, debug_mask="all")
    sch.decompose_reduction("sum", sch.get_loops("sum")[2])
    keeps(repeated, sch)


@T.prim_func(private=True)
def overwritten(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("clear"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)


def test_what_is_inlined_must_not_be_overwritten():
    sch = Schedule(overwritten)
    b, c = sch.get_block("B"), sch.get_block("C")
    assert "buffer A, which block B reads, is written before a reader of B is done" in refused(
        sch, lambda: sch.compute_inline(b)
    )
    sch.reverse_compute_inline(c)
    keeps(overwritten, sch)


@T.prim_func(private=True)
def late_bias(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    bias = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("bias"):
            vi = T.axis.spatial(8, i)
            bias[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] + bias[vi]


def test_a_bias_that_is_not_there_yet_keeps_an_epilogue_where_it_is():
    sch = Schedule(late_bias)
    d = sch.get_block("D")
    assert "must read one buffer that one other block of the scope computes; it reads B, bias" in refused(
        sch, lambda: sch.reverse_compute_inline(d)
    )
    sch.cache_read("D", 1, "local")
    other = sch.get_block("B")
    sch.compute_inline(other)
    keeps(late_bias, sch)


@T.prim_func(private=True)
def partly(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.if_then_else(vi < 4, B[vi], T.float32(0))


def test_what_was_not_written_is_not_copied_or_inlined():
    sch = Schedule(partly)
    b, c = sch.get_block("B"), sch.get_block("C")
    assert "it is not proved that block B has written every element of B that is read" in refused(
        sch, lambda: sch.compute_inline(b)
    )
    assert "it is not proved that blocks B and C run over the same elements" in refused(
        sch, lambda: sch.reverse_compute_inline(c)
    )
    assert "it is not proved that all of B is written before" in refused(sch, lambda: sch.cache_read(c, 0, "local"))
    assert "it is not proved that all of B is written before" in refused(sch, lambda: sch.cache_write(b, 0, "local"))


@T.prim_func(private=True)
def transposed(A: T.Buffer((4, 6), "float32"), D: T.Buffer((6, 4), "float32")):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(6, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vj, vi] + T.float32(1)


def test_transposed_readers_are_inlined_by_index(golden):
    for step, part in ((lambda s: s.reverse_compute_inline("D"), "backwards"), (lambda s: s.compute_inline("B"), "on")):
        sch = Schedule(transposed, debug_mask="all")
        step(sch)
        keeps(transposed, sch)
        golden(sch.func.script(), part)


@T.prim_func(private=True)
def in_place(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + T.float32(1)


def test_updates_in_place_are_not_cached_for_writing():
    sch = Schedule(in_place)
    block = sch.get_block("A")
    assert "it is not proved that A is only read there where it was written before" in refused(
        sch, lambda: sch.cache_write(block, 0, "local")
    )
    assert "buffer A is written where the copy would be read" in refused(sch, lambda: sch.cache_read(block, 0, "local"))


def test_memory_that_threads_do_not_share_is_refused():
    sch = Schedule(chain())
    sch.set_scope("compute", 0, "local")
    loop = sch.get_loops("compute")[1]
    assert "bind: threads of threadIdx.x would not share buffer compute in local memory" in refused(
        sch, lambda: sch.bind(loop, "threadIdx.x")
    )
    first = sch.get_block("T_negative")
    sch.bind(sch.get_loops(first)[0], "blockIdx.x")
    assert "cache_read: threads of blockIdx.x would not share buffer x_shared in shared memory" in refused(
        sch, lambda: sch.cache_read(first, 0, "shared")
    )
    sch.cache_read(first, 0, "global")
    keeps(chain(), sch)


@T.prim_func(private=True)
def rows_in_place(A: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(A[vi, 0:8])
            row = T.alloc_buffer((8,))
            for j in range(8):
                with T.block("load"):
                    vj = T.axis.spatial(8, j)
                    row[vj] = A[vi, vj]
            for j in range(8):
                with T.block("store"):
                    vj = T.axis.spatial(8, j)
                    A[vi, vj] = row[7 - vj]


def test_a_buffer_that_others_write_is_not_copied_as_a_whole():
    sch = Schedule(rows_in_place)
    load, store = sch.get_block("load"), sch.get_block("store")
    assert "buffer A is written where the copy would be read" in refused(sch, lambda: sch.cache_read(load, 0, "global"))
    assert "write A at once" in refused(sch, lambda: sch.cache_write(store, 0, "global"))
    assert "buffer A, which block load reads, is written" in refused(sch, lambda: sch.compute_inline(load))
    sch.cache_read(store, 0, "global")
    keeps(rows_in_place, sch)


def test_scopes_that_threads_do_not_share_are_refused():
    sch = Schedule(chain())
    block = sch.get_block("compute")
    i, j = sch.get_loops(block)
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    assert "threads of blockIdx.x would not share buffer compute in shared memory" in refused(
        sch, lambda: sch.set_scope(block, 0, "shared")
    )


def test_a_reader_within_the_loop_of_its_producer(golden):
    a = te.placeholder((4, 6), "float32", name="a")
    before = of(lambda t: topi.exp(topi.negative(t)), a)
    sch = Schedule(before, debug_mask="all")
    first, second = (sch.get_loops(name)[0] for name in blocks(sch))
    sch.merge(first, second)
    other = sch.copy()
    sch.compute_inline(blocks(sch)[0])
    other.reverse_compute_inline(blocks(other)[1])
    for made, part in ((sch, "on"), (other, "backwards")):
        keeps(before, made)
        golden(made.func.script(), part)
