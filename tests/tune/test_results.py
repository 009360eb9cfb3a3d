"""Results of other kernels: what rounding explains, in networks that amplify it as well, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.tune.results import Array, difference, tolerances

USUAL = 2e-5

A = np.linspace(-1, 1, 100, dtype="float32").reshape(10, 10)


@pytest.mark.parametrize(
    ("have", "said"),
    [
        ([A * np.float32(1 + 1e-6)], ""),
        ([A * np.float32(1.001)], "result 0 differs by 1.0e-03 of its size, expected at most 2e-05"),
        ([A[:5]], "expected float32[10, 10]"),
        ([A.astype("float64")], "result 0 is float64"),
        ([], "there are 0 results, expected 1"),
        ([np.where(A[3, 3] == A, np.nan, A)], "differs by inf"),
    ],
)
def test_results_of_floats(have: list[np.ndarray], said: str):
    have = [
        array.astype("float32") if array.dtype != np.float64 or said == "differs by inf" else array for array in have
    ]
    assert said in difference([A], have, [USUAL])
    assert bool(said) == bool(difference([A], have, [USUAL]))


def test_special_values_have_their_places():
    want = A.copy()
    want[0, 0], want[1, 1] = np.inf, np.nan
    assert difference([want], [want.copy()], [USUAL]) == ""
    other = want.copy()
    other[0, 0] = -np.inf
    assert "inf" in difference([want], [other], [USUAL])


def test_integers_are_exact():
    numbers = np.arange(6)
    assert difference([numbers], [numbers.copy()], [0.0]) == ""
    assert "other values of int64" in difference([numbers], [numbers + (numbers == 3)], [0.0])


def test_nothing_is_equal_to_nothing():
    assert difference([A[:0], A * 0], [A[:0], A * 0], [USUAL, USUAL]) == ""


def amplified(factor: float):
    """A network whose result is a small difference of large numbers."""

    def run(args: Sequence[Array]) -> Sequence[Array]:
        return [(args[0] * np.float32(factor)) - np.float32(factor), np.arange(3)]

    return run


@pytest.mark.parametrize(("factor", "distance"), [(1.0, 1.0), (8.0, 1e-1), (8.0, 1e-2), (8.0, 1e-4)])
def test_a_network_that_amplifies_roundings_may_differ_by_more(factor: float, distance: float):
    rng = np.random.default_rng(3)
    given = (1 + distance * rng.standard_normal(1000)).astype("float32")
    kept = given.copy()
    floats, integers = tolerances(amplified(factor), [given])
    np.testing.assert_array_equal(given, kept)
    effect = 4 * float(np.finfo("float32").eps) / np.sqrt(2) / distance
    expected = min(max(effect, USUAL), 10 * USUAL)
    assert expected / 1.5 <= floats <= expected * 1.5
    assert integers == 0


@given(st.sampled_from(["float16", "float32", "float64", "bfloat16", "int64", "bool"]), st.integers(0, 9))
def test_arguments_change_by_their_last_digit(dtype: str, seed: int):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(seed)
    array = (rng.standard_normal((4, 5)) * 3).astype(kind)
    if kind.kind not in "ib":
        array[0, :3] = np.inf, np.nan, 0
    seen: list[Array] = []

    def run(args: Sequence[Array]) -> Sequence[Array]:
        seen.append(args[0])
        return [args[0]]

    tolerances(run, [array])
    first, changed = (item.astype(np.float64) for item in seen)
    assert seen[1].dtype == kind
    if kind.kind in "ib":
        np.testing.assert_array_equal(changed, first)
        return
    last = float(ml_dtypes.finfo(kind).eps)
    usual = np.isfinite(first) & (first != 0)
    assert (changed[usual] != first[usual]).all()
    assert (np.abs(changed[usual] - first[usual]) <= last * np.abs(first[usual])).all()
    np.testing.assert_array_equal(changed[0, :2], first[0, :2])


def test_sizes_that_depend_on_values_keep_the_usual_tolerance():
    sizes = iter([3, 4])
    assert tolerances(lambda args: [np.ones(next(sizes), "float32")], [A]) == [USUAL]
