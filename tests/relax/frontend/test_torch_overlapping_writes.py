"""Writes in place to tensors that overlap themselves, which eager refuses or does in an order of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import eutectic
from eutectic.support.errors import FrontendError

T = torch.Tensor
X = torch.arange(24.0).reshape(4, 6)

OVERLAPPING: dict[str, Callable[[T], T]] = {
    "add": lambda y: y[:1].expand(3, 6).add_(1),
    "fill": lambda y: y[:1].expand(3, 6).fill_(2),
    "relu": lambda y: torch.relu_(y[:1].expand(3, 6)),
    "masked_fill": lambda y: y[:1].expand(3, 6).masked_fill_(y[:3] > 3, 7.0),
    "windows": lambda y: y.unfold(0, 2, 1).add_(1),
    "as_strided": lambda y: y.as_strided((3, 3), (1, 1)).add_(1),
}
APART: dict[str, Callable[[T], T]] = {
    "a copy": lambda y: y[:1].expand(3, 6).clone().add_(1),
    "a row": lambda y: y[:1].expand(3, 6)[0].add_(1),
    "an axis of one": lambda y: y.expand(1, 4, 6).add_(1),
    "transposed": lambda y: y.t()[::2, 1:].add_(1),
}


class Writes(torch.nn.Module):
    def __init__(self, write: Callable[[T], T]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: T) -> T:
        y = x.clone()
        self.write(y)
        return y * 1


@pytest.mark.parametrize("name", OVERLAPPING)
def test_overlapping_writes_are_refused(name: str):
    with pytest.raises(FrontendError, match="several elements are one place"):
        eutectic.compile(Writes(OVERLAPPING[name]).eval(), (X,))


@pytest.mark.parametrize("name", APART)
def test_other_writes_are_done(name: str):
    model = Writes(APART[name]).eval()
    torch.testing.assert_close(eutectic.compile(model, (X,))(X), model(X))
