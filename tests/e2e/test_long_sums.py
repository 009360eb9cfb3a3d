"""Sums of many terms are as exact as those of libraries, whatever operator and whatever kernel makes them.

One sum of n rounded terms after the other would be wrong by about 0.4 * sqrt(n / 2) roundings: 13 for 2,048 terms.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import eutectic

ROUNDING = 2.0**-24
MOST = 7.0  # roundings, relative L2; libraries have 4 to 7
# By size of an image; one sum of all terms has 18 for 128 channels, and more for more.
MOST_WINOGRAD = {28: 15.0, 112: 11.0}

Function = Callable[..., torch.Tensor]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


EACH = uniform(32, 1, 1, 1)
CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "sum of all": (lambda x: x.sum(), (uniform(700, 1000),)),
    "sum over rows": (lambda x: x.sum(0), (normal(8000, 40),)),
    "sum of rows": (lambda x: x.sum(1), (normal(40, 8011),)),
    "sum between": (lambda x: x.sum(1), (normal(3, 4099, 32),)),
    "mean of images": (lambda x: x.mean((2, 3)), (normal(2, 24, 112, 112),)),
    "mean of channels": (lambda x: x.mean((0, 2, 3)), (normal(4, 24, 56, 56),)),
    "variance": (lambda x: x.var((2, 3)), (normal(1, 24, 112, 112),)),
    "layer norm": (lambda x: F.layer_norm(x, (8192,)), (normal(8, 8192),)),
    "group norm": (lambda x: F.group_norm(x, 2), (normal(1, 32, 56, 56),)),
    "group norm in blocks": (
        lambda x: F.group_norm(F.conv2d(x, EACH.to(x.dtype), groups=32), 8),
        (normal(1, 32, 112, 112),),
    ),
    "softmax": (lambda x: F.softmax(x, -1), (normal(4, 30000),)),
    "softmax over rows": (lambda x: F.softmax(x, 0), (normal(5000, 32),)),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), (normal(8, 30000),)),
    "average pool": (lambda x: F.avg_pool2d(x, 56), (normal(1, 24, 112, 112),)),
    "product": (lambda a, b: a @ b, (normal(40, 2048), normal(2048, 64))),
    "product of few rows": (lambda a, b: a @ b, (normal(3, 4096), normal(4096, 64))),
    "product with a transposed matrix": (lambda a, b: a @ b.T, (normal(40, 2048), normal(64, 2048))),
    "product of a transposed matrix": (lambda a, b: a.T @ b, (normal(2048, 40), normal(2048, 64))),
    "product of a prime number of terms": (lambda a, b: a @ b, (normal(40, 2039), normal(2039, 64))),
    "matrix times vector": (lambda a, b: a @ b, (normal(64, 4096), normal(4096))),
    "vector times matrix": (lambda a, b: a @ b, (normal(4096), normal(4096, 64))),
    "scalar product": (lambda a, b: a @ b, (uniform(50000), uniform(50000))),
    "batch of products": (lambda a, b: a @ b, (normal(3, 20, 2048), normal(3, 2048, 40))),
    "sum of products": (lambda a, b: torch.einsum("bik,bjk->bij", a, b), (normal(2, 20, 2048), normal(2, 24, 2048))),
    "convolution along an axis": (F.conv1d, (normal(1, 256, 60), normal(32, 256, 9))),
    "convolution": (lambda a, b: F.conv2d(a, b, padding=2), (normal(1, 128, 12, 12), normal(32, 128, 5, 5))),
    "strided convolution": (lambda a, b: F.conv2d(a, b, stride=2), (normal(1, 256, 15, 15), normal(32, 256, 3, 3))),
    "pointwise convolution": (F.conv2d, (normal(1, 2048, 7, 7), normal(32, 2048, 1, 1))),
    "convolution in groups": (lambda a, b: F.conv2d(a, b, groups=2), (normal(1, 512, 9, 9), normal(32, 256, 3, 3))),
    "convolution of volumes": (F.conv3d, (normal(1, 64, 4, 9, 9), normal(16, 64, 3, 3, 3))),
    "transposed convolution": (
        lambda a, b: F.conv_transpose2d(a, b, stride=2),
        (normal(1, 1024, 6, 6), normal(1024, 16, 2, 2)),
    ),
    "attention": (
        F.scaled_dot_product_attention,
        (normal(1, 2, 40, 64), normal(1, 2, 2048, 64), normal(1, 2, 2048, 64)),
    ),
}


class Module(torch.nn.Module):
    """A function of its inputs, of which some may be weights."""

    def __init__(self, function: Function, weights: tuple[torch.Tensor, ...] = ()) -> None:
        super().__init__()
        self.function = function
        for number, weight in enumerate(weights):
            self.register_buffer(f"w{number}", weight)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs, *self.buffers())


def roundings(function: Function, inputs: tuple[torch.Tensor, ...], result: torch.Tensor) -> float:
    """Relative L2 error of a result."""
    exact = function(*(tensor.double() for tensor in inputs))
    return float((result.double() - exact).norm() / exact.norm()) / ROUNDING


def targets() -> list[Any]:
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    narrow = pytest.param("llvm -mcpu=x86-64-v3", id="AVX2", marks=() if is_x86 else pytest.mark.skip("not an x86"))
    return [pytest.param("llvm", id="host"), narrow]


def assert_exact(made: Any, function: Function, inputs: tuple[torch.Tensor, ...], count: int) -> None:
    """Results of the first inputs, where the others are weights, are exact, and no primitive refused what rules do."""
    assert roundings(function, inputs, made(*inputs[:count])) < MOST
    chosen = [line for group in made.report.plan.groups for line in group.chosen]
    assert not [line for line in chosen if " refused: " in line]


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("name", CASES)
def test_errors_do_not_grow_with_the_number_of_terms(name: str, target: str):
    function, inputs = CASES[name]
    made = eutectic.compile(Module(function), inputs, target=target)
    assert_exact(made, function, inputs, len(inputs))


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("name", ["product", "product of few rows", "convolution", "pointwise convolution"])
def test_neither_do_those_of_packed_weights(name: str, target: str):
    function, inputs = CASES[name]
    made = eutectic.compile(Module(function, inputs[1:]), inputs[:1], target=target)
    assert_exact(made, function, inputs, 1)


def test_neither_do_those_of_sizes_that_are_not_known():
    function, inputs = CASES["product"]
    terms = torch.export.Dim("terms", min=2, max=20000)
    shapes = {"inputs": ({1: terms}, {0: terms})}
    made = eutectic.compile(Module(function), inputs, target="llvm", dynamic_shapes=shapes)
    for count in (5, 2048, 9001):
        others = (normal(40, count), normal(count, 64))
        assert_exact(made, function, others, 2)


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize(("channels", "size"), [(128, 28), (256, 28), (128, 112)])
def test_winograds_method_loses_little_more(channels: int, size: int, target: str):
    def convolved(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight, padding=1)

    inputs = (normal(1, channels, size, size), normal(channels, channels, 3, 3))
    made = eutectic.compile(Module(convolved, inputs[1:]), inputs[:1], target=target)
    assert "winograd" in str(made.lowered)
    assert roundings(convolved, inputs, made(inputs[0])) < MOST_WINOGRAD[size]
