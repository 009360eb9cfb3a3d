"""Programs that write where data says, in default schedules: vectors along slices, updates in their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import tir
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.support.errors import CallError
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import CHOSEN, TRACE
from eutectic.tir.interpret import run
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.stmt import For, ForKind
from eutectic.topi.scatter import REDUCTIONS, scatter_program

NUMPY = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
# Rows, sizes of a row, updates.
SHAPES = [(5, (), 9), (4, (3,), 6), (6, (16,), 20), (3, (2, 21), 5), (9, (40,), 1000)]


def sizes(values: tuple[int, ...]) -> list[IntImm]:
    return [IntImm("int64", value) for value in values]


def program(rows: int, row: tuple[int, ...], updates: int, reduction: str, dtype: str = "float32") -> tir.PrimFunc:
    return scatter_program(sizes((rows, *row)), sizes((updates, 1)), dtype, "int64", reduction)


def arrays(rows: int, row: tuple[int, ...], updates: int, dtype: str = "float32") -> list[np.ndarray]:
    """Data, places of which some are the same and some count from the end, updates, and memory for the result."""
    rng = np.random.default_rng(rows + updates)
    places = rng.integers(-rows, rows, (updates, 1))
    data, values = (
        rng.integers(-9, 9, (rows, *row)),
        rng.choice([-2, -1, 1, 3], (updates, *row), p=[0.02, 0.48, 0.48, 0.02]),
    )
    data, values = data.astype(dtype), values.astype(dtype)
    return [data, places, values, np.zeros_like(data)]


def by_hand(data: np.ndarray, places: np.ndarray, values: np.ndarray, reduction: str) -> np.ndarray:
    want = data.copy()
    for place, value in zip(places[:, 0], values, strict=True):
        want[place] = value if reduction == "update" else NUMPY[reduction](want[place], value)
    return want


def parallel_loops(func: tir.PrimFunc) -> int:
    return sum(isinstance(part, For) and part.kind == ForKind.PARALLEL for part in post_order(func.body))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_writes_in_order(shape: tuple[int, tuple[int, ...], int], reduction: str):
    scheduled = schedule_for_cpu(program(*shape, reduction), Vectors(256))
    assert scheduled.attr(CHOSEN)[0].startswith("scatter@0: ")
    check_round_trip(scheduled)
    *given_, got = arrays(*shape)
    NativePrimFunc(scheduled, Target("llvm"))(*given_, got)
    np.testing.assert_array_equal(got, by_hand(*given_, reduction))


@settings(max_examples=20)
@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 20), max_size=2).map(tuple),
    st.integers(1, 7),
    st.sampled_from(list(REDUCTIONS)),
    st.sampled_from(["float32", "float64", "int32", "bfloat16"]),
)
def test_any_sizes(rows: int, row: tuple[int, ...], updates: int, reduction: str, dtype: str):
    wide = "float32" if dtype == "bfloat16" else dtype  # small integers: exact in bfloat16 unless they are multiplied
    reduction = "add" if dtype == "bfloat16" and reduction == "mul" else reduction
    func = program(rows, row, updates, reduction, wide)
    *given_, got = arrays(rows, row, updates, wide)
    run(schedule_for_cpu(func, Vectors(256)), *given_, got)
    np.testing.assert_allclose(got, by_hand(*given_, reduction), rtol=1e-5)


def test_sizes_need_not_be_known():
    n, m, k = (Var(name, "int64") for name in ("n", "m", "k"))
    func = scatter_program([n, k], [m, IntImm("int64", 1)], "float32", "int64", "add")
    native = NativePrimFunc(schedule_for_cpu(func, Vectors(256)), Target("llvm"))
    for shape in ((3, (8,), 5), (4, (19,), 2)):
        *given_, got = arrays(*shape)
        native(*given_, got)
        np.testing.assert_array_equal(got, by_hand(*given_, "add"))


def test_several_axes_are_indexed():
    func = scatter_program(sizes((4, 3, 5)), sizes((2, 6, 2)), "float32", "int32", "add")
    rng = np.random.default_rng(0)
    data, values = rng.standard_normal((4, 3, 5)).astype("f4"), rng.standard_normal((2, 6, 5)).astype("f4")
    places = np.stack([rng.integers(0, 4, (2, 6)), rng.integers(-3, 3, (2, 6))], -1).astype("i4")
    want, got = data.copy(), np.zeros_like(data)
    np.add.at(want, tuple(np.moveaxis(places, -1, 0)), values)
    NativePrimFunc(schedule_for_cpu(func, Vectors(256)), Target("llvm"))(data, places, values, got)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_threads_share_slices_never_updates():
    func = program(9, (64,), 1000, "add")
    (point,) = choice_points(func, Vectors(256)).values()
    first, second = point.alternatives()
    assert (first["shared"], second["shared"]) == (True, False)
    *given_, got = arrays(9, (64,), 1000)
    for decisions, loops in ((first, 2), (second, 1)):  # the copy has one of its own
        scheduled = schedule_for_cpu(with_decisions(func, {point.name: decisions}), Vectors(256))
        assert parallel_loops(scheduled) == loops
        NativePrimFunc(scheduled, Target("llvm"))(*given_, got)
        np.testing.assert_array_equal(got, by_hand(*given_, "add"))


@pytest.mark.parametrize("place", [9, -10])
def test_places_outside_are_refused(place: int):
    *given_, got = arrays(9, (16,), 20)
    given_[1][7] = place
    with pytest.raises(CallError, match="outside of axis 0"):
        NativePrimFunc(schedule_for_cpu(program(9, (16,), 20, "add"), Vectors(256)), Target("llvm"))(*given_, got)


def test_traces_are_replayed():
    func = program(6, (21,), 20, "max")
    scheduled = schedule_for_cpu(func, Vectors(256))
    replayed = tir.Schedule(func)
    trace_from_python(list(scheduled.attr(TRACE))).apply_to_schedule(replayed, remove_postproc=False)
    assert structural_equal(replayed.func.body, scheduled.body)
