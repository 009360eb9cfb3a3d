"""A network with two sizes that vary, and its comparison with eager at several of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

import eutectic
from eutectic.testing.eager import same_as_eager

Inputs: TypeAlias = Callable[[int, int, torch.Generator], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Sized:
    """A network and what varies in it.

    Attributes:
        make: Makes the network.
        inputs: Its inputs, from two sizes.
        ranges: Least and largest value of the two sizes.
        axes: By input, which of its axes has which of the two sizes.
        example: The sizes that it is compiled with.
        steps: What the sizes are multiples of.
    """

    make: Callable[[], nn.Module]
    inputs: Inputs
    ranges: tuple[tuple[int, int], tuple[int, int]]
    axes: dict[str, dict[int, int]]
    example: tuple[int, int]
    steps: tuple[int, int] = (1, 1)

    def sizes(self, rng: random.Random, count: int) -> list[tuple[int, int]]:
        """The example's sizes, the least ones, and others."""
        sizes = [self.example, tuple(low for low, _ in self.ranges)]
        while len(sizes) < count:
            sizes.append(
                tuple(
                    step * rng.randint(-(-low // step), min(high, 5 * low + 20) // step)
                    for (low, high), step in zip(self.ranges, self.steps, strict=True)
                )
            )
        return [(first, second) for first, second in sizes]

    def dynamic_shapes(self) -> dict[str, dict[int, Any]]:
        """What `torch.export` is told."""
        dims: list[Any] = []
        for name, (low, high), step in zip("ab", self.ranges, self.steps, strict=True):
            dim = torch.export.Dim(name, min=-(-low // step), max=high // step)
            dims.append(dim if step == 1 else step * dim)
        return {name: {axis: dims[which] for axis, which in axes.items()} for name, axes in self.axes.items()}


def compiled(net: nn.Module, sized: Sized, **options: Any) -> eutectic.CompiledModel:
    """A network compiled for all of its sizes."""
    example = sized.inputs(*sized.example, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return eutectic.compile(net, example, dynamic_shapes=sized.dynamic_shapes(), **options)


def check_sizes(sized: Sized, sizes: Sequence[tuple[int, int]], seed: int = 0, **options: Any) -> None:
    """Compile once, and compare with eager at several sizes.

    Raises:
        AssertionError: results differ; the sizes are in a note.
    """
    torch.manual_seed(seed)
    net = sized.make().eval()
    fast = compiled(net, sized, **options)
    for first, second in sizes:
        try:
            same_as_eager(net, fast, sized.inputs(first, second, torch.Generator().manual_seed(seed + 1)))
        except Exception as error:
            error.add_note(f"with sizes {first} and {second}")
            raise
