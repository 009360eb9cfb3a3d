"""Execution contexts: what one call needs for itself, so that calls need no lock."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from time import perf_counter

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.layout import Layout
from eutectic.backend.dnnl.library import Library, Owner, check
from eutectic.backend.dnnl.plan import Buffer, Plan, Version
from eutectic.support.aligned import address, aligned


class Context:
    """Memory objects, argument tables and the arena of one call at a time.

    After a call nothing refers to the caller's arrays: border memories keep a
    bare address, which the next call replaces before anything reads it.

    Args:
        library: oneDNN.
        owner: Keeps the plan's primitives; kept alive by this context.
        plan: What to run.
    """

    def __init__(self, library: Library, owner: Owner, plan: Plan) -> None:
        self._library = library
        self._plan = plan
        self._keep = owner
        self._own = Owner(library)
        self._arena = aligned(plan.arena_bytes)
        self._base = address(self._arena)
        self._made: dict[tuple[int, Layout], int] = {}
        self._border: list[tuple[bool, int, int]] = []
        self._rows = [self._row(call.args) for call in plan.calls]
        self._set_handle = library.function("dnnl_memory_set_data_handle")

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Run all calls on the given addresses.

        Raises:
            CodegenError: a primitive failed; names it.
        """
        self._bind(inputs, outputs)
        for index in range(len(self._rows)):
            self._step(index)

    def profile(self, inputs: Sequence[int], outputs: Sequence[int]) -> list[float]:
        """Like `run`, one call at a time; returns the seconds of each."""
        self._bind(inputs, outputs)
        seconds = []
        for index in range(len(self._rows)):
            start = perf_counter()
            self._step(index)
            seconds.append(perf_counter() - start)
        return seconds

    def _step(self, index: int) -> None:
        call, row = self._plan.calls[index], self._rows[index]
        execute = self._library.function("dnnl_primitive_execute")
        status = execute(call.primitive.handle, self._library.stream, len(row), row)
        check(status, call.source)

    def _bind(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        set_handle = self._set_handle
        for is_output, index, memory in self._border:
            set_handle(memory, outputs[index] if is_output else inputs[index])

    def _row(self, args: Sequence[tuple[int, Version]]) -> ctypes.Array[abi.ExecArg]:
        exec_args = [abi.ExecArg(arg, self._memory(version.buffer, version.layout)) for arg, version in args]
        return (abi.ExecArg * len(exec_args))(*exec_args)

    def _memory(self, buffer: Buffer, layout: Layout) -> int:
        key = (id(buffer), layout)
        if key not in self._made:
            handle = self._own.create("memory", layout.handle, self._library.engine, self._address(buffer))
            self._made[key] = handle
            if buffer.kind in ("input", "output"):
                self._border.append((buffer.kind == "output", buffer.index, handle))
        return self._made[key]

    def _address(self, buffer: Buffer) -> int | None:
        match buffer.kind:
            case "arena":
                return self._base + buffer.index
            case "constant":
                return address(self._plan.constants[buffer.index])
        return None
