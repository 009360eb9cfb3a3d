"""Data types are strings such as `"float32"`; this module holds the facts about them."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from eutectic.support.shown import shown

FLOATS: Final = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
NARROW_INTEGERS: Final = ("int8", "int16", "uint8", "uint16")  # floats become these through 32 bits, and wrap around
KNOWN: Final = frozenset((*FLOATS, *SIGNED, *UNSIGNED, "bool"))
_EXTRA: Final[dict[str, Any]] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is a signed or unsigned integer (not bool)."""
    return dtype in SIGNED or dtype in UNSIGNED


def integer_bits(dtype: str) -> int:
    """Bits of an integer dtype; 1 for bool."""
    return 1 if dtype == "bool" else 8 * item_bytes(dtype)


def integer_limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of a dtype; bool counts as unsigned with one bit."""
    bits = integer_bits(dtype)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.startswith("int") else (0, (1 << bits) - 1)


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return int(to_numpy(dtype).itemsize)


def to_numpy(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of the same name; bfloat16 and float8 come from ml_dtypes.

    Raises:
        ValueError: the name is not a known dtype.
    """
    if dtype not in KNOWN:
        raise ValueError(f"unknown dtype {shown(dtype)}; known: {', '.join(sorted(KNOWN))}")
    numpy_dtype: np.dtype[Any] = np.dtype(_EXTRA.get(dtype, dtype))
    return numpy_dtype


def from_numpy(dtype: Any) -> str:
    """The dtype string of a NumPy dtype.

    Raises:
        ValueError: the dtype has no counterpart here.
    """
    name = str(np.dtype(dtype).name)
    if name not in KNOWN:
        raise ValueError(f"dtype {name} of the array is not supported; known: {', '.join(sorted(KNOWN))}")
    return name
