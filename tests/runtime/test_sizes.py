"""Sizes as data are what the IR's expressions are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.driver.size_data import size_data
from eutectic.ir.prim_expr import IntImm, evaluate
from eutectic.runtime.sizes import SizeExpr
from eutectic.runtime.sizes import evaluate as evaluate_data
from eutectic.support.errors import CodegenError, LoadError
from eutectic.tir import (
    FloatImm,
    Select,
    Var,
    floordiv,
    floormod,
    truncdiv,
    truncmod,
)
from eutectic.tir import max as maximum
from eutectic.tir import min as minimum

N, M = Var("n", "int64"), Var("m", "int64")


def combined(parts):
    a, b = parts, parts
    binary = st.one_of(
        st.builds(lambda x, y: x + y, a, b),
        st.builds(lambda x, y: x - y, a, b),
        st.builds(lambda x, y: x * y, a, b),
        st.builds(minimum, a, b),
        st.builds(maximum, a, b),
        st.builds(lambda x, y, z: Select(x < y, z, x), a, b, a),
        st.builds(lambda x: x.astype("int32").astype("int64"), a),
    )
    divided = [
        st.builds(lambda x, n, how=how: how(x, IntImm("int64", n)), a, st.integers(-5, 5).filter(bool))
        for how in (floordiv, floormod, truncdiv, truncmod)
    ]
    return st.one_of(binary, *divided)


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from([N, M]), st.integers(-9, 9).map(lambda n: IntImm("int64", n))), combined, max_leaves=8
)


@given(EXPRESSIONS, st.integers(-100, 100), st.integers(0, 10**10))
def test_data_has_the_value_of_the_expression(expr, n: int, m: int):
    data = size_data(expr, {N: "n", M: "m"})
    assert evaluate_data(data, {"n": n, "m": m}) == evaluate(expr, {N: n, M: m})


def test_what_is_no_size():
    with pytest.raises(CodegenError, match="FloatImm"):
        size_data(FloatImm("float32", 1.0), {})
    with pytest.raises(LoadError, match="unknown operation 'pow'"):
        SizeExpr("pow", (2, 3))
    with pytest.raises(KeyError):
        evaluate_data("n", {})
