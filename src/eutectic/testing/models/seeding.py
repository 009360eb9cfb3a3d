"""Random weights that are the same each time, leave the caller's random state alone, and give sane activations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def seeded(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """Build a network whose initial weights depend on `seed` only.

    Args:
        build: Makes the network with torch's global random numbers.
        seed: Any integer.

    Returns:
        The network in eval mode.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().eval()


def example(*shape: int, seed: int = 1) -> torch.Tensor:
    """Standard normal float32 values, the same at each call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_batch_statistics(model: nn.Module, batch: torch.Tensor) -> nn.Module:
    """Give every batch norm of a random network a scale, a shift and statistics as training would.

    A fresh batch norm has mean 0, variance 1, scale 1 and shift 0: it does nothing, and folding it proves
    nothing. Scales are drawn from [0.5, 1.5], shifts from a normal of deviation 0.1, and mean and variance
    are those of `batch`, so that activations keep their size through deep networks.

    Args:
        model: Changed in place.
        batch: Input with more than one sample.

    Returns:
        `model`, in eval mode.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, 0.0, 0.1)
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        model(batch)
    for norm in norms:
        norm.momentum = 0.1
    return model.eval()
