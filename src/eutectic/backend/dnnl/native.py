"""The record of a region, which native code reads, and the call that native code makes."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.layout import Layout
from eutectic.backend.dnnl.library import Library
from eutectic.backend.dnnl.native_text import NOT_FINITE, OUT_OF_MEMORY, RELEASE, SYMBOL, Place, Word
from eutectic.backend.dnnl.plan import Buffer, Plan
from eutectic.backend.dnnl.steps import TensorSpec
from eutectic.backend.dnnl.threads import lost_thread
from eutectic.runtime.object_code import ObjectCode
from eutectic.support.aligned import address

_PLACES = {"arena": Place.WORKSPACE, "input": Place.TENSOR, "output": Place.TENSOR, "constant": Place.CONSTANT}
_FUNCTIONS = {
    Word.MEMORY_CREATE: "dnnl_memory_create",
    Word.SET_DATA_HANDLE: "dnnl_memory_set_data_handle",
    Word.MEMORY_DESTROY: "dnnl_memory_destroy",
    Word.EXECUTE: "dnnl_primitive_execute",
    Word.GET_MAX_THREADS: "omp_get_max_threads",
    Word.SET_NUM_THREADS: "omp_set_num_threads",
}


@dataclass
class _Tables:
    """Rows of the record's tables, while they are written."""

    memories: list[int]
    calls: list[int]
    rows: list[int]


class Record:
    """What native code reads to run a region; lives as long as this object.

    Args:
        plan: The primitives and their buffers.
        library: oneDNN.
        owner: Keeps the plan's primitives.
        code: The loaded code of `native_text`.
        threads: OpenMP threads of each call.
        inputs: What is read.
        guarded: Whether inputs must be finite.
    """

    def __init__(
        self,
        plan: Plan,
        library: Library,
        owner: Any,
        code: ObjectCode,
        *,
        threads: int,
        inputs: Sequence[TensorSpec],
        guarded: bool,
    ) -> None:
        self._plan, self._owner = plan, owner
        tables = _tables(plan, len(inputs))
        guards = [word for row in enumerate(inputs) for word in _guard(*row)] if guarded else []
        self._words = (ctypes.c_uint64 * len(Word))()
        self._keep = [self._table(rows) for rows in (tables.memories, tables.calls, tables.rows, guards)]
        places = (Word.MEMORIES, Word.CALLS, Word.ROWS, Word.GUARDS)
        counts = (Word.MEMORY_COUNT, Word.CALL_COUNT, Word.ROW_COUNT, Word.GUARD_COUNT)
        widths = (3, 3, 2, 3)
        for place, count, table, width in zip(places, counts, self._keep, widths, strict=True):
            self._words[place] = ctypes.addressof(table)
            self._words[count] = len(table) // width
        self._words[Word.ENGINE], self._words[Word.STREAM] = library.engine, library.stream
        self._words[Word.THREADS] = threads
        self._words[Word.LOST_THREAD] = lost_thread()
        for word, name in _FUNCTIONS.items():
            self._words[word] = library.address(name)
        self.run = code.address(SYMBOL)
        release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(RELEASE))
        held = (self._words, self._keep, owner, plan, code)
        finalizer = weakref.finalize(self, _release, release, held)
        finalizer.atexit = False  # another thread may still be inside

    @staticmethod
    def _table(rows: Sequence[int]) -> Any:
        return (ctypes.c_uint64 * len(rows))(*rows)

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self._words)

    def explain(self) -> str:
        """What went wrong in the last call that failed."""
        number, code = self._words[Word.FAILED_CALL], self._words[Word.FAILED_STATUS]
        if code == OUT_OF_MEMORY:
            return "oneDNN has no memory for its own records"
        return f"oneDNN: {self._plan.calls[number].source}: {abi.STATUS.get(code, f'status {code}')}"


def _release(release: Any, held: tuple[Any, ...]) -> None:
    """Give back the idle context before what it refers to goes."""
    release(ctypes.addressof(held[0]))


def _guard(number: int, tensor: TensorSpec) -> tuple[int, int, int]:
    return number, tensor.size, NOT_FINITE[tensor.dtype]


def _tables(plan: Plan, inputs: int) -> _Tables:
    tables = _Tables([], [], [])
    numbers: dict[tuple[int, Layout], int] = {}
    for call in plan.calls:
        first = len(tables.rows) // 2
        for arg, version in call.args:
            key = (id(version.buffer), version.layout)
            if key not in numbers:
                numbers[key] = len(tables.memories) // 3
                tables.memories += [version.layout.handle, *_place(plan, version.buffer, inputs)]
            tables.rows += [arg, numbers[key]]
        tables.calls += [call.primitive.handle, len(call.args), first]
    return tables


def _place(plan: Plan, buffer: Buffer, inputs: int) -> tuple[int, int]:
    """Where a buffer is, and the offset, number or address there."""
    value = {
        "output": inputs + buffer.index,
        "constant": address(plan.constants[buffer.index]) if buffer.kind == "constant" else 0,
    }.get(buffer.kind, buffer.index)
    return _PLACES[buffer.kind], value
