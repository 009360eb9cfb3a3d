"""Parts of a matrix that stores read across: its rows are loaded, and exchanged for its columns in registers.

A load whose lanes lie in as many lines of memory is as many loads of one element. Where the stores that follow read
what comes next in each of these lines, they read a part of a matrix across, of which each row is one vector in memory.
Columns are made of rows by two instructions for two registers, once for each power of two, as in a perfect shuffle.

Reference: H. S. Warren, "Hacker's Delight", 2nd edition, 2012, sections 7-2 and 7-3, on shuffles and transpositions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from eutectic.arith import simplify
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.lane_parts import joined
from eutectic.backend.llvm.lockstep import are_apart
from eutectic.backend.llvm.types import memory_bytes, register_type, vector
from eutectic.ir.prim_expr import IntImm, Ramp, Var, add, lanes_of, mul, sub
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.stmt import BufferStore, Stmt

Columns: TypeAlias = "tuple[BufferLoad, ...]"
"""Loads of columns that follow each other, one of each store."""
_COLUMNS: Final = (16, 8, 4)  # that stores read at a time: registers, with as many for what they become
_NEAR: Final = 4  # elements between lanes up to which one vector has several of them
_BLOCK_BYTES: Final = 16  # within which processors interleave two registers by one instruction


def parts(emitter: ExprEmitter, statements: Sequence[Stmt]) -> Iterator[tuple[Sequence[Stmt], Sequence[Columns]]]:
    """Statements in order; with stores that read parts of matrices across come the loads that do, else none."""
    across = [_loads(emitter, stmt) for stmt in statements] if len(statements) >= _COLUMNS[-1] else []
    at = done = 0
    while at < len(across):
        found = (_columns_of(statements[at : at + n], across[at : at + n], n) for n in _COLUMNS)
        columns = next(filter(None, found), ())
        count = len(columns[0]) if columns else 0
        if count:
            if done < at:
                yield statements[done:at], ()
            yield statements[at : at + count], columns
            done = at + count
        at += count or 1
    if done < len(statements):
        yield statements[done:], ()


def read(emitter: ExprEmitter, columns: Sequence[Columns]) -> None:
    """Read parts of matrices across, which the emitter knows then."""
    for loads in columns:
        for load, column in zip(loads, _columns(emitter, loads[0], len(loads)), strict=True):
            emitter.know(load, column)


def _loads(emitter: ExprEmitter, stmt: Stmt) -> Sequence[BufferLoad]:
    """The loads of a store whose lanes are far apart, at places that are known before it."""
    if not isinstance(stmt, BufferStore) or lanes_of(stmt.value.dtype) < _COLUMNS[-1]:
        return ()
    found = post_order(stmt.value, enter=lambda part: not isinstance(part, BufferLoad))
    return [part for part in found if isinstance(part, BufferLoad) and _is_across(emitter, part)]


def _is_across(emitter: ExprEmitter, load: BufferLoad) -> bool:
    index = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(index, Ramp) or load.predicate is not None or load.buffer.dtype == "bool":
        return False
    if isinstance(index.stride, IntImm) and abs(index.stride.value) <= _NEAR:
        return False
    is_known = all(part in emitter.indices for part in post_order(index) if isinstance(part, Var))
    return is_known and lanes_of(index.base.dtype) == 1 and not emitter.is_from_data(index)


def _columns_of(statements: Sequence[Stmt], across: Sequence[Sequence[BufferLoad]], count: int) -> Sequence[Columns]:
    """What so many stores read across, if they can all read before the first of them writes."""
    if len(statements) < count or not across[0] or len({len(loads) for loads in across}) > 1:
        return ()
    columns = [loads for loads in zip(*across, strict=True) if _are_columns(loads)]
    return columns if columns and are_apart(statements) else ()


def _are_columns(loads: Sequence[BufferLoad]) -> bool:
    """Whether loads read columns that follow each other, of as many rows as there are, or a multiple of that."""
    first, lanes = loads[0], lanes_of(loads[0].dtype)
    if lanes % len(loads) or any(load.dtype != first.dtype or load.buffer is not first.buffer for load in loads):
        return False
    return all(_is_column(load, first, number) for number, load in enumerate(loads))


def _is_column(load: BufferLoad, first: BufferLoad, number: int) -> bool:
    here, there = load.indices[0], first.indices[0]
    assert isinstance(here, Ramp)
    assert isinstance(there, Ramp)
    gap, turn = simplify(sub(here.base, there.base)), simplify(sub(here.stride, there.stride))
    return isinstance(gap, IntImm) and gap.value == number and isinstance(turn, IntImm) and turn.value == 0


def _columns(emitter: ExprEmitter, first: BufferLoad, count: int) -> list[str]:
    """Registers of columns: that of a load, and those that follow it."""
    index, element = first.indices[0], register_type(first.buffer.dtype)
    assert isinstance(index, Ramp)
    lanes = index.lanes
    rows = [_row(emitter, first, index, lane, count) for lane in range(lanes)]
    squares = [rows[number::count] for number in range(count)]  # beside each other in registers
    registers = [joined(emitter.text, element, beside, [count] * len(beside)) for beside in squares]
    exchange = _Exchange(emitter, vector(element, lanes), count, lanes)
    return exchange.columns(registers, min(count, _BLOCK_BYTES // memory_bytes(first.buffer.dtype)))


def _row(emitter: ExprEmitter, first: BufferLoad, index: Ramp, lane: int, count: int) -> str:
    place = add(index.base, mul(index.stride, lane)) if lane else index.base
    return emitter.value(BufferLoad(first.buffer, (Ramp(place, IntImm(index.base.dtype, 1), count),)))


class _Exchange:
    """Squares of a matrix beside each other, a row of all in each register, that become their own transpositions."""

    def __init__(self, emitter: ExprEmitter, kind: str, count: int, lanes: int) -> None:
        self.text, self.kind, self.count, self.lanes = emitter.text, kind, count, lanes

    def columns(self, rows: Sequence[str], block: int) -> list[str]:
        """The columns, first within blocks of so many lanes, then by blocks."""
        registers = list(rows)
        for _ in range(block.bit_length() - 1):
            groups = (registers[start : start + block] for start in range(0, self.count, block))
            registers = [name for group in groups for name in self._interleaved(group)]
        distance = block
        while distance < self.count:
            for a in (number for number in range(self.count) if not number & distance):
                pair = registers[a], registers[a + distance]
                registers[a], registers[a + distance] = self._swapped(*pair, distance)
            distance *= 2
        return registers

    def _interleaved(self, group: Sequence[str]) -> Iterator[str]:
        """Registers of both halves in turn: lanes of one and of the other, of the lower halves of blocks, and upper."""
        half = len(group) // 2
        for a, b in zip(group[:half], group[half:], strict=True):
            for start in (0, half):
                yield self._shuffle(a, b, partial(self._woven, len(group), start))

    def _woven(self, block: int, start: int, lane: int) -> int:
        place = lane - lane % block + start + lane % block // 2
        return place + self.lanes * (lane % 2)

    def _swapped(self, a: str, b: str, distance: int) -> tuple[str, str]:
        """Two registers of which one gets what the other has in its lower blocks, for what it has in its upper ones."""

        def lower(lane: int) -> int:
            return self.lanes + lane - distance if lane & distance else lane

        def upper(lane: int) -> int:
            return self.lanes + lane if lane & distance else lane + distance

        return self._shuffle(a, b, lower), self._shuffle(a, b, upper)

    def _shuffle(self, a: str, b: str, place: Callable[[int], int]) -> str:
        places = ", ".join(f"i32 {place(lane)}" for lane in range(self.lanes))
        return self.text.assign(f"shufflevector {self.kind} {a}, {self.kind} {b}, <{self.lanes} x i32> <{places}>")
