"""Arguments that share memory, of models that write to one of them: contiguous ones and others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.support.errors import CallError


class Adds(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2


@cache
def model() -> eutectic.CompiledModel:
    return eutectic.compile(Adds().eval(), (torch.zeros(4, 6), torch.zeros(4, 6)))


def zeros() -> torch.Tensor:
    return torch.zeros(6, 12)


SHARING: dict[str, Any] = {
    "both strided": lambda t: (t[:4, ::2], t[1:5, ::2]),
    "one strided": lambda t: (t.reshape(12, 6)[:4], t[:4, ::2]),
    "a transpose": lambda t: (t.reshape(12, 6)[:4], t.reshape(12, 6)[:6, :4].T),
    "the same": lambda t: (t[:4, ::2], t[:4, ::2]),
    "parts of rows": lambda t: (t[:4, :6], t[:4, 2:8]),
}
APART: dict[str, Any] = {
    "interleaved": lambda t: (t[:4, ::2], t[:4, 1::2]),
    "halves of rows": lambda t: (t[:4, :6], t[:4, 6:]),
    "far apart": lambda t: (t.reshape(12, 6)[:4], t.reshape(12, 6)[4:8]),
}


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("of_numpy", [False, True])
def test_arguments_that_share_elements_are_refused(name: str, of_numpy: bool):
    t = zeros()
    a, b = SHARING[name](t)
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(*((a.numpy(), b.numpy()) if of_numpy else (a, b)))
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(*((b.numpy(), a.numpy()) if of_numpy else (b, a)))
    assert not t.any()


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("of_numpy", [False, True])
def test_arguments_whose_elements_lie_apart_are_taken(name: str, of_numpy: bool):
    t, other = zeros(), zeros()
    a, b = APART[name](t)
    received = model()(*((a.numpy(), b.numpy()) if of_numpy else (a, b)))
    np.testing.assert_array_equal(received, Adds()(*APART[name](other)))
    torch.testing.assert_close(t, other)


def test_reversed_arrays_are_refused():
    a = np.zeros((5, 6), "f4")
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(a[:4], a[:0:-1])


def test_a_view_to_be_negated_is_its_memory():
    t = torch.zeros(4, 6)
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(t, torch._neg_view(t))
    a = np.zeros((4, 12), "f4")
    negated = torch._neg_view(torch.from_numpy(a)[:, ::2])
    torch.testing.assert_close(model()(torch.from_numpy(a)[:, 1::2], negated), torch.zeros(4, 6))


def test_copies_for_other_reasons_are_their_memory():
    data = bytearray(4 * 25)
    misaligned = torch.frombuffer(data, dtype=torch.float32, offset=1, count=24).reshape(4, 6)
    swapped = np.zeros((4, 6), ">f4")
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(misaligned, misaligned)
    with pytest.raises(CallError, match="share memory, and the model changes"):
        model()(swapped, swapped)


class WritesLast(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(k)
        return q * k


def test_arguments_that_are_only_read_may_be_one():
    made = eutectic.compile(WritesLast().eval(), (torch.zeros(4), torch.zeros(4), torch.zeros(4)))
    x, cache, expected = torch.arange(4.0), torch.ones(4), torch.ones(4)
    torch.testing.assert_close(made(x, x, cache), WritesLast()(x, x, expected))
    torch.testing.assert_close(cache, expected)
    with pytest.raises(CallError, match="arguments k and cache share memory, and the model changes cache in place"):
        made(x, cache, cache)
