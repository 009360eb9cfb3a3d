"""Windows lose the taps that see nothing but padding, and results stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from eutectic.relax import op
from eutectic.relax.analysis import get_var2val
from eutectic.relax.expr import Call, Constant
from eutectic.relax.transform import RemovePaddedTaps
from eutectic.testing.graphs import assert_close, evaluate, graph, weights


def network(shape, weight: Constant, **options):
    return graph({"x": shape}, lambda _, x: op.nn.conv2d(x, weight, **options))


def window(mod) -> tuple[int, ...]:
    (conv,) = (value for value in get_var2val(mod["main"]).values() if isinstance(value, Call))
    return conv.args[1].struct_info.static_shape[2:]


@pytest.mark.parametrize(
    ("dilation", "left"), [(24, (1, 1)), (14, (1, 1)), (13, (3, 3)), ((24, 1), (1, 3)), ((1, 24), (3, 1))]
)
def test_taps_beside_the_image(dilation, left):
    pair = (dilation, dilation) if isinstance(dilation, int) else dilation
    mod = network((1, 8, 14, 14), weights(4, 8, 3, 3), padding=pair * 2, dilation=pair)
    after = RemovePaddedTaps()(mod)
    assert window(after) == left
    assert str(after["main"].ret_struct_info) == str(mod["main"].ret_struct_info)
    x = np.random.default_rng(0).standard_normal((1, 8, 14, 14)).astype("float32")
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), atol=1e-6)


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 3),
    st.integers(1, 6),
    st.tuples(*[st.integers(0, 9)] * 4),
)
def test_any_window(height: int, width: int, taps, stride: int, dilation: int, padding):
    spans = [(k - 1) * dilation + 1 for k in taps]
    assume(height + padding[0] + padding[2] >= spans[0] and width + padding[1] + padding[3] >= spans[1])
    weight = weights(2, 2, *taps)
    mod = network((1, 2, height, width), weight, strides=stride, dilation=dilation, padding=padding)
    after = RemovePaddedTaps()(mod)
    x = np.random.default_rng(0).standard_normal((1, 2, height, width)).astype("float32")
    top, left, bottom, right = padding
    wide = torch.nn.functional.pad(torch.tensor(x), (left, right, top, bottom))
    want = torch.nn.functional.conv2d(wide.double(), torch.tensor(weight.data).double(), None, stride, 0, dilation)
    assert_close(evaluate(after, x).astype("float64"), want.numpy(), 1e-5)
    assert RemovePaddedTaps()(after) is after or window(RemovePaddedTaps()(after)) == window(after)


def test_what_is_not_finite_stays():
    """Infinity times a zero of the padding is no zero."""
    weight = Constant(np.where(np.arange(9).reshape(1, 1, 3, 3) == 0, np.inf, 1).astype("float32"))
    mod = network((1, 1, 4, 4), weight, padding=9, dilation=9)
    assert window(RemovePaddedTaps()(mod)) == (3, 3)


def test_blocks_of_channels_stay():
    weight = Constant(np.ones((1, 1, 3, 3, 4, 8), "float32"))
    options = {
        "data_layout": "NCHW4c",
        "kernel_layout": "OIHW4i8o",
        "out_layout": "NCHW8c",
        "padding": 9,
        "dilation": 9,
    }
    mod = network((1, 1, 5, 5, 4), weight, **options)
    assert RemovePaddedTaps()(mod)["main"].script() == mod["main"].script()


def test_other_layouts():
    weight = Constant(np.ones((3, 3, 2, 4), "float32"))
    options = {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": 9, "dilation": 9}
    mod = network((1, 5, 5, 2), weight, **options)
    (conv,) = (v for v in get_var2val(RemovePaddedTaps()(mod)["main"]).values() if isinstance(v, Call))
    assert conv.args[1].struct_info.static_shape == (1, 1, 2, 4)
