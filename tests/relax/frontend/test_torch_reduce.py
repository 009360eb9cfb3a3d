"""Reductions, running sums and creation: values, dtypes and empty axes as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import check, rand, special, together
from torch import nn

import eutectic

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum((0, -1), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(1), x.mean((0, 1)), x.mean((-1,), keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True)),
    "amax": lambda x: (x.amax(), x.amax(1), x.amin((0, 1)), x.amin(-1, keepdim=True), x.max(), x.min()),
    "max_dim": lambda x: (*x.max(1), *x.min(0, keepdim=True), x.max(1).values),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True), x.argmin()),
    "var": lambda x: (x.var(), x.var(1), x.var(0, correction=0), x.std((0, 1)), x.std(1, keepdim=True)),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 1)), x.logsumexp(0, keepdim=True)),
    "norm": lambda x: (
        torch.linalg.vector_norm(x),
        torch.linalg.vector_norm(x, 1, 1),
        torch.linalg.vector_norm(x, float("inf"), 0),
        torch.linalg.vector_norm(x, 3, 1, keepdim=True),
        torch.linalg.vector_norm(x, 0),
        x.norm(),
        x.norm(dim=1),
    ),
    "cumsum": lambda x: (x.cumsum(0), x.cumsum(-1), x.cumprod(1)),
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(0), torch.softmax(x, 1, dtype=torch.float64)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_reductions(dtype: torch.dtype):
    check(together(REDUCTIONS), rand(3, 4, dtype=dtype), tolerance=5e-2 if dtype.itemsize == 2 else None)


def test_reductions_of_special_values():
    names = ["sum", "amax", "max_dim", "argmax", "logsumexp", "softmax"]
    check(together({name: REDUCTIONS[name] for name in names}), special().reshape(3, 4))


def test_reductions_of_integers():
    names = ["sum", "prod", "amax", "max_dim", "argmax", "cumsum"]
    check(together({name: REDUCTIONS[name] for name in names}), rand(3, 4, dtype=torch.int32))


def test_any_and_all():
    for dtype in (torch.bool, torch.float32, torch.int32, torch.uint8):
        check(lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True)), rand(3, 4, dtype=dtype))
    check(lambda x: (x.any(), x.all(), x.any(0), x.all(1)), rand(0, 3))
    check(lambda x: (x.any(), x.all()), special())


def test_reductions_of_a_tensor_without_axes():
    check(lambda x: (x.sum(), x.sum(0), x.mean(-1), x.max(), x.amax(0), x.argmax(), x.cumsum(0), x.softmax(0)), rand())


def test_reductions_of_no_elements():
    check(lambda x: (x.sum(), x.mean(), x.prod(), x.sum(0), x.cumsum(0)), rand(0, 3))


def test_sum_in_another_dtype():
    check(lambda x: (x.sum(dtype=torch.float64), x.mean(1, dtype=torch.float64)), rand(3, 4))
    check(lambda x: (x.sum(), x.cumsum(0)), rand(5, dtype=torch.bool))


@settings(max_examples=12)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_axes(shape: list[int], data: st.DataObject):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    keepdim = data.draw(st.booleans())
    check(lambda x: (x.sum(axes, keepdim), x.amax(axes, keepdim)), rand(*shape))


CREATION: dict[str, Callable[..., Any]] = {
    "full": lambda x: x + torch.full((3,), 2.5),
    "zeros": lambda x: (torch.zeros(2, 3), torch.ones(3, dtype=torch.int64), torch.zeros_like(x), x.new_ones(2)),
    "like": lambda x: (
        torch.full_like(x, 3),
        torch.ones_like(x, dtype=torch.bool),
        x.new_full((2,), 7),
        x.new_zeros(1),
    ),
    "arange": lambda x: (torch.arange(5), torch.arange(1, 9, 3), torch.arange(0.0, 1.0, 0.1), torch.arange(5, 0, -2)),
    "linspace": lambda x: (torch.linspace(0, 1, 7), torch.eye(3), torch.eye(2, 3)),
    "tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]) * torch.scalar_tensor(2.0),
    "fill": lambda x: (x.clone().fill_(2.0), x.clone().zero_()),
    "copy": lambda x: torch.zeros(2, 3).copy_(x),
    "copy of a number": lambda x: x.clone().copy_(2.5),
    "mask": lambda x: torch.arange(3)[:, None] >= torch.arange(3)[None, :],
}


def test_creation():
    check(together(CREATION), rand(3), tolerance=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32])
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("ends", [(4.3, -3.0), (-2.0, 9.0), (5.0, 5.0), (-7.9, 7.9)])
def test_steps_between_numbers_that_are_tensors(ends, steps: int, dtype: torch.dtype):
    """Both ends are of the result's dtype first, and the second half is counted from the end."""
    start, end = (torch.tensor(value, dtype=torch.float64) for value in ends)

    class Steps(nn.Module):
        def forward(self, a, b):
            both = torch.linspace(a, b, steps, dtype=dtype)
            return both, torch.linspace(a, ends[1], steps, dtype=dtype), torch.linspace(ends[0], b, steps, dtype=dtype)

    got = eutectic.compile(Steps().eval(), (start, end), target="llvm")(start, end)
    low, high = (
        np.trunc(value) if not dtype.is_floating_point else np.asarray(value, str(dtype)[6:]) for value in ends
    )
    want = np.linspace(float(low), float(high), steps)
    for result in got:
        if dtype.is_floating_point:
            eps = torch.finfo(dtype).eps
            np.testing.assert_allclose(result.double(), want, rtol=0, atol=4 * eps * max(1, np.abs(ends).max()))
        else:
            assert torch.equal(result, Steps()(start, end)[0])
