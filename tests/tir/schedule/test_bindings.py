"""Blocks under bindings, and memory with several names: what a move would take out of sight is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.schedule.programs import keeps

from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule

# ---- bindings


@T.prim_func(private=True)
def bound_epilogue(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), s: T.int32):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    with T.LetStmt(s + 1) as t:
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] + T.Cast("float32", t)


@T.prim_func(private=True)
def bound_producer(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), s: T.int32):
    B = T.alloc_buffer((8,), "float32")
    with T.LetStmt(s + 1) as t:
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.Cast("float32", t)
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[v] + T.float32(1)


@T.prim_func(private=True)
def bound_together(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), s: T.int32):
    B = T.alloc_buffer((8,), "float32")
    with T.LetStmt(s + 1) as t:
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.Cast("float32", t)
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] + T.Cast("float32", t)


@T.prim_func(private=True)
def bound_sum(A: T.Buffer((4, 8), "float32"), D: T.Buffer((4,), "float32"), s: T.int32):
    B = T.alloc_buffer((4,), "float32")
    for i, k in T.grid(4, 8):
        with T.block("B"):
            v, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, vk]
    with T.LetStmt(s + 1) as t:
        for i in range(4):
            with T.block("D"):
                v = T.axis.spatial(4, i)
                D[v] = B[v] + T.Cast("float32", t)


def first_loop(name: str) -> Callable[[Schedule], Any]:
    return lambda s: s.get_loops(name)[0]


BOUND: dict[str, tuple[PrimFunc, Callable[[Schedule], Any], str]] = {
    "reverse_compute_inline": (
        bound_epilogue,
        lambda s: s.reverse_compute_inline("D"),
        "block D uses t, which is bound outside of it",
    ),
    "compute_inline": (bound_producer, lambda s: s.compute_inline("B"), "block B uses t, which is bound outside of it"),
    "compute_at": (
        bound_producer,
        lambda s: s.compute_at("B", first_loop("D")(s)),
        "there is a condition or a binding around block B",
    ),
    "reverse_compute_at": (
        bound_epilogue,
        lambda s: s.reverse_compute_at("D", first_loop("B")(s)),
        "there is a condition or a binding around block D",
    ),
    "fuse_reduction_epilogue": (
        bound_sum,
        lambda s: s.fuse_reduction_epilogue("B", "D"),
        "block D uses t, which is bound outside of it",
    ),
    "decompose_padding": (
        bound_epilogue,
        lambda s: s.decompose_padding("D", first_loop("D")(s)),
        "does not choose between elements and a border",
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_what_is_bound_outside_stays_in_sight(name: str):
    before, step, said = BOUND[name]
    sch = Schedule(before)
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert sch.func is before


@pytest.mark.parametrize("step", ["compute_inline", "reverse_compute_inline"])
def test_under_one_binding_blocks_are_inlined(step: str):
    sch = Schedule(bound_together, debug_mask="all")
    getattr(sch, step)("B" if step == "compute_inline" else "D")
    keeps(bound_together, sch)


@pytest.mark.parametrize(("before", "block"), [(bound_producer, "D"), (bound_epilogue, "B")])
def test_what_uses_no_binding_moves_into_one(before: PrimFunc, block: str):
    """The other block of each pair, whose values are known everywhere."""
    sch = Schedule(before, debug_mask="all")
    (sch.reverse_compute_inline if block == "D" else sch.compute_inline)(block)
    keeps(before, sch)


# ---- names


@T.prim_func(private=True)
def written_under_another_name(
    X: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")
):
    with T.block("scope"):
        T.reads(A[0:8], X[0:8])
        T.writes(X[0:8], E[0:8])
        D = T.match_buffer(X[0:8], (8,))
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float32(2)
        for i in range(8):
            with T.block("E"):
                v = T.axis.spatial(8, i)
                E[v] = X[7 - v]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] + T.float32(1)


@T.prim_func(private=True)
def named_further_out(X: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    with T.block("outer"):
        T.reads(A[0:8], X[0:8])
        T.writes(X[0:8], E[0:8])
        D = T.match_buffer(X[0:8], (8,))
        with T.block("scope"):
            T.reads(A[0:8], X[0:8])
            T.writes(D[0:8], E[0:8])
            B = T.alloc_buffer((8,), "float32")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
            for i in range(8):
                with T.block("E"):
                    v = T.axis.spatial(8, i)
                    E[v] = X[7 - v]
            for i in range(8):
                with T.block("D"):
                    v = T.axis.spatial(8, i)
                    D[v] = B[v] + T.float32(1)


@T.prim_func(private=True)
def overwritten_under_another_name(X: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    with T.block("outer"):
        T.reads(X[0:8])
        T.writes(X[0:8], E[0:8])
        A = T.match_buffer(X[0:8], (8,))
        with T.block("scope"):
            T.reads(A[0:8])
            T.writes(X[0:8], E[0:8])
            B = T.alloc_buffer((8,), "float32")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
            for i in range(8):
                with T.block("clear"):
                    v = T.axis.spatial(8, i)
                    X[7 - v] = T.float32(0)
            for i in range(8):
                with T.block("E"):
                    v = T.axis.spatial(8, i)
                    E[v] = B[v] + T.float32(1)


@T.prim_func(private=True)
def onto_itself(X: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    with T.block("scope"):
        T.reads(X[0:8])
        T.writes(X[0:8], E[0:8])
        A = T.match_buffer(X[0:8], (8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                E[v] = A[v] * T.float32(2)
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                X[v] = E[v] + A[7 - v]


@T.prim_func(private=True)
def summed_under_another_name(
    X: T.Buffer((8,), "float32"), A: T.Buffer((8, 4), "float32"), E: T.Buffer((8,), "float32")
):
    with T.block("scope"):
        T.reads(A[0:8, 0:4], X[0:8])
        T.writes(X[0:8], E[0:8])
        D = T.match_buffer(X[0:8], (8,))
        B = T.alloc_buffer((8,), "float32")
        for i, k in T.grid(8, 4):
            with T.block("B"):
                v, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, vk]
        for i in range(8):
            with T.block("E"):
                v = T.axis.spatial(8, i)
                E[v] = X[7 - v]
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] + T.float32(1)


NAMES: dict[str, tuple[PrimFunc, Callable[[Schedule], Any], str]] = {
    "reverse_compute_inline": (
        written_under_another_name,
        lambda s: s.reverse_compute_inline("D"),
        "is accessed before block D stores it",
    ),
    "reverse_compute_inline, further out": (
        named_further_out,
        lambda s: s.reverse_compute_inline("D"),
        "is accessed before block D stores it",
    ),
    "reverse_compute_at": (
        written_under_another_name,
        lambda s: s.reverse_compute_at("D", first_loop("B")(s)),
        "X, which block D writes, is accessed between loop i and the block",
    ),
    "reverse_compute_at, further out": (
        named_further_out,
        lambda s: s.reverse_compute_at("D", first_loop("B")(s)),
        "X, which block D writes, is accessed between loop i and the block",
    ),
    "compute_inline": (
        overwritten_under_another_name,
        lambda s: s.compute_inline("B"),
        "buffer X, which block B reads, is written before a reader of B is done",
    ),
    "compute_at": (
        overwritten_under_another_name,
        lambda s: s.compute_at("B", first_loop("E")(s)),
        "buffer X, which block B reads, is written before the end of loop i",
    ),
    "merge": (
        overwritten_under_another_name,
        lambda s: s.merge(first_loop("B")(s), first_loop("clear")(s)),
        "an element of X",
    ),
    "reverse_compute_at, onto itself": (
        onto_itself,
        lambda s: s.reverse_compute_at("D", first_loop("B")(s)),
        "block D knows the memory of X by several names",
    ),
    "fuse_reduction_epilogue": (
        summed_under_another_name,
        lambda s: s.fuse_reduction_epilogue("B", "D"),
        "X is accessed before block D stores it",
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_the_same_under_another_name(name: str):
    before, step, said = NAMES[name]
    sch = Schedule(before)
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert sch.func is before
