"""Quotients by sizes that vary: once for an iteration, where it begins."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic.script import tir as T
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.stmt import For, LetStmt
from eutectic.tir.transform import hoist_quotients


@T.prim_func
def rows(var_x: T.handle, var_y: T.handle, n: T.int64, m: T.int64):
    x = T.match_buffer(var_x, (4 * n,))
    y = T.match_buffer(var_y, (4 * n * m,))
    for f in T.parallel(4 * n):
        for i in range(m):
            y[f * m + i] = x[f // n * n + f % n] + T.Cast("float32", f // n)


@T.prim_func
def under_a_condition(var_x: T.handle, var_y: T.handle, n: T.int64, m: T.int64):
    x = T.match_buffer(var_x, (4 * n,))
    y = T.match_buffer(var_y, (4 * n * m,))
    for f in T.serial(4 * n * m):
        y[f] = T.if_then_else(f % n < 2, x[f // m], T.float32(0))


@T.prim_func
def of_two_loops(var_x: T.handle, var_y: T.handle, n: T.int64, m: T.int64):
    x = T.match_buffer(var_x, (4 * n,))
    y = T.match_buffer(var_y, (4 * n * m,))
    for f in T.serial(4 * n):
        for g in T.serial(m):
            for k in range(1):
                y[f * m + g] = x[f // n + k] + T.Cast("float32", g // n + (f // n + g) // m)


@T.prim_func
def flat(var_x: T.handle, var_y: T.handle, n: T.int64):
    x = T.match_buffer(var_x, (4 * n,))
    y = T.match_buffer(var_y, (4 * n,))
    for f in T.serial(4 * n):
        y[f] = x[f // n]


@T.prim_func
def by_constants(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")):
    for f in T.serial(8):
        for i in range(4):
            y[f * 4 + i] = x[f // 3]


@T.prim_func
def from_memory(x: T.Buffer((32,), "int64"), y: T.Buffer((32,), "int64")):
    for f in T.serial(8):
        for i in range(4):
            y[f * 4 + i] = x[i] // x[f]


def lets(func: PrimFunc) -> list[list[str]]:
    """For each loop, from outside in, the names that its iterations begin with."""
    found: list[list[str]] = []
    stmt = func.body
    while isinstance(stmt, (For, LetStmt)):
        if isinstance(stmt, For):
            found.append([])
        else:
            found[-1].append(stmt.var.name)
        stmt = stmt.body
    return found


@pytest.mark.parametrize(
    ("func", "names"),
    [
        (rows, [["quotient", "remainder"], []]),
        (under_a_condition, [["quotient", "remainder"]]),
        (of_two_loops, [["quotient"], ["quotient", "quotient"], []]),
    ],
)
def test_where_they_are(func: PrimFunc, names: list[list[str]]):
    body = func.body.block.body if hasattr(func.body, "block") else func.body
    after = hoist_quotients(func.with_body(body))
    assert [sorted(level) for level in lets(after)] == names
    assert hoist_quotients(after) is after


@pytest.mark.parametrize("func", [rows, under_a_condition, of_two_loops])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 2), (2, 5)])
def test_the_same_is_computed(func: PrimFunc, n: int, m: int):
    after = hoist_quotients(func)
    assert after is not func
    x = np.random.default_rng(0).standard_normal(4 * n).astype("float32")
    results = [np.zeros(4 * n * m, "float32") for _ in range(2)]
    for program, y in zip((func, after), results, strict=True):
        run(program, x, y, n, m)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("func", [flat, by_constants, from_memory])
def test_others_stay(func: PrimFunc):
    assert hoist_quotients(func) is func
