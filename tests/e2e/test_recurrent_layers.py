"""Recurrent layers of torch: as accurate as eager, one kernel a layer however long the sequence is, and any length."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic import EutecticAdvice
from eutectic.driver.compiled import CompiledModel
from eutectic.support.errors import FrontendError

LAYERS = {
    "lstm": lambda **options: nn.LSTM(6, 20, **options),
    "gru": lambda **options: nn.GRU(6, 20, **options),
    "rnn of tanh": lambda **options: nn.RNN(6, 20, **options),
    "rnn of relu": lambda **options: nn.RNN(6, 20, nonlinearity="relu", **options),
}
OPTIONS = {
    "plain": {},
    "two layers": {"num_layers": 2, "batch_first": True},
    "both directions": {"bidirectional": True},
    "no biases": {"bias": False, "num_layers": 2, "bidirectional": True, "batch_first": True},
}


def made(kind: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[kind](**options).eval()


def leaves(value: Any) -> list[torch.Tensor]:
    return torch.utils._pytree.tree_leaves(value)


def wide(value: Any) -> Any:
    return torch.utils._pytree.tree_map(torch.Tensor.double, value)


def assert_as_good_as_eager(compiled: CompiledModel, model: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        exact, eager = leaves(copy.deepcopy(model).double()(*wide(args))), leaves(model(*args))
    for got, want, other in zip(leaves(compiled(*args)), exact, eager, strict=True):
        assert got.shape == want.shape
        assert float((got.double() - want).norm()) <= max(2 * float((other.double() - want).norm()), 1e-6)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind: str, options: str):
    model = made(kind, **OPTIONS[options])
    x = torch.randn(5, 3, 6)
    compiled = eutectic.compile(model, (x,), threads=1)
    assert not compiled.report.host_operators
    assert_as_good_as_eager(compiled, model, x)


@pytest.mark.parametrize("kind", LAYERS)
def test_states_that_are_given(kind: str):
    model, x = made(kind), torch.randn(4, 2, 6)
    state = torch.randn(1, 2, 20)
    given = (state, torch.randn(1, 2, 20)) if kind == "lstm" else state
    assert_as_good_as_eager(eutectic.compile(model, (x, given), target="llvm", threads=2), model, x, given)


def test_beside_what_torch_has_to_make_functional():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = made("lstm", batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)[0].clone()
            y[0].add_(1)
            return y

    model, shapes = Net().eval(), ({1: Dim("steps", min=2, max=400)},)
    compiled = eutectic.compile(model, (torch.randn(3, 5, 6),), dynamic_shapes=shapes, threads=1)
    assert_as_good_as_eager(compiled, model, torch.randn(3, 9, 6))


def test_one_sequence_without_an_axis_for_it():
    model, x = made("lstm"), torch.randn(5, 6)
    assert_as_good_as_eager(eutectic.compile(model, (x,), threads=1), model, x)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_lengths_and_numbers_of_sequences_that_vary(kind: str):
    model = made(kind, batch_first=True, bidirectional=True)
    shapes = ({0: Dim("sequences", min=0, max=40), 1: Dim("steps", min=1, max=400)},)
    compiled = eutectic.compile(model, (torch.randn(3, 5, 6),), dynamic_shapes=shapes, threads=1)
    for batch, steps in ((3, 5), (1, 1), (7, 2), (1, 33), (0, 4)):
        assert_as_good_as_eager(compiled, model, torch.randn(batch, steps, 6))


def test_long_sequences_make_no_more_kernels():
    model = made("lstm")
    plans = [eutectic.compile(model, (torch.randn(n, 1, 6),), threads=1).report.plan for n in (3, 300)]
    counts = [len(plan.groups) for plan in plans]
    assert counts[0] == counts[1] < 8


def test_narrow_floats_are_computed_in_float32():
    model, x = made("gru").bfloat16(), torch.randn(6, 2, 6).bfloat16()
    compiled = eutectic.compile(model, (x,), threads=1)
    with torch.no_grad():
        exact = leaves(copy.deepcopy(model).double()(x.double()))
        eager = leaves(model(x))
    for got, want, other in zip(leaves(compiled(x)), exact, eager, strict=True):
        assert got.dtype == torch.bfloat16
        assert float((got.double() - want).norm()) <= 1.5 * float((other.double() - want).norm())


def test_infinities_and_nan_stay_in_their_sequence():
    model, x = made("lstm"), torch.randn(4, 3, 6)
    x[1, 0, 2], x[2, 1, 0] = torch.inf, torch.nan
    with torch.no_grad():
        want = model.double()(x.double())[0].float()
        model.float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        got = eutectic.compile(model, (torch.randn(4, 3, 6),), threads=1)(x)[0]
    torch.testing.assert_close(got, want, equal_nan=True)
    assert not got[:, 2].isnan().any()


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_projections_are_left_to_torch_with_a_word():
    model = nn.LSTM(6, 20, proj_size=4).eval()
    x = torch.randn(3, 2, 6)
    with pytest.warns(EutecticAdvice, match="run in torch eager"):
        compiled = eutectic.compile(model, (x,), threads=1)
    assert_as_good_as_eager(compiled, model, x)


def test_dropout_between_layers_is_refused_in_training():
    model = nn.LSTM(6, 20, 2, dropout=0.5).train()
    with pytest.raises(FrontendError, match=r"training mode"):
        eutectic.compile(model, (torch.randn(3, 2, 6),))
