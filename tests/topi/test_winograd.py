"""Winograd's transforms: exact in rational numbers, and rounded as documented."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic import te, topi
from eutectic.topi.nn.winograd_transforms import (
    PAIRS,
    input_rows,
    output_rows,
    packed_weights,
    transformed_weights,
    unpacked_weights,
    weight_rows,
)

TILES = sorted(PAIRS)


class Exact(Fraction):
    """A rational number that is multiplied by floats without rounding."""

    def __mul__(self, other: object) -> Exact:
        return Exact(Fraction(self) * Fraction(other))

    def __add__(self, other: object) -> Exact:
        return Exact(Fraction(self) + Fraction(other))

    def __sub__(self, other: object) -> Exact:
        return Exact(Fraction(self) - Fraction(other))


@pytest.mark.parametrize("tile", TILES)
@given(data=st.data())
def test_filters_are_exact(tile: int, data: st.DataObject):
    numbers = st.integers(-99, 99).map(Exact)
    signal = data.draw(st.lists(numbers, min_size=tile + 2, max_size=tile + 2))
    points = [Fraction(0), *(sign * point for point in PAIRS[tile] for sign in (1, -1))]
    for tap in range(3):  # one tap at a time: transformed weights are a column of the matrix
        column = [Exact(_scaled(points, place) * place**tap) for place in points] + [Exact(int(tap == 2))]
        products = [value * factor for value, factor in zip(input_rows(tile, signal), column, strict=True)]
        assert output_rows(tile, products) == signal[tap : tap + tile]


def _scaled(points: list[Fraction], place: Fraction) -> Fraction:
    scale = Fraction(1)
    for other in points:
        scale *= place - other if other != place else 1
    return 1 / scale


@pytest.mark.parametrize("tile", TILES)
def test_the_matrix_of_the_weights_is_the_exact_one_rounded(tile: int):
    points = [Fraction(0), *(sign * point for point in PAIRS[tile] for sign in (1, -1))]
    exact = [[float(_scaled(points, place) * place**tap) for tap in range(3)] for place in points]
    assert (weight_rows(tile) == [*exact, [0.0, 0.0, 1.0]]).all()


@pytest.mark.parametrize("tile", TILES)
def test_constants_of_the_other_transforms_are_float32(tile: int):
    for rows in (input_rows(tile, list(np.eye(tile + 2))), output_rows(tile, list(np.eye(tile + 2)))):
        assert (np.array(rows) == np.array(rows, "float32")).all()


def test_packed_weights_are_those_transformed():
    weight = np.random.default_rng(3).standard_normal((8, 4, 3, 3)).astype("float32")
    packed = packed_weights(weight, 4, lanes=2, panel=4)
    assert packed.shape == (6, 6, 2, 2, 2, 4)
    assert packed.dtype == np.float32
    unpacked = packed.transpose(0, 1, 2, 5, 3, 4).reshape(6, 6, 8, 4)
    assert (unpacked == transformed_weights(weight, 4).astype("float32")).all()


@pytest.mark.parametrize("window", [(), (1,), (3,)])
def test_packed_weights_are_unpacked(window: tuple[int, ...]):
    """Each slice of a window is transformed as it would be alone."""
    weight = np.random.default_rng(4).standard_normal((8, 4, *window, 3, 3)).astype("float32")
    packed = packed_weights(weight, 4, lanes=2, panel=4)
    assert packed.shape == (6, 6, 2, *window, 2, 2, 4)
    np.testing.assert_allclose(unpacked_weights(packed), weight, rtol=0, atol=4e-7 * np.abs(weight).max())
    for place in range(len(window) and window[0]):
        assert (packed[:, :, :, place] == packed_weights(weight[:, :, place], 4, 2, 4)).all()


@pytest.mark.parametrize(
    ("data", "weight", "layout", "message"),
    [
        ((1, 4, 8, 8), (6, 6, 1, 1, 2, 4), "NCHW", "channels or tiles do not go together"),
        ((1, 2, 8, 8), (6, 4, 1, 1, 2, 4), "NCHW", "channels or tiles do not go together"),
        ((1, 2, 8, 8), (6, 6, 1, 1, 2, 3), "NCHW", "channels or tiles do not go together"),
        ((1, 8, 8, 2), (6, 6, 1, 1, 2, 4), "NCWH", "has no layout NCWH"),
    ],
)
def test_refusals(data: tuple[int, ...], weight: tuple[int, ...], layout: str, message: str):
    with pytest.raises(ValueError, match=message):
        topi.nn.conv2d_winograd(te.placeholder(data), te.placeholder(weight), 1, layout)


@pytest.mark.parametrize(
    ("data", "weight", "layout", "message"),
    [
        ((1, 2, 4, 8, 8), (6, 6, 1, 1, 2, 4), "NCDHW", "channels or tiles do not go together"),
        ((1, 4, 4, 8, 8), (6, 6, 1, 3, 1, 2, 4), "NCDHW", "channels or tiles do not go together"),
        ((1, 2, 4, 8, 8), (6, 6, 1, 3, 1, 2, 4), "NCHWD", "has no layout NCHWD"),
    ],
)
def test_refusals_of_volumes(data: tuple[int, ...], weight: tuple[int, ...], layout: str, message: str):
    with pytest.raises(ValueError, match=message):
        topi.nn.conv3d_winograd(te.placeholder(data), te.placeholder(weight), 1, layout)
