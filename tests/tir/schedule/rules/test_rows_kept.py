"""Rows of a tile whose addresses end in the same bits: no more than the nearest cache keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.tile_size import rows_kept

WIDE, NARROW = Vectors(512, 32), Vectors(256, 16)


def matmul(terms: int, turned: bool = False, rows: int = 48) -> tir.PrimFunc:
    x = te.placeholder((terms, rows) if turned else (rows, terms), "float32", "x")
    y = te.placeholder((terms, 256), "float32", "y")
    return te.create_prim_func([x, y, topi.nn.relu(topi.matmul(x, y, turned, False))])


def tiles(func: tir.PrimFunc, processor: Vectors) -> list[tuple[int, int]]:
    """Rows and width of the tile that is chosen, and of those that are worth a measurement."""
    (point,) = [point for name, point in choice_points(func, processor).items() if name.startswith("register_tile")]
    choices: list[dict[str, Any]] = [dict(point.chosen), *map(dict, point.alternatives())]
    return [(choice["rows"], choice["width"]) for choice in choices]


@pytest.mark.parametrize(
    ("step", "rows"), [(4096, 6), (8192, 6), (12288, 6), (2048, 12), (3072, 24), (64, 384), (4, 6144)]
)
def test_rows_by_the_bytes_between_them(step: int, rows: int):
    assert rows_kept(step, 6) == rows


@pytest.mark.parametrize("terms", [1024, 2048, 3072])
def test_rows_that_are_whole_pages_apart_are_few_and_wide(terms: int):
    found = tiles(matmul(terms), WIDE)
    assert found[0] == (6, 64)
    assert max(rows for rows, _ in found) <= 6


@pytest.mark.parametrize("func", [matmul(1040), matmul(768), matmul(1024, turned=True)], ids=["1040", "768", "turned"])
def test_others_are_as_many_as_registers_hold(func: tir.PrimFunc):
    assert tiles(func, WIDE)[0][0] > 6


def test_with_few_registers_there_are_no_more_anyway():
    assert tiles(matmul(1024), NARROW)[0] == tiles(matmul(1040), NARROW)[0]


def test_values():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, shape).astype("float32") for shape in ((48, 1024), (1024, 256)))
    got = np.full((48, 256), np.nan, "float32")
    NativePrimFunc(schedule_for_cpu(matmul(1024), WIDE), Target("llvm"), 2)(x, y, got)
    np.testing.assert_array_equal(got, np.maximum(x @ y, 0))
