"""Programs as data and back: a description that JSON can hold, and the blobs it refers to.

`to_tree` and `from_tree` leave the blobs to whoever keeps them, such as a file of the package `artefact`. `to_bytes`
puts all into one block: eight bytes of magic, the format's version and the length of the description (little-endian,
four and eight bytes), the description, then the blobs, each at a multiple of 64. Reading makes nothing but the
dataclasses listed here, with fields of the kinds that they declare, and checks every blob against its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar, get_type_hints, overload

import numpy as np

from eutectic.runtime.arguments import Arguments, FixedArgument, TensorArgument
from eutectic.runtime.constants import Constants
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
from eutectic.runtime.packed_array import PackedArray
from eutectic.runtime.params import AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam
from eutectic.runtime.program import Program
from eutectic.runtime.results import Counted, Fixed, Fresh, Number, Results, Shared
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature, ModelSignature
from eutectic.runtime.sizes import SizeExpr
from eutectic.runtime.trees import Leaf, Node
from eutectic.runtime.views import TorchName, View
from eutectic.support.annotations import accepts
from eutectic.support.deep import deep
from eutectic.support.errors import EutecticError, LoadError

MAGIC: Final = b"eutectic"
VERSION: Final = 4
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
        Number,
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


_NUMBERS: Final = range(-(1 << 63), 1 << 64)  # what a word of 64 bits holds, signed or not
_ALL: Final = 1 << 62  # items of a container whose kinds are looked at

Array: TypeAlias = np.ndarray[Any, Any]
Kind = TypeVar("Kind")


class Sink(Protocol):
    """Keeps what JSON cannot hold; gives what the description then refers to it by, a number or text.

    Attributes:
        keeps_orders: Whether arrays that lie in another order stay so; else they are kept in row-major order.
    """

    keeps_orders: ClassVar[bool]

    def content(self, content: bytes) -> int | str:
        """Keep object code."""

    def array(self, array: Array) -> int | str:
        """Keep the elements of a C-contiguous array."""

    def packed(self, array: PackedArray) -> int | str:
        """Keep an array that lies in another order."""


class Source(Protocol):
    """Gives back what a `Sink` kept."""

    def content(self, reference: Any) -> bytes:
        """Object code.

        Raises:
            LookupError, ValueError: there is none by that reference.
        """

    def array(self, reference: Any) -> memoryview | PackedArray:
        """The bytes of an array's elements, or what they are made from.

        Raises:
            LookupError, ValueError: there are none by that reference.
        """

    def packed(self, reference: Any) -> memoryview | PackedArray:
        """The same; where the array is kept in both orders, the other one.

        Raises:
            LookupError, ValueError: there are none by that reference.
        """


def to_tree(value: Any, sink: Sink) -> Any:
    """A program, or a part of one, as a tree that JSON can hold.

    Args:
        value: What to write.
        sink: Keeps arrays and object code.

    Raises:
        LoadError: a part of it belongs to the compiler: an operator that only the compiler can run.
    """
    return _Writer(sink).data(value)


def from_tree(tree: Any, source: Source, kind: type[Kind]) -> Kind:
    """Inverse of `to_tree`.

    Args:
        tree: What it gave.
        source: Has what the sink kept.
        kind: What is expected.

    Raises:
        LoadError: the tree is damaged, or describes something else.
    """
    try:
        decoded = _Reader(source).value(tree)
    except EutecticError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise damaged(str(error)) from None
    if not isinstance(decoded, kind):
        raise damaged(f"it describes a {type(decoded).__name__}, not a {kind.__name__}")
    return decoded


def to_bytes(program: Program | SavedModel) -> bytes:
    """A program, or a model around one, as bytes.

    Raises:
        LoadError: a part of it belongs to the compiler: an operator that only the compiler can run.
    """
    blobs = _Numbered()
    root = to_tree(program, blobs)
    rows = [[offset, len(blob), digest] for offset, blob, digest in blobs.placed]
    description = json.dumps({"program": root, "blobs": rows}, allow_nan=False, separators=(",", ":")).encode()
    start = _round(_HEAD.size + len(description))
    out = bytearray(start + blobs.size)
    out[: _HEAD.size] = _HEAD.pack(MAGIC, VERSION, len(description))
    out[_HEAD.size : _HEAD.size + len(description)] = description
    for offset, blob, _ in blobs.placed:
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
        root = description["program"]
    except EutecticError:
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise damaged(str(error)) from None
    return from_tree(root, blobs, kind)


def _open(data: memoryview) -> tuple[Any, _Blobs]:
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
            raise damaged("a part is cut off or was changed")
        blobs.append(blob)
    return description, _Blobs(blobs)


class _Numbered:
    """Blobs one after the other, referred to by number; equal ones are kept once.

    Attributes:
        placed: They with their places and digests.
        size: Bytes that all of them take.
    """

    keeps_orders: ClassVar[bool] = False

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.placed: list[tuple[int, bytes, str]] = []
        self.size = 0

    def content(self, content: bytes) -> int:
        """See `Sink`."""
        digest = _digest(content)
        if digest not in self._numbers:
            self._numbers[digest] = len(self.placed)
            self.placed.append((self.size, content, digest))
            self.size = _round(self.size + len(content))
        return self._numbers[digest]

    def array(self, array: Array) -> int:
        """See `Sink`."""
        return self.content(array.tobytes())

    def packed(self, array: PackedArray) -> int:
        """See `Sink`."""
        return self.array(array())


class _Blobs:
    """The same, read."""

    def __init__(self, blobs: Sequence[memoryview]) -> None:
        self._blobs = blobs

    def content(self, reference: Any) -> bytes:
        """See `Source`."""
        return bytes(self.array(reference))

    def array(self, reference: Any) -> memoryview:
        """See `Source`."""
        if type(reference) is not int or reference < 0:
            raise damaged("a reference to no part")
        return self._blobs[reference]

    packed = array


class _Writer:
    """Turns values into JSON data."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

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
                return {"bytes": self._sink.content(value)}
            case np.dtype():
                return {"dtype": value.name}
            case np.ndarray():
                kept = self._sink.array(np.ascontiguousarray(value))
                return {"array": [value.dtype.name, list(value.shape), kept]}
            case np.generic():
                return self.data(np.asarray(value))
            case PackedArray():
                return {"array": [value.dtype.name, list(value.shape), self._sink.packed(value)]}
            case Constants():
                return {"map": [[name, self.constant(value.stored(name))] for name in value]}
            case Mapping():
                return {"map": [[self.data(key), self.data(item)] for key, item in value.items()]}
            case CallHost():
                raise _not_data(value)
            case _ if type(value).__name__ in _CLASSES:
                return {"of": type(value).__name__, "fields": self.fields(value)}
            case _:
                raise LoadError(f"a {type(value).__name__} cannot be written")

    def constant(self, value: Array | PackedArray) -> Any:
        """A constant of a library, which is read again in the order in which it is kept."""
        ((_, row),) = (data := self.data(value)).items()
        return {"packed": row} if isinstance(value, PackedArray) and self._sink.keeps_orders else data

    def fields(self, value: Any) -> dict[str, Any]:
        return {field.name: self.data(getattr(value, field.name)) for field in fields(value)}


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

    def __init__(self, source: Source) -> None:
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "tuple": lambda items: tuple(map(self.value, _list(items))),
            "bytes": source.content,
            "dtype": _dtype,
            "array": lambda row: self.array(source.array, *row),
            "packed": lambda row: self.array(source.packed, *row),
            "map": lambda rows: {self.value(key): self.value(item) for key, item in map(_list, _list(rows))},
        }

    @deep
    def value(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self.value(item) for item in data]
        if not isinstance(data, dict):
            if type(data) is int and data not in _NUMBERS:
                raise damaged("it has a number of more than 64 bits")
            return data
        if "of" in data:
            return self.instance(data["of"], data["fields"])
        ((kind, content),) = data.items()
        return self._kinds[kind](content)

    def instance(self, name: str, values: dict[str, Any]) -> Any:
        if name not in _CLASSES or not isinstance(values, dict):
            raise damaged(f"it has a part of kind {name}")
        kind, hints = _CLASSES[name], _hints(name)
        if set(values) != set(hints):
            raise damaged(f"the fields of {name} are others")
        decoded = {field: self.value(content) for field, content in values.items()}
        for field, value in decoded.items():
            if not accepts(hints[field], value, _ALL) or (_is_about_numbers(hints[field]) and _has_truth_value(value)):
                raise damaged(f"{field} of {name} is of another kind")
        return kind(**decoded)

    def array(self, kept_by: Callable[[Any], Any], name: Any, shape: Sequence[int], reference: Any) -> Any:
        if not all(type(size) is int and size >= 0 for size in shape):
            raise damaged(f"an array of shape {shape}")
        kept = kept_by(reference)
        if isinstance(kept, PackedArray):
            return kept.seen(_dtype(name), tuple(shape))
        return np.frombuffer(kept, _dtype(name)).reshape(tuple(shape))


