"""How much Winograd's method would lose with the weights that a layer has."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from eutectic.topi.nn.winograd_transforms import TAPS, convolved_squares

WHOLE_BOUND: Final = 3e-6
"""Largest relative L2 error of a layer's result, where direct sums of float32 have 2e-7 to 3e-7."""
CHANNEL_BOUND: Final = 1e-5
"""The same of each output channel."""
_TILES: Final = 4

Array = npt.NDArray[Any]


def is_accurate(weight: Array, factors: Array) -> bool:
    """Whether float32 sums by Winograd's method stay within the bounds on data of the usual kind.

    The data are positive halves of normal numbers, as activations are; the truth are direct sums in float64.

    Args:
        weight: `(o, i, 3, 3)`, or `(o, i, k, 3, 3)` of windows of `k` slices, float32, finite.
        factors: The same transformed, and rounded to float32, `(tile + 2, tile + 2, o, i)`, or with `k` after `i`.
    """
    weight, factors = weight.reshape(len(weight), -1, TAPS, TAPS), factors.reshape(*factors.shape[:3], -1)
    side = len(factors)
    generator = np.random.default_rng(0)
    data = np.maximum(generator.standard_normal((_TILES, weight.shape[1], side, side)), 0).astype(np.float32)
    exact = _direct(data.astype(np.float64), weight.astype(np.float64))
    difference = convolved_squares(data, factors, side - TAPS + 1) - exact
    per_channel = np.sqrt((difference**2).sum((0, 2, 3)))
    sizes = np.sqrt((exact**2).sum((0, 2, 3)))
    whole = np.linalg.norm(per_channel) <= WHOLE_BOUND * np.linalg.norm(sizes)
    return bool(whole and (per_channel <= CHANNEL_BOUND * sizes).all())


def _direct(data: Array, weight: Array) -> Array:
    """`(t, o, m, m)`."""
    windows = np.lib.stride_tricks.sliding_window_view(data, (TAPS, TAPS), axis=(2, 3))
    return np.moveaxis(np.tensordot(windows, weight, axes=([1, 4, 5], [1, 2, 3])), -1, 1)
