"""Programs that sort, and that keep the first elements, beside NumPy; running extremes beside torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.batch import run_with

from eutectic import te
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.support.errors import CallError
from eutectic.testing.native import native
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.well_formed import verify_well_formed
from eutectic.topi.ordering import median_program, sort_program
from eutectic.topi.running import logcumsumexp_program, running_extreme_program

RNG = np.random.default_rng(0)
FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [0, 1, 2, 3, 16, 17, 31, 32, 33, 1000]


def values(shape: tuple[int, ...], dtype: str, rng: np.random.Generator = RNG) -> np.ndarray:
    """Numbers with many equal ones: NaN of both signs, infinities and both zeros, or the limits of integers."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if is_float(dtype):
        odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -300.0])
        return np.where(rng.random(shape) < 0.5, rng.choice(odd, shape), rng.normal(size=shape)).astype(to_numpy(dtype))
    info = np.iinfo(dtype)
    odd = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1], dtype)
    return np.where(rng.random(shape) < 0.5, rng.choice(odd, shape), rng.integers(0, 9, shape).astype(dtype))


def order(x: np.ndarray, axis: int, descending: bool = False) -> np.ndarray:
    """Places in order by the definition: stable in both directions, NaN above all."""
    wide = x.astype("f8") if x.dtype.kind in "fV" or x.dtype == ml_dtypes.bfloat16 else x
    ranks = np.unique(wide, return_inverse=True, equal_nan=True)[1].reshape(x.shape).astype(np.int64)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


def sizes_of(x: np.ndarray, symbolic: bool) -> list[Any]:
    return [Var(f"n{k}", "int64") if symbolic else IntImm("int64", size) for k, size in enumerate(x.shape)]


def check_sorted(
    x: np.ndarray, dtype: str, axis: int, descending: bool, count: int | None, *, symbolic: bool = False
) -> None:
    program = sort_program(
        sizes_of(x, symbolic), dtype, axis, ("values", "indices"), descending=descending, count=count
    )
    want = order(x, axis, descending)
    want = want if count is None else np.take(want, range(count), axis)
    for result in both(program, x, np.zeros(want.shape, x.dtype), np.zeros(want.shape, np.int64)):
        np.testing.assert_array_equal(result[1], want)
        assert result[0].tobytes() == np.take_along_axis(x, want, axis).tobytes()


def both(program: PrimFunc, x: np.ndarray, *outs: np.ndarray) -> list[list[np.ndarray]]:
    """Results with one thread and with two, and for small data those of the interpreter."""
    verify_well_formed(program)
    function, results = native(program), []
    for threads in (1, 2):
        results.append([out.copy() for out in outs])
        run_with(function, threads, x, *results[-1])
    if x.size < 100:
        results.append([out.copy() for out in outs])
        run(program, x, *results[-1])
    return results


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_sizes(size: int, dtype: str) -> None:
    """Both kinds of entries: of one integer, and of two."""
    check_sorted(values((3, size), dtype), dtype, 1, False, None)
    check_sorted(values((3, size), dtype), dtype, -1, True, min(size, 2) or None)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_dtypes(dtype: str) -> None:
    check_sorted(values((2, 39), dtype), dtype, 1, True, None)
    check_sorted(values((2, 300), dtype), dtype, 1, False, 7)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [None, 3])
def test_axes(axis: int, count: int | None) -> None:
    shape = [2, 3, 2]
    shape[axis] = 35
    check_sorted(values(tuple(shape), "float32"), "float32", axis, True, count)


