"""The three transforms of Winograd's minimal filtering F(m, 3), for an even m, from points that lie in pairs.

A tile of `m + 2` inputs gives `m` outputs. Both are polynomials of which values at `m + 1` points and at infinity are
multiplied. The points are 0 and pairs `+p`, `-p`: what the two of a pair have in common is computed once.

Reference: S. Winograd, "Arithmetic complexity of computations", SIAM 1980; A. Lavin and S. Gray, "Fast algorithms for
convolutional neural networks", CVPR 2016; B. Barabasz et al., "Error analysis and improving the accuracy of Winograd
convolution for deep neural networks", ACM TOMS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from eutectic.support.aligned import aligned_array

Polynomial = list[Fraction]

TAPS: Final = 3
# Positive points by outputs of a tile. Those for 4 have half the error of the usual 1 and 2 (6e-7 instead of 1.4e-6 on
# 64 channels, relative L2), and every constant made of them is a number of float32.
PAIRS: Final[dict[int, tuple[Fraction, ...]]] = {
    2: (Fraction(1),),
    4: (Fraction(5, 8), Fraction(3, 2)),
}


def input_rows(tile: int, data: Sequence[Any]) -> list[Any]:
    """Values at all points of the polynomial of one row of data.

    Args:
        tile: Outputs of a tile, 2 or 4.
        data: `tile + 2` values; anything that can be added, and multiplied by a float.

    Returns:
        As many values: at 0, at each point and its negative, at infinity.
    """
    even, odd = data[0::2], data[1::2]
    whole = _product(PAIRS[tile])
    rows = [_sum(whole, even)]
    for point in PAIRS[tile]:
        rest = _product([other for other in PAIRS[tile] if other != point])
        common, other = _sum(rest, even[1:]), _sum(rest, odd[:-1])
        rows += [common + other * float(point), common - other * float(point)]
    return [*rows, _sum(whole, odd)]


def output_rows(tile: int, values: Sequence[Any]) -> list[Any]:
    """The outputs of a tile from the products at all points.

    Args:
        tile: Outputs of a tile, 2 or 4.
        values: `tile + 2` products, in the order of `input_rows`.

    Returns:
        `tile` values.
    """
    sums = [plus + minus for plus, minus in zip(values[1:-1:2], values[2:-1:2], strict=True)]
    differences = [plus - minus for plus, minus in zip(values[1:-1:2], values[2:-1:2], strict=True)]
    rows = []
    for power in range(tile):
        ends = [values[place] for place, at in ((0, 0), (-1, tile - 1)) if power == at]
        factors = [point**power for point in PAIRS[tile]]
        rows.append(_sum([*factors, *(Fraction(1) for _ in ends)], [*(differences if power % 2 else sums), *ends]))
    return rows


def weight_rows(tile: int) -> npt.NDArray[np.float64]:
    """The matrix that takes three taps to values at all points, `(tile + 2, 3)`."""
    points = [Fraction(0), *(sign * point for point in PAIRS[tile] for sign in (1, -1))]
    rows = []
    for point in points:
        scale = Fraction(1)
        for other in points:
            scale *= point - other if other != point else 1
        rows.append([float(point**power / scale) for power in range(TAPS)])
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transformed_weights(weight: npt.NDArray[Any], tile: int) -> npt.NDArray[np.float64]:
    """Weights of a 3x3 convolution as factors of the products.

    Args:
        weight: `(o, i, 3, 3)`, or `(o, i, k, 3, 3)` of windows of `k` slices.
        tile: Outputs of a tile along each axis, 2 or 4.

    Returns:
        `(tile + 2, tile + 2, o, i)`, or `(tile + 2, tile + 2, o, i, k)`, computed in float64.
    """
    rows, channels = weight_rows(tile), weight.shape[:-2]
    taps = weight.reshape(-1, TAPS * TAPS).astype(np.float64).T
    factors: npt.NDArray[np.float64] = np.kron(rows, rows) @ taps  # one product: einsum takes many times as long
    return factors.reshape(len(rows), len(rows), *channels)


def packed_weights(weight: npt.NDArray[Any], tile: int, lanes: int, panel: int) -> npt.NDArray[Any]:
    """Transformed weights in the order in which products read them.

    Args:
        weight: `(o, i, 3, 3)`, or `(o, i, k, 3, 3)`.
        tile: Outputs of a tile along each axis, 2 or 4.
        lanes: Input channels that are transformed together; divides `i`.
        panel: Output channels that products are computed of together; divides `o`.

    Returns:
        `(tile + 2, tile + 2, o / panel, i / lanes, lanes, panel)`, rounded once to the dtype of `weight`; with an axis
        of size `k` after `o / panel`.
    """
    return in_panels(transformed_weights(weight, tile).astype(weight.dtype), lanes, panel)


def in_panels(factors: npt.NDArray[Any], lanes: int, panel: int) -> npt.NDArray[Any]:
    """`packed_weights`, of weights that are transformed and rounded already, as `transformed_weights` gives them."""
    side, _, filters, depth, *window = factors.shape
    blocks = factors.reshape(side, side, filters // panel, panel, depth // lanes, lanes, *window)
    return aligned_array(blocks.transpose(0, 1, 2, *range(6, 6 + len(window)), 4, 5, 3))


def unpacked_weights(packed: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Inverse of `packed_weights`, up to rounding: the windows whose transforms are nearest, in float64.

    Args:
        packed: `(tile + 2, tile + 2, o / panel, i / lanes, lanes, panel)`, or with an axis of size `k` after
            `o / panel`.

    Returns:
        `(o, i, 3, 3)`, or `(o, i, k, 3, 3)`, of the same dtype.
    """
    side, _, blocks, *window, depth, lanes, panel = packed.shape
    channels_first = packed.transpose(
        0, 1, 2, packed.ndim - 1, packed.ndim - 3, packed.ndim - 2, *range(3, packed.ndim - 3)
    )
    factors = channels_first.reshape(side, side, blocks * panel, depth * lanes, *window)
    back = np.linalg.pinv(weight_rows(side - TAPS + 1))
    windows: npt.NDArray[np.float64] = np.einsum(
        "ip,pq...,jq->...ij", back, factors.astype(np.float64), back, optimize=True
    )
    plain: npt.NDArray[Any] = windows.astype(packed.dtype)
    return plain


