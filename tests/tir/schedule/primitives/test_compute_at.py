"""compute_at and reverse_compute_at: what is computed where, what is refused and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import chain, dense_bias_relu, keeps, refused, small_conv, tiled
from tests.tir.transform.schedules import of, x

from eutectic import te, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule


def blur(size: Any) -> PrimFunc:
    """Two stages, of which the second reads three neighbours of the first."""

    def definition(a: te.Tensor) -> te.Tensor:
        b = te.compute((size + 2,), lambda i: a[i] * 2.0, name="B")
        return te.compute((size,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")

    return of(definition, x(size + 2))


def padded() -> PrimFunc:
    """A relu that a padding reads only where its condition holds."""
    return of(lambda t: topi.nn.pad(topi.nn.relu(t), (1, 2), (1, 1)), x(5, 6))


def rows() -> PrimFunc:
    """Sums of rows of what was computed before."""
    return of(lambda t: topi.sum(topi.negative(t), 1), x(6, 4, dtype="int32"))


def fed_by_two() -> PrimFunc:
    """A block with two producers."""

    def definition(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return topi.add(topi.negative(a), topi.exp(b))

    return of(definition, x(4, 6), x(4, 6, name="y"))


def halo(sch: Schedule) -> None:
    sch.compute_at("B", sch.split(sch.get_loops("C")[0], [None, 4])[0])


def under_tiles(sch: Schedule) -> None:
    tile = tiled(sch, "T_matmul", 3, 2)[1]
    sch.reverse_compute_at("T_add", tile)
    sch.reverse_compute_at("compute", sch.get_loops("T_add")[2])


def in_parallel(sch: Schedule) -> None:
    outer = sch.split(sch.get_loops("C")[0], [None, 4])[0]
    sch.parallel(outer)
    sch.compute_at("B", outer)


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "a chain": (
        chain,
        lambda s: [s.compute_at(b, s.get_loops("compute_1")[0]) for b in ("compute", "T_negative")],
    ),
    "unit loops": (chain, lambda s: s.compute_at("compute", s.get_loops("compute_1")[1], preserve_unit_loops=True)),
    "no loops": (chain, lambda s: s.compute_at("compute", s.get_loops("compute_1")[1])),
    "a tile of a product": (dense_bias_relu, lambda s: s.compute_at("T_matmul", tiled(s, "T_add", 3, 2)[1])),
    "a halo": (lambda: blur(10), halo),
    "a halo in parallel": (lambda: blur(8), in_parallel),
    "a halo of a size that is not known": (lambda: blur(Var("n", "int64")), halo),
    "a condition in the reader": (padded, lambda s: s.compute_at("compute", s.get_loops("PadInput")[0])),
    "the input of a convolution": (
        small_conv,
        lambda s: s.compute_at("pad_temp", s.get_loops("conv2d_nchw")[2]),
    ),
    "a reduction in a softmax": (softmax, lambda s: s.compute_at("total", s.get_loops("y")[0])),
    "before the first of two": (
        fed_by_two,
        lambda s: (
            s.compute_at("T_negative", s.get_loops("T_add")[0]),
            s.compute_at("compute", s.get_loops("T_add")[0], index=0),
        ),
    ),
    "under a fused loop": (
        chain,
        lambda s: s.compute_at("compute", s.split(s.fuse(*s.get_loops("compute_1")), [None, 3])[0]),
    ),
    "an epilogue under tiles": (dense_bias_relu, under_tiles),
    "a reduction of what is ready": (
        rows,
        lambda s: s.reverse_compute_at("T_negative_red", s.split(s.get_loops("T_negative")[0], [None, 4])[0]),
    ),
    "backwards through a chain": (
        chain,
        lambda s: [s.reverse_compute_at(b, s.get_loops("T_negative")[0], True) for b in ("compute", "compute_1")],
    ),
    "after the first writer": (
        chain,
        lambda s: (
            s.reverse_compute_at("compute", s.get_loops("T_negative")[0]),
            s.reverse_compute_at("compute_1", s.get_loops("T_negative")[0], index=-2),
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
def overwritten(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("clear"):
            v = T.axis.spatial(8, i)
            A[v] = T.float32(0)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


@T.prim_func(private=True)
def scattered(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v // 2] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v // 2]


@T.prim_func(private=True)
def backwards(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i, k in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, 3 - k)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, vk]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


@T.prim_func(private=True)
def repeated(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i, _again, k in T.grid(8, 2, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, k)
            with T.init():
                B[v] = 0
            B[v] = B[v] + A[v, vk]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


@T.prim_func(private=True)
def partly(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i != 2)
            B[v] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.where(i != 2)
            C[v] = B[v]


@T.prim_func(private=True)
def touched(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "output": (chain, lambda s: s.compute_at("compute_1", s.get_loops("compute")[0]), "does not come after block"),
    "own loop": (
        chain,
        lambda s: s.compute_at("compute", s.get_loops("compute")[0]),
        "is around block compute already",
    ),
    "not read": (
        fed_by_two,
        lambda s: s.compute_at("T_negative", s.get_loops("compute")[0]),
        "is read outside of loop",
    ),
    "two readers": (softmax, lambda s: s.compute_at("e", s.get_loops("y")[0]), "buffer e is read outside of loop i"),
    "index": (chain, lambda s: s.compute_at("compute", s.get_loops("compute_1")[0], index=2), "is not one of 0 to 0"),
    "vectors": (
        chain,
        lambda s: (s.vectorize(s.get_loops("compute_1")[1]), s.compute_at("compute", s.get_loops("compute_1")[1])),
        "are lanes of vectors",
    ),
    "overwritten": (lambda: overwritten, lambda s: s.compute_at("B", s.get_loops("C")[0]), "buffer A, which block B"),
    "scattered": (lambda: scattered, lambda s: s.compute_at("B", s.get_loops("C")[0]), "could write one element of B"),
    "backwards": (lambda: backwards, lambda s: s.compute_at("B", s.get_loops("C")[0]), "in the order of the axes"),
    "repeated": (
        lambda: repeated,
        lambda s: s.compute_at("B", s.get_loops("C")[0]),
        "each point of the reduction once",
    ),
    "partly": (lambda: partly, lambda s: s.compute_at("B", s.get_loops("C")[0]), "at all points of its axes"),
    "decomposed": (
        dense_bias_relu,
        lambda s: (
            s.decompose_reduction("T_matmul", s.get_loops("T_matmul")[2]),
            s.compute_at("T_matmul_update", s.get_loops("T_add")[0]),
        ),
        "is a reduction without its initial values",
    ),
    "reverse: before": (
        chain,
        lambda s: s.reverse_compute_at("compute", s.get_loops("compute_1")[0]),
        "not come before",
    ),
    "reverse: no producer": (
        fed_by_two,
        lambda s: s.reverse_compute_at("compute", s.get_loops("T_negative")[0]),
        "nothing under loop i0 writes what block compute reads",
    ),
    "reverse: two producers": (
        fed_by_two,
        lambda s: s.reverse_compute_at("T_add", s.get_loops("T_negative")[0]),
        "is not complete when block T_add would read it",
    ),
    "reverse: not complete": (
        dense_bias_relu,
        lambda s: s.reverse_compute_at("T_add", s.get_loops("T_matmul")[2]),
        "T_matmul is not complete when block T_add would read it under loop k",
    ),
    "reverse: a halo": (
        lambda: blur(8),
        lambda s: s.reverse_compute_at("C", s.split(s.get_loops("B")[0], [None, 4])[0]),
        "would run at all points of its axes under loop i_0",
    ),
    "reverse: index": (
        chain,
        lambda s: s.reverse_compute_at("compute", s.get_loops("T_negative")[0], index=0),
        "is not one of 1 to 1, after the last writer",
    ),
    "reverse: touched": (
        lambda: touched,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        "C, which block C writes, is accessed between loop i and the block",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)
    replay = Schedule(make())
    sch.trace.apply_to_schedule(replay)  # what came before the refusal is all that was done
    assert replay.func.script() == sch.func.script()


def test_a_refusal_shows_both_places(golden):
    sch = Schedule(dense_bias_relu())
    block, loop = sch.get_block("T_add"), sch.get_loops("T_matmul")[2]
    golden(refused(sch, lambda: sch.reverse_compute_at(block, loop)))


def test_a_refusal_shows_the_other_reader(golden):
    sch = Schedule(softmax())
    block, loop = sch.get_block("e"), sch.get_loops("y")[0]
    golden(refused(sch, lambda: sch.compute_at(block, loop)))


def test_handles_of_blocks_are_kept():
    sch = Schedule(chain())
    block = sch.get_block("compute")
    sch.compute_at(block, sch.get_loops("compute_1")[0])
    assert sch.get(block).name_hint == "compute"
    assert len(sch.get_loops(block)) == 2
    inner = sch.get_loops(block)[1]
    sch.split(inner, [2, 3])
    assert len(sch.get_loops(block)) == 3


def test_a_reduction_of_split_loops_gets_one_loop_again():
    before = dense_bias_relu()
    sch = Schedule(before, debug_mask="all")
    sch.split(sch.get_loops("T_matmul")[2], [2, 3])
    sch.compute_at("T_matmul", sch.get_loops("T_add")[0])
    assert len(sch.get_loops("T_matmul")) == 3  # the loop of rows, columns, the whole reduction
    keeps(before, sch)


def test_integers_may_be_reduced_in_another_order():
    before = of(lambda t: topi.negative(topi.sum(t, (0, 2))), x(3, 4, 5, dtype="int32"))
    sch = Schedule(before, debug_mask="all")
    name = sch.get(sch.get_child_blocks(sch.get_block("root"))[0]).name_hint
    sch.reorder(*reversed(sch.get_loops(name)[1:]))
    sch.compute_at(name, sch.get_loops("T_negative")[0])
    keeps(before, sch)


def test_parallel_iterations_with_elements_of_their_own():
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.parallel(sch.get_loops("compute_1")[0])
    sch.compute_at("compute", sch.get_loops("compute_1")[0])
    sch.parallel(sch.get_loops("T_negative")[0])
    keeps(before, sch)


def test_a_cache_of_a_tile():
    before = matmul(size=6)
    sch = Schedule(before, debug_mask="all")
    tile = tiled(sch, "matmul", 3, 2)[1]
    sch.compute_at(sch.cache_read("matmul", 0, "global"), tile)
    sch.reverse_compute_at(sch.cache_write("matmul", 0, "global"), tile)
    keeps(before, sch)
