"""Addresses of arrays of every kind."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from eutectic.support.aligned import ALIGNMENT, address, aligned

DTYPES = [
    np.bool_,
    np.int8,
    np.uint64,
    np.float16,
    np.float64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.int4,
]


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_addresses_are_where_numpy_says_that_they_are(dtype, writeable):
    array = np.zeros((3, 2), dtype)
    array.flags.writeable = writeable
    assert address(array) == array.ctypes.data
    assert address(array[1:]) == array.ctypes.data + array.strides[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_aligned_whatever_is_seen_in_it(dtype):
    assert address(aligned(24 * np.dtype(dtype).itemsize).view(dtype)) % ALIGNMENT == 0


def test_memory_of_no_bytes_has_an_address():
    assert address(aligned(0)) % ALIGNMENT == 0
