"""Running sums along an axis that is not the last one are vectors of neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import topi
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.testing.native import run_native
from eutectic.tir import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.stmt import For, ForKind


def cumsum(
    shape: tuple[int | PrimExpr, ...], axis: int | None, dtype: str = "float32", kind: str = "cumsum"
) -> PrimFunc:
    sizes = [IntImm("int64", size) if isinstance(size, int) else size for size in shape]
    return topi.scan(kind, sizes, dtype, axis, dtype)


def kinds(func: PrimFunc) -> set[str]:
    scheduled = schedule_for_cpu(func, Vectors(256, 16))
    return {str(part.kind) for part in post_order(scheduled.body) if isinstance(part, For)}


@pytest.mark.parametrize("axis", [0, 1])
def test_vectors_of_neighbours_that_threads_share(axis: int):
    assert kinds(cumsum((5, 6, 40), axis)) >= {str(ForKind.VECTORIZED), str(ForKind.PARALLEL)}


@pytest.mark.parametrize("axis", [2, None])
def test_along_the_last_axis_there_are_none(axis: int | None):
    assert str(ForKind.VECTORIZED) not in kinds(cumsum((5, 6, 40), axis))


@pytest.mark.parametrize("shape", [(9, 16), (9, 3), (4, 7, 37), (1, 5, 1), (3, 2, 64, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "float16"])
def test_values(shape: tuple[int, ...], dtype: str):
    x = (np.random.default_rng(0).standard_normal(shape) * 4).astype(dtype)
    for axis in range(len(shape)):
        got = np.zeros(shape, dtype if dtype != "bool" else "int64")
        sizes = [IntImm("int64", size) for size in shape]
        run_native(topi.scan("cumsum", sizes, dtype, axis, got.dtype.name), x, got)
        wide = x.astype("f8" if dtype.startswith("float") else "i8")
        tolerance = {"float16": 1e-3, "float32": 1e-6}.get(dtype, 1e-12)
        np.testing.assert_allclose(got, np.cumsum(wide, axis), rtol=tolerance, atol=tolerance)


def test_sizes_that_vary():
    n, m = Var("n", "int64"), Var("m", "int64")
    func = cumsum((n, m), 0, kind="cumprod")
    for shape in ((1, 1), (7, 16), (5, 45)):
        x, got = np.random.default_rng(0).uniform(0.5, 2, shape).astype("f4"), np.zeros(shape, "f4")
        run_native(func, x, got)
        np.testing.assert_allclose(got, np.cumprod(x.astype("f8"), 0), rtol=1e-6)
