"""Reductions agree with the graph dialect's references: axes, empty axes, NaN, infinity, 16-bit floats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference

from eutectic import te, topi
from eutectic.ir.dtype import to_numpy
from eutectic.relax.op.reduce import ArgReduceAttrs, StatisticalAttrs

SUMS = ["sum", "prod", "mean", "variance", "std"]
CHOICES = ["max", "min"]
SEARCHES = ["argmax", "argmin"]


@st.composite
def reductions(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...] | None, bool]:
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    axes = draw(st.none() | st.lists(st.sampled_from(range(len(shape))), unique=True, max_size=3).map(tuple))
    return np.asarray(rng.standard_normal(shape), "float32"), axes, draw(st.booleans())


@pytest.mark.parametrize("name", [*SUMS, *CHOICES])
@given(case=reductions(), index=st.sampled_from(["int32", "int64"]))
@settings(max_examples=15)
def test_axes(name: str, case: tuple[np.ndarray, tuple[int, ...] | None, bool], index: str):
    x, axes, keepdims = case
    got = evaluate(lambda t: getattr(topi, name)(t, axes, keepdims), x, index=index, text=True)
    close(got, reference(name, StatisticalAttrs(axes, keepdims), x))


@pytest.mark.parametrize("name", SEARCHES)
@given(seed=st.integers(0, 2**31), axis=st.none() | st.integers(-3, 2), keepdims=st.booleans())
@settings(max_examples=15)
def test_places_of_equal_elements(name: str, seed: int, axis: int | None, keepdims: bool):
    values = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 1.0])
    x = np.random.default_rng(seed).choice(values, (2, 3, 4)).astype("float32")
    got = evaluate(lambda t: getattr(topi, name)(t, axis, keepdims), x)
    close(got, reference(name, ArgReduceAttrs(axis, keepdims), x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", [*SUMS, *CHOICES, *SEARCHES])
def test_dtypes(name: str, dtype: str):
    x = np.arange(1, 13).reshape(3, 4).astype(to_numpy(dtype))
    if name in ("mean", "variance", "std") and "float" not in dtype:
        with pytest.raises(TypeError, match="float dtype"):
            getattr(topi, name)(te.placeholder((3, 4), dtype))
        return
    attrs = ArgReduceAttrs(1) if name in SEARCHES else StatisticalAttrs((1,))
    close(evaluate(lambda t: getattr(topi, name)(t, 1), x), reference(name, attrs, x))


@pytest.mark.parametrize("name", [*CHOICES, *SEARCHES])
def test_nothing_but_infinity(name: str):
    for value in (np.inf, -np.inf, np.nan):
        x = np.full((2, 3), value, "float32")
        attrs = ArgReduceAttrs(1) if name in SEARCHES else StatisticalAttrs((1,))
        close(evaluate(lambda t: getattr(topi, name)(t, 1), x), reference(name, attrs, x))


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
def test_no_elements(name: str):
    x = np.zeros((2, 0, 3), "float32")
    for axes in ((1,), (0,), (0, 1)):
        with np.errstate(all="ignore"):
            want = reference(name, StatisticalAttrs(axes), x)
        close(evaluate(lambda t, a=axes: getattr(topi, name)(t, a), x), want)


def test_refusals():
    with pytest.raises(ValueError, match="does not exist"):
        topi.sum(te.placeholder((3,)), 1)
    with pytest.raises(ValueError, match="given twice"):
        topi.max(te.placeholder((3, 4)), (0, -2))
