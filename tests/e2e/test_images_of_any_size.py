"""Images whose height and width vary: channels in blocks, 3x3 windows by Winograd's method, and any size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import eutectic

LEAST = 24
SHAPES = {2: torch.export.Dim("height", min=LEAST, max=512), 3: torch.export.Dim("width", min=LEAST, max=512)}
SIZES = ((32, 32), (24, 24), (25, 31), (40, 57), (64, 33))


class Residual(nn.Module):
    """A block of a ResNet that halves the image."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, 2, 1)
        self.second = nn.Conv2d(filters, filters, 3, 1, 1)
        self.short = nn.Conv2d(channels, filters, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


class Inverted(nn.Module):
    """A block of a MobileNetV2."""

    def __init__(self, channels: int, step: int) -> None:
        super().__init__()
        self.step, wide = step, 3 * channels
        self.grow, self.shrink = nn.Conv2d(channels, wide, 1), nn.Conv2d(wide, channels, 1)
        self.windows = nn.Conv2d(wide, wide, 3, step, 1, groups=wide)

    def forward(self, x: Tensor) -> Tensor:
        y = self.shrink(nn.functional.relu6(self.windows(nn.functional.relu6(self.grow(x)))))
        return x + y if self.step == 1 else y


def resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*stem, Residual(32, 64), Residual(64, 64), *end)


def mobilenet() -> nn.Module:
    stem = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6()]
    return nn.Sequential(*stem, Inverted(16, 1), Inverted(16, 2), Inverted(16, 1), nn.Conv2d(16, 64, 1))


def encoder() -> nn.Module:
    """Windows of all kinds, a pool and a group norm."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(32, 48, 3, 1, 0),
        nn.GroupNorm(6, 48),
        nn.SiLU(),
        nn.Conv2d(48, 16, 5, 1, 2),
    )


@pytest.mark.parametrize("make", [resnet, mobilenet, encoder])
@pytest.mark.parametrize("images", [1, 2])
def test_networks(make: Callable[[], nn.Module], images: int):
    torch.manual_seed(0)
    model = make().eval()
    given = torch.randn(images, 3, *SIZES[0])
    compiled = eutectic.compile(model, (given,), dynamic_shapes=(SHAPES,), threads=2)
    report = str(compiled.explain(measure=False))
    assert not any(word in report for word in ("refused", " host ", "dnnl"))
    for size in SIZES:
        x = torch.randn(images, 3, *size)
        got = compiled(x)
        want = model.double()(x.double())
        model.float()
        torch.testing.assert_close(got.double(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_chains_are_computed_in_blocks_of_channels_by_winograds_method():
    """A size is written in another way by torch after each step of two, and is the same one."""
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), *(Residual(64, 64) for _ in range(3))).eval()
    given = torch.randn(1, 3, 256, 256)  # of 64 x 64 the last ones would be too few points for the method
    target = "llvm -mcpu=x86-64-v3"
    compiled = eutectic.compile(model, (given,), dynamic_shapes=(SHAPES,), threads=2, target=target)
    kernels = [line for line in str(compiled.explain(measure=False)).splitlines() if " kernel llvm " in line]
    assert sum("conv2d_winograd" in line for line in kernels) == 3
    assert sum("transpose" in line for line in kernels) <= 1
