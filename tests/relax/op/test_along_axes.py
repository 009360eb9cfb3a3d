"""Operators that speak of axes: in another layout they compute the same tensors, or say that they cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.ir.node import replace
from eutectic.relax import op
from eutectic.relax.expr import Call, Tuple, Var
from eutectic.relax.op.layout import arrange
from eutectic.relax.op.registry import infer_call
from eutectic.relax.op.registry import said_in_layout as said_in
from eutectic.relax.struct_info import tensor
from eutectic.testing.graphs import evaluate, graph
from eutectic.tir.data_layout import layout

Make: TypeAlias = "Callable[[Sequence[Any]], Call]"  # a call of one tensor or two of one shape
Array: TypeAlias = "np.ndarray[Any, Any]"
LAYOUTS: Final = {(2, 16, 5, 6): ("NHWC", "CNHW", "NCHW4c", "NCHW8c"), (3, 24, 1, 2): ("NCHW24c", "NHWC", "HNCW8c")}


def variables(shape: Sequence[int]) -> list[Var]:
    return [Var(f"x{k}", tensor(shape, "float32")) for k in range(2)]


def on(call: Call, tensors: Sequence[Any]) -> Call:
    """A call of other tensors."""
    first = Tuple(tuple(tensors)) if isinstance(call.args[0], Tuple) else tensors[0]
    return infer_call(replace(call, args=(first, *call.args[1:]), struct_info=None))


def results(call: Call, inputs: Sequence[Array]) -> tuple[Array, ...]:
    shapes = {f"x{k}": x.shape for k, x in enumerate(inputs)}
    got = evaluate(graph(shapes, lambda bb, *tensors: on(call, tensors)), *inputs)
    return got if isinstance(got, tuple) else (got,)


@st.composite
def makers(draw: st.DrawFn) -> Make:
    axis, kind = draw(st.integers(-4, 3)), draw(st.sampled_from(["concat", "cuts", "sections", "slice", "pad"]))
    if kind == "concat":
        return lambda tensors: op.concat(tensors, axis)
    if kind == "cuts":
        cuts = sorted(draw(st.lists(st.integers(0, 26), max_size=3)))
        return lambda tensors: op.split(tensors[0], cuts, axis)
    if kind == "sections":
        return lambda tensors: op.split(tensors[0], 2 if axis in (1, -3) else 1, axis)
    if kind == "pad":
        widths = draw(st.lists(st.sampled_from([0, 0, 1, 4, 8]), min_size=8, max_size=8))
        mode = draw(st.sampled_from(["constant", "replicate"]))
        return lambda tensors: op.nn.pad(tensors[0], widths, 2.0, mode)
    axes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True))
    places = st.sampled_from([-30, -16, -8, -3, -1, 0, 1, 4, 8, 12, 16, 40])
    begin, end = ([draw(places) for _ in axes] for _ in range(2))
    strides = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in axes]
    return lambda tensors: op.strided_slice(tensors[0], axes, begin, end, strides)


@given(make=makers(), shape=st.sampled_from(sorted(LAYOUTS)), number=st.integers(0, 2))
def test_the_same_is_computed_there_and_back(make: Make, shape: tuple[int, ...], number: int):
    name = LAYOUTS[shape][number]
    plain = infer_call(make(variables(shape)))
    there = said_in(plain, "NCHW", name)
    if there is None:
        assert layout(name).is_blocked
        return
    inputs = [np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(2)]
    moved = [arrange(x, "NCHW", name) for x in inputs]
    want = results(plain, inputs)
    for got, expected in zip(results(there, moved), want, strict=True):
        np.testing.assert_array_equal(got, arrange(expected, "NCHW", name))
    back = said_in(on(there, variables(moved[0].shape)), name, "NCHW")
    assert back is not None
    for got, expected in zip(results(back, inputs), want, strict=True):
        np.testing.assert_array_equal(got, expected)


CUT: Final[dict[str, tuple[Make, bool]]] = {
    "whole blocks": (lambda x: op.split(x[0], [8], 1), True),
    "pieces that are whole blocks": (lambda x: op.split(x[0], 2, 1), True),
    "a cut within a block": (lambda x: op.split(x[0], [4], 1), False),
    "a cut of rows": (lambda x: op.split(x[0], [1], 2), True),
    "some of the blocks": (lambda x: op.strided_slice(x[0], [1], [-8], [99]), True),
    "a beginning within a block": (lambda x: op.strided_slice(x[0], [1], [3], [11]), False),
    "every other channel": (lambda x: op.strided_slice(x[0], [1], [0], [16], [2]), False),
    "every other column": (lambda x: op.strided_slice(x[0], [3], [0], [6], [2]), True),
    "blocks around": (lambda x: op.nn.pad(x[0], [0, 0, 8, 0, 0, 0, 0, 0]), True),
    "channels around": (lambda x: op.nn.pad(x[0], [0, 0, 1, 0, 0, 0, 0, 0]), False),
    "channels once more": (lambda x: op.nn.pad(x[0], [0, 0, 8, 8, 0, 0, 0, 0], 0.0, "replicate"), False),
    "rows once more": (lambda x: op.nn.pad(x[0], [0, 0, 0, 0, 1, 2, 0, 0], 0.0, "replicate"), True),
    "flattened ones": (lambda x: op.concat(x, None), False),
}


@pytest.mark.parametrize("case", CUT)
def test_blocks_are_not_cut(case: str):
    make, goes = CUT[case]
    call = said_in(infer_call(make(variables((2, 16, 5, 6)))), "NCHW", "NCHW8c")
    assert (call is not None) == goes


def test_nothing_is_said_of_elements_within_blocks():
    x = [Var("x", tensor((2, 2, 5, 6, 8), "float32"))]
    assert said_in(infer_call(op.split(x[0], 2, 4)), "NCHW8c", "NCHW") is None
    assert said_in(infer_call(op.concat([*x, *x], -1)), "NCHW8c", "NCHW") is None
    assert said_in(infer_call(op.nn.pad(x[0], [0] * 8 + [0, 8])), "NCHW8c", "NCHW") is None
