"""Dtypes of torch by our names, and tensors of torch as NumPy arrays and back."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from eutectic.ir.dtype import from_numpy
from eutectic.support.errors import UnsupportedTypeError
from eutectic.support.plain_memory import as_array

NAMES: Final[dict[torch.dtype, str]] = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.bool: "bool",
}
TORCH: Final[dict[str, torch.dtype]] = {name: dtype for dtype, name in NAMES.items()}

# NumPy has no such types of its own: bits travel as integers of the same width.
_BITS: Final[dict[torch.dtype, tuple[torch.dtype, Any]]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}


def dtype_name(dtype: torch.dtype, what: str = "a value") -> str:
    """Our name of a dtype.

    Raises:
        UnsupportedTypeError: complex, quantised and other dtypes without a counterpart; names `what`.
    """
    if dtype not in NAMES:
        raise UnsupportedTypeError(
            f"{what} has dtype {str(dtype).removeprefix('torch.')}, which is not supported",
            help=f"cast it; supported are {', '.join(TORCH)}",
        )
    return NAMES[dtype]


def to_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The elements of a dense CPU tensor as an array that shares its memory, strides included."""
    return as_array(tensor.detach(), "a tensor")


def to_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """A tensor that shares the memory of an array; of one that cannot be written to, or is misaligned, a copy."""
    if not array.flags.behaved:
        array = array.copy()
    if array.dtype.kind != "V":
        return torch.from_numpy(array)
    dtype = TORCH[from_numpy(array.dtype)]
    bits, _ = _BITS[dtype]
    return torch.from_numpy(array.view(np.int16 if bits is torch.int16 else np.uint8)).view(dtype)
