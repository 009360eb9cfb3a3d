"""Arrays that end, or begin, where memory does: a read or write outside of them ends the process or is seen."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence

import numpy as np

from eutectic.ir.dtype import to_numpy

_PAGE = mmap.PAGESIZE
_POISON = 0xA5


class Guarded:
    """An array between pages that cannot be touched; it lies at one end of its own pages.

    Attributes:
        array: The array, zero at first.
    """

    def __init__(self, shape: Sequence[int], dtype: str = "float32", at_end: bool = True) -> None:
        kind = to_numpy(dtype)
        size = math.prod(shape) * kind.itemsize
        inside = -(-max(size, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, inside + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for address in (start, start + _PAGE + inside):
            assert protect(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE), 0) == 0
        memory = (ctypes.c_uint8 * inside).from_address(start + _PAGE)
        self._bytes = np.frombuffer(memory, np.uint8)
        self._bytes[:] = _POISON
        self._first = inside - size if at_end else 0
        self._size = size
        whole = self._bytes[self._first : self._first + size]
        whole[:] = 0
        self.array = whole.view(kind).reshape(tuple(shape))

    def fill(self, values: np.ndarray) -> np.ndarray:
        """Write values; gives the array."""
        self.array[...] = values
        return self.array

    def check(self) -> None:
        """Nothing was written beside the array."""
        around = np.concatenate([self._bytes[: self._first], self._bytes[self._first + self._size :]])
        assert (around == _POISON).all(), f"{int((around != _POISON).sum())} bytes were written outside of an array"


def noise(seed: int, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """Random values of ordinary size."""
    made = np.random.default_rng(seed).standard_normal(tuple(shape)) * 3
    return (
        made > 0 if dtype == "bool" else np.abs(made).astype(dtype) if dtype[0] == "u" else made.astype(to_numpy(dtype))
    )
