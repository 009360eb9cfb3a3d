"""Indices in normal form: what is written without asking an analyzer is what it writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.arith.expressions import literal

from eutectic.arith import Analyzer
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.analysis.index_facts import linear, normal, products

NAMES = [Var(name) for name in "abcd"]


def sums() -> st.SearchStrategy[PrimExpr]:
    leaves = st.sampled_from(NAMES) | st.integers(-9, 30).map(literal)

    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        two, scaled = st.tuples(inner, inner), st.tuples(inner, st.sampled_from(NAMES) | st.integers(-5, 12))
        return st.one_of(
            two.map(lambda p: p[0] + p[1]), two.map(lambda p: p[0] - p[1]), scaled.map(lambda p: p[0] * p[1])
        )

    return st.recursive(leaves, grow, max_leaves=8)


@given(sums())
def test_sums_of_products(expr: PrimExpr):
    found = products(expr)
    assert found is None or str(normal(found, expr.dtype)) == str(Analyzer().simplify(expr))


def test_what_is_a_sum_of_products():
    a, b, c, d = NAMES
    assert products(a * b * 8 + b * a + 3) == {(a, b): 9, (): 3}
    assert linear(a * 4 + b - 1) == {a: 4, b: 1, None: -1}
    assert linear(a * b) is None
    assert products(a * (b + c)) == {(a, b): 1, (a, c): 1}
    assert products((a + b) * (c + d)) is None, "left to the analyzer"
    assert products(a // 2) is None
