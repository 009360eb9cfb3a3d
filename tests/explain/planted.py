"""A model with reasons not to fuse, planted in lines that say which; and the small models that need other options."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.testing.graphs import graph

FILE = Path(__file__)


def line(mark: str) -> str:
    """`file:line` of the line that ends in a mark."""
    numbers = [n for n, text in enumerate(FILE.read_text().splitlines(), 1) if text.endswith(f"# plant: {mark}")]
    assert len(numbers) == 1, mark
    return f"{FILE.name}:{numbers[0]}"


class Planted(nn.Module):
    """What keeps kernels of our own apart; the values that are read come from the line above or the same."""

    def forward(self, x: torch.Tensor, w: torch.Tensor, column: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shared = torch.relu(x + 1)
        rows = shared.sum(1)  # plant: several readers
        columns = shared.amax(0)
        given = x * 2
        inner = torch.tanh(given)  # plant: output
        product = x @ w
        mixed = torch.relu(product.t().reshape(4, 64))  # plant: reshape that mixes axes
        twice = torch.exp(x).sum(1).amax(0)  # plant: reduction after reduction
        wide = (x @ column) + x  # plant: shape
        behind = torch.sigmoid(x)
        again = behind @ w  # plant: producer of a product
        return rows, columns, given, inner, mixed, twice, wide, again


class Layouts(nn.Module):
    """Convolutions whose kernels want another layout than what follows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 7, 2, 3)
        self.second = nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.softmax(features, 1)  # plant: layout


class Long(nn.Module):
    """More operators in a row than a group may have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(140):
            x = torch.sin(x)  # plant: limit of group size
        return x


class Library(nn.Module):
    """What oneDNN does not take, or not together; channels are too few for blocks of our own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.second = nn.Conv2d(5, 5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = torch.relu(self.conv(x))  # plant: precision
        refused = functional.adaptive_avg_pool2d(first, 2)  # plant: refusal of the library
        variant = functional.avg_pool2d(first, 3, 2, 1, ceil_mode=True)  # plant: variant of a pattern
        second = self.second(first)
        kept = torch.relu(second)  # plant: read elsewhere too
        return refused, variant, second * 2, kept


class Double(nn.Module):
    """A dtype that oneDNN is not used for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))  # plant: dtype


def data_dependent() -> IRModule:
    """A graph whose result has a shape that is a value of the model."""

    def body(bb, x, sizes):  # type: ignore[no-untyped-def]  # variables of the graph
        doubled = bb.emit(op.add(x, x))
        shape = bb.emit(op.tensor_to_shape(sizes))
        return bb.emit(op.reshape(doubled, shape))

    return graph({"x": (2, 6), "sizes": ((2,), "int64")}, body)


def inputs(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Tensors of some shapes."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]
