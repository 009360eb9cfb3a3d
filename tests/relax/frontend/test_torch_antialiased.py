"""Images resampled without aliasing, beside torch and float64; what varies, and bytes, are left to torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import eutectic
from eutectic.support.errors import EutecticAdvice

OPTIONS: dict[str, dict[str, Any]] = {
    "smaller": {"size": (5, 7)},
    "larger and smaller": {"size": (20, 9)},
    "one element": {"size": (1, 1)},
    "the same": {"size": (13, 17)},
    "factors": {"scale_factor": (1.7, 0.3)},
    "a factor for both": {"scale_factor": 0.37, "recompute_scale_factor": True},
    "corners": {"size": (5, 30), "align_corners": True},
}


class Resampled(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.interpolate(x, antialias=True, **self.options)


@pytest.mark.parametrize("mode", ["bilinear", pytest.param("bicubic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OPTIONS)
def test_values(mode: str, name: str):
    model = Resampled(mode=mode, **OPTIONS[name])
    x = torch.randn(2, 3, 13, 17, generator=torch.Generator().manual_seed(0))
    fast = eutectic.compile(model, (x,))
    assert not fast.report.eager_operators
    want, exact = model(x), model(x.double())
    got = fast(x)
    assert got.shape == want.shape
    error, of_torch = ((value.double() - exact).abs().max().item() for value in (got, want))
    assert error <= max(2 * of_torch, 1e-6)


def test_float64_and_nan():
    model = Resampled(mode="bicubic", size=(5, 6))
    x = torch.randn(1, 2, 12, 12, dtype=torch.float64)
    x[0, 0, 3, 4], x[0, 1, 11, 11] = torch.nan, torch.inf
    got, want = eutectic.compile(model, (x,))(x), model(x)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_embeddings_of_places_for_another_size():
    """As models of images have them: learnt for one size, and resampled when they are used."""

    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Parameter(torch.randn(1, 14 * 14, 8))

        def forward(self, x: Tensor) -> Tensor:
            images = self.places.reshape(1, 14, 14, 8).permute(0, 3, 1, 2)
            images = nn.functional.interpolate(images, size=(6, 10), mode="bicubic", antialias=True)
            return x + images.permute(0, 2, 3, 1).view(1, 60, 8)

    model, x = Places().eval(), torch.randn(2, 60, 8)
    fast = eutectic.compile(model, (x,))
    assert not fast.report.eager_operators
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", ["sizes that vary", "bytes"])
def test_left_to_torch(what: str):
    model, x = Resampled(mode="bilinear", size=(4, 4)), torch.randn(1, 3, 12, 12)
    varying = None
    if what == "bytes":
        x = (x * 50 + 100).to(torch.uint8)
    else:
        varying = ({2: Dim("h", min=4, max=64)},)
    with pytest.warns(EutecticAdvice, match="_aa"):
        fast = eutectic.compile(model, (x,), dynamic_shapes=varying)
    assert fast.report.eager_operators
    torch.testing.assert_close(fast(x), model(x))
