"""Arrays as a safetensors file: by digest of their bytes, each once, at addresses that vectors like.

The library writes; reading is done here, because the file is a part of another one that is mapped, and because the
library takes what we refuse (a name that is given twice).

Reference: https://github.com/huggingface/safetensors, Format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.support.errors import LoadError

Array: TypeAlias = np.ndarray[Any, Any]
ALIGNMENT: Final = 64
_PAD: Final = ".pad"
_BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
}  # fmt: skip
_WRITTEN: Final = frozenset(
    """
    bool uint8 int8 float8_e4m3fn float8_e5m2 uint16 int16 float16 bfloat16 uint32 int32 float32 uint64 int64 float64
    """.split()  # noqa: SIM905 - a list would be longer than what it says
)


def digest_of(array: Array) -> str:
    """What an array is called: 32 hexadecimal digits of the SHA-256 of its bytes."""
    content: memoryview = array.reshape(-1).view(np.uint8).data
    return hashlib.sha256(content).hexdigest()[:32]


def write_weights(arrays: Mapping[str, Array]) -> tuple[bytes, int]:
    """Arrays as a safetensors file.

    The library puts arrays of one dtype one after the other, by name. Where one does not end at a multiple of
    `ALIGNMENT`, an array of its dtype called `<name>.pad` fills the rest, so all of them begin at multiples.

    Args:
        arrays: C-contiguous arrays by digest. Those of dtypes that the format lacks are written as their bytes.

    Returns:
        The file, and where in it the first array begins.
    """
    from safetensors.numpy import save  # only who writes needs the library

    tensors: dict[str, Array] = {}
    for name, array in arrays.items():
        known = array if array.dtype.name in _WRITTEN else array.reshape(-1).view(np.uint8)
        tensors[name] = known
        if missing := -known.nbytes % ALIGNMENT:
            tensors[name + _PAD] = np.zeros(missing // known.dtype.itemsize, known.dtype)
    content = save(tensors)
    return content, 8 + int.from_bytes(content[:8], "little")


def read_weights(content: memoryview) -> dict[str, memoryview]:
    """The bytes of each array of a safetensors file, by name.

    Args:
        content: The file; shared, not copied.

    Raises:
        LoadError: it is none, or its header says what is not so.
    """
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise _damaged("its header is cut off")
    try:
        header = json.loads(bytes(content[8 : 8 + size]), object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise _damaged("its header is no table")
    header.pop("__metadata__", None)
    data = content[8 + size :]
    places = sorted((*_place(name, row), name) for name, row in header.items())
    end = 0
    for begin, stop, name in places:
        if begin != end:
            raise _damaged(f"array {name} overlaps another one, or has a hole before it")
        end = stop
    if end != len(data):
        raise _damaged(f"its arrays have {end} bytes, and the file {len(data)}")
    return {name: data[begin:stop] for begin, stop, name in places if not name.endswith(_PAD)}


def _place(name: str, row: Any) -> tuple[int, int]:
    """Where an array lies, as its row of the header says.

    Raises:
        LoadError: the row contradicts itself.
    """
    match row:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]} if dtype in _BITS:
            numbers = (*shape, begin, end)
        case _:
            raise _damaged(f"array {name} is described by {str(row)[:80]}")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise _damaged(f"array {name} has a size or place that is no number")
    if end - begin != prod(shape) * _BITS[dtype] // 8:
        raise _damaged(f"array {name} of {dtype} and shape {shape} has {end - begin} bytes")
    return begin, end


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name is given twice")
    return table


def _damaged(why: str) -> LoadError:
    return LoadError(f"the weights are damaged: {why}", help="write the file again")
