"""What the reference interpreter takes as arguments, and what it binds from them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.tir.programs import nest

from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import CallError
from eutectic.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    FloatImm,
    MatchBufferRegion,
    PrimFunc,
    pow,
)
from eutectic.tir.interpret import run


@T.prim_func
def scaled(x: T.Buffer((4,), "float32"), factor: T.float32, count: T.int8, y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i] * factor + T.Cast("float32", count)


@pytest.mark.parametrize(
    ("place", "given", "message"),
    [
        (0, [1.0] * 4, r"x must be an array, got list"),
        (0, np.zeros(4), r"x must be float32, got float64"),
        (0, np.zeros((4, 1), "float32"), r"x must have 1 axes, got 2: shape \(4, 1\)"),
        (0, np.zeros(5, "float32"), r"x must have size 4 on axis 0, got 5: shape \(5,\)"),
        (0, np.zeros(4, "complex64"), r"x must be float32, got complex64"),
        (0, np.zeros(4, ">f4"), r"x must be float32, got >f4"),
        (1, "2", r"factor must be a number of float32, got str"),
        (2, 1.5, r"count must be int8, got float: 1.5"),
        (2, 128, r"count must be int8, from -128 to 127, got 128"),
        (3, np.broadcast_to(np.float32(0), (4,)), r"y is written, so it must be a writeable array"),
    ],
)
def test_arguments_that_do_not_fit(place, given, message):
    args: list[Any] = [np.zeros(4, "float32"), 2, 1, np.zeros(4, "float32")]
    args[place] = given
    with pytest.raises(CallError, match=message):
        run(scaled, *args)


def test_scalars_and_the_number_of_arguments():
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    run(scaled, np.broadcast_to(x, (4,)), np.float64(0.5), np.int64(-1), y)
    np.testing.assert_array_equal(y, x / 2 - 1)
    with pytest.raises(CallError, match="scaled takes 4 arguments, got 1"):
        run(scaled, x)


def test_sizes_are_bound_before_they_are_checked():
    n = Var("n")
    a, b = Buffer("a", (n * 2,)), Buffer("b", (n,))
    func = PrimFunc((a, b), BufferStore(b, a[n * 2 - 1], (0,)))
    out = np.zeros(3, "float32")
    run(func, np.arange(6, dtype="float32"), out)
    assert out[0] == 5
    with pytest.raises(CallError, match=r"a must have size 6 on axis 0, got 5"):
        run(func, np.zeros(5, "float32"), out)
    with pytest.raises(CallError, match=r"the shape of a depends on n, which no argument determines"):
        run(PrimFunc((a,), Evaluate(0)), np.zeros(4, "float32"))
    with pytest.raises(CallError, match=r"b must have size 2 on axis 0, got 3"):
        run(PrimFunc((n, b), Evaluate(0)), 2, out)


def test_arrays_may_have_gaps_and_run_backwards():
    n = Var("n")
    a, b = Buffer("a", (n, n)), Buffer("b", (n, n))
    func = PrimFunc((a, b), nest("ij", (n, n), lambda i, j: BufferStore(b, a[i, j], (i, j))))
    x, out = np.arange(64, dtype="float32").reshape(8, 8), np.zeros((8, 8), "float32")
    for view in (lambda z: z.T, lambda z: z[::2, 1:5], lambda z: z[::-2, ::2], lambda z: z[5:1:-1, 3::-1]):
        out[:] = 0
        run(func, view(x), view(out))
        np.testing.assert_array_equal(view(out), view(x))
    packed = np.zeros((2, 2), [("tag", "u1"), ("x", "f4")])["x"]
    with pytest.raises(CallError, match="must have strides of whole elements"):
        run(func, packed, np.zeros((2, 2), "float32"))


@T.prim_func
def strided(a: T.handle, out: T.Buffer((2, 3))):
    s0, s1, start = T.int32(), T.int32(), T.int32()
    x = T.match_buffer(a, (2, 3), strides=(s0, s1), elem_offset=start)
    for i, j in T.grid(2, 3):
        out[i, j] = x[i, j] + T.Cast("float32", s0 * 100 + s1 * 10 + start)


def test_strides_of_parameters_are_bound():
    x, out = np.arange(12, dtype="float32").reshape(3, 4), np.empty((2, 3), "float32")
    run(strided, x[1:, 1:], out)
    np.testing.assert_array_equal(out, x[1:, 1:] + 410)
    fixed = Buffer("a", (2, 3), strides=(3, 1))
    with pytest.raises(CallError, match="a must have stride 3 on axis 0, got 4"):
        run(PrimFunc((fixed,), Evaluate(0)), x[1:, 1:])


def test_empty_arrays():
    n = Var("n")
    a = Buffer("a", (n, 3))
    func = PrimFunc((a,), nest("ij", (n, 3), lambda i, j: BufferStore(a, 1.0, (i, j))))
    run(func, np.zeros((0, 3), "float32"))


def test_handles_without_a_buffer_are_flat_memory():
    data = Var("data", "handle")
    pair = Buffer("pair", (2,), "int32", data=data)
    func = PrimFunc((data,), DeclBuffer(pair, BufferStore(pair, 7, (1,))))
    array = np.zeros((2, 2), "int32")
    run(func, array)
    np.testing.assert_array_equal(array, [[0, 7], [0, 0]])
    for wrong in (array.T, 3):
        with pytest.raises(CallError, match="data must be an array without gaps"):
            run(func, wrong)


def test_read_only_arrays_are_seen_behind_other_names():
    x, tile, data = Buffer("x", (4,)), Buffer("tile", (2,)), Var("data", "handle")
    block = Block((), (), (), "b", BufferStore(tile, 1.0, (0,)), match_buffers=(MatchBufferRegion(tile, x[1:3]),))
    frozen = np.zeros(4, "float32")
    frozen.flags.writeable = False
    with pytest.raises(CallError, match="x is written, so it must be a writeable array"):
        run(PrimFunc((x,), BlockRealize((), True, block)), frozen)
    y = Buffer("y", (4,), data=data)
    with pytest.raises(CallError, match="data is written, so it must be a writeable array"):
        run(PrimFunc((data,), DeclBuffer(y, BufferStore(y, 1.0, (0,)))), frozen)


@pytest.mark.parametrize("number", [np.array(3), np.int8(3), 3, np.bool_(True), True])
def test_scalars_of_many_kinds(number):
    n, out = Var("n", "int16"), Buffer("out", (1,), "int16")
    found = np.zeros(1, "int16")
    run(PrimFunc((n, out), BufferStore(out, n, (0,))), number, found)
    assert found[0] == int(number)


def test_floats_are_rounded_to_the_parameter():
    x, out = Var("x", "bfloat16"), Buffer("out", (1,), "bfloat16")
    for number in (1.0078125, np.float64(1.0078125), ml_dtypes.bfloat16(1.0078125)):
        found = np.zeros(1, ml_dtypes.bfloat16)
        run(PrimFunc((x, out), BufferStore(out, x, (0,))), number, found)
        assert found[0] == 1.0078125


def test_results_without_axes_are_written():
    out = Buffer("out", ())
    given = np.zeros((), "float32")
    run(PrimFunc((out,), BufferStore(out, 2.5, ())), given)
    assert given == 2.5


@pytest.mark.parametrize(("base", "power", "want"), [(-np.inf, 0.5, np.inf), (-0.0, 0.5, 0.0), (4.0, 0.5, 2.0)])
def test_powers_are_those_of_c(base: float, power: float, want: float):
    out = Buffer("out", (1,))
    given = np.zeros(1, "float32")
    run(PrimFunc((out,), BufferStore(out, pow(FloatImm("float32", base), FloatImm("float32", power)), (0,))), given)
    assert given[0] == want
    assert not np.signbit(given[0])
