"""Equations between sizes that torch takes for granted: calls for which they do not hold are refused, as torch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import eutectic
from eutectic.support.errors import CallError

ROWS, COLUMNS = torch.export.Dim("rows", min=2, max=50), torch.export.Dim("columns", min=2, max=50)
EXAMPLE = (4, 6)


class OfRows(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class ShapedLike(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(y.shape) + y


# What torch 2.13 traces with the number that a product of sizes is in the example.
WITH_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "take_along_dim": lambda x: torch.take_along_dim(y := x.reshape(-1, 1), y.argmax(0, keepdim=True), 0),
    "linspace": lambda x: torch.linspace(0, 1, x.reshape(-1).shape[0]),
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_number_in_place_of_a_product_is_no_result_for_other_sizes(name: str):
    model = OfRows(WITH_NUMBERS[name]).eval()
    fast = eutectic.compile(model, (torch.randn(EXAMPLE),), dynamic_shapes=({0: ROWS, 1: COLUMNS},), target="llvm")
    for size in (EXAMPLE, EXAMPLE[::-1], (3, 8)):
        x = torch.randn(size)
        torch.testing.assert_close(fast(x), model(x))
    for size in ((4, 7), (2, 2), (50, 50)):
        with pytest.raises(CallError, match=f"sizes must have size 24 on axis 0, got {size[0] * size[1]}"):
            fast(torch.randn(size))


def test_sizes_of_two_inputs_fit_each_other():
    model, others = ShapedLike().eval(), torch.export.Dim("others", min=2, max=2000)
    axes = ({0: ROWS, 1: COLUMNS}, {0: others})
    fast = eutectic.compile(model, (torch.randn(EXAMPLE), torch.randn(12, 2)), dynamic_shapes=axes)
    for size in (EXAMPLE, (8, 3), (10, 3), (7, 8)):
        x, y = torch.randn(size), torch.randn(size[0] * size[1] // 2, 2)
        torch.testing.assert_close(fast(x, y), model(x, y))
    with pytest.raises(CallError, match="sizes must have size 12 on axis 0, got 30"):
        fast(torch.randn(5, 6), torch.randn(6, 2))
