"""Operands that are copied in strips of several tiles: when, what the copy is, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.transform.lower_tir import lowered

AVX2 = Vectors(256, 16)
NATIVE = Target("llvm")


def matmul(rows: Any, terms: int, columns: Any, batch: int = 0, turned: bool = False) -> tir.PrimFunc:
    """A product with a bias and an activation."""
    many = (batch,) if batch else ()
    x = te.placeholder((*many, *((terms, rows) if turned else (rows, terms))), "float32", "x")
    y = te.placeholder((*many, terms, columns), "float32", "y")
    bias = te.placeholder((columns,), "float32", "bias")
    product = topi.matmul(x, y, turned, False)
    total = te.compute(product.shape, lambda *at: product[at] + bias[at[-1]], "total")
    return te.create_prim_func([x, y, bias, topi.nn.relu(total)])


def decisions(func: tir.PrimFunc) -> dict[str, Any]:
    (point,) = [point for name, point in choice_points(func, AVX2).items() if name.startswith("register_tile")]
    return dict(point.chosen)


def values_of(func: tir.PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [[int(size) for size in func.buffer_map[param].shape] for param in func.params]
    return [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize(
    ("terms", "columns", "strip"),
    [
        (1024, 1024, 4),  # 256 kB
        (1536, 1024, 2),
        (2048, 1024, 2),
        (4096, 1024, 1),  # one tile has as much
        (64, 384, 3),  # eight strips of three; of four there would be six
        (64, 256, 2),
        (64, 1000, 1),  # the last tile is half of one
    ],
)
def test_as_many_tiles_as_stay_near_in_even_parts(terms: int, columns: int, strip: int):
    assert decisions(matmul(96, terms, columns))["strip"] == strip


def test_no_word_of_it_where_nothing_is_copied():
    assert "strip" not in decisions(matmul(96, 64, 64))


def test_threads_share_strips_and_each_is_copied_tile_by_tile():
    scheduled = schedule_for_cpu(matmul(96, 64, 1024), AVX2)
    (shared,) = [part for part in post_order(scheduled.body) if isinstance(part, tir.For) and part.kind == "parallel"]
    assert shared.extent.value == 16
    (copy,) = [
        part
        for part in post_order(lowered(scheduled).body)
        if isinstance(part, tir.Allocate) and "reindex" in part.buffer_var.name
    ]
    assert [size.value for size in copy.extents] == [64 * 4 * 16]
    text = lowered(scheduled).script()
    assert "ax0_0 * 1024 + ax1 * 16" in text.replace("T.int64(", "").replace(")", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        {"rows": 30, "terms": 20, "columns": 512},
        {"rows": 29, "terms": 7, "columns": 384, "turned": True},
        {"rows": 25, "terms": 9, "columns": 256, "batch": 3},
        {"rows": 24, "terms": 1, "columns": 256},
    ],
    ids=str,
)
def test_values(sizes: dict[str, Any]):
    """Sums of small whole numbers are exact in every order."""
    func = matmul(**sizes)
    *inputs, want = values_of(func)
    run(func, *inputs, want)
    scheduled = schedule_for_cpu(func, AVX2)
    assert not any("refused" in str(line) for line in scheduled.attrs["tir.chosen"])
    check_round_trip(scheduled)
    for threads in (1, 2):
        got = np.full_like(want, np.nan)
        NativePrimFunc(scheduled, NATIVE, threads)(*inputs, got)
        np.testing.assert_array_equal(got, want)


def test_every_candidate_gives_the_same():
    func = matmul(26, 12, 512)
    *inputs, want = values_of(func)
    run(func, *inputs, want)
    (point,) = [point for name, point in choice_points(func, AVX2).items() if name.startswith("register_tile")]
    forms = {(choice["panel"], choice["strip"]) for choice in point.alternatives()}
    assert {(True, 4), (True, 1), (False, 1)} <= forms
    for choice in point.alternatives():
        got = np.full_like(want, np.nan)
        decided = with_decisions(func, {point.name: choice})
        NativePrimFunc(schedule_for_cpu(decided, AVX2), NATIVE, 2)(*inputs, got)
        np.testing.assert_array_equal(got, want)


def test_rows_that_vary():
    n = tir.Var("n", "int64")
    func = matmul(n, 256, 512)
    assert decisions(func)["strip"] > 1
    x, y, bias = (
        np.random.default_rng(2).integers(-4, 5, shape).astype("float32") for shape in ((31, 256), (256, 512), 512)
    )
    got = np.zeros((31, 512), "float32")
    NativePrimFunc(schedule_for_cpu(func, AVX2), NATIVE, 2)(x, y, bias, got)
    np.testing.assert_array_equal(got, np.maximum(x @ y + bias, 0))
