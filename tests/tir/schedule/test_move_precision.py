"""Moves of ordinary programs that proofs must not refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import keeps, refused, small_conv, tiled
from tests.tir.transform.schedules import of, x

from eutectic import te, topi
from eutectic.ir.prim_expr import Var
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.tir import For, PrimFunc
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.dependence import late
from eutectic.tir.schedule import Schedule


def flattened() -> PrimFunc:
    """A matrix that is read as a vector."""
    return of(lambda a: topi.reshape(topi.exp(a), (24,)), x(4, 6))


def flattened_box() -> PrimFunc:
    """Three axes that are read as one."""
    return of(lambda a: topi.reshape(topi.exp(a), (48,)), x(4, 6, 2))


def over_an_unknown_size() -> PrimFunc:
    """A product whose reduction may be over nothing."""
    k = Var("n", "int64")
    return of(lambda a, b: topi.nn.relu(topi.matmul(a, b)), x(4, k), x(k, 6, name="w"))


def two_readers() -> PrimFunc:
    """A value that two blocks read, and one that reads what they compute."""

    def definition(a: te.Tensor) -> te.Tensor:
        b = topi.exp(a)
        return topi.add(topi.negative(b), topi.tanh(b))

    return of(definition, x(4, 6))


def merged(s: Schedule) -> None:
    s.merge(s.get_loops("T_negative")[0], s.get_loops("compute_1")[0])
    s.reverse_compute_at("T_add", s.get_loops("T_negative")[0])
    s.compute_at("compute", s.get_loops("T_negative")[0])


def rows(s: Schedule) -> None:
    for block in ("total", "e", "top"):
        s.compute_at(block, s.get_loops("y")[0])


def at_every_level(s: Schedule) -> None:
    tile = tiled(s, "compute", 1, 2, 2, 2)
    s.compute_at("conv2d_nchw", tile[3])
    s.compute_at("pad_temp", s.get_loops("conv2d_nchw")[5])


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "a vector": (flattened, lambda s: s.reverse_compute_at("T_reshape", s.get_loops("compute")[0])),
    "elements of a vector": (flattened, lambda s: s.reverse_compute_at("T_reshape", s.get_loops("compute")[1])),
    "tiles of a vector": (
        flattened,
        lambda s: s.reverse_compute_at("T_reshape", s.split(s.get_loops("compute")[0], [None, 2])[0]),
    ),
    "a box": (flattened_box, lambda s: s.reverse_compute_at("T_reshape", s.get_loops("compute")[1])),
    "perhaps no terms": (
        over_an_unknown_size,
        lambda s: s.compute_at("T_matmul", tiled(s, "compute", 2, 4)[1]),
    ),
    "two readers in one loop": (two_readers, merged),
    "rows": (softmax, rows),
    "a convolution under tiles": (small_conv, at_every_level),
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
def triangle(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    """The number of columns depends on the row."""
    B = T.alloc_buffer((4, 8), "float32")
    for i in range(4):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(4):
        for j in range(i + 1):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vi - vj]


def test_columns_of_a_triangle():
    """Two iterations of an inner loop are in the bounds of their own iteration of the outer one."""
    sch = Schedule(triangle, debug_mask="all")
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    keeps(triangle, sch)


@T.prim_func(private=True)
def strips(A: T.Buffer((4, 12), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    """Each row has columns of its own."""
    for i in range(4):
        for j in range(i * 3, i * 3 + 3):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(12, j)
                C[vi + vj] = A[vi, vj]
            with T.block("D"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(12, j)
                D[vi + vj] = C[vi + vj]


def test_bounds_that_depend_on_loops_outside_are_of_the_same_iteration():
    loops = [item for item in post_order(strips.body) if isinstance(item, For)][::-1]
    used = [item for item in accesses_of(loops[0]).items if item.buffer.name == "C"]
    assert not late(next(item for item in used if item.is_write), used[-1], loops)


def test_what_is_not_there_yet_is_not_read_under_a_digit():
    sch = Schedule(flattened())
    block, loop = sch.get_block("T_reshape"), sch.get_loops("compute")[1]
    sch.reorder(loop, sch.get_loops("compute")[0])
    assert "compute is not complete when block T_reshape would read it" in refused(
        sch, lambda: sch.reverse_compute_at(block, loop)
    )


def test_initial_values_stay_in_the_init_of_their_block():
    """A block of an init and a loop of the body are in no common sequence."""
    sch = Schedule(matmul(size=4))
    outer = sch.blockize(sch.get_loops("matmul")[1])
    body = sch.get_loops("matmul")[0]
    assert sch.get(outer).init is not None
    assert "is in the init of block matmul_o" in refused(sch, lambda: sch.compute_at("matmul_init", body))
