"""MarkFiniteConstants, and convolutions without the rows of windows that see nothing but padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import eutectic
from eutectic.driver.inspect import kernel_source
from eutectic.relax import op
from eutectic.relax.expr import Constant
from eutectic.relax.transform import LegalizeOps, MarkFiniteConstants
from eutectic.testing.graphs import graph, weights
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import FINITE_PARAMS


def marks(*constants: Constant, padding: int = 1) -> list[tuple[int, ...] | None]:
    """The attribute of each program of convolutions with some weights."""

    def body(bb, data):
        for constant in constants:
            data = bb.emit(op.nn.conv2d(data, constant, padding=padding))
        return data

    mod = MarkFiniteConstants()(LegalizeOps()(graph({"x": (1, 4, 9, 9)}, body)))
    found = [func.attr(FINITE_PARAMS) for _, func in mod.functions_items() if isinstance(func, PrimFunc)]
    return [None if item is None else tuple(map(int, item)) for item in found]


def holed(value: float) -> Constant:
    """Weights with one number of another kind."""
    array = np.ones((4, 4, 3, 3), "float32")
    array[1, 2, 0, 0] = value
    return Constant(array)


def test_weights_are_known_to_be_finite():
    assert marks(weights(4, 4, 3, 3)) == [(1,)]
    assert marks(weights(4, 4, 3, 3), padding=0) == [None]  # nothing is padded


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_others_are_not(value: float):
    assert marks(holed(value)) == [None]
    assert marks(weights(4, 4, 3, 3), holed(value)) == [None]  # one program for both


def test_inputs_are_not():
    mod = graph({"x": (1, 4, 9, 9), "w": (4, 4, 3, 3)}, lambda _, x, w: op.nn.conv2d(x, w, padding=1))
    after = MarkFiniteConstants()(LegalizeOps()(mod))
    assert all(func.attr(FINITE_PARAMS) is None for _, func in after.functions_items() if isinstance(func, PrimFunc))


class Window(nn.Module):
    """A convolution between two others, so that its channels are in blocks."""

    def __init__(self, size: int, **options: int | tuple[int, int]) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 8, 1)
        self.window = nn.Conv2d(32, 32, size, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.window(torch.relu(self.first(x)))))


def test_rows_of_padding_are_left_out():
    model, x = Window(3, padding=5, dilation=5).eval(), torch.randn(1, 8, 7, 7)
    compiled = eutectic.compile(model, (x,), target="llvm", precision="strict")
    assert "T.where(" in kernel_source(compiled.lowered, "llvm", "scheduled")
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_are_not_finite_meet_the_padding(value: float):
    """Zero times infinity is NaN, at the border of an image, too."""
    model, x = nn.Conv2d(32, 32, 3, padding=1).eval(), torch.full((1, 32, 7, 7), 0.5)
    with torch.no_grad():
        model.weight[3, 4, 0, 0] = value
    got = eutectic.compile(model, (x,), target="llvm")(x)
    assert got[0, 3, 0].isnan().all()
    assert got[0, 2].isfinite().all()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(1, 15),
    st.integers(1, 15),
    st.sampled_from([1, 2, 3, 5]),
    st.integers(1, 2),
    st.integers(1, 6),
    st.integers(0, 7),
)
def test_any_window(height: int, width: int, size: int, stride: int, dilation: int, padding: int):
    reach = (size - 1) * dilation + 1
    if height + 2 * padding < reach or width + 2 * padding < reach:
        return
    model = Window(size, padding=padding, stride=stride, dilation=dilation).eval()
    x = torch.randn(2, 8, height, width)
    compiled = eutectic.compile(model, (x,), target="llvm", precision="strict")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model.double()(x.double()).float(), rtol=1e-4, atol=1e-5)
