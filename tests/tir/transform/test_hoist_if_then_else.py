"""Conditions are asked before loops that do not change them, and stay where something could."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic.ir.structural import structural_equal
from eutectic.script import tir as T
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.transform import hoist_if_then_else


@T.prim_func
def rows(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")):
    for i, j in T.grid(4, 3):
        if i + j < 5:
            y[i + j] = T.float32(0)
        for k in range(4):
            if i + j < 5:
                y[i + j] = y[i + j] + x[i + j, k]
        if i + j < 5:
            y[i + j] = y[i + j] * T.float32(2)


@T.prim_func
def rows_after(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")):
    for i, j in T.grid(4, 3):
        if i + j < 5:
            y[i + j] = T.float32(0)
            for k in range(4):
                y[i + j] = y[i + j] + x[i + j, k]
            y[i + j] = y[i + j] * T.float32(2)


@T.prim_func
def of_memory(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(4):
            if y[0] < T.float32(3):
                y[i] = y[i] + x[i, k]


@T.prim_func
def of_the_loop(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(4):
            if i + k < 6:
                y[i] = y[i] + x[i, k]


@T.prim_func
def with_another_case(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(4):
            if i < 6:
                y[i] = y[i] + x[i, k]
            else:
                y[i] = x[i, k]


@T.prim_func
def by_threads(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8,), "float32"), n: T.int32):
    for i in T.parallel(8):
        if n < 6:
            y[i] = x[i, 0]


def test_statements_under_one_condition_come_under_it_together():
    after = hoist_if_then_else(rows)
    assert structural_equal(after, rows_after.with_attr("global_symbol", "rows"))
    x = np.random.default_rng(0).standard_normal((8, 4), np.float32)
    want, got = np.ones(8, np.float32), np.ones(8, np.float32)
    run(rows, x, want)
    run(after, x, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("func", [of_memory, of_the_loop, with_another_case, by_threads, rows_after])
def test_what_may_not_move_stays(func: PrimFunc):
    assert hoist_if_then_else(func) is func
