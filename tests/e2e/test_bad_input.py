"""Bad input: either it works, or the error names the argument, what was expected and what to do."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.driver.weights import LONGEST_PAUSE
from eutectic.support.errors import CallError, FrontendError, ModelStateError, UnsupportedOperatorError
from eutectic.testing.eager import check, compare, module

X = torch.randn(2, 4, 8, 8)


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU()).eval()


@pytest.fixture(scope="module")
def compiled() -> eutectic.CompiledModel:
    return eutectic.compile(net(), (X,))


def test_a_model_in_training_mode_is_refused_and_not_changed():
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Dropout())
    with pytest.raises(ModelStateError, match=r"(?s)training mode.*1.*eval\(\)"):
        eutectic.compile(model, (X,))
    assert model.training
    assert model[1].training


def test_parameters_that_require_grad_are_fine_and_the_result_does_not():
    model = net()
    result = eutectic.compile(model, (X,))(X)
    assert not result.requires_grad
    assert all(p.requires_grad for p in model.parameters())


def test_an_input_that_requires_grad_is_refused_where_eager_would_track_it(compiled):
    x = X.clone().requires_grad_()
    with pytest.raises(CallError, match=r"requires grad|requires_grad"):
        compiled(x)
    with torch.no_grad():
        compare(compiled(x), compiled(X))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (torch.randn(4, 8, 8), r"argument input must have 4 axes, got 3"),
        (torch.randn(2, 5, 8, 8), r"(?s)input.*4.*5"),
        (torch.randn(2, 4, 8, 9), r"(?s)input.*8.*9"),
        (X.double(), r"(?s)input.*float32.*float64"),
        (X.int(), r"(?s)input.*float32.*int32"),
        ("picture", r"(?s)input.*tensor.*str"),
        (None, r"(?s)input.*None"),
        ([X], r"(?s)input"),
    ],
    ids=["rank", "channels", "width", "double", "int", "string", "none", "list"],
)
def test_an_argument_that_does_not_fit_is_named(compiled, argument, message):
    with pytest.raises(CallError, match=message):
        compiled(argument)


def test_too_few_and_too_many_arguments(compiled):
    for arguments in [(), (X, X)]:
        with pytest.raises((CallError, TypeError)):
            compiled(*arguments)
    with pytest.raises((CallError, TypeError), match="nothing"):
        compiled(X, nothing=1)


def test_strange_strides_are_copied_with_the_right_values(compiled):
    for x in [
        X.to(memory_format=torch.channels_last),
        torch.randn(2, 4, 16, 8)[:, :, ::2],
        torch.randn(1, 4, 8, 8).expand(2, 4, 8, 8),
        torch.randn(8, 8, 4, 2).permute(3, 2, 0, 1),
    ]:
        compare(compiled(x), compiled(x.contiguous()))


def test_zero_batch():
    batch = torch.export.Dim("batch", min=0, max=8)
    model = module(net())
    fast = eutectic.compile(model, (X,), dynamic_shapes=({0: batch},))
    with torch.no_grad():
        compare(fast(X[:0]), model(X[:0]))
    check(net(), X[:0])


def test_meta_and_sparse_tensors_are_refused(compiled):
    with pytest.raises(CallError, match=r"(?s)input.*meta"):
        compiled(X.to("meta"))
    with pytest.raises(CallError, match=r"(?s)input"):
        compiled(X.to_sparse())


def test_numpy_arrays_of_the_wrong_kind(compiled):
    with pytest.raises(CallError, match=r"(?s)input.*float32.*float64"):
        compiled(np.zeros((2, 4, 8, 8)))
    with pytest.raises(CallError):
        compiled(np.zeros((2, 4, 8, 8), dtype=object))


def test_read_only_and_misaligned_arrays(compiled):
    x = X.numpy().copy()
    x.flags.writeable = False
    off = np.frombuffer(b"\0" + x.tobytes(), "float32", offset=1)
    assert not off.flags.aligned
    np.testing.assert_array_equal(compiled(x), compiled(off.reshape(x.shape)))


@pytest.mark.parametrize(
    "model", [3, "resnet", None, lambda x: x, nn.Conv2d], ids=["int", "str", "none", "function", "class"]
)
def test_what_is_not_a_model_is_refused(model):
    with pytest.raises(FrontendError):
        eutectic.compile(model, (X,))


def test_missing_example_inputs():
    with pytest.raises(FrontendError, match=r"(?s)input"):
        eutectic.compile(net())


def test_all_unsupported_operators_are_listed_at_once():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.linalg.qr(x[0, 0])[0] + torch.special.i0(x[0, 0]) + torch.linalg.qr(x[0, 1])[0]

    with pytest.raises(UnsupportedOperatorError) as caught:
        eutectic.compile(Odd(), (X,), fallback="error")
    text = str(caught.value)
    assert "qr" in text
    assert "i0" in text
    assert "test_bad_input.py" in text


def test_control_flow_on_data_is_explained():
    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(FrontendError, match=r"torch\.export"):
        eutectic.compile(Branch(), (X,))


def test_later_changes_of_the_weights_do_not_show_and_are_said_once():
    model = net()
    fast = eutectic.compile(model, (X,))
    before = fast(X)
    with torch.no_grad():
        model[0].weight.zero_()
    time.sleep(LONGEST_PAUSE)  # weights are looked at every so often
    with pytest.warns(eutectic.EutecticAdvice, match='weights="live"'):
        compare(fast(X), before)
    compare(fast(X), before)


def test_the_model_is_left_as_it_was():
    model = net()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    hooks = len(model._forward_hooks)
    eutectic.compile(model, (X,))
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert len(model._forward_hooks) == hooks
    assert not model.training
