"""Where lanes lie from each other, and gathers that become contiguous loads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.backend.llvm.batch import Case, check, noise

from eutectic import te, topi
from eutectic.backend.llvm.lane_places import flags_of, places_of, runs_of
from eutectic.driver.inspect import kernel_source
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    LT,
    NE,
    And,
    Broadcast,
    FloorDiv,
    FloorMod,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Var,
    evaluate,
)
from eutectic.te import create_prim_func

LANES = 8
N = Var("n", "int64")


def whole(value: int) -> IntImm:
    return IntImm("int64", value)


@st.composite
def indices(draw: Any, depth: int = 3) -> tuple[PrimExpr, np.ndarray]:
    """A vector index, and its lanes for `n` of 5."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        factor, more, stride = draw(st.integers(0, 6)), draw(st.integers(-5, 5)), draw(st.integers(-3, 3))
        base = N * whole(factor) + whole(more)
        if draw(st.booleans()):
            return Broadcast(base, LANES), np.full(LANES, 5 * factor + more)
        return Ramp(base, whole(stride), LANES), 5 * factor + more + stride * np.arange(LANES)
    a, x = draw(indices(depth - 1))
    match draw(st.sampled_from(["add", "sub", "mul", "div", "mod"])):
        case "add":
            b, y = draw(indices(depth - 1))
            return a + b, x + y
        case "sub":
            b, y = draw(indices(depth - 1))
            return a - b, x - y
        case "mul":
            factor = draw(st.integers(-3, 3))
            return a * Broadcast(whole(factor), LANES), x * factor
        case "div":
            divisor = draw(st.integers(1, 4))
            return FloorDiv(a, Broadcast(whole(divisor), LANES)), x // divisor
        case _:
            divisor = draw(st.integers(1, 4))
            return FloorMod(a, Broadcast(whole(divisor), LANES)), x % divisor


@given(indices())
def test_places(index: Any):
    expr, lanes = index
    places = places_of(expr)
    if places is not None:
        base = evaluate(places.base, {N: 5})
        assert [base + offset for offset in places.offsets] == lanes.tolist()


def test_places_that_are_known():
    half = FloorDiv(Ramp(N * whole(4) + whole(1), whole(1), LANES), Broadcast(whole(2), LANES))
    assert places_of(half).offsets == (0, 1, 1, 2, 2, 3, 3, 4)
    assert places_of(FloorDiv(Ramp(N, whole(1), LANES), Broadcast(whole(2), LANES))) is None


@given(
    indices(), indices(), st.sampled_from([(EQ, np.equal), (NE, np.not_equal), (LT, np.less), (GE, np.greater_equal)])
)
def test_flags(first: Any, second: Any, comparison: Any):
    (a, x), (b, y) = first, second
    make, compare = comparison
    flags, want = flags_of(make(a, b)), compare(x, y)
    parity = EQ(FloorMod(Ramp(whole(0), whole(1), LANES), Broadcast(whole(2), LANES)), Broadcast(whole(0), LANES))
    even = np.arange(LANES) % 2 == 0
    if flags is not None:
        assert list(flags) == want.tolist()
        assert list(flags_of(And(make(a, b), parity))) == (want & even).tolist()
        assert list(flags_of(Or(Not(make(a, b)), parity))) == (~want | even).tolist()


@given(st.lists(st.integers(-40, 40), min_size=4, max_size=16), st.data())
def test_runs_cover_each_wanted_lane_once(offsets: list[int], data: Any):
    flags = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=len(offsets), max_size=len(offsets))))
    runs = runs_of(offsets, flags)
    wanted = [lane for lane in range(len(offsets)) if flags is None or flags[lane]]
    if runs:
        assert sorted(lane for run in runs for lane in run.lanes) == wanted
    for run in runs:
        reached = [offsets[lane] - run.first for lane in run.lanes]
        assert (min(reached), max(reached)) == (0, run.count - 1)
        assert run.count <= len(offsets)


def nearest(x: te.Tensor) -> te.Tensor:
    return te.compute((5, 96), lambda i, j: x[i, j // 2], name="nearest")


def test_no_lane_is_loaded_alone():
    x = te.placeholder((5, 48), "float32", name="x")
    text = kernel_source(create_prim_func([x, nearest(x)]), "llvm -mcpu=skylake-avx512", "llvm")
    assert "shufflevector" in text
    assert "insertelement" not in text


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "bool"])
def test_gathers(dtype: str):
    """Indices whose lanes repeat, leave elements out, run backwards, or come from two places."""
    x = noise(0, 5, 48, dtype=dtype)

    def thirds(a: te.Tensor) -> te.Tensor:
        return te.compute((5, 16), lambda i, j: a[i, 3 * j + 1], name="thirds")

    def zipped(a: te.Tensor) -> te.Tensor:
        return te.compute((5, 48), lambda i, j: a[i, j % 2 * 24 + j // 2], name="zipped")

    def other_half(a: te.Tensor) -> te.Tensor:
        return te.compute((5, 64), lambda i, j: a[i, (j + 1) // 2], name="other_half")

    check(
        [
            Case("nearest", nearest, [x], lambda a: a.repeat_interleave(2, 1)),
            Case("thirds", thirds, [x], lambda a: a[:, 1::3]),
            Case("zipped", zipped, [x], lambda a: a.unflatten(1, (2, 24)).transpose(1, 2).flatten(1)),
            Case("other half", other_half, [x], lambda a: a.repeat_interleave(2, 1)[:, 1:65]),
            Case("flip", lambda a: topi.flip(a, 1), [x], lambda a: a.flip(1)),
        ]
    )


def test_lanes_under_a_condition():
    x, y = noise(0, 5, 48), noise(1, 5, 16)

    def merged(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        """Where the condition fails, the index of the second is outside of it."""
        inside = lambda j: te.all((j % 2).equal(0), j < 32)  # noqa: E731 - a condition
        return te.compute((5, 64), lambda i, j: te.if_then_else(inside(j), b[i, j // 2], a[i, j // 2]), name="merged")

    def want(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = a.repeat_interleave(2, 1)[:, :64].clone()
        out[:, 0:32:2] = b
        return out

    check([Case("merged", merged, [x, y], want)])
