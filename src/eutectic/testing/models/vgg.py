"""VGG11 and VGG16 with batch norm (Simonyan and Zisserman, 2014), random weights: plain convolutions with a bias."""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded, with_batch_statistics

Stages = tuple[tuple[int, ...], ...]

# Output channels of each convolution, stage by stage; a pooling ends each stage.
VGG11: Stages = ((64,), (128,), (256, 256), (512, 512), (512, 512))
VGG16: Stages = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG(nn.Module):
    """The network; parameter names are those of torchvision's checkpoints."""

    def __init__(self, stages: Stages, classes: int = 1000) -> None:
        """Make the network with random weights."""
        super().__init__()
        channels = 3
        layers: list[nn.Module] = []
        for stage in stages:
            for outputs in stage:
                layers += [
                    nn.Conv2d(channels, outputs, 3, padding=1),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True),
                ]
                channels = outputs
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images `(n, 3, h, w)` to logits `(n, classes)`."""
        x = self.avgpool(self.features(x))
        logits: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return logits


def _vgg(stages: Stages) -> Built:
    model = seeded(lambda: with_batch_statistics(VGG(stages), example(2, 3, 64, 64, seed=2)))
    return model, (example(1, 3, 224, 224),)


ENTRIES = (
    ModelEntry("vgg11_bn", "VGG11-BN", lambda: _vgg(VGG11), "random"),
    ModelEntry("vgg16_bn", "VGG16-BN", lambda: _vgg(VGG16), "random"),
)
