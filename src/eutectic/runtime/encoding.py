"""Programs as bytes and back: a description in JSON, and the blobs it refers to by number.

The layout is: eight bytes of magic, the format's version and the length of the description (little-endian, four and
eight bytes), the description, then the blobs, each at a multiple of 64. Reading makes nothing but the dataclasses
listed here, and checks every blob against its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar, overload

import numpy as np

from eutectic.runtime.arguments import Arguments, FixedArgument, TensorArgument
from eutectic.runtime.formulas import Formula
from eutectic.runtime.host_operators import HOST_OPERATORS
from eutectic.runtime.instructions import (
    CallHost,
    Check,
    Evaluate,
    HostCall,
    Literal,
    Put,
    Reshape,
    RunLibrary,
    RunNative,
    RunProgram,
    Take,
)
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.native_code import NativeCode
from eutectic.runtime.params import AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam
from eutectic.runtime.program import Program
from eutectic.runtime.results import Counted, Fixed, Fresh, Results, Shared
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature, ModelSignature
from eutectic.runtime.sizes import SizeExpr
from eutectic.runtime.trees import Leaf, Node
from eutectic.runtime.views import TorchName, View
from eutectic.support.deep import deep
from eutectic.support.errors import EutecticError, LoadError

MAGIC: Final = b"eutectic"
VERSION: Final = 3
_HEAD: Final = struct.Struct("<8sIQ")
_ALIGNMENT: Final = 64
_CLASSES: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        AnyParam,
        Arguments,
        ArraySignature,
        Check,
        Counted,
        Evaluate,
        Fixed,
        FixedArgument,
        Formula,
        Fresh,
        HostCall,
        Leaf,
        LibraryKernel,
        Literal,
        ModelSignature,
        NativeCode,
        Node,
        Program,
        Put,
        Reshape,
        Results,
        RunLibrary,
        RunNative,
        RunProgram,
        SavedModel,
        ScalarParam,
        ShapeParam,
        Shared,
        SizeExpr,
        Take,
        TensorArgument,
        TensorParam,
        TorchName,
        TupleParam,
        View,
    )
}
_NARROW: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # known to NumPy by ml_dtypes


Kind = TypeVar("Kind")


def to_bytes(program: Program | SavedModel) -> bytes:
    """A program, or a model around one, as bytes.

    Raises:
        LoadError: a part of it belongs to the compiler: an operator that only the compiler can run.
    """
    writer = _Writer()
    root = writer.data(program)
    rows = [[offset, len(blob), digest] for offset, blob, digest in writer.placed()]
    description = json.dumps({"program": root, "blobs": rows}, allow_nan=False, separators=(",", ":")).encode()
    start = _round(_HEAD.size + len(description))
    out = bytearray(start + writer.size)
    out[: _HEAD.size] = _HEAD.pack(MAGIC, VERSION, len(description))
    out[_HEAD.size : _HEAD.size + len(description)] = description
    for offset, blob, _ in writer.placed():
        out[start + offset : start + offset + len(blob)] = blob
    return bytes(out)


@overload
def from_bytes(data: bytes | bytearray | memoryview) -> Program: ...
@overload
def from_bytes(data: bytes | bytearray | memoryview, kind: type[Kind]) -> Kind: ...
def from_bytes(data: bytes | bytearray | memoryview, kind: type[Any] = Program) -> Any:
    """Inverse of `to_bytes`. Arrays share memory with the data.

    Args:
        data: What was written.
        kind: `Program` or `SavedModel`.

    Raises:
        LoadError: the data is nothing of that kind, is damaged, or is of another version of the format.
    """
    try:
        description, blobs = _open(memoryview(data))
        decoded = _Reader(blobs).value(description["program"])
    except EutecticError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError) as error:
        raise _damaged(str(error)) from None
    if not isinstance(decoded, kind):
        raise _damaged(f"it describes a {type(decoded).__name__}, not a {kind.__name__}")
    return decoded


def _open(data: memoryview) -> tuple[Any, list[memoryview]]:
    magic, version, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise LoadError("this is no program of eutectic: it begins with other bytes")
    if version != VERSION:
        raise LoadError(
            f"the program is of version {version} of the format, this build reads {VERSION}",
            help="compile the model again with this build",
        )
    description = json.loads(bytes(data[_HEAD.size : _HEAD.size + length]))
    start = _round(_HEAD.size + length)
    blobs = []
    for offset, size, digest in description["blobs"]:
        blob = data[start + offset : start + offset + size]
        if len(blob) != size or min(offset, size) < 0 or _digest(blob) != digest:
            raise _damaged("a part is cut off or was changed")
        blobs.append(blob)
    return description, blobs


class _Writer:
    """Turns values into JSON data, and collects what JSON cannot hold."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._blobs: list[tuple[int, bytes, str]] = []
        self.size = 0

    def placed(self) -> Sequence[tuple[int, bytes, str]]:
        """Blobs with their places and digests; equal ones are kept once."""
        return self._blobs

    @deep
    def data(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case tuple():
                return {"tuple": [self.data(item) for item in value]}
            case list():
                return [self.data(item) for item in value]
            case bytes():
                return {"bytes": self.blob(value)}
            case np.dtype():
                return {"dtype": value.name}
            case np.ndarray():
                whole = np.ascontiguousarray(value)
                return {"array": [value.dtype.name, list(value.shape), self.blob(whole.tobytes())]}
            case np.generic():
                return self.data(np.asarray(value))
            case Mapping():
                return {"map": [[self.data(key), self.data(item)] for key, item in value.items()]}
            case CallHost():
                raise _not_data(value)
            case _ if type(value).__name__ in _CLASSES:
                return {"of": type(value).__name__, "fields": self.fields(value)}
            case _:
                raise LoadError(f"a {type(value).__name__} cannot be written")

    def fields(self, value: Any) -> dict[str, Any]:
        return {field.name: self.data(getattr(value, field.name)) for field in fields(value)}

    def blob(self, content: bytes) -> int:
        digest = _digest(content)
        if digest not in self._numbers:
            self._numbers[digest] = len(self._blobs)
            self._blobs.append((self.size, content, digest))
            self.size = _round(self.size + len(content))
        return self._numbers[digest]


def _not_data(step: CallHost) -> LoadError:
    known = (f"in module {step.module}" if step.module else "", step.source)
    place = ", ".join(part for part in known if part)
    name = f"{step.name} ({place})" if place else step.name
    return LoadError(
        f"{name} runs in Python, by the compiler's definition, so the program cannot be written",
        notes=[f"of the operators that run in Python these can be written: {', '.join(HOST_OPERATORS)}"],
        help="give the sizes it depends on as fixed ones, or compute it outside of the model; "
        "model.report.host_operators has all of them",
    )


class _Reader:
    """The other way; knows only what `_Writer` writes."""

    def __init__(self, blobs: Sequence[memoryview]) -> None:
        self._blobs = blobs
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "tuple": lambda items: tuple(map(self.value, items)),
            "bytes": lambda number: bytes(self.blob(number)),
            "dtype": _dtype,
            "array": lambda row: self.array(*row),
            "map": lambda rows: {self.value(key): self.value(item) for key, item in rows},
        }

    @deep
    def value(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self.value(item) for item in data]
        if not isinstance(data, dict):
            return data
        if "of" in data:
            return self.instance(data["of"], data["fields"])
        ((kind, content),) = data.items()
        return self._kinds[kind](content)

    def instance(self, name: str, values: dict[str, Any]) -> Any:
        if name not in _CLASSES or not isinstance(values, dict):
            raise _damaged(f"it has a part of kind {name}")
        kind = _CLASSES[name]
        if set(values) != {field.name for field in fields(kind)}:
            raise _damaged(f"the fields of {name} are others")
        return kind(**{field: self.value(content) for field, content in values.items()})

    def blob(self, number: Any) -> memoryview:
        if type(number) is not int or number < 0:
            raise _damaged("a reference to no part")
        return self._blobs[number]

    def array(self, name: str, shape: Sequence[int], number: int) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.blob(number), _dtype(name)).reshape(tuple(map(int, shape)))


def _dtype(name: str) -> np.dtype[Any]:
    if name in _NARROW:
        import ml_dtypes  # noqa: F401 - teaches NumPy these names; most programs need none of them
    dtype = np.dtype(name)
    if dtype.hasobject:
        raise _damaged(f"dtype {name}")
    return dtype


def _digest(blob: bytes | memoryview) -> str:
    return hashlib.blake2b(blob, digest_size=16).hexdigest()


def _round(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _damaged(why: str) -> LoadError:
    return LoadError(f"the program is damaged: {why}", help="write it again")
