"""Layouts by name: their text, what is where, the way from one to another, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.tir.data_layout import layout, rearrangement

FORMS = ("NCHW", "NHWC", "HWNC", "NCHW2c", "NCHW4c", "NCHW12c", "NCHW1c", "NWC6cH", "N2nCHW2c")


def moved(array: np.ndarray, source: str, target: str) -> np.ndarray:
    return rearrangement(layout(source), layout(target), array.shape)(array)


@pytest.mark.parametrize("name", [*FORMS, "OIHW16i32o", "NC", "W"])
def test_text_there_and_back(name: str):
    assert str(layout(name)) == name


def test_what_a_layout_says():
    made = layout("NCHW16c")
    assert (made.ndim, made.names, made.is_blocked, made.factor_of("C"), made.factor_of("H")) == (
        5,
        "NCHW",
        True,
        16,
        1,
    )
    assert made.in_memory((2, 64, 3, 5)) == (2, 4, 3, 5, 16)
    assert made.whole((2, 4, 3, 5, 16)) == (2, 64, 3, 5)
    assert made.index_map().script().startswith("T.index_map(lambda at_0, at_1, at_2, at_3: (at_0, at_1 // 16, at_2,")


def test_weights_are_packed_as_kernels_read_them():
    weights = np.arange(64 * 32 * 3 * 3).reshape(64, 32, 3, 3)
    packed = moved(weights, "OIHW", "OIHW16i32o")
    assert packed.shape == (2, 2, 3, 3, 16, 32)
    assert packed[1, 0, 2, 1, 7, 30] == weights[32 + 30, 7, 2, 1]
    assert packed.flags.c_contiguous


@given(st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_every_way_ends_where_index_maps_say(source: str, target: str):
    plain = np.arange(2 * 24 * 3 * 2).reshape(2, 24, 3, 2)
    there = layout(source).index_map().map_ndarray(plain.transpose(["NCHW".index(n) for n in layout(source).names]))
    want = layout(target).index_map().map_ndarray(plain.transpose(["NCHW".index(n) for n in layout(target).names]))
    factors = sorted(layout(name).factor_of("C") for name in (source, target))
    if factors[1] % factors[0]:
        with pytest.raises(ValueError, match="do not fit into each other"):
            moved(there, source, target)
        return
    np.testing.assert_array_equal(moved(there, source, target), want)
    np.testing.assert_array_equal(moved(moved(there, source, target), target, source), there)


@pytest.mark.parametrize(("rows", "columns"), [*product((1, 3), repeat=2)])
def test_nothing_moves_where_only_axes_of_one_element_do(rows: int, columns: int):
    way = rearrangement(layout("NCHW16c"), layout("NCHW"), (2, 3, rows, columns, 16))
    array = np.arange(2 * 48 * rows * columns).reshape(2, 3, rows, columns, 16)
    assert way.moves_nothing == (rows == columns == 1)
    assert way.moves_nothing == np.array_equal(way(array).reshape(-1), array.reshape(-1))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NC16", "layout 'NC16': no axis begins at '16'; an axis is a capital, or such as 16c"),
        ("nchw", "no axis begins at 'nchw'"),
        ("NCHW0c", "no axis begins at '0c'"),
        ("16cNC", "layout '16cNC' has blocks 16c without axis C before them"),
        ("NCC", "layout 'NCC' has axis C twice"),
        ("NCHW4c4c", "layout 'NCHW4c4c' has axis c twice"),
    ],
)
def test_what_is_no_layout(name: str, said: str):
    with pytest.raises(ValueError, match=said):
        layout(name)


@pytest.mark.parametrize(
    ("source", "target", "sizes", "said"),
    [
        ("NCHW", "NCHW16c", (1, 24, 2, 2), "layout NCHW16c: axis C of 24 elements is not cut into full blocks"),
        ("NCHW16c", "NCHW", (1, 2, 2, 2, 8), "layout NCHW16c has 16 elements in axis c, got 8"),
        ("NCHW", "NHWC", (1, 2, 3), "layout NCHW has 4 axes, got 3 sizes"),
        ("NCHW", "OIHW", (1, 2, 3, 4), "layout NCHW has the axes N, C, H, W, layout OIHW has other ones"),
    ],
)
def test_refusals(source: str, target: str, sizes: tuple[int, ...], said: str):
    with pytest.raises(ValueError, match=said):
        rearrangement(layout(source), layout(target), sizes)
