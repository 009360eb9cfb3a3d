"""Vectorized loops: what becomes a vector, what is masked, and what keeps its order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import Golden
from tests.tir.transform.schedules import check_schedule

from eutectic.ir.prim_expr import FloorMod
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.tir import BufferLoad, BufferStore, For, PrimFunc, Ramp, transform
from eutectic.tir.interpret import run


@T.prim_func
def private(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            acc = T.alloc_buffer((2,), "float32")
            acc[0] = T.float32(0)
            acc[1] = T.float32(1)
            for k in range(8):
                acc[0] = acc[0] + A[k, vi]
                acc[1] = acc[1] * A[k, vi]
            C[vi] = acc[0] + acc[1]


@T.prim_func
def guarded(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        A[i] = T.if_then_else(i >= 2 and i < 6, B[i - 2], A[i])
    for i in T.vectorized(8):
        if i % 3 == 0:
            C[i] = C[i] // (i - 1)
        else:
            C[i] = T.shift_left(1, i % 4) + T.Cast("int32", A[i])
    for i in T.vectorized(8):
        if C[i] >= 0 and C[i] < 4 and B[C[i]] > T.float32(0):
            C[i] = C[i] + 1


@T.prim_func
def aligned(A: T.Buffer((16,), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((64,), "float32")):
    for o in range(16):
        for i in T.vectorized(4):
            C[o * 4 + i] = T.if_then_else(o * 4 + i < 16, A[(o * 4 + i) % 16], B[(o * 4 + i) // 8 % 4, i])
    for i in T.vectorized(6):
        B[i // 3, i] = T.float32(1)
        y = A[i] * T.float32(2)
        z = A[0] * T.float32(2)
        C[i * 2 + 1] = y + z + T.Cast("float32", i)


@T.prim_func
def shared(A: T.Buffer((9,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((9,), "int32")):
    for i in T.vectorized(8):
        A[i + 1] = A[i] + T.float32(1)
    for i in T.vectorized(8):
        B[0] = B[0] + A[i]
    for i in T.vectorized(8):
        C[i // 2] = i
    for i in T.vectorized(8):
        C[i] = C[i] + C[7]
    for i in T.vectorized(8):
        C[C[i] * 0 + i] = 1
    for i in T.vectorized(4):
        for j in range(i + 1):
            C[i] = C[i] + j
    for i in T.vectorized(8):
        while C[i] > 5:
            C[i] = C[i] - 5


@pytest.mark.parametrize(
    ("func", "serial"),
    [(private, 1), (guarded, 0), (aligned, 2), (shared, 8)],
    ids=["private", "guarded", "aligned", "shared"],
)
def test_vectorized_loops(func: PrimFunc, serial: int, golden: Golden):
    made = check_schedule(func, 3)
    golden(made.script())
    assert sum(isinstance(item, For) for item in post_order(made.body)) == serial


def test_a_loop_that_stores_one_value_stores_it_once():
    @T.prim_func
    def func(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for _ in T.vectorized(8):
            A[0] = B[0]

    assert isinstance(check_schedule(func, 1).body, BufferStore)


def test_accesses_inside_of_their_buffer_need_no_mask():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in T.vectorized(8):
            C[i] = T.if_then_else(A[i] > T.float32(0), B[7 - i], A[0])

    made = check_schedule(func, 1)
    loads = [item for item in post_order(made.body) if isinstance(item, BufferLoad)]
    assert all(load.predicate is None for load in loads)
    assert sum(isinstance(load.indices[0], Ramp) for load in loads) == 2


def test_vectorizing_can_be_turned_off():
    made = transform.vectorize_loop(transform.flatten_buffer(transform.lower_blocks(private)), False)
    kinds = [item.kind for item in post_order(made.body) if isinstance(item, For)]
    assert kinds == ["serial", "serial"]


@T.prim_func
def bordered(a: T.handle, b: T.handle, row: T.int64):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (8,), "float32")
    for i in T.vectorized(8):
        B[i] = T.if_then_else(i >= 1 and i < m, A[row % (n + 2), i], T.float32(0))


def test_what_all_lanes_divide_by_the_same_is_divided_once():
    """Lanes that take no part must not divide by zero; one number that harms nobody is enough for all."""
    made = transform.vectorize_loop(transform.flatten_buffer(transform.lower_blocks(bordered)))
    divisions = [item for item in post_order(made.body) if isinstance(item, FloorMod)]
    assert divisions
    assert {item.dtype for item in divisions} == {"int64"}
    rng = np.random.default_rng(0)
    for shape, row in (((3, 5), 1), ((3, 5), 12), ((2, 20), 5)):
        given = rng.standard_normal(shape).astype(np.float32)
        want, got = np.zeros(8, np.float32), np.zeros(8, np.float32)
        run(bordered, given, want, row)
        run(made, given, got, row)
        np.testing.assert_array_equal(got, want)
