"""Arrays in another order: the plain one comes back, and what describes no order is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.runtime.packed_array import PackedArray, plain

WORDS = np.dtype(np.uint32)


def blocked(value: np.ndarray, block: int) -> PackedArray:
    """A matrix with its rows in blocks that lie innermost, filled up with zeros."""
    rows, columns = value.shape
    count = -(-rows // block)
    filled = np.zeros((count * block, columns), value.dtype)
    filled[:rows] = value
    elements = np.ascontiguousarray(filled.reshape(count, block, columns).swapaxes(1, 2)).reshape(-1).view(WORDS)
    one = lambda *terms: tuple(term for term in terms if term[0] > 1)  # noqa: E731 - the same on both sides
    return PackedArray(
        elements,
        (one((rows, columns)), one((columns, 1))),
        (one((count, columns * block), (block, 1)), one((columns, block))),
        value.dtype,
        value.shape,
    )


@given(st.integers(1, 9), st.integers(1, 7), st.integers(1, 8), st.sampled_from(["float32", "int32"]))
def test_the_plain_array_comes_back(rows: int, columns: int, block: int, dtype: str):
    value = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    packed = blocked(value, block)
    assert packed.nbytes == value.nbytes
    np.testing.assert_array_equal(packed(), value)
    np.testing.assert_array_equal(
        plain(packed.seen(np.dtype(np.uint8), (value.nbytes,))), value.reshape(-1).view(np.uint8)
    )
    assert plain(value) is value


@pytest.mark.parametrize(
    ("elements", "one", "other", "shape"),
    [
        (np.zeros(4, np.float32), (((4, 1),),), (((4, 1),),), (4,)),  # no words
        (np.zeros(4, WORDS), (((4, 1),),), (((4, 1),),), (5,)),  # another size
        (np.zeros(4, WORDS), (((2, 1),),), (((4, 1),),), (4,)),  # not all of the plain array
        (np.zeros(4, WORDS), (((4, 1),),), (((2, 1), (2, 1)),), (4,)),  # an element twice
        (np.zeros(4, WORDS), (((4, 1),),), (((4, 2),),), (4,)),  # beyond the end
        (np.zeros(4, WORDS), (((4, 1),),), (((4, -1),),), (4,)),  # before the beginning
        (np.zeros(4, WORDS), (((4, 1),),), (((2, 1),), ((2, 2),)), (4,)),  # other axes
        (np.zeros(4, WORDS), (((2, 1),), ((2, 2),)), (((4, 1),), ()), (4,)),  # an axis that is too short
    ],
)
def test_sides_that_do_not_fit_are_refused(elements: np.ndarray, one: tuple, other: tuple, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"cover|fit|expected words"):
        PackedArray(elements, one, other, np.dtype(np.float32), shape)
