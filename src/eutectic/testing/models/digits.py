"""A small convolutional network trained here, in seconds, on the 8x8 digits that scikit-learn carries."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import seeded

TRAINING = 1500  # the first so many of the 1,797 digits; the rest is for testing
EPOCHS, BATCH = 10, 50


@dataclass(frozen=True, slots=True)
class Digits:
    """The data set: images `(n, 1, 8, 8)` with values in [-1, 1], labels `(n,)`."""

    images: torch.Tensor
    labels: torch.Tensor


class DigitsNet(nn.Module):
    """Three convolutions with batch norm and ReLU6, the middle one depthwise, and a classifier."""

    def __init__(self) -> None:
        """Make the network with random weights."""
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
        )
        self.classifier = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, 1, 8, 8)` to logits `(n, 10)`."""
        x = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        logits: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return logits


@functools.cache
def load_digits() -> Digits:
    """Read the data set from scikit-learn's package."""
    from sklearn.datasets import load_digits as load  # optional and slow to import

    data = load()
    images = torch.from_numpy(data.images).to(torch.float32).reshape(-1, 1, 8, 8)
    return Digits(images / 8.0 - 1.0, torch.from_numpy(data.target).to(torch.int64))


def train() -> nn.Module:
    """Train the network; the same weights each time on one machine with one number of threads."""
    return seeded(_train)


def _train() -> nn.Module:
    digits, model = load_digits(), DigitsNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, epochs=EPOCHS, steps_per_epoch=TRAINING // BATCH)
    for _ in range(EPOCHS):
        order = torch.randperm(TRAINING)
        for k in range(0, TRAINING, BATCH):
            batch = order[k : k + BATCH]
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(digits.images[batch]), digits.labels[batch]))
            optimizer.step()
            schedule.step()
    return model


def accuracy(model: nn.Module) -> float:
    """Share of the digits outside of the training set that the network names rightly."""
    digits = load_digits()
    with torch.no_grad():
        named = model(digits.images[TRAINING:]).argmax(1)
    return float((named == digits.labels[TRAINING:]).double().mean())


def _build() -> Built:
    return train(), (load_digits().images[TRAINING : TRAINING + 1].clone(),)


def _missing() -> str | None:
    if importlib.util.find_spec("sklearn") is None:
        return "the package scikit-learn, which carries the digits, is not installed (pip install scikit-learn)"
    return None


ENTRIES = (ModelEntry("digits", "DigitsNet", _build, "trained", _missing),)
