"""Memory in large pages: copies are equal, where vectors like them, and gone when nobody has them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from eutectic.support.aligned import ALIGNMENT, address
from eutectic.support.large_pages import PAGE_BYTES, LargePages, in_large_pages


@pytest.mark.parametrize("nbytes", [0, 1, PAGE_BYTES - 1, 3 * PAGE_BYTES + 5])
def test_memory_begins_with_a_page_and_is_zero(nbytes):
    memory = in_large_pages(nbytes)
    assert memory.nbytes == nbytes
    assert address(memory) % PAGE_BYTES == 0
    assert not memory.any()


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 1000, 7), (40 << 20,)])
def test_copies_are_equal_and_aligned(shape):
    pages, rng = LargePages(), np.random.default_rng(0)
    arrays = [
        rng.integers(0, 100, shape).astype(dtype)
        for dtype in ("int8", "float32", "float64")[: 1 + (shape != (40 << 20,))]
    ]
    copies = [pages.copy(array.T) for array in arrays]
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(copy, array.T)
        assert copy.dtype == array.dtype
        assert copy.flags.c_contiguous
        assert address(copy) % ALIGNMENT == 0


def test_neighbours_share_pages_and_nothing_else():
    pages = LargePages()
    first, second = pages.copy(np.full(10, 1.0)), pages.copy(np.full(10, 2.0))
    assert address(second) - address(first) == 128
    first[...] = 3.0
    assert second.tolist() == [2.0] * 10


def test_memory_lives_as_long_as_a_copy_and_no_longer():
    pages = LargePages()
    copy = pages.copy(np.arange(1000))
    block = copy
    while isinstance(block, np.ndarray) and block.base is not None:
        block = block.base
    kept = weakref.ref(block.obj if isinstance(block, memoryview) else block)
    del pages, block
    gc.collect()
    assert copy.sum() == 499500
    assert kept() is not None
    del copy
    gc.collect()
    assert kept() is None
