"""Values that torch made, which native code has no form for: complex numbers, sparse tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import eutectic
from eutectic import EutecticAdvice

X = torch.linspace(-2, 2, 24).reshape(4, 6)
WEIGHT = torch.linspace(-1, 1, 6)
fft = torch.fft.fft


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("weight", WEIGHT)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.weight)


@cache
def compiled(function: Callable[..., Any]) -> eutectic.CompiledModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EutecticAdvice)
        return eutectic.compile(Of(function).eval(), (X,))


def twice(x: torch.Tensor, _: Any) -> Any:
    value = fft(x)
    return value, value


def with_its_conjugate(x: torch.Tensor, _: Any) -> Any:
    value = fft(x)
    return value, value.conj().imag, value.conj()


def with_a_real_part(x: torch.Tensor, _: Any) -> Any:
    symmetric = x @ x.T + torch.diag(torch.arange(4.0))
    values, vectors = torch.linalg.eigh(torch.view_as_complex(torch.stack([symmetric, symmetric * 0], -1)))
    return vectors.abs(), values * 2, torch.view_as_complex(x.reshape(4, 3, 2))


def written(x: torch.Tensor, _: Any) -> Any:
    view = torch.view_as_complex(x.reshape(4, 3, 2))
    value = view * 2
    x.add_(1)
    return value, value.conj(), view, x * 2


RETURNED: dict[str, Callable[..., Any]] = {
    "alone": lambda x, _: fft(x),
    "of float64": lambda x, _: fft(x.double()),
    "conjugated": lambda x, _: fft(x).conj(),
    "in a tuple": lambda x, _: (fft(x), x * 2),
    "several": lambda x, _: (fft(x), fft(x.relu()), x.relu() + 1),
    "in a dict": lambda x, _: {"a": fft(x), "b": [fft(x * 2), (x * 2,)]},
    "twice": twice,
    "used further": lambda x, _: (fft(x), fft(x).imag * 2),
    "of which a part is returned": lambda x, _: (fft(x), fft(x)[1:, ::2], fft(x).T),
    "used by torch": with_its_conjugate,
    "beside a real one": with_a_real_part,
    "of a constant": lambda x, weight: (fft(weight), torch.view_as_complex(weight.reshape(3, 2)), x * 2),
    "a number": lambda x, _: (x.sum().item(), fft(x).real * 2),
    "an argument is written": written,
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_complex_value_is_returned(name: str):
    function = RETURNED[name]
    model = compiled(function)
    for x in (X, X.flip(0) * 1.5, torch.cat([X, X], 1)[:, :6]):
        mine, others = x.clone(), x.clone()
        received, wanted = model(mine), function(others, WEIGHT)
        torch.testing.assert_close(received, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine, others)


@pytest.mark.parametrize("name", RETURNED)
def test_a_complex_value_is_an_array_among_arrays(name: str):
    function = RETURNED[name]
    received, wanted = compiled(function)(X.numpy().copy()), function(X.clone(), WEIGHT)
    for value, want in zip(tree_leaves(received), tree_leaves(wanted), strict=True):
        is_number = isinstance(want, float)
        assert isinstance(value, float if is_number else np.ndarray)
        plain = want if is_number else want.resolve_conj().resolve_neg().numpy()
        np.testing.assert_allclose(value, plain, rtol=1e-4, atol=1e-5)


def test_a_result_belongs_to_the_caller():
    model = compiled(RETURNED["of a constant"])
    first = model(X)
    wanted = [value.clone() for value in first]
    for value in first:
        value.zero_()
    torch.testing.assert_close(model(X), tuple(wanted))


def test_a_model_that_returns_complex_values_is_data():
    model = compiled(RETURNED["used by torch"])
    again = eutectic.CompiledModel.from_bytes(model.to_bytes())
    torch.testing.assert_close(again(X), model(X), rtol=0, atol=0)


def test_a_sparse_value_is_returned():
    received = compiled(lambda x, _: (x.relu().to_sparse(), x + 1))(X)
    torch.testing.assert_close(received, (X.relu().to_sparse(), X + 1))
