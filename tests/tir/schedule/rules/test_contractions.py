"""Products of all kinds and sizes are scheduled, and no primitive refuses a step of it."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import IntImm
from eutectic.target import Target
from eutectic.tir import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu

PROCESSORS = (Vectors(), Vectors(256, 16))
LETTERS = "bdhijn"
SIZES = (1, 2, 3, 5, 8, 16, 17, 32, 49, 64, 100, 128, 197, 256, 512, 1000)
EQUATIONS = (
    *("bhid,bhjd->bhij", "bhij,bhjd->bhid", "bid,bjd->bij", "bihd,bjhd->bhij", "bhij,bjhd->bihd", "ij,jd->id"),
    *("bnd,njd->bnj", "bhnd,njd->bhnj", "bij,jd->bid", "bih,bhj->bij", "bhn,bin->bhin", "bihn,bjhn->bij", "ib,jb->ji"),
    *("bhd,bhdi->bhi", "bhd,bhi->bhdi"),
)
HEADS = dict(zip(LETTERS, (1, 32, 16, 256, 256, 1), strict=True))  # where a copy of a turned operand was not found


def contraction(equation: str, sizes: dict[str, int], activated: bool) -> PrimFunc:
    """A product of two arrays, and perhaps an activation of it."""
    shapes = [tuple(IntImm("int64", sizes[letter]) for letter in term) for term in equation.split("->")[0].split(",")]
    a, b = (te.placeholder(shape, "float32", f"x{place}") for place, shape in enumerate(shapes))
    made = topi.einsum(equation, a, b)
    return te.create_prim_func([a, b, topi.nn.relu(topi.multiply(made, made)) if activated else made])


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(EQUATIONS),
    st.fixed_dictionaries({letter: st.sampled_from(SIZES) for letter in LETTERS}),
    st.booleans(),
)
@example("bhid,bhjd->bhij", HEADS, False)
def test_nothing_is_refused(equation: str, sizes: dict[str, int], activated: bool):
    assume(prod(sizes[letter] for letter in set(equation) & sizes.keys()) < 2**32)
    func = contraction(equation, sizes, activated)
    for processor in PROCESSORS:
        lines = schedule_for_cpu(func, processor).attrs["tir.chosen"]
        assert [str(line) for line in lines if " refused: " in str(line)] == []


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_copy_of_a_turned_operand(processor: Vectors):
    func = contraction("bhid,bhjd->bhij", HEADS, False)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1, 16, 256, 32), np.float32) for _ in range(2))
    out = np.full((1, 16, 256, 256), np.nan, "float32")
    NativePrimFunc(schedule_for_cpu(func, processor), Target("llvm"), 2)(a, b, out)
    want = np.einsum("bhid,bhjd->bhij", a.astype("f8"), b.astype("f8"))
    np.testing.assert_allclose(out, want, atol=1e-4)
