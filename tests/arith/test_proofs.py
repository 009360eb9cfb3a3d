"""Index arithmetic: equal expressions are proved equal, unequal ones never are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.arith import lower_bound, prove_equal, prove_unequal, simplify
from eutectic.ir.prim_expr import FloorDiv, FloorMod, IntImm, Max, Min, PrimExpr, SizeVar, Var, evaluate

N, M = Var("n", "int64"), Var("m", "int64")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((N + 3) * 2, 2 * N + 6),
        ((N - 1) // 2 + 1, (N + 1) // 2),
        ((4 * N + 6) // 4, N + 1),
        (((N + 7) // 8 + 1) // 2, 1 + (N - 1) // 16),
        (((N // 2 + 3) // 3 + M) // 4, (N + 6 * M + 6) // 24),
        ((3 * (N // 4) + 5) // 2, N // 4 + 2 + (N // 4 + 1) // 2),
        (N * M, M * N),
        (Max(N, M), Max(M, N)),
        ((N * 8) % 4, IntImm("int64", 0)),
        ((N * 8 + 3) % 4, IntImm("int64", 3)),
    ],
    ids=str,
)
def test_equal_forms_are_proved(a: PrimExpr, b: PrimExpr):
    assert prove_equal(a, b)


def test_a_constant_difference_is_unequal_and_an_open_one_is_neither():
    assert prove_unequal(N + 1, N + 2)
    assert not prove_equal(N, M)
    assert not prove_unequal(N, M)


def exprs() -> st.SearchStrategy[PrimExpr]:
    leaves = st.sampled_from([N, M]) | st.integers(-9, 9).map(lambda v: IntImm("int64", v))

    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        divisor = st.integers(1, 7).map(lambda v: IntImm("int64", v))
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
            st.tuples(inner, divisor).map(lambda p: FloorDiv(*p)),
            st.tuples(inner, divisor).map(lambda p: FloorMod(*p)),
            st.tuples(inner, inner).map(lambda p: Min(*p)),
            st.tuples(inner, inner).map(lambda p: Max(*p)),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@given(exprs(), st.integers(-50, 50), st.integers(-50, 50))
def test_simplify_keeps_the_value(expr: PrimExpr, n: int, m: int):
    assert evaluate(simplify(expr), {N: n, M: m}) == evaluate(expr, {N: n, M: m})


@given(exprs(), exprs(), st.integers(-50, 50), st.integers(-50, 50))
def test_proofs_are_never_wrong(a: PrimExpr, b: PrimExpr, n: int, m: int):
    same = evaluate(a, {N: n, M: m}) == evaluate(b, {N: n, M: m})
    assert not (prove_equal(a, b) and not same)
    assert not (prove_unequal(a, b) and same)


def test_lower_bounds_count_sizes_as_not_negative():
    assert lower_bound(SizeVar("s", "int64") + 3) == 3
    assert lower_bound(N) is None
