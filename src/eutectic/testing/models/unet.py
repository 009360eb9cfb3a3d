"""A block of a U-Net's decoder (Ronneberger et al., 2015) with group norm and SiLU, as diffusion models have it."""

from __future__ import annotations

import torch
from torch import nn

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import example, seeded

WIDTH, GROUPS, SIZE = 64, 8, 128


class UpBlock(nn.Module):
    """An up-convolution, the skip connection beside it, then two 3x3 convolutions with group norm and SiLU."""

    def __init__(self) -> None:
        """Make the block with random weights; group norms scale and shift, as fresh ones do not."""
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, stride=2)
        self.conv1 = nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1)
        self.norm1 = nn.GroupNorm(GROUPS, WIDTH)
        self.conv2 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.norm2 = nn.GroupNorm(GROUPS, WIDTH)
        self.act = nn.SiLU()
        for norm in (self.norm1, self.norm2):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, 0.0, 0.1)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Map `(n, 128, h, w)` and `(n, 64, 2 * h, 2 * w)` to `(n, 64, 2 * h, 2 * w)`."""
        x = torch.cat([skip, self.up(x)], dim=1)
        x = self.act(self.norm1(self.conv1(x)))
        out: torch.Tensor = self.act(self.norm2(self.conv2(x)))
        return out


def _build() -> Built:
    inputs = example(1, 2 * WIDTH, SIZE // 2, SIZE // 2), example(1, WIDTH, SIZE, SIZE, seed=2)
    return seeded(UpBlock), inputs


ENTRIES = (ModelEntry("unet_block", "U-Net decoder block, 64 x 128 x 128", _build, "random"),)
