"""Memory of the reference interpreter: bytes, pointers into them, and buffers laid over them.

Every access is checked against the shape of its buffer and the size of its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import element_dtype, lanes_of
from eutectic.support.errors import CallError, InternalError
from eutectic.tir.buffer import Buffer
from eutectic.tir.interpret.scalar import poison


class Memory:
    """A run of bytes.

    Args:
        name: What it was allocated for, in messages.
        raw: The bytes, as a flat uint8 array that shares them with their owner.
        written: Which bytes have a value; None when that is not tracked, or all have.
    """

    def __init__(self, name: str, raw: Any, written: Any = None) -> None:
        self.name, self.raw, self.written = name, raw, written
        self._typed: dict[tuple[str, int], Any] = {}

    @staticmethod
    def fresh(name: str, dtype: str, count: int, tracked: bool) -> Memory:
        """New memory for `count` elements, filled with the poison of their dtype.

        Raises:
            InternalError: `count` is negative.
        """
        if count < 0:
            raise InternalError(f"memory of {count} elements is asked for {name}")
        kind = to_numpy(element_dtype(dtype))
        elements = np.full(count * lanes_of(dtype), poison(element_dtype(dtype)), kind)
        raw = elements.view(np.uint8)
        return Memory(name, raw, np.zeros(raw.size, bool) if tracked else None)

    @staticmethod
    def of_array(name: str, array: Any) -> tuple[Memory, int]:
        """The memory of an array, and the byte that its first element is at."""
        spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        before = -sum(span for span in spans if span < 0)
        total = before + sum(span for span in spans if span > 0) + array.itemsize if array.size else 0
        if array.size == 0:
            return Memory(name, np.empty(0, np.uint8)), 0
        if array.ndim == 0:
            return Memory(name, _plain(array).reshape(1).view(np.uint8)), 0  # indexing it would give a copy
        corner = _plain(array)[tuple(slice(-1, None) if span < 0 else slice(None) for span in spans)]
        flat = np.lib.stride_tricks.as_strided(corner, (total // array.itemsize,), (array.itemsize,))
        return Memory(name, flat.view(np.uint8)), before

    def typed(self, dtype: str, phase: int) -> Any:
        """The bytes from `phase` on as elements of `dtype`."""
        elements = self._typed.get((dtype, phase))
        if elements is None:
            kind = to_numpy(dtype)
            usable = max(self.raw.size - phase, 0) // kind.itemsize * kind.itemsize
            elements = self._typed[dtype, phase] = self.raw[phase : phase + usable].view(kind)
        return elements

    def mark_written(self) -> None:
        """Take all bytes as written, as after a call of a function that the interpreter does not see into."""
        if self.written is not None:
            self.written[:] = True


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address.

    Attributes:
        memory: What it points into.
        byte: Distance from the beginning of the memory.
    """

    memory: Memory
    byte: int = 0

    def as_array(self, dtype: str) -> Any:
        """What follows the address, as a flat array of `dtype`."""
        kind = to_numpy(element_dtype(dtype))
        tail = self.memory.raw[self.byte :]
        return tail[: tail.size // kind.itemsize * kind.itemsize].view(kind)


class View:
    """A buffer with its memory, shape and strides, all known.

    Args:
        buffer: The buffer, for names.
        pointer: Where its data begins.
        offset: Elements between that and its first element.
        shape: Elements per axis.
        strides: Elements between neighbours per axis.
    """

    def __init__(
        self, buffer: Buffer, pointer: Pointer, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.buffer, self.pointer, self.offset, self.shape, self.strides = buffer, pointer, offset, shape, strides
        self.dtype = element_dtype(buffer.dtype)
        self.lanes = lanes_of(buffer.dtype)
        item = to_numpy(self.dtype).itemsize
        self.memory, self.item = pointer.memory, item
        self.phase = pointer.byte % item
        self.base = pointer.byte // item + offset * self.lanes
        self.elements = self.memory.typed(self.dtype, self.phase)
        self.is_float = is_float(self.dtype)

    def position(self, at: Sequence[int]) -> int:
        """Place of an element (its first lane) among the elements of the memory.

        Raises:
            InternalError: it is outside of the buffer or of its memory.
        """
        where = 0
        for index, size, stride in zip(at, self.shape, self.strides, strict=True):
            if not 0 <= index < size:
                raise self._outside(at)
            where += index * stride
        where = self.base + where * self.lanes
        if not 0 <= where <= self.elements.size - self.lanes:
            raise InternalError(
                f"buffer {self.buffer.name} of shape {self.shape} reaches beyond the memory of "
                f"{self.memory.name}: index {tuple(at)} is element {where} of {self.elements.size}"
            )
        return where

    def _outside(self, at: Sequence[int]) -> InternalError:
        return InternalError(f"index {tuple(at)} is outside of buffer {self.buffer.name} of shape {self.shape}")

    def read(self, where: int, at: Sequence[int]) -> Any:
        """The value at a position.

        Args:
            where: The position.
            at: The indices it came from, for the message.

        Raises:
            InternalError: writing is tracked, and the element was not written.
        """
        written = self.memory.written
        if written is not None:
            begin = self.phase + where * self.item
            if not written[begin : begin + self.item].all():
                raise InternalError(f"buffer {self.buffer.name} is read at {tuple(at)} before it is written there")
        return self.elements[where] if self.is_float else self.elements.item(where)

    def write(self, where: int, value: Any) -> None:
        """Set the value at a position.

        Raises:
            CallError: the memory belongs to an array that is read-only.
        """
        if not self.elements.flags.writeable:
            raise CallError(f"{self.memory.name} is written, so it must be a writeable array, got a read-only one")
        self.elements[where] = value
        written = self.memory.written
        if written is not None:
            begin = self.phase + where * self.item
            written[begin : begin + self.item] = True

    def sub_view(self, buffer: Buffer, begin: Sequence[int], extents: Sequence[int]) -> View:
        """A box of this buffer, under the name of another; leading axes of one element may be dropped.

        Raises:
            InternalError: the box is not inside of this buffer.
        """
        for start, extent, size in zip(begin, extents, self.shape, strict=True):
            if start < 0 or extent < 0 or start + extent > size:
                region = ", ".join(f"{b}:{b + e}" for b, e in zip(begin, extents, strict=True))
                raise InternalError(f"region [{region}] is outside of buffer {self.buffer.name} of shape {self.shape}")
        offset = self.offset + sum(b * s for b, s in zip(begin, self.strides, strict=True))
        rank = len(buffer.shape)
        return View(buffer, self.pointer, offset, tuple(extents)[-rank:] if rank else (), self.strides[-rank:])

    def as_array(self) -> Any:
        """The elements as an array that shares their memory."""
        if 0 in self.shape:
            return np.empty(self.shape, to_numpy(self.dtype))
        last = tuple(size - 1 for size in self.shape)
        self.position((0,) * len(last))
        self.position(last)
        shape = self.shape if self.lanes == 1 else (*self.shape, self.lanes)
        strides = [s * self.lanes * self.item for s in self.strides] + ([self.item] if self.lanes > 1 else [])
        return np.lib.stride_tricks.as_strided(_plain(self.elements)[self.base :], shape, strides).view(
            to_numpy(self.dtype)
        )


def _plain(array: Any) -> Any:
    """The elements as unsigned integers, which NumPy lays out where it does not know their dtype."""
    return array.view(f"uint{8 * array.itemsize}")


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a buffer without gaps, row by row."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
