"""A perceptron with one hidden layer, 784-128-10, for images of 28 by 28 pixels; random weights."""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded


class MLP(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self) -> None:
        """Make the network with random weights."""
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, 784)` to logits `(n, 10)`."""
        logits: torch.Tensor = self.fc2(self.relu(self.fc1(x)))
        return logits


def _build() -> Built:
    return seeded(MLP), (example(1, 784),)


ENTRIES = (ModelEntry("mlp", "MLP 784-128-10", _build, "random"),)