def _list(items: Any) -> list[Any]:
    """Items of a container; text has items for Python, too."""
    if not isinstance(items, list):
        raise damaged(f"the items of a container are {str(items)[:40]!r}")
    return items


@cache
def _is_about_numbers(hint: Any) -> bool:
    """Whether a field has integers, and neither truth values nor numbers of a user's program."""
    text = str(hint).replace("dtype[typing.Any]", "")
    return "int" in text and not any(word in text for word in ("bool", "float", "Any"))


@deep
def _has_truth_value(value: Any) -> bool:
    """Whether True or False, which Python takes for integers, is among numbers."""
    return isinstance(value, bool) or (isinstance(value, tuple) and any(map(_has_truth_value, value)))


@cache
def _hints(name: str) -> dict[str, Any]:
    """Kinds of the fields of a class."""
    names = {
        **_CLASSES,
        "Size": int | str | SizeExpr,
        "Constants": Mapping[str, Array | PackedArray],
    }  # kernels take any mapping
    hints = get_type_hints(_CLASSES[name], localns=names)
    return {field.name: hints[field.name] for field in fields(_CLASSES[name])}


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise damaged(f"dtype {name!r}")
    if name in _NARROW:
        import ml_dtypes  # noqa: F401 - teaches NumPy these names; most programs need none of them
    dtype = np.dtype(name)
    if dtype.kind not in "biufc" and name not in _NARROW:
        raise damaged(f"dtype {name!r}")
    return dtype


def _digest(blob: bytes | memoryview) -> str:
    return hashlib.blake2b(blob, digest_size=16).hexdigest()


def _round(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def damaged(why: str) -> LoadError:
    """The error for data that is not what was written."""
    return LoadError(f"the program is damaged: {why}", help="write it again")
