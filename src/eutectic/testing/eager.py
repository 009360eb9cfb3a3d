"""Compare a compiled torch module with eager: structure, dtypes, shapes, NaN and infinities, values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

import eutectic
from eutectic.testing.truth import definition, nearest

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


class Wrap(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any, **parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            self.register_buffer(name, value)

    def forward(self, *args: torch.Tensor) -> Any:
        """Call the function, with the module first when it has parameters."""
        return self.function(self, *args) if self._buffers else self.function(*args)


class Net(nn.Module):
    """Submodules by name and a forward function of them."""

    def __init__(self, forward: Any, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.run = forward

    def forward(self, *args: Any) -> Any:
        """Call the function with the module first."""
        return self.run(self, *args)


def module(model: Any) -> nn.Module:
    """A module, or a function as one, in inference mode."""
    return (model if isinstance(model, nn.Module) else Wrap(model)).eval()


def check(
    model: Any, *inputs: Any, calls: list[tuple[Any, ...]] | None = None, **options: Any
) -> eutectic.CompiledModel:
    """Compile for `inputs` and compare on them, on fresh random ones, and on `calls`."""
    net = module(model)
    compiled = eutectic.compile(net, inputs, verify=True, **options)
    again = tuple(_another(x) for x in inputs)
    for arguments in [inputs, again, inputs, *(calls or [])]:
        same_as_eager(net, compiled, arguments)
    return compiled


def same_as_eager(net: nn.Module, compiled: Any, arguments: tuple[Any, ...]) -> None:
    """One call of both, on copies, so that a mutated input shows.

    An element that is not what eager computes on this machine may be what the definition says in float64.
    """
    ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    with torch.no_grad():
        want, got = net(*theirs), compiled(*ours)
    try:
        compare(got, want)
    except AssertionError:
        compare(got, nearest(got, want, definition(net, arguments)))
    for a, b in zip(ours, theirs, strict=True):
        compare(a, b, tolerance=0.0)


def _another(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator().manual_seed(value.numel())
    fresh = torch.randn(value.shape, generator=generator).to(value.dtype)
    if 0 in value.stride() or not value.numel():
        return fresh  # several elements in one place cannot be written
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).copy_(fresh)


def compare(got: Any, want: Any, tolerance: float | None = None) -> None:
    """Same tree, same dtypes and shapes, NaN and infinities in the same places, values within tolerance."""
    assert type(got) is type(want), f"{type(got).__name__}, eager gives {type(want).__name__}"
    if isinstance(want, torch.Tensor):
        _compare_tensors(got, want, tolerance)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            compare(got[key], want[key], tolerance)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            compare(a, b, tolerance)
    else:
        assert got == want


def _compare_tensors(got: torch.Tensor, want: torch.Tensor, tolerance: float | None) -> None:
    assert got.dtype == want.dtype, f"{got.dtype}, eager gives {want.dtype}"
    assert got.shape == want.shape, f"{tuple(got.shape)}, eager gives {tuple(want.shape)}"
    if not want.is_floating_point():
        assert torch.equal(got, want)
        return
    a, b = got.double().numpy(), want.double().numpy()
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    if finite.any():
        limit = (TOLERANCE[want.dtype] if tolerance is None else tolerance) * max(1.0, float(np.abs(b[finite]).max()))
        error = float(np.abs(a[finite] - b[finite]).max())
        assert error <= limit, f"differs from eager by {error}, allowed {limit}"
