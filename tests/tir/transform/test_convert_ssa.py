"""Variables that are bound in several places get a new one in each, before anything is remembered of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from eutectic import te
from eutectic.ir.prim_expr import FloatImm, IntImm, Var
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.testing.native import run_native
from eutectic.tir import PrimFunc
from eutectic.tir.buffer import Buffer
from eutectic.tir.expr import Let
from eutectic.tir.interpret import run
from eutectic.tir.stmt import BufferStore, For, seq
from eutectic.tir.transform import convert_ssa, lower

N = 40  # some vectors and a rest


def twice(depth: int) -> PrimFunc:
    """One variable, bound to two values around one object, inside of more such variables."""
    x = te.placeholder((N,), "float32", "x")
    variables = [Var(f"v{k}", "float32") for k in range(depth)]
    shared: Any = FloatImm("float32", 1.0)
    for var in variables:
        shared = shared + var * var

    def value(i: Any) -> Any:
        parts = []
        for offset in (0, N - 1):
            made = shared
            for number, var in enumerate(variables):
                made = Let(var, x[(i + offset + number) % N], made)
            parts.append(made)
        return parts[0] - parts[1] * 2.0

    return te.create_prim_func([x, te.compute((N,), value, "y")])


def compare(func: PrimFunc) -> None:
    x = np.random.default_rng(0).standard_normal(N).astype("f4")
    want, got, lowered = (np.zeros(N, "f4") for _ in range(3))
    run(func, x, want)
    run_native(func, x, got)
    run(lower(func), x, lowered)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(lowered, want)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_one_variable_with_two_values(depth: int):
    func = twice(depth)
    bound = [part.var for part in post_order(convert_ssa(func).body) if isinstance(part, Let)]
    assert len(set(bound)) == len(bound) == 2 * depth
    compare(func)


def test_a_program_that_binds_each_variable_once_is_kept():
    func = convert_ssa(twice(1))
    assert convert_ssa(func) is func


def test_two_loops_of_one_variable():
    a, b, i = Buffer("A", (N,), "float32"), Buffer("B", (N,), "float32"), Var("i", "int32")
    store = BufferStore(b, b[i] + a[i], (i,))
    loops = [For(i, IntImm("int32", 0), IntImm("int32", count), "serial", store) for count in (N, N // 2)]
    func = PrimFunc((a, b), seq(*loops))  # type: ignore[arg-type]  # the node converts what it is given
    bound = [part.loop_var for part in post_order(convert_ssa(func).body) if isinstance(part, For)]
    assert len(set(bound)) == len(bound) == 2
    compare(func)


@T.prim_func
def unrolled(x: T.Buffer((40,), "float32"), y: T.Buffer((40,), "float32")):
    v = T.float32()
    for i in T.serial(10):
        for j in T.unroll(4):
            y[i * 4 + j] = T.Let(v * v + T.exp(v), where={v: x[i * 4 + j]})


def test_copies_of_an_unrolled_loop_bind_their_own():
    bound = [part.var for part in post_order(lower(unrolled).body) if isinstance(part, Let)]
    assert len(set(bound)) == len(bound) == 4
    compare(unrolled)


@pytest.mark.parametrize("outer", [1, 2, 3])
def test_values_that_are_computed_again_at_several_places_of_others(outer: int):
    """A chain of stages, each of which reads the one before it at several places that depend on data."""
    x = te.placeholder((N,), "float32", "x")
    stage = x
    for _ in range(outer + 1):
        previous = stage

        def value(i: Any, previous: Any = previous) -> Any:
            near = te.max(te.min((i.astype("float32") + 0.5) * 0.5, FloatImm("float32", N - 1.0)), 0.0)
            return previous[i] * 0.5 + previous[te.floor(near).astype("int64")] * previous[N - 1 - i]

        stage = te.compute((N,), value, "stage")
    compare(te.create_prim_func([x, stage]))


def test_all_orders_of_two_places():
    x = te.placeholder((N,), "float32", "x")
    for a, b in itertools.permutations((0, 1, 2), 2):
        y = te.compute((N,), lambda i: te.exp(x[i]), "y")
        z = te.compute((N,), lambda i, y=y, a=a, b=b: y[(i + a) % N] - y[(i + b) % N] * 2.0, "z")
        compare(te.create_prim_func([x, z]))
