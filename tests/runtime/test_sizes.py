"""Sizes as data are what the IR's expressions are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.backend.size_data import size_data, size_expr
from eutectic.ir.prim_expr import IntImm, evaluate
from eutectic.runtime.sizes import SizeExpr, computed, size_from_json, size_to_json
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


@given(EXPRESSIONS, st.integers(-100, 100), st.integers(0, 10**10))
def test_an_expression_comes_back_from_json(expr, n: int, m: int):
    data = size_data(expr, {N: "n", M: "m"})
    read = size_from_json(json.loads(json.dumps(size_to_json(data))))
    assert read == data
    if "wrap" in repr(data):
        with pytest.raises(CodegenError, match="'wrap' of a size has no expression"):
            size_expr(read, {"n": N, "m": M})
    else:
        assert evaluate(size_expr(read, {"n": N, "m": M}), {N: n, M: m}) == evaluate(expr, {N: n, M: m})


@pytest.mark.parametrize("data", [[], [1, 2], {"size": 1}, 1.5, True, None, ["pow", 2, 3]])
def test_what_describes_no_size(data: object):
    with pytest.raises(LoadError, match=r"a size is described by|unknown operation"):
        size_from_json(data)


def test_a_size_of_numbers_is_a_number():
    assert computed("max", computed("sub", 3, 5), 0) == 0
    assert computed("add", "n", 1) == SizeExpr("add", ("n", 1))


def test_what_is_no_size():
    with pytest.raises(CodegenError, match="FloatImm"):
        size_data(FloatImm("float32", 1.0), {})
    with pytest.raises(LoadError, match="unknown operation 'pow'"):
        SizeExpr("pow", (2, 3))
    with pytest.raises(KeyError):
        evaluate_data("n", {})
