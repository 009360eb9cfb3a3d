"""Networks of kinds that packages of image networks have none of: sequences, graphs, tables, windows, signals, volumes.

Small ones, by name, for `zoo.py` (`kinds:lstm`). Weights are random and seeded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eutectic.testing.models import Built


class _Outputs(nn.Module):
    """A recurrent layer that gives its outputs alone."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)[0]
        return out


class _Messages(nn.Module):
    """Two layers of a graph network: each node gets the sum of what its neighbours send."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 16)])

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for layer in self.layers:
            sent = layer(x)
            x = torch.zeros_like(sent).index_add(0, target, sent[source]).relu()
        return x


class _Tables(nn.Module):
    """A recommender: sums of rows of tables, products of all pairs of them, two perceptrons."""

    def __init__(self, tables: int = 8, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(1000, width, mode="sum") for _ in range(tables))
        self.numbers = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.rows, self.columns = nn.Buffer(rows), nn.Buffer(columns)

    def forward(self, x: Tensor, items: Tensor) -> Tensor:
        numbers = self.numbers(x)
        rows = torch.stack([numbers, *(table(items[:, k]) for k, table in enumerate(self.tables))], 1)
        pairs = torch.bmm(rows, rows.mT)[:, self.rows, self.columns]
        out: Tensor = self.top(torch.cat([numbers, pairs], 1))
        return out


class _LocalAttention(nn.Module):
    """Attention of each point of an image to the 7 x 7 around it."""

    def __init__(self, channels: int = 64, heads: int = 4, side: int = 7) -> None:
        super().__init__()
        self.project, self.heads, self.side = nn.Conv2d(channels, 3 * channels, 1), heads, side

    def _windows(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        columns = F.unfold(x, self.side, padding=self.side // 2)
        return columns.view(n, self.heads, c // self.heads, self.side**2, h * w)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        query, key, value = self.project(x).chunk(3, 1)
        query = query.view(n, self.heads, c // self.heads, 1, h * w)
        weights = ((query * self._windows(key)).sum(2) / 8).softmax(2)
        out: Tensor = (weights[:, :, None] * self._windows(value)).sum(3)
        return out.reshape(n, c, h, w)


class _Dilated(nn.Module):
    """A stack of gated convolutions over a signal, each with twice the dilation of the one before."""

    def __init__(self, channels: int = 64, layers: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.gates = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 3, dilation=2**k) for k in range(layers))
        self.mixes = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 1) for _ in range(layers))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.Conv1d(channels, 256, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for k, (gate, mix) in enumerate(zip(self.gates, self.mixes, strict=True)):
            value, factor = gate(F.pad(x, (2 * 2**k, 0))).chunk(2, 1)
            through, out = mix(torch.tanh(value) * torch.sigmoid(factor)).chunk(2, 1)
            x, total = x + through, total + out
        result: Tensor = self.last(total)
        return result


class _Mapped(nn.Module):
    """A head that makes a map of a value per point from tokens at three depths of a transformer."""

    def __init__(self, width: int = 192, channels: int = 64, side: int = 16) -> None:
        super().__init__()
        self.projects = nn.ModuleList(nn.Conv2d(width, channels, 1) for _ in range(3))
        self.mixes = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
        self.last = nn.Sequential(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1))
        self.side = side

    def forward(self, *tokens: Tensor) -> Tensor:
        images = [x.mT.reshape(1, -1, self.side, self.side) for x in tokens]
        first, *others = (project(image) for project, image in zip(self.projects, images, strict=True))
        x = first
        for mix in self.mixes:
            x = F.relu(mix(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)))
            if others:
                x = x + F.interpolate(others.pop(0), size=x.shape[-2:], mode="bilinear", align_corners=True)
        out: Tensor = self.last(x)
        return out


class _Volumes(nn.Module):
    """A U-Net of volumes, such as scans: pairs of convolutions with instance norms, two levels deep."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second, self.deepest = (
            self._pair(a, b) for a, b in ((1, width), (width, 2 * width), (2 * width, 4 * width))
        )
        self.wider = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2)
        self.widest = nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.back, self.last = self._pair(4 * width, 2 * width), self._pair(2 * width, width)
        self.classes = nn.Conv3d(width, 3, 1)

    @staticmethod
    def _pair(channels: int, width: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for size in (channels, width):
            layers += [nn.Conv3d(size, width, 3, padding=1), nn.InstanceNorm3d(width, affine=True), nn.LeakyReLU(0.01)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        near = self.first(x)
        far = self.second(F.max_pool3d(near, 2))
        y = self.wider(self.deepest(F.max_pool3d(far, 2)))
        y = self.widest(self.back(torch.cat([y, far], 1)))
        out: Tensor = self.classes(self.last(torch.cat([y, near], 1)))
        return out


def _sound() -> Built:
    """The convolutions that a transformer for speech begins with, over half a second."""
    steps, layers = ((10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2), list[nn.Module]()
    for k, (taps, step) in enumerate(steps):
        layers += [nn.Conv1d(512 if k else 1, 512, taps, step, bias=False)]
        layers += [nn.GELU()] if k else [nn.GroupNorm(512, 512), nn.GELU()]
    return nn.Sequential(*layers), (torch.randn(1, 1, 8000),)


def _graph() -> Built:
    places = torch.randint(0, 500, (2, 3000))
    return _Messages(), (torch.randn(500, 64), places[0], places[1])


def _generator() -> Built:
    channels, layers = (100, 512, 256, 128, 64, 3), list[nn.Module]()
    for k, (a, b) in enumerate(itertools.pairwise(channels)):
        layers.append(nn.ConvTranspose2d(a, b, 4, 1 if k == 0 else 2, 0 if k == 0 else 1, bias=False))
        layers += [nn.BatchNorm2d(b), nn.ReLU()] if b != channels[-1] else [nn.Tanh()]
    return nn.Sequential(*layers), (torch.randn(1, 100, 1, 1),)


KINDS: Final[dict[str, Callable[[], Built]]] = {
    "lstm": lambda: (_Outputs(nn.LSTM(64, 128, 2, batch_first=True)), (torch.randn(1, 50, 64),)),
    "gru": lambda: (_Outputs(nn.GRU(64, 128, batch_first=True, bidirectional=True)), (torch.randn(1, 50, 64),)),
    "graph": _graph,
    "tables": lambda: (_Tables(), (torch.randn(64, 13), torch.randint(0, 1000, (64, 8, 4)))),
    "local_attention": lambda: (_LocalAttention(), (torch.randn(1, 64, 28, 28),)),
    "signal": lambda: (_Dilated(), (torch.randn(1, 1, 2000),)),
    "generator": _generator,
    "sound": _sound,
    "volumes": lambda: (_Volumes(), (torch.randn(1, 1, 32, 48, 48),)),
    "map": lambda: (_Mapped(), tuple(torch.randn(1, 256, 192) for _ in range(3))),
}
"""Each makes a network and its inputs."""
