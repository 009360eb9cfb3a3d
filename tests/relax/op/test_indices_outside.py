"""Indices that are data and lie outside of their axis: the call fails, also where the element is one of another row."""

from __future__ import annotations

import numpy as np
import pytest

import eutectic
from eutectic.relax import op
from eutectic.relax.op import nn
from eutectic.support.errors import CallError
from eutectic.testing.graphs import graph

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gather(axis: int, dtype: str):
    names = {"x": X.shape, "i": ((2, 3, 4), dtype)}
    compiled = eutectic.compile(graph(names, lambda bb, x, i: op.gather_elements(x, i, axis)))
    indices = np.zeros((2, 3, 4), dtype)
    np.testing.assert_array_equal(compiled(X, indices), np.take_along_axis(X, indices.astype(np.int64), axis))
    for value in (X.shape[axis], -1):
        indices[1, 1, 1] = value
        with pytest.raises(CallError, match="index"):
            compiled(X, indices)
        indices[1, 1, 1] = 0


def test_classes_that_are_none():
    names = {"x": (4, 3), "t": ((4,), "int64")}
    compiled = eutectic.compile(graph(names, lambda bb, x, t: nn.nll_loss(x, t, reduction="none")))
    predictions = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(compiled(predictions, np.array([0, 2, -100, 1])), [0.0, -5.0, 0.0, -10.0])
    for value in (3, -1):
        with pytest.raises(CallError, match="index"):
            compiled(predictions, np.array([0, value, 1, 1]))
