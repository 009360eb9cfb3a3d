"""Which models are too small for a library."""

from __future__ import annotations

import pytest

import eutectic
from eutectic.backend.dnnl.worthwhile import is_small
from eutectic.relax import op
from eutectic.testing.graphs import graph, weights


def product(rows: int, inner: int, columns: int):
    return graph({"x": (rows, inner)}, lambda _, x: op.matmul(x, weights(inner, columns)))


@pytest.mark.parametrize(("rows", "small"), [(1, True), (9, True), (11, False)])
def test_matrix_products_count(rows: int, small: bool):
    assert is_small(product(rows, 1000, 1000)) is small


def test_a_small_model_is_compiled_without_the_library_and_says_so():
    report = eutectic.compile(product(1, 8, 8)).report
    assert {region.codegen for region in report.regions} == {"llvm"}
    assert any("so small" in note for note in report.notes)


def test_a_target_that_is_given_is_kept():
    report = eutectic.compile(product(1, 8, 8), target="llvm -libs=dnnl").report
    assert {region.codegen for region in report.regions} == {"dnnl"}