def convolved_squares(squares: npt.NDArray[Any], factors: npt.NDArray[Any], tile: int) -> npt.NDArray[Any]:
    """What the transforms make of squares, step by step in the dtype of the operands.

    Args:
        squares: `(t, i, tile + 2, tile + 2)`.
        factors: Transformed weights, `(tile + 2, tile + 2, o, i)`.
        tile: Outputs of a tile along each axis, 2 or 4.

    Returns:
        `(t, o, tile, tile)`.
    """
    span = range(tile + TAPS - 1)
    rows = np.stack(input_rows(tile, [squares[..., i, :] for i in span]))
    values = np.stack(input_rows(tile, [rows[..., j] for j in span]), 1)  # (p, q, t, i)
    products = np.matmul(values, factors.swapaxes(2, 3))
    half = np.stack(output_rows(tile, list(products)))
    tiles = np.stack(output_rows(tile, [half[:, q] for q in span]), 1)  # (m, m, t, o)
    return tiles.transpose(2, 3, 0, 1)


def _product(pairs: Sequence[Fraction]) -> Polynomial:
    """Coefficients of the product of `t - p * p` over points, from the constant one on."""
    out = [Fraction(1)]
    for point in pairs:
        shifted, scaled = [Fraction(0), *out], [*out, Fraction(0)]
        out = [high - point * point * low for high, low in zip(shifted, scaled, strict=True)]
    return out


def _sum(factors: Sequence[Fraction], values: Sequence[Any]) -> Any:
    """The sum of values, each with its factor: first those of factor one, then from the smallest factor on.

    So every term but the first is one multiply-add, and what is rounded first is small.
    """
    total: Any = None
    for factor, value in sorted(zip(factors, values, strict=True), key=lambda term: (term[0] != 1, abs(term[0]))):
        term = value if factor == 1 else value * float(factor)
        total = term if total is None else total + term
    return total
