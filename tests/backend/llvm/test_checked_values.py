"""Values that a condition must hold for: compiled and interpreted, alone, in vectors, in tails and under predicates."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic import te, tir, topi
from eutectic.script import from_source
from eutectic.support.errors import CallError
from eutectic.testing.native import run_native
from eutectic.tir.interpret.program import run

SIZES = (1, 8, 16, 37)


def checked(size: int, dtype: str) -> tir.PrimFunc:
    """`x + 1`, of elements that must be positive."""
    x = te.placeholder((size,), dtype, name="x")
    positive = te.compute((size,), lambda i: x(i) > 0, "positive")
    return te.create_prim_func([x, topi.add(topi.checked(x, positive, "not positive"), 1)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("size", SIZES)
def test_compiled_and_interpreted(size: int, dtype: str):
    func = checked(size, dtype)
    good = np.arange(1, size + 1).astype(dtype)
    for execute in (run, run_native):
        out = np.zeros(size, dtype)
        execute(func, good, out)
        np.testing.assert_array_equal(out, good + 1)
        for place in {0, size // 2, size - 1}:
            bad = good.copy()
            bad[place] = 0
            with pytest.raises(CallError, match="not positive"):
                execute(func, bad, out)


def test_elements_that_take_no_part_are_not_checked():
    """Padding chooses before it reads: what it does not take may be anything."""
    x = te.placeholder((19,), "int32", name="x")
    inner = topi.floor_divide(topi.full((19,), "int32", 7), x)
    padded = te.compute((32,), lambda i: tir.if_then_else(i < 19, inner(tir.min(i, 18)), 0), "padded")
    func = te.create_prim_func([x, padded])
    out = np.zeros(32, "int32")
    run_native(func, np.arange(1, 20, dtype="int32"), out)
    np.testing.assert_array_equal(out, [*(7 // np.arange(1, 20)), *[0] * 13])
    with pytest.raises(CallError, match="integer division by zero"):
        run_native(func, np.arange(19, dtype="int32"), out)


def test_the_text_says_all_of_it():
    func = checked(3, "int32")
    again = from_source(func.script())
    assert 'T.checked(x[v_ax0], positive[v_ax0], "not positive")' in func.script()
    assert isinstance(again, tir.PrimFunc)
    assert again.script() == func.script()


def test_what_always_holds_is_no_check():
    x = tir.Var("x", "int32")
    assert tir.checked(x, True, "never") is x
    with pytest.raises(TypeError, match="the condition of checked must be bool, got int32"):
        tir.checked(x, x, "no")
