"""ConvertConv1DToConv2D: the same results on images of one row, and which operators follow the convolutions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn as layers

import eutectic
from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call, TupleGetItem
from eutectic.relax.op import nn
from eutectic.relax.transform import ConvertConv1DToConv2D
from eutectic.testing.graphs import assert_same_results, graph, weights
from eutectic.tir import Var as SizeSymbol

Step = Callable[[Any, Any], Any]


def names(mod: IRModule) -> list[str]:
    calls = [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]
    return [call.op.name.removeprefix("relax.").removeprefix("nn.") for call in calls]


def converted(mod: IRModule) -> IRModule:
    after = ConvertConv1DToConv2D()(mod)
    assert problems_of(after) == []
    assert ConvertConv1DToConv2D()(after) is after
    return after


def conv(channels: int = 4, taps: int = 3, **options: Any) -> Step:
    return lambda bb, x: nn.conv1d(x, weights(channels, 4, taps), **options)


def gate(bb: Any, x: Any) -> Any:
    both = bb.emit(op.split(bb.emit(nn.conv1d(x, weights(8, 4, 1))), 2, axis=-2))
    value, share = (bb.emit(TupleGetItem(both, k)) for k in range(2))
    return op.multiply(bb.emit(op.tanh(value)), bb.emit(op.sigmoid(share)))


STEPS: dict[str, Step] = {
    "gate": gate,
    "as a tuple": lambda bb, x: op.concat(bb.emit(op.split(x, [1], axis=1)), 1),
    "mirrored": lambda bb, x: nn.pad(x, [0, 0, 0, 0, 2, 1], pad_mode="reflect"),
    "cut off": lambda bb, x: op.strided_slice(x, [-1], [1], [-1]),
    "conv": conv(padding=1),
    "strided": conv(taps=2, strides=2),
    "uneven": conv(padding=[2, 0], dilation=2),
    "grouped": lambda bb, x: nn.conv1d(x, weights(4, 1, 3), padding=1, groups=4),
    "relu": lambda bb, x: nn.relu(x),
    "bias": lambda bb, x: op.add(x, weights(1, 4, 1)),
    "scale of channels": lambda bb, x: op.multiply(weights(4, 1), x),
    "of one element": lambda bb, x: op.subtract(x, weights(1)),
    "clip": lambda bb, x: op.clip(x, -1.0, 1.0),
    "with itself": lambda bb, x: op.multiply(x, bb.emit(op.sigmoid(x))),
    "twice": lambda bb, x: op.concat(
        [bb.emit(nn.conv1d(x, weights(2, 4, 1))), bb.emit(op.strided_slice(x, [1], [0], [2]))], 1
    ),
    "batch": lambda bb, x: op.strided_slice(bb.emit(op.concat([x, x], axis=0)), [0], [0], [2]),
    "one behind the other": lambda bb, x: op.concat([x, x], axis=-1),
    "largest": lambda bb, x: nn.max_pool1d(x, 2, 1, padding=1),
    "means": lambda bb, x: nn.avg_pool1d(x, 3, 1, padding=1, count_include_pad=True),
    "ceiling": lambda bb, x: nn.max_pool1d(x, 3, 2, ceil_mode=True),
    "groups of channels": lambda bb, x: nn.group_norm(x, weights(4), weights(4), 2, 1, [2]),
    "each channel": lambda bb, x: nn.instance_norm(x, weights(4), weights(4), 1, [-1]),
    "over channels": lambda bb, x: nn.group_norm(x, weights(4), weights(4), 1, 1, [2, 0]),
    "taken apart": lambda bb, x: nn.depth_to_space(
        bb.emit(nn.conv1d(x, weights(8, 4, 3), padding=1)), 2, [1, 0], "NCW"
    ),
    "transposition": lambda bb, x: op.permute_dims(bb.emit(op.permute_dims(x, [0, 2, 1])), [0, 2, 1]),
    "softmax": lambda bb, x: nn.softmax(x, -1),
    "soft steps": lambda bb, x: nn.prelu(x, weights(4), 1),
}


@given(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=6), st.integers(200, 203), st.booleans())
@settings(deadline=None)
def test_any_network(chosen: list[str], length: int, is_known: bool):
    size = length if is_known else SizeSymbol("n", "int64")

    def body(bb: Any, x: Any) -> Any:
        for name in chosen:
            x = bb.emit(STEPS[name](bb, x))
        return x

    mod = graph({"x": (2, 4, size)}, body)
    after = converted(mod)
    assert "conv1d" not in names(after)
    if is_known:
        assert_same_results(mod, after, exact=False)


@pytest.mark.parametrize(
    ("chosen", "after"),
    [
        (["conv", "relu", "bias", "conv"], ["expand_dims", "conv2d", "relu", "add", "conv2d", "squeeze"]),
        (["relu", "bias"], ["relu", "add"]),
        (["conv", "softmax"], ["expand_dims", "conv2d", "squeeze", "softmax"]),
        (["conv", "groups of channels", "largest"], ["expand_dims", "conv2d", "group_norm", "max_pool2d", "squeeze"]),
        (
            ["gate", "mirrored", "cut off"],
            ["expand_dims", "conv2d", "split", "tanh", "sigmoid", "multiply", "pad", "strided_slice", "squeeze"],
        ),
        (["conv", "over channels"], ["expand_dims", "conv2d", "squeeze", "group_norm"]),
        (["taken apart", "one behind the other"], ["expand_dims", "conv2d", "depth_to_space", "concat", "squeeze"]),
    ],
)
def test_what_follows(chosen: list[str], after: list[str]):
    def body(bb: Any, x: Any) -> Any:
        for name in chosen:
            x = bb.emit(STEPS[name](bb, x))
        return x

    assert names(converted(graph({"x": (2, 4, 12)}, body))) == after


def test_layouts_of_their_own_stay():
    mod = graph({"x": (1, 9, 4)}, lambda bb, x: nn.conv1d(x, weights(4, 4, 3), data_layout="NWC"))
    assert converted(mod) is mod


def test_weights_that_are_given():
    shapes = {"x": (1, 4, 9), "w": (6, 4, 3)}
    mod = graph(shapes, lambda bb, x, w: nn.conv1d(x, w, strides=2))
    after = converted(mod)
    assert names(after) == ["expand_dims", "expand_dims", "conv2d", "squeeze"]
    assert_same_results(mod, after, exact=False)


def encoder() -> layers.Module:
    """The shape of the convolutions before a transformer for sound."""
    return layers.Sequential(
        layers.Conv1d(1, 32, 10, 5),
        layers.GroupNorm(32, 32),
        layers.GELU(),
        layers.Conv1d(32, 32, 3, 2),
        layers.GELU(),
        layers.Conv1d(32, 48, 2, 2),
        layers.GELU(),
        layers.GLU(1),
        layers.ReflectionPad1d(1),
        layers.ConvTranspose1d(24, 16, 4, 2, 1),
    ).eval()


@pytest.mark.parametrize("length", [400, 533])
def test_compiled(length: int):
    torch.manual_seed(0)
    model, x = encoder(), torch.randn(2, 1, length)
    compiled = eutectic.compile(model, (x,), target="llvm")
    with torch.no_grad():
        want = model.double()(x.double()).numpy()
    np.testing.assert_allclose(compiled(x).numpy(), want, rtol=1e-4, atol=1e-5)


def test_signals_are_in_blocks_of_channels():
    compiled = eutectic.compile(encoder(), (torch.randn(1, 1, 400),), target="llvm")
    lines = [line for line in compiled.lowered.script().splitlines() if "conv2d" in line and "call_tir" in line]
    blocked = [line for line in lines if re.search(r"Tensor\(\(1, \d+, 1, \d+, \d+\)", line)]
    assert len(blocked) >= 3
