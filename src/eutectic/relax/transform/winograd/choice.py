"""Which convolutions are worth Winograd's method, and who says so for a kind of target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.support.registry import load_providers
from eutectic.target import Target
from eutectic.topi.nn.winograd_transforms import PAIRS, TAPS

TILES: Final = tuple(PAIRS)
"""Outputs of a tile along an axis that there are transforms for."""
WINDOW: Final = TAPS
"""Taps of a window along an axis."""


@dataclass(frozen=True)
class ConvolutionSizes:
    """Sizes of a convolution of 3x3 windows at every point.

    Attributes:
        batch: Images.
        channels: Input channels.
        filters: Output channels.
        height: Rows of the result.
        width: Columns of the result.
    """

    batch: int
    channels: int
    filters: int
    height: int
    width: int


@dataclass(frozen=True)
class WinogradOffer:
    """A way to compute a convolution by Winograd's method.

    Attributes:
        tile: Outputs of a tile along an axis, 2 or 4.
        lanes: Input channels that are transformed together.
        panel: Output channels that products are computed of together.
        cost: Estimated nanoseconds of one thread.
        direct: The same of direct sums.
    """

    tile: int
    lanes: int
    panel: int
    cost: float
    direct: float


WinogradOffers: TypeAlias = Callable[[ConvolutionSizes, Target], Sequence[WinogradOffer]]

_OFFERS: Final[dict[str, WinogradOffers]] = {}


def register_winograd_offers(kind: str, offers: WinogradOffers) -> None:
    """Say who knows what Winograd's method costs, for a kind of target.

    Args:
        kind: As in `Target.kind.name`.
        offers: The ways that are worth it, the best one first.
    """
    _OFFERS[kind] = offers


def winograd_offers(sizes: ConvolutionSizes, target: Target) -> Sequence[WinogradOffer]:
    """The ways to compute a convolution that are faster than direct sums, the best one first."""
    load_providers("winograd offers")
    provider = _OFFERS.get(target.kind.name)
    return () if provider is None else provider(sizes, target)
