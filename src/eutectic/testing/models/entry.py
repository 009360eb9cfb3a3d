"""One row of the registry of networks, and the error for weights that are not installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class WeightsMissing(Exception):
    """Trained weights are not installed; the message says which package has them."""


def _always() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A network that tests, demo and benchmarks can ask for by name.

    Attributes:
        name: Key in the registry.
        title: Name for people.
        build: Gives the network in eval mode and example inputs of batch 1; the same at each call.
        weights: `trained`, or `random` (seeded, with batch statistics that fit them).
        missing: Why the network cannot be built here; None when it can.
    """

    name: str
    title: str
    build: Callable[[], Built]
    weights: Literal["trained", "random"]
    missing: Callable[[], str | None] = _always

    @property
    def available(self) -> bool:
        """Whether `build` will work here."""
        return self.missing() is None
