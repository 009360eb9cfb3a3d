"""Memory at addresses that vectors like."""

from __future__ import annotations

import ctypes
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
ALIGNMENT: Final = 64


def aligned(nbytes: int) -> Array:
    """Uninitialised bytes at a multiple of `ALIGNMENT`."""
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address(block) % ALIGNMENT
    return np.ndarray(nbytes, np.uint8, block, start)  # a slice of no bytes would begin where the block does


def address(array: Array) -> int:
    """Address of the first element."""
    if array.flags.writeable and array.nbytes and array.dtype.isbuiltin == 1:
        # Three times faster than what numpy itself offers, which also works on read-only arrays and foreign dtypes.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # arrays are buffers
    return int(array.__array_interface__["data"][0])


def aligned_array(array: Array) -> Array:
    """The array itself when it is C-contiguous at such an address, else a copy that is."""
    if array.flags.c_contiguous and address(array) % ALIGNMENT == 0:
        return array
    copy: Array = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
