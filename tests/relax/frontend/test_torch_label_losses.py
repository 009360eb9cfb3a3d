"""Losses of rows that values chose: torch's own way to take them apart asks how many rows there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import eutectic
from eutectic.relax.frontend.torch import decompose
from eutectic.support.errors import ExportFailedError
from eutectic.testing.eager import module, same_as_eager

pytestmark = pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")  # torch chooses the rows
generator = torch.Generator().manual_seed(0)
LOGITS = torch.randn(6, 5, generator=generator)
LABELS = torch.tensor([0, 4, 2, -100, 1, 3])
WEIGHT = torch.rand(5, generator=generator) + 0.5
CHOSEN = torch.tensor([True, False, True, True, False, True])


def losses(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    """Losses of both kinds, with each option once."""
    return [
        F.nll_loss(x, labels, reduction="none"),
        F.cross_entropy(x, labels),
        F.cross_entropy(x, labels.clamp(min=0), WEIGHT, ignore_index=2, reduction="sum"),
    ]


def smoothed(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    """Losses of labels that all classes share in."""
    return [
        F.cross_entropy(x, labels, WEIGHT, label_smoothing=0.2),
        F.cross_entropy(x, labels, label_smoothing=0.2),
        F.cross_entropy(x, labels, reduction="none", label_smoothing=0.2),
    ]


@pytest.mark.parametrize("of", [losses, smoothed])
def test_losses_of_chosen_rows(of: Any):
    net = module(lambda x, labels, chosen: of(x[chosen], labels[chosen]))
    compiled = eutectic.compile(net, (LOGITS, LABELS, CHOSEN))
    same_as_eager(net, compiled, (LOGITS, LABELS, CHOSEN))
    same_as_eager(net, compiled, (LOGITS, LABELS, ~CHOSEN))


def test_losses_of_no_rows():
    net = module(lambda x, labels, chosen: F.cross_entropy(x[chosen], labels[chosen]))
    compiled = eutectic.compile(net, (LOGITS, LABELS, CHOSEN))
    same_as_eager(net, compiled, (LOGITS, LABELS, torch.zeros_like(CHOSEN)))


def test_what_torch_cannot_take_apart_is_named(monkeypatch: Any):
    monkeypatch.setattr(decompose, "label_losses", lambda program: {})
    net = module(lambda x, labels, chosen: F.nll_loss(x[chosen], labels[chosen]))
    with pytest.raises(ExportFailedError, match=r"cannot take aten\.nll_loss_nd\.default apart: Could not guard"):
        eutectic.compile(net, (LOGITS, LABELS, CHOSEN))
