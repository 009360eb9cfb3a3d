"""Factories for the tests of the command line."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import eutectic

SOURCE = """
from eutectic.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            z = R.add(y, y)
            R.output(z)
        return z
"""


class Two(nn.Module):
    """Two inputs and one by keyword, a dictionary of results."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        """The sum, scaled, and the sum of the products."""
        return {"sum": a + b * scale, "product": (a * b).sum()}


class Odd(nn.Module):
    """An operator without a converter."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """torch computes the function of Bessel."""
        return torch.relu(x) + torch.special.bessel_j0(x)


class Nested(nn.Module):
    """Arguments in containers."""

    def forward(self, pair: list[torch.Tensor], named: dict[str, torch.Tensor]) -> torch.Tensor:
        """A sum of all."""
        return pair[0] + pair[1] * named["k"]


def conv() -> Any:
    """A convolution, an activation, a pooling."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(-1))
    return nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),)


def mlp() -> Any:
    """Two products."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 4)).eval(), (torch.randn(2, 8),)


def two() -> Any:
    """Arguments by position and by name."""
    return Two(), (torch.ones(2, 3), torch.ones(2, 3)), {"scale": torch.ones(3)}


def odd() -> Any:
    """It falls back to torch, and prints."""
    print("a factory that prints")
    return Odd(), [torch.randn(4)]


def nested() -> Any:
    """A list and a dictionary."""
    return Nested(), ([torch.ones(3), torch.ones(3)], {"k": torch.ones(3)})


def dynamic() -> Any:
    """An exported program with a batch that varies."""
    module, (x,) = mlp()
    sizes = ({0: torch.export.Dim("n", min=1, max=64)},)
    return torch.export.export(module, (x,), dynamic_shapes=sizes, strict=False)


def own() -> Any:
    """A module of ours."""
    return eutectic.script.from_source(SOURCE)


def fails() -> Any:
    """An error in the code of the user."""
    return _divided(0)


def _divided(number: int) -> float:
    return 1 / number


def number() -> int:
    """No model."""
    return 42


def takes(width: int) -> Any:
    """A factory with a parameter."""
    return nn.Linear(width, width), (torch.ones(1, width),)
