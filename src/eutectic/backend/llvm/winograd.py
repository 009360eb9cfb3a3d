"""What our kernels take for convolutions by Winograd's method, beside direct sums.

The estimates are fitted to what layers of ResNets take on a processor with vectors of 512 bits, and on one with vectors
of 256 bits; both have a share of a cache with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed, memory_speed
from eutectic.ir.services import Speeds
from eutectic.relax.transform.winograd.choice import TILES, WINDOW, ConvolutionSizes, WinogradOffer

_TRANSFORM: Final = 1.6  # nanoseconds for a vector of values, transformed and stored or loaded and transformed back
_GAIN: Final = 0.8  # share of the time of direct sums from which on the method is worth its rounding
_GAIN_NARROW: Final = 0.85  # the same where vectors are not wide: few points at a time are summed more slowly there
_TOGETHER: Final = 4  # tiles of a row that are multiplied at a time where rows vary, and fewer take as long
_APART: Final = 0.4  # nanoseconds for each element of data and result that becomes part of another image, or comes back
_LEAST: Final = 1e5  # nanoseconds of direct sums below which nothing is to be gained


def winograd_offers(sizes: ConvolutionSizes, machine: Machine, speeds: Speeds | None = None) -> Sequence[WinogradOffer]:
    """The ways by estimated time; those that are clearly faster than direct sums are worthwhile.

    Args:
        sizes: Of the convolution.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.
    """
    lanes = machine.lanes()
    if lanes == 1 or sizes.channels % lanes or sizes.filters % lanes:
        return ()
    panel = 2 * lanes if sizes.filters % (2 * lanes) == 0 else lanes
    weights = sizes.channels * sizes.filters * sizes.window
    points = sizes.batch * sizes.slices * sizes.height * sizes.width
    rate = lanes * lane_speed(machine, speeds)
    stream = memory_speed(machine, speeds)
    gain = _GAIN if machine.is_wide else _GAIN_NARROW
    direct = _time(WINDOW * WINDOW * weights, points * _seen(sizes), rate, stream)
    apart = points * (sizes.channels + sizes.filters) * _APART if sizes.is_apart else 0.0
    height, width = sizes.space
    offers = []
    for tile in TILES:
        values = (tile + WINDOW - 1) ** 2
        across = -(-width // tile)
        across = -(-across // _TOGETHER) * _TOGETHER if sizes.varies else across
        tiles = sizes.images * -(-height // tile) * across
        vectors = values * tiles * (sizes.channels + sizes.filters) / lanes
        cost = _time(values * weights, tiles, rate, stream) + vectors * _TRANSFORM + apart
        offers.append(WinogradOffer(tile, lanes, panel, cost, direct, cost < gain * direct and direct > _LEAST))
    return sorted(offers, key=lambda offer: offer.cost)


def _seen(sizes: ConvolutionSizes) -> float:
    """The share of taps that see the image, and not its padding: direct sums of taps far apart leave the others out."""
    pairs = zip((sizes.height, sizes.width), sizes.apart, strict=True)
    return prod((size + 2 * max(size - step, 0)) / (3 * size) if step > 1 else 1.0 for size, step in pairs)


def _time(weights: int, points: float, rate: float, stream: float) -> float:
    """Nanoseconds to multiply weights, which come from memory once, with some points each."""
    return 2.0 * weights * points / rate + 4 * weights / stream
