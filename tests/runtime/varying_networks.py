"""Small networks whose batch and image sizes vary, with what ResNet-18 and MobileNetV2 are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic.driver.compiled import CompiledModel


def _conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    made = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.running_mean, -0.5, 0.5)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return [made, norm]


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(inputs, outputs, 3, stride), nn.ReLU(), *_conv(outputs, outputs, 3))
        self.short = nn.Sequential(*_conv(inputs, outputs, 1, stride)) if stride != 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.short(x))


class _Inverted(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        parts = [*_conv(inputs, wide, 1), nn.ReLU6(), *_conv(wide, wide, 3, stride, wide), nn.ReLU6()]
        self.body, self.adds = nn.Sequential(*parts, *_conv(wide, outputs, 1)), (inputs, stride) == (outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def _head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


def resnet() -> nn.Module:
    """A stem with a maximum pool, residual blocks, a mean and a classifier."""
    stem = [*_conv(3, 16, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, _Residual(16, 16, 1), _Residual(16, 32, 2), *_head(32))


def mobilenet() -> nn.Module:
    """Inverted residuals with depthwise convolutions."""
    blocks = [_Inverted(16, 16, 1), _Inverted(16, 24, 2), _Inverted(24, 24, 1)]
    return nn.Sequential(*_conv(3, 16, 3, 2), nn.ReLU6(), *blocks, *_head(24))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"resnet": resnet, "mobilenet": mobilenet}
SIZES = {
    "resnet": ((1, 32), (3, 32), (2, 32), (7, 32), (3, 32)),
    "mobilenet": ((1, 32), (3, 32), (2, 40), (5, 24), (3, 32)),
}


def network(name: str) -> nn.Module:
    """One of the networks, the same at every call."""
    torch.manual_seed(0)
    return NETWORKS[name]().eval()


def compiled(name: str, threads: int = 2, target: str = "llvm -libs=dnnl") -> CompiledModel:
    """The same for oneDNN, with a batch that varies; of `mobilenet` the image does, too."""
    sizes = {0: Dim("batch", max=64)}
    if name == "mobilenet":
        sizes |= dict.fromkeys((2, 3), Dim("side", min=16, max=64))
    example = (torch.randn(2, 3, 32, 32),)
    return eutectic.compile(network(name), example, dynamic_shapes=(sizes,), target=target, threads=threads)


def image(batch: int, side: int) -> torch.Tensor:
    """An input, the same at every call."""
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(batch * side))
