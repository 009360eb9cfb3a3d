"""blockize: a block around what is under a loop, or around several blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import PROGRAMS, chain, dense_bias_relu, keeps, refused, tiled
from tests.tir.transform.schedules import of, x

from eutectic import tir, topi
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.transform import PassContext
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import BlockRV, LoopRV, Schedule


def inner(sch: Schedule, name: str, *factors: int) -> LoopRV:
    """Tiles of all loops of a block; the first of the inner loops."""
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(sch.get_loops(name), factors, strict=True)]
    sch.reorder(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    return pairs[0][1]


def merged(sch: Schedule) -> BlockRV:
    """Two stages of a softmax in one loop, and a block around both."""
    sch.reverse_compute_at("total", sch.get_loops("e")[0])
    return sch.blockize([sch.get_block("e"), sch.get_block("total")])


def with_producer(sch: Schedule) -> None:
    """A producer comes under a loop above the new block, and the inner loops are vectorized."""
    block = sch.blockize(inner(sch, "compute", 2, 3))
    sch.compute_at("T_negative", sch.get_loops(block)[0])
    sch.vectorize(sch.get_loops("compute")[1])
    sch.parallel(sch.get_loops(block)[0])


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "tiles of a product": (lambda: matmul(size=4), lambda s: s.blockize(inner(s, "matmul", 2, 2, 2))),
    "everything": (lambda: matmul(size=4), lambda s: s.blockize(s.get_loops("matmul")[0])),
    "without axes of one value": (
        lambda: matmul(size=4),
        lambda s: s.blockize(s.get_loops("matmul")[1], preserve_unit_iters=False),
    ),
    "a reduction alone": (lambda: matmul(size=4), lambda s: s.blockize(s.get_loops("matmul")[2])),
    "one block": (lambda: matmul(size=4), lambda s: s.blockize(["matmul"])),
    "fused tiles": (
        lambda: matmul(size=4),
        lambda s: (inner(s, "matmul", 2, 2, 2), s.blockize(s.fuse(*s.get_loops("matmul")[3:5]))),
    ),
    "a part of a loop": (chain, lambda s: s.blockize(s.loop_partition(s.get_loops("compute")[1], [2, 4])[1])),
    "tiles of a part": (
        chain,
        lambda s: s.blockize(s.split(s.loop_partition(s.get_loops("compute")[1], [2, 4])[1], [None, 2])[1]),
    ),
    "two blocks": (softmax, merged),
    "with a producer": (chain, with_producer),
    "twice": (
        lambda: matmul(size=4),
        lambda s: (s.blockize(inner(s, "matmul", 2, 2, 2)), s.blockize(s.get_loops("matmul_o")[2])),
    ),
    "the padding": (PROGRAMS["small conv"], lambda s: s.blockize(s.get_loops("pad_temp")[2])),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


def test_handles_and_names():
    sch = Schedule(matmul(size=4))
    block = sch.get_block("matmul")
    first = inner(sch, "matmul", 2, 2, 2)
    outer = sch.blockize(first)
    assert sch.get(block) is sch.get(sch.get_block("matmul"))
    assert sch.get(outer).name_hint == "matmul_o"
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(outer)] == ["i_0", "j_0", "k_0"]
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(block)] == ["i_1", "j_1", "k_1"]
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(outer)] == ["matmul_init", "matmul"]
    assert re.search(r"b\d+ = sch.blockize\(target=l\d+, preserve_unit_iters=True\)\n", str(sch.trace))


def test_inner_loops_can_be_scheduled():
    before = matmul(size=8)
    sch = Schedule(before, debug_mask="all")
    outer = sch.blockize(inner(sch, "matmul", 4, 4, 4))
    i, j, k = sch.get_loops("matmul")
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(k0, i, k1, j)
    sch.vectorize(j)
    sch.unroll(k1)
    sch.parallel(sch.get_loops(outer)[0])
    sch.vectorize(sch.get_loops("matmul_init")[1])
    keeps(before, sch)


def test_natively():
    before = dense_bias_relu()
    sch = Schedule(before)
    outer = sch.blockize(inner(sch, "T_matmul", 2, 5, 3))
    sch.vectorize(sch.get_loops("T_matmul_init")[1])
    sch.reverse_compute_inline("compute")
    sch.reverse_compute_at("T_add", sch.get_loops(outer)[0])
    keeps(before, sch)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape, np.float32) for shape in ((4, 6), (6, 5), (5,))]
    got, want = (np.empty((4, 5), np.float32) for _ in range(2))
    native(sch.func, schedule=False)(*args, got)
    native(before, schedule=False)(*args, want)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, np.maximum(args[0] @ args[1] + args[2], 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("at", [0, 1])
def test_sums_over_an_unknown_number_of_terms(at: int):
    """Also over none, where the initial values stay."""
    n = Var("n", "int64")
    before = of(lambda t: topi.sum(t, 1), x(3, n))
    sch = Schedule(before, debug_mask="all")
    (name,) = (site.block.name_hint for site in sch.state.index("main").blocks if site.block.iter_vars)
    sch.blockize(sch.get_loops(name)[at])
    keeps(before, sch)


def test_tiles_of_an_unknown_number_of_rows():
    n = Var("n", "int64")
    before = of(lambda t, w: topi.matmul(t, w), x(n, 4), x(4, 4, name="w"))
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("T_matmul")
    (j0, j1), (k0, k1) = (sch.split(loop, [2, 2]) for loop in (j, k))
    sch.reorder(i, j0, k0, j1, k1)
    sch.blockize(j1)
    keeps(before, sch)


@T.prim_func(private=True)
def conditions(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), flag: T.Buffer((8,), "int32")):
    for i_0, j_0, i_1, j_1 in T.grid(2, 2, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + (3 - j_1))
            T.where(i_0 < 1 and j_1 < 3 and flag[i_0] > 0 and j_0 * 4 + j_1 < 4)
            B[vi, vj] = A[vi, vj] + 1


def test_conditions_go_where_they_belong(golden):
    sch = Schedule(conditions, debug_mask="all")
    sch.blockize(sch.get_loops("B")[2])
    keeps(conditions, sch)
    golden(sch.func.script())


def test_the_program_is_well_formed_after_each_pass_of_lowering():
    sch = Schedule(PROGRAMS["chain"]())
    sch.blockize(inner(sch, "compute", 2, 3))
    with PassContext(validate=True):
        tir.transform.default_cpu_lowering()(IRModule({"main": sch.func}))


# ---- refusals


@T.prim_func(private=True)
def overlapping(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v = T.axis.spatial(10, i * 2 + j)
            B[v] = A[v]


@T.prim_func(private=True)
def mixed(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v = T.axis.spatial(4, (i + j) % 4)
            B[v] = A[v]


@T.prim_func(private=True)
def gathered(A: T.Buffer((4,), "float32"), at: T.Buffer((4, 4), "int32"), B: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v = T.axis.spatial(4, at[i, j])
            B[v] = A[v]


@T.prim_func(private=True)
def triangle(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i in range(4):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(4, j)
                B[vi, vj] = A[vi, vj]


@T.prim_func(private=True)
def moving_target(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(4, j)
            T.where(A[i] > 0)
            A[vj] = A[vj] - 1
            B[vi] = vj


@T.prim_func(private=True)
def repeated(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4,), "float32")):
    for i, _r, k in T.grid(4, 2, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def neighbours(A: T.Buffer((4, 4), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(4, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk] * B[vi + 1]


@T.prim_func(private=True)
def from_one(A: T.Buffer((4, 9), "float32"), B: T.Buffer((4,), "float32")):
    for i, k_0, k_1 in T.grid(4, 4, 2):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(9, k_0 * 2 + k_1 + 1)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def not_always(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i, j in T.grid(8, 2):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            w = T.axis.spatial(2, j)
            T.where(j < 0)
            B[v] = A[v] + T.Cast("float32", w)


@T.prim_func(private=True)
def from_the_sum(A: T.Buffer((4, 4), "float32"), S: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = S[vi]
            B[vi] = B[vi] + A[vi, vk]
            S[vi] = T.float32(1)


def around_softmax(sch: Schedule) -> None:
    sch.blockize([sch.get_block("e"), sch.get_block("y")])


def unknown_terms(sch: Schedule) -> None:
    n = len(sch.get_loops("s"))
    sch.blockize([sch.get_block("s"), sch.get_block("c")]) if n else None


@T.prim_func(private=True)
def terms(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (1,))
    C = T.match_buffer(c, (n,))
    for k in range(n):
        with T.block("s"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(n, k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vk]
        with T.block("c"):
            v = T.axis.spatial(n, k)
            C[v] = A[v]


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "a tail": (
        chain,
        lambda s: s.blockize(inner(s, "compute", 3, 3)),
        "of block compute is on inner and outer loops, and could hold in some of the inner iterations only",
    ),
    "overlapping": (
        lambda: overlapping,
        lambda s: s.blockize(s.get_loops("B")[1]),
        "the loops outside do not step by multiples of the 4 values inside",
    ),
    "mixed": (lambda: mixed, lambda s: s.blockize(s.get_loops("B")[1]), "cannot be told apart"),
    "gathered": (lambda: gathered, lambda s: s.blockize(s.get_loops("B")[1]), "cannot be told apart"),
    "triangle": (
        lambda: triangle,
        lambda s: s.blockize(s.get_loops("B")[1]),
        "the bounds of loop j depend on loop i outside",
    ),
    "a condition that changes": (
        lambda: moving_target,
        lambda s: s.blockize(s.get_loops("B")[1]),
        "A, which decides where block B runs, could be written by it",
    ),
    "repeated": (
        lambda: repeated,
        lambda s: s.blockize(s.get_loops("B")[1]),
        "it is not proved that block B stores each initial value of B once",
    ),
    "neighbours": (
        lambda: neighbours,
        lambda s: s.blockize(s.get_loops("B")[0]),
        "an element of B could be accessed in block B before its initial value is stored",
    ),
    "from one": (
        lambda: from_one,
        lambda s: s.blockize(s.get_loops("B")[2]),
        "by multiples of the 2 values inside from the beginning of the reduction",
    ),
    "outside of its range": (
        lambda: not_always,
        lambda s: s.blockize(s.get_loops("B")[1]),
        "axis v_o of the new block could be bound outside of its range, where nothing ran before",
    ),
    "initial values that are written": (
        lambda: from_the_sum,
        lambda s: s.blockize(s.get_loops("B")[0]),
        "S, which the init of block B reads, is written by the block",
    ),
    "two blocks": (
        softmax,
        lambda s: (s.reverse_compute_at("total", s.get_loops("e")[0]), s.blockize(s.get_loops("e")[0])),
        "there is more than loops and one block under loop i",
    ),
    "root": (chain, lambda s: s.blockize(["root"]), "block root has no block around it"),
    "no block": (chain, lambda s: s.blockize([]), "no block is given"),
    "one block twice": (chain, lambda s: s.blockize(["compute", "compute"]), "are not different blocks of one scope"),
    "blocks between": (softmax, around_softmax, "total is between blocks e, y"),
    "unknown terms": (lambda: terms, unknown_terms, "the reduction of block s over loop k could have no terms"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert name == "no block" or "  --> tir main" in str(error.value)


def test_a_refusal_changes_nothing():
    sch = Schedule(overlapping)
    loops = sch.get_loops("B")
    refused(sch, lambda: sch.blockize(loops[1]))


def test_what_is_sound_is_accepted_whole():
    """The same programs at a loop around everything that makes the inner ones undividable."""
    for func in (overlapping, mixed, triangle):
        sch = Schedule(func, debug_mask="all")
        sch.blockize(sch.get_loops("B")[0])
        keeps(func, sch)


def test_tiles_stay_blocks_under_other_steps():
    before = matmul(size=8, dtype="int32")
    sch = Schedule(before, debug_mask="all")
    tiled(sch, "matmul", 4, 4, 4)
    outer = sch.blockize(sch.get_loops("matmul")[3])
    copy = sch.cache_read(outer, 0, "global")
    sch.compute_at(copy, sch.get_loops(outer)[1])
    last = sch.cache_write(outer, 0, "global")
    sch.reverse_compute_at(last, sch.get_loops(outer)[1])
    keeps(before, sch)


def test_initial_values_in_a_block_are_well_formed_after_each_pass():
    sch = Schedule(matmul(size=4))
    sch.blockize(inner(sch, "matmul", 2, 2, 2))
    with PassContext(verify=True):
        tir.transform.default_cpu_lowering()(IRModule({"main": sch.func}))


def test_a_block_that_never_runs_stores_no_initial_values():
    @T.prim_func(private=True)
    def never(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
        for i, k in T.grid(6, 4):
            with T.block("b0"):
                v = T.axis.spatial(6, i)
                r = T.axis.reduce(4, k)
                T.where(T.bool(False))
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v] * T.Cast("float32", r)

    b = np.ones(6, np.float32)
    run(never, np.ones(6, np.float32), b)
    np.testing.assert_array_equal(b, 1)
