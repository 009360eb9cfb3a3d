"""Dtypes of torch by our names, and tensors of torch as NumPy arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt
import torch

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
