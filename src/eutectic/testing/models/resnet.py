"""ResNet-18 and ResNet-50 (He et al., 2015; version 1.5, stride in the 3x3) with random weights."""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded, with_batch_statistics


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        """Make the block; `downsample` brings the shortcut to the shape of the output."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, inputs, h, w)` to `(n, width, ceil(h / stride), ceil(w / stride))`."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += shortcut
        out: torch.Tensor = self.relu(y)
        return out


class Bottleneck(nn.Module):
    """Reduce by 1x1, convolve 3x3, widen by 1x1, beside a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        """Make the block; `downsample` brings the shortcut to the shape of the output."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, inputs, h, w)` to `(n, 4 * width, ceil(h / stride), ceil(w / stride))`."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += shortcut
        out: torch.Tensor = self.relu(y)
        return out


class ResNet(nn.Module):
    """Stem, four stages of residual blocks, classifier; parameter names are those of torchvision's checkpoints."""

    def __init__(
        self, block: type[BasicBlock] | type[Bottleneck], depths: tuple[int, int, int, int], classes: int = 1000
    ) -> None:
        """Make the network with random weights; `depths` counts the blocks of each stage."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        stages = []
        for k, (depth, width) in enumerate(zip(depths, (64, 128, 256, 512), strict=True)):
            stages.append(_stage(block, channels, width, depth, stride=1 if k == 0 else 2))
            channels = width * block.expansion
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images `(n, 3, h, w)` to logits `(n, classes)`."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: torch.Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


def _stage(
    block: type[BasicBlock] | type[Bottleneck], inputs: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    outputs = width * block.expansion
    downsample = None
    if stride != 1 or inputs != outputs:
        downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    first = block(inputs, width, stride, downsample)
    return nn.Sequential(first, *(block(outputs, width, 1, None) for _ in range(depth - 1)))


def _resnet(block: type[BasicBlock] | type[Bottleneck], depths: tuple[int, int, int, int]) -> Built:
    model = seeded(lambda: with_batch_statistics(ResNet(block, depths), example(4, 3, 96, 96, seed=2)))
    return model, (example(1, 3, 224, 224),)


ENTRIES = (
    ModelEntry("resnet18", "ResNet-18", lambda: _resnet(BasicBlock, (2, 2, 2, 2)), "random"),
    ModelEntry("resnet50", "ResNet-50", lambda: _resnet(Bottleneck, (3, 4, 6, 3)), "random"),
)
