"""What operators count as work: multiplications and additions."""

from __future__ import annotations

from math import inf

import pytest

from eutectic.relax.analysis import get_var2val
from eutectic.relax.expr import Call
from eutectic.relax.op import matmul, nn
from eutectic.relax.op.registry import work_of
from eutectic.testing.graphs import graph, weights
from eutectic.tir import Var

BLOCKED = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i8o", "out_layout": "NCHW8c"}


@pytest.mark.parametrize(
    ("shape", "body", "count"),
    [
        ((3, 5), lambda x: matmul(x, weights(5, 7)), 2 * 3 * 5 * 7),
        ((2, 16, 9), lambda x: nn.conv1d(x, weights(8, 16, 3)), 2 * 2 * 8 * 7 * 16 * 3),
        ((1, 16, 9, 9), lambda x: nn.conv2d(x, weights(8, 16, 3, 3), padding=1), 2 * 81 * 8 * 16 * 9),
        ((1, 16, 9, 9), lambda x: nn.conv2d(x, weights(8, 4, 3, 3), padding=1, groups=4), 2 * 81 * 8 * 4 * 9),
        ((1, 9, 9, 16), lambda x: nn.conv2d(x, weights(8, 16, 3, 3), data_layout="NHWC"), 2 * 49 * 8 * 16 * 9),
        ((1, 1, 9, 9, 16), lambda x: nn.conv2d(x, weights(1, 1, 3, 3, 16, 8), **BLOCKED), 2 * 49 * 8 * 16 * 9),
        ((1, Var("c", "int64"), 9, 9), lambda x: nn.conv2d(x, weights(8, 16, 3, 3)), 2 * 49 * 8 * 16 * 9),
        ((Var("n", "int64"), 16, 9, 9), lambda x: nn.conv2d(x, weights(8, 16, 3, 3)), inf),
        ((7, 2, 12), lambda x: nn.lstm(x, weights(2, 3), weights(2, 3), weights(12, 3)), 2 * 7 * 2 * 12 * 3),
        ((Var("n", "int64"), 2, 3), lambda x: nn.rnn(x, weights(2, 3), weights(3, 3)), inf),
        ((3, 5), nn.relu, 0),
    ],
)
def test_counts(shape, body, count):
    mod = graph({"x": shape}, lambda _, x: body(x))
    (call,) = [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]
    assert work_of(call) == count