@pytest.mark.parametrize(
    ("size", "count"), [(1000, 1), (1000, 8), (1000, 9), (2000, 60), (200, 150), (40, 40), (129, 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_first_elements(size: int, count: int, dtype: str) -> None:
    """Kept one after the other, a chunk of neighbours at a time, or sorted."""
    check_sorted(values((2, size), dtype), dtype, 1, True, count)
    check_sorted(np.sort(values((2, size), dtype), 1), dtype, 1, True, count)
    check_sorted(values((2, size), dtype), dtype, 1, False, count)


@pytest.mark.parametrize("shape", [(3, 1), (2, 16), (2, 17), (3, 33), (1, 600)])
def test_sizes_that_vary(shape: tuple[int, int]) -> None:
    for dtype in ("float32", "int64"):
        check_sorted(values(shape, dtype), dtype, 1, False, None, symbolic=True)
        check_sorted(values(shape, dtype), dtype, 1, True, 1, symbolic=True)
        check_sorted(values(shape, dtype), dtype, 0, True, None, symbolic=True)


def test_more_elements_than_there_are_is_an_error_of_the_call() -> None:
    x = values((2, 3), "float32")
    program = sort_program(sizes_of(x, True), "float32", 1, ("values",), count=4)
    with pytest.raises(CallError, match="outside"):
        native(program)(x, np.zeros((2, 4), "f4"))


@given(st.lists(st.integers(-3, 3) | st.floats(width=32), max_size=70), st.booleans(), st.integers(0, 70))
@settings(max_examples=15)
def test_any_row_becomes_a_permutation_in_stable_order(row: list[float], descending: bool, count: int) -> None:
    x = np.array(row, "f4")
    program = sort_program([IntImm("int64", len(row))], "float32", 0, ("indices",), descending=descending)
    (places,) = both(program, x, np.zeros(len(row), np.int64))[0]
    assert sorted(places.tolist()) == list(range(len(row)))
    np.testing.assert_array_equal(places, order(x, 0, descending))
    if 0 < count <= len(row):
        check_sorted(x, "float32", 0, descending, count)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
def test_median(dtype: str, symbolic: bool) -> None:
    for shape, axis, keepdims in (((3, 33), 1, False), ((4, 3), 0, True), ((1, 2), 1, True)):
        x = values(shape, dtype)
        program = median_program(sizes_of(x, symbolic), dtype, axis, keepdims=keepdims)
        missing = np.isnan(x.astype("f8"))
        middle = np.take(order(x, axis), [(x.shape[axis] - 1) // 2], axis)
        want = np.where(missing.any(axis, keepdims=True), missing.argmax(axis)[..., None].reshape(middle.shape), middle)
        value = np.take_along_axis(x, want, axis)
        if not keepdims:
            want, value = want.squeeze(axis), value.squeeze(axis)
        for result in both(program, x, np.zeros(want.shape, x.dtype), np.zeros(want.shape, np.int64)):
            np.testing.assert_array_equal(result[1], want)
            assert result[0].tobytes() == value.tobytes()


def as_torch(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.view("i2")).view(torch.bfloat16) if x.dtype == ml_dtypes.bfloat16 else torch.from_numpy(x)


@pytest.mark.parametrize("dtype", [*FLOATS, "bool", "int8", "int64", "uint8"])
def test_running_extremes(dtype: str) -> None:
    for shape, axis in (((3, 33), 1), ((5, 2), 0), ((2, 0), 1)):
        x = values(shape, dtype)
        for kind in ("cummax", "cummin"):
            program = running_extreme_program(kind, sizes_of(x, axis == 0), dtype, axis)
            want = getattr(torch, kind)(as_torch(x), axis)
            for result in both(program, x, np.zeros(shape, x.dtype), np.zeros(shape, np.int64)):
                np.testing.assert_array_equal(result[0].astype("f8"), want.values.double().numpy())
                np.testing.assert_array_equal(result[1], want.indices.numpy())


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_logarithms_of_sums(dtype: str) -> None:
    rows = [[1e4 / 2, -1e4, 3, 3], [-np.inf, -np.inf, 2, np.inf], [np.inf, 1, np.inf, np.nan], [-0.0, 0.0, np.nan, 1]]
    for x in (np.array(rows).astype(to_numpy(dtype)), RNG.normal(size=(3, 40)).astype(to_numpy(dtype))):
        for axis in (0, 1):
            want = torch.logcumsumexp(as_torch(x).double(), axis).numpy()
            for (result,) in both(logcumsumexp_program(sizes_of(x, axis == 0), dtype, axis), x, np.zeros_like(x)):
                limit = {"float64": 1e-12, "float32": 1e-6}.get(dtype, 1e-2)
                np.testing.assert_allclose(result.astype("f8"), want, rtol=limit, atol=limit)


def test_programs_are_the_same_after_they_are_read_again() -> None:
    shape = [Var("n", "int64"), IntImm("int64", 40)]
    for program in (
        sort_program(shape, "float64", 0, ("indices",), index_dtype="int32"),
        sort_program(shape, "float32", 1, ("values",), count=3),
        median_program(shape, "float32", 1),
        running_extreme_program("cummin", shape, "bfloat16", 0),
        logcumsumexp_program(shape, "float32", 1),
    ):
        verify_well_formed(program)
        check_round_trip(program)


def test_text_of_a_sort(golden: Any) -> None:
    golden(sort_program([te.var("n", "int64"), te.const(6, "int64")], "int32", 1, ("values", "indices")).script())


def test_refusals() -> None:
    shape = [IntImm("int64", 3)]
    with pytest.raises(ValueError, match="axis 1 does not exist"):
        sort_program(shape, "float32", 1, ("values",))
    with pytest.raises(ValueError, match="results are values and indices, not places"):
        sort_program(shape, "float32", 0, ("places",))
    with pytest.raises(ValueError, match="no running extreme 'cumsum'"):
        running_extreme_program("cumsum", shape, "float32", 0)
    with pytest.raises(ValueError, match="logcumsumexp of int32"):
        logcumsumexp_program(shape, "int32", 0)
