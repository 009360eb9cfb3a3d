"""A bias is added before the sum is rounded, where nobody reads what is between."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.relax.transform.rewriting import assert_stays, ops

from eutectic.relax import op
from eutectic.relax.analysis import problems_of
from eutectic.relax.expr import Constant, Expr
from eutectic.relax.transform import RoundAfterBias
from eutectic.testing.graphs import evaluate, graph, weights

NARROW = "bfloat16"


def small(*shape: int) -> Constant:
    return Constant(weights(*shape).data.astype(ml_dtypes.bfloat16))


def layer(x: Expr) -> Expr:
    return op.nn.conv2d(x, weights(4, 3, 3, 3), padding=1)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("shape", "multiply", "bias"),
    [((2, 3, 7, 6), layer, (1, 4, 1, 1)), ((2, 3), lambda x: op.matmul(x, weights(3, 5)), (5,))],
    ids=["conv2d", "matmul"],
)
def test_one_rounding(swapped: bool, shape: tuple[int, ...], multiply: Any, bias: tuple[int, ...]):
    def body(bb: Any, x: Expr) -> Expr:
        rounded, added = bb.emit(op.astype(bb.emit(multiply(x)), NARROW)), small(*bias)
        return op.nn.relu(bb.emit(op.add(added, rounded) if swapped else op.add(rounded, added)))

    mod = graph({"x": shape}, body)
    after = RoundAfterBias()(mod)
    assert problems_of(after) == []
    assert ops(after)[1:] == ["add", "astype", "nn.relu"]
    assert RoundAfterBias()(after) is after
    exact = graph({"x": shape}, lambda bb, x: op.nn.relu(bb.emit(op.add(bb.emit(multiply(x)), wide(small(*bias))))))
    x = weights(*shape).data
    got, once = evaluate(after, x), evaluate(exact, x).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got, once)


def wide(value: Constant) -> Constant:
    return Constant(value.data.astype(np.float32))


def rounded_layer(bb: Any, x: Expr) -> Expr:
    return bb.emit(op.astype(bb.emit(layer(x)), NARROW))


@pytest.mark.parametrize(
    "body",
    [
        lambda bb, x: op.add(rounded_layer(bb, x), small(4, 7, 6)),
        lambda bb, x: (lambda y: op.add(bb.emit(op.add(y, small(1, 4, 1, 1))), y))(rounded_layer(bb, x)),
        lambda bb, x: op.add(bb.emit(op.astype(bb.emit(op.nn.relu(x)), NARROW)), small(1, 3, 1, 1)),
        lambda bb, x: op.subtract(rounded_layer(bb, x), small(1, 4, 1, 1)),
        lambda bb, x: op.add(bb.emit(layer(x)), weights(1, 4, 1, 1)),
    ],
    ids=["no bias", "read twice", "no sum of products", "another operator", "not rounded"],
)
def test_what_stays(body: Any):
    assert_stays(RoundAfterBias(), graph({"x": (2, 3, 7, 6)}, body))
