"""Which convolutions are worth Winograd's method, and who says so for a kind of target."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.relax.transform.offers_by_kind import OffersByKind
from eutectic.target import Target
from eutectic.topi.nn.winograd_transforms import PAIRS, TAPS

TILES: Final = tuple(PAIRS)
"""Outputs of a tile along an axis that there are transforms for."""
POINT: Final = "winograd"
"""What the choice is called in databases of decisions."""
WINDOW: Final = TAPS
"""Taps of a window along an axis."""


@dataclass(frozen=True)
class ConvolutionSizes:
    """Sizes of a convolution of 3x3 taps at every point, of images or of slices of volumes.

    They are likely ones where each call brings others.

    Attributes:
        batch: Images.
        channels: Input channels.
        filters: Output channels.
        height: Rows of the result.
        width: Columns of the result.
        varies: Whether height or width are others in other calls.
        apart: How far apart taps are along each axis: points between which there are none are images of their own.
        slices: Slices of the result, of volumes.
        window: Slices of a window.
    """

    batch: int
    channels: int
    filters: int
    height: int
    width: int
    varies: bool = False
    apart: tuple[int, int] = (1, 1)
    slices: int = 1
    window: int = 1

    @property
    def is_apart(self) -> bool:
        """Whether there are points between taps."""
        return set(self.apart) != {1}

    @property
    def images(self) -> int:
        """Images of the result, without gaps between taps; slices are some."""
        return self.batch * prod(self.apart) * self.slices

    @property
    def space(self) -> tuple[int, int]:
        """Rows and columns of the result in each of them, at most."""
        return -(-self.height // self.apart[0]), -(-self.width // self.apart[1])

    def workload(self, target: Target) -> str:
        """What databases of decisions know such a convolution by; libraries offer another way to compute it."""
        beside = f" beside {','.join(target.libs)}" if target.libs else ""
        gaps = f" {self.apart[0]}x{self.apart[1]} apart" if self.is_apart else ""
        image, taps = f"{self.height}x{self.width}", f"{WINDOW}x{WINDOW}"
        if (self.slices, self.window) != (1, 1):
            image, taps = f"{self.slices}x{image}", f"{self.window}x{taps}"
        return f"conv2d {self.batch}x{self.channels}x{image} to {self.filters}, {taps}{gaps}{beside}"


@dataclass(frozen=True)
class WinogradOffer:
    """A way to compute a convolution by Winograd's method.

    Attributes:
        tile: Outputs of a tile along an axis, 2 or 4.
        lanes: Input channels that are transformed together.
        panel: Output channels that products are computed of together.
        cost: Estimated nanoseconds of one thread.
        direct: The same of direct sums.
        worthwhile: Whether the estimate is good enough to take it unmeasured.
    """

    tile: int
    lanes: int
    panel: int
    cost: float
    direct: float
    worthwhile: bool = True


WINOGRAD_OFFERS: Final = OffersByKind[ConvolutionSizes, WinogradOffer]("winograd offers")
"""The ways to compute a convolution beside direct sums, the one with the best estimate first."""
