"""How dtypes look in LLVM: in registers, in memory, and as constants.

A bfloat16 is an i16 everywhere, as processors without bfloat16 would otherwise
call a library for every conversion; a bool is an i1 in a register and a byte in memory.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import ml_dtypes
import numpy as np

from eutectic.ir.prim_expr import element_dtype, lanes_of
from eutectic.support.errors import CodegenError

_REGISTER: Final[dict[str, str]] = {
    "float16": "half",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    "bool": "i1",
    "handle": "ptr",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BYTES: Final[dict[str, int]] = {"half": 2, "float": 4, "double": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


def register_type(dtype: str) -> str:
    """The LLVM type of a value, such as `<8 x float>`.

    Raises:
        CodegenError: the dtype has no machine type.
    """
    element, lanes = element_dtype(dtype), lanes_of(dtype)
    if element not in _REGISTER:
        raise CodegenError(f"dtype {dtype} cannot be compiled for a CPU", help="cast it to a wider one first")
    kind = _REGISTER[element]
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def memory_type(dtype: str) -> str:
    """The LLVM type of what is in memory; differs from that of the register for bool."""
    kind = register_type(dtype)
    return kind.replace("i1", "i8") if element_dtype(dtype) == "bool" else kind


def memory_bytes(dtype: str) -> int:
    """Bytes of an element in memory."""
    return _BYTES[register_type(element_dtype(dtype))]


def vector(kind: str, lanes: int) -> str:
    """`lanes` times an LLVM type; the type itself for one."""
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def splat(kind: str, text: str, lanes: int) -> str:
    """A constant in all lanes."""
    return text if lanes == 1 else "<" + ", ".join([f"{kind} {text}"] * lanes) + ">"


def constant(dtype: str, value: float) -> str:
    """A number of a scalar dtype as LLVM writes it."""
    match dtype:
        case "float64":
            return _hex(float(value))
        case "float32":
            with np.errstate(over="ignore"):
                return _hex(float(np.float32(value)))
        case "float16":
            with np.errstate(over="ignore"):
                return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
        case "bfloat16":
            return str(int(np.array(value, ml_dtypes.bfloat16).view(np.uint16)))
        case "bool":
            return "true" if value else "false"
        case _:
            return str(int(value))


def _hex(value: float) -> str:
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
