"""Reductions over nothing: the interpreter, lowered programs and schedules leave the same initial values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.programs import keeps, refused
from tests.tir.transform.schedules import of, x

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule


def check(func: PrimFunc, want: Any, *args: Any, compiled: bool = True) -> None:
    """The second argument after the function ran: interpreted, lowered, and compiled."""
    programs: list[Callable[..., Any]] = [partial(run, func), partial(run, tir.transform.lower(func))]
    for program in [*programs, *([build(func)] if compiled else [])]:
        given = [np.copy(a) for a in args]
        program(*given)
        np.testing.assert_array_equal(given[1], want)


def product(size: Any = None) -> PrimFunc:
    """A product over a size that is not known, with a bias and a relu."""
    k = Var("n", "int64") if size is None else size

    def definition(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        return topi.nn.relu(topi.add(topi.matmul(a, b), c))

    return of(definition, x(3, k), x(k, 4, name="w"), x(4, name="c"))


@T.prim_func(private=True)
def constant(A: T.Buffer((3, 0), "float32"), C: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 0):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(5)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(private=True)
def outside(A: T.Buffer((3, 0), "float32"), C: T.Buffer((3,), "float32")):
    for k, i in T.grid(0, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i < 2)
            with T.init():
                C[vi] = T.float32(5)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(private=True)
def tiles(a: T.handle, C: T.Buffer((8,), "float32"), n: T.int32):
    A = T.match_buffer(a, (8, n * 4))
    for io, ko in T.grid(2, n):
        with T.block("tile"):
            vio, vko = T.axis.remap("SR", [io, ko])
            T.reads(A[vio * 4 : vio * 4 + 4, vko * 4 : vko * 4 + 4])
            T.writes(C[vio * 4 : vio * 4 + 4])
            with T.init():
                for i in range(4):
                    with T.block("first"):
                        vi = T.axis.spatial(4, i)
                        C[vio * 4 + vi] = T.float32(5)
            for i, k in T.grid(4, 4):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vio * 4 + vi] = C[vio * 4 + vi] + A[vio * 4 + vi, vko * 4 + vk]


@T.prim_func(private=True)
def triangle(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    """Row i has i terms."""
    for i in range(4):
        for k in range(i):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(5)
                C[vi] = C[vi] + A[vi, vk]


@T.prim_func(private=True)
def without_the_first(A: T.Buffer((3, 4), "float32"), C: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k > 0)
            with T.init():
                C[vi] = T.float32(5)
            C[vi] = C[vi] + A[vi, vk]


def test_initial_values_are_stored_without_terms():
    for func, want in ((constant, [5, 5, 5]), (outside, [5, 5, 9])):
        check(func, np.array(want, "f4"), np.zeros((3, 0), "f4"), np.full(3, 9, "f4"))
    check(tiles, np.full(8, 5, "f4"), np.zeros((8, 0), "f4"), np.full(8, 9, "f4"), 0)
    check(tiles, np.full(8, 13, "f4"), np.ones((8, 8), "f4"), np.full(8, 9, "f4"), 2)


def test_initial_values_are_stored_where_the_first_point_is_left_out():
    check(triangle, np.arange(5, 9, dtype="f4"), np.ones((4, 4), "f4"), np.full(4, 9, "f4"))
    check(without_the_first, np.full(3, 8, "f4"), np.ones((3, 4), "f4"), np.full(3, 9, "f4"))


@T.prim_func(private=True)
def late_bias(A: T.Buffer((3, 4), "float32"), C: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    """What the initial values are read from is stored within the loops of the reduction."""
    for k, i in T.grid(3, 4):
        with T.block("b"):
            vk, vi = T.axis.remap("SS", [k, i])
            b[vi] = T.float32(2)
        with T.block("C"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                C[vi] = b[vi]
            C[vi] = C[vi] + A[vk, vi]


@T.prim_func(private=True)
def from_the_left(A: T.Buffer((3, 4), "float32"), C: T.Buffer((5,), "float32")):
    """Initial values are read from what other points have computed."""
    for k, i in T.grid(3, 4):
        with T.block("C"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                C[vi + 1] = C[vi]
            C[vi + 1] = C[vi + 1] + A[vk, vi]


def test_initial_values_are_read_when_they_are_there():
    check(late_bias, np.full(4, 5, "f4"), np.ones((3, 4), "f4"), np.zeros(4, "f4"), np.zeros(4, "f4"))
    want = np.zeros(5, "f4")
    for k in range(3):
        for i in range(4):
            want[i + 1] = (want[i] if k == 0 else want[i + 1]) + 1
    check(from_the_left, want, np.ones((3, 4), "f4"), np.zeros(5, "f4"))


def loops(s: Schedule) -> list[Any]:
    return s.get_loops("T_matmul")


STEPS: dict[str, Callable[[Schedule], Any]] = {
    "nothing": lambda s: None,
    "the reduction outside": lambda s: s.reorder(*loops(s)[::-1]),
    "tiles": lambda s: (
        s.split(loops(s)[2], [None, 4]),
        s.split(loops(s)[1], [None, 3]),
        s.reorder(*(loops(s)[k] for k in (3, 1, 2, 4))),
    ),
    "vectors": lambda s: (s.reorder(loops(s)[2], loops(s)[1]), s.vectorize(loops(s)[2])),
    "decomposed": lambda s: s.decompose_reduction("T_matmul", loops(s)[2]),
    "decomposed outside": lambda s: s.decompose_reduction("T_matmul", loops(s)[0]),
    "decomposed after a split": lambda s: (
        s.split(loops(s)[2], [None, 4]),
        s.reorder(loops(s)[2], loops(s)[0]),
        s.decompose_reduction("T_matmul", loops(s)[0]),
    ),
    "an epilogue": lambda s: (s.compute_inline("T_add"), s.fuse_reduction_epilogue("T_matmul", "compute")),
    "under its reader": lambda s: s.compute_at("T_matmul", s.get_loops("T_add")[0]),
    "with its reader": lambda s: s.reverse_compute_at("T_add", loops(s)[1]),
    "a copy": lambda s: s.cache_write("T_matmul", 0, "global"),
    "padded": lambda s: s.pad_einsum("T_matmul", [2, 3, 4]),
    "by its axes": lambda s: s.reindex("T_matmul", ("write", 0)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_keep_initial_values(name: str):
    before = product()
    sch = Schedule(before)
    STEPS[name](sch)
    rng = np.random.default_rng(0)
    bias = rng.standard_normal(4).astype("f4")
    for size in (0, 1, 5):
        a, b = (rng.standard_normal(shape).astype("f4") for shape in ((3, size), (size, 4)))
        want = np.full((3, 4), 7, "f4")
        run(before, a, b, bias, want)
        if size == 0:
            np.testing.assert_array_equal(want, np.maximum(np.tile(bias, (3, 1)), 0))
        for func in (sch.func, tir.transform.lower(sch.func)):
            got = np.full((3, 4), 7, "f4")
            run(func, a, b, bias, got)
            np.testing.assert_array_equal(got, want)


def test_what_is_stored_without_terms_is_seen_by_proofs():
    """A reader that runs before the initial values would not see them."""

    @T.prim_func(private=True)
    def read(A: T.Buffer((3, 0), "float32"), D: T.Buffer((3,), "float32")):
        C = T.alloc_buffer((3,), "float32")
        for i, k in T.grid(3, 0):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(5)
                C[vi] = C[vi] + A[vi, vk]
        for i in range(3):
            with T.block("D"):
                vi = T.axis.spatial(3, i)
                D[vi] = C[2 - vi]

    sch = Schedule(read, debug_mask="all")
    with pytest.raises(ScheduleError, match="an element of C"):
        sch.merge(sch.get_loops("C")[0], sch.get_loops("D")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    check(sch.func, np.full(3, 5, "f4"), np.zeros((3, 0), "f4"), np.full(3, 9, "f4"))


def test_steps_that_would_lose_initial_values_are_refused():
    """Initial values are stored before loops that may have no iteration, or by a block of their own."""
    k = Var("k", "int64")
    before = of(topi.matmul, x(3, k), x(k, 4, name="w"))
    sch = Schedule(before)
    row, column, term = sch.get_loops("T_matmul")
    said = "T_matmul would not store its initial values where its reduction has no terms"
    assert said in refused(sch, lambda: sch.fuse(column, term))
    sch.reorder(term, column)
    assert said in refused(sch, lambda: sch.bind(column, "threadIdx.x"))
    sch.reorder(column, term)
    sch.decompose_reduction("T_matmul", row)
    sch.fuse(column, term)
    keeps(before, sch)
    sized = Schedule(of(topi.matmul, x(3, 5), x(5, 4, name="w")))
    sized.fuse(*sized.get_loops("T_matmul")[1:])
