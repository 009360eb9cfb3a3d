"""create_prim_func: structure and meaning of the programs, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te, tir
from eutectic.ir.structural import structural_equal
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc, verify_well_formed
from eutectic.tir.interpret import run


def built(*ops: Any) -> PrimFunc:
    func = te.create_prim_func(ops)
    verify_well_formed(func)
    check_round_trip(func)
    return func


def product(m: Any, k: Any, n: Any, dtype: str = "float32") -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    over = te.reduce_axis((0, a.shape[1]), "k")
    return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, over] * b[over, j], axis=over), name="C")


def arg_max() -> Any:
    def combine(x: Any, y: Any) -> Any:
        first = x[1] >= y[1]
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    return te.comm_reducer(combine, lambda at, value: (te.const(-1, at), te.min_value(value)), "argmax")


def test_golden(golden):
    golden(built(*product(16, 8, 4)).script(), "matmul")
    n, m = te.var("n", "int64"), te.size_var("m", "int64")
    a, b, c = product(n, 16, m)
    d = te.compute((n, m), lambda *i: te.max(c(*i), 0.0), name="relu")
    golden(built(a, b, d).script(), "symbolic_matmul_relu")
    x = te.placeholder((4, 5), name="X")
    k = te.reduce_axis((0, 5), "k")
    golden(built(x, *te.compute((4,), lambda i: arg_max()((k, x[i, k]), axis=k), name="best")).script(), "argmax")
    s = te.compute((), lambda: x[0, 0] * 2, name="scalar")
    golden(built(x, te.compute((), lambda: s() + 1, name="scalar")).script(), "scalar")


def test_attributes_and_names():
    func = built(*product(3, 4, 5))
    assert func.attrs["global_symbol"] == "main"
    assert bool(func.attrs["tir.noalias"])
    assert [p.name for p in func.params] == ["var_A", "var_B", "var_C"]
    assert [b.name for b in func.buffer_map.values()] == ["A", "B", "C"]


def test_index_dtypes_follow_the_shape():
    a, _, c = product(te.const(3, "int64"), 4, 5)
    assert {size.dtype for size in (*a.shape, *c.shape)} == {"int64"} or {s.dtype for s in c.shape} == {"int64"}
    assert {axis.var.dtype for axis in c.op.axis} == {"int64"}


def test_same_expressions_make_equal_programs():
    assert structural_equal(built(*product(3, 4, 5)), built(*product(3, 4, 5)))
    assert not structural_equal(built(*product(3, 4, 5)), built(*product(3, 4, 6)))


@given(st.integers(0, 4), st.integers(0, 5), st.integers(0, 3), st.integers(0, 2**31))
@settings(max_examples=30)
def test_matmul_computes(m: int, k: int, n: int, seed: int):
    rng = np.random.default_rng(seed)
    a, b = (np.asarray(rng.integers(-9, 9, shape), "float32") for shape in ((m, k), (k, n)))
    out = np.full((m, n), 7, "float32")
    run(built(*product(m, k, n)), a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_symbolic_sizes_are_bound_by_the_arrays():
    n = te.var("n", "int64")
    a, b = np.arange(12, dtype="float32").reshape(4, 3), np.ones((3, 4), "float32")
    out = np.zeros((4, 4), "float32")
    run(built(*product(n, 3, n)), a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_scalar_parameters():
    x, shift = te.placeholder((4,), name="x"), te.var("shift", "int32")
    func = built(x, shift, te.compute((4,), lambda i: x[(i + shift) % 4], name="rolled"))
    data, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    run(func, data, 3, out)
    np.testing.assert_array_equal(out, np.roll(data, -3))


def test_tuple_reduction():
    x = te.placeholder((3, 6), name="x")
    k = te.reduce_axis((0, 6), "k")
    at, best = te.compute((3,), lambda i: arg_max()((k, x[i, k]), axis=k), name="best")
    data = np.random.default_rng(0).integers(0, 4, (3, 6)).astype("float32")
    places, values = np.zeros(3, "int32"), np.zeros(3, "float32")
    run(built(x, at, best), data, places, values)
    np.testing.assert_array_equal(places, data.argmax(1))
    np.testing.assert_array_equal(values, data.max(1))
    places[:] = 0
    run(built(x, at), data, places)
    np.testing.assert_array_equal(places, data.argmax(1))


def test_several_values_and_reductions_with_options():
    x = te.placeholder((5,), name="x")
    total, twice = te.compute((5,), lambda i: (x[i] + 1, x[i] * 2), name="both")
    k = te.reduce_axis((1, 5), "k")
    odd = te.compute((1,), lambda i: te.sum(x[k], axis=k, where=(k % 2).equal(1), init=100.0), name="odd")
    data = np.arange(5, dtype="float32")
    outs = [np.zeros(n, "float32") for n in (5, 5, 1)]
    run(built(x, total, twice, odd), data, *outs)
    for got, want in zip(outs, (data + 1, data * 2, [104.0]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "want"), [("max", [-np.inf, 5]), ("min", [-np.inf, -2]), ("prod", [np.inf, -20])])
def test_reducers(name: str, want: list[float]):
    x = te.placeholder((2, 3), name="x")
    k = te.reduce_axis((0, 3), "k")
    func = built(x, te.compute((2,), lambda i: getattr(te, name)(x[i, k], axis=k), name="red"))
    data = np.array([[-np.inf, -np.inf, -np.inf], [2, 5, -2]], "float32")
    out = np.zeros(2, "float32")
    run(func, data, out)
    np.testing.assert_array_equal(out[1], want[1])
    np.testing.assert_array_equal(np.abs(out[0]), np.inf)


def test_reducers_of_expressions():
    assert int(te.max(te.const(3), te.const(5))) == 5
    assert int(te.sum(te.const(3), te.const(5), te.const(7))) == 15


def test_axis_names():
    named = te.compute((2, 3, 4), lambda n, *rest: n, name="x")
    assert [axis.var.name for axis in named.op.axis] == ["n", "i0", "i1"]
    given_names = te.compute((2, 3), lambda *i: i[0], varargs_names=["yy", "xx"])
    assert [axis.var.name for axis in given_names.op.axis] == ["yy", "xx"]


def test_inputs_are_found():
    a, b, c = product(2, 3, 4)
    assert te.placeholders_of([c]) == [a, b]
    assert c.op.input_tensors == (a, b)
    assert [axis.var.name for axis in c.op.reduce_axis] == ["k"]
    assert repr(c) == "Tensor(C, shape=(2, 4), dtype=float32)"


def test_refusals():
    a, b, c = product(2, 3, 4)
    k = te.reduce_axis((0, 3), "k")
    with pytest.raises(ValueError, match="placeholder A is read"):
        te.create_prim_func([b, c])
    with pytest.raises(ValueError, match="given twice"):
        te.create_prim_func([a, a, b, c])
    with pytest.raises(TypeError, match="takes tensors"):
        te.create_prim_func([a, b, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="variable n is used"):
        te.create_prim_func([a, te.compute((2,), lambda i: a[i, te.var("n")])])
    with pytest.raises(TypeError, match="within an expression"):
        te.compute((2,), lambda i: te.sum(a[i, k], axis=k) + 1)
    with pytest.raises(ValueError, match="mixes values"):
        te.compute((2,), lambda i: (te.sum(a[i, k], axis=k), a[i, 0]))
    with pytest.raises(ValueError, match="has 2 axes"):
        te.compute((2, 3), lambda i: a[i, 0])
    with pytest.raises(ValueError, match="has 2 axes, but 1 indices"):
        a[0]
    with pytest.raises(TypeError, match="must return expressions"):
        te.compute((2,), lambda i: "text")
    with pytest.raises(ValueError, match=r"te\.reduce_axis"):
        te.compute((2,), lambda i: te.sum(a[i, 0], axis=[c.op.axis[0]]))
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(a)
