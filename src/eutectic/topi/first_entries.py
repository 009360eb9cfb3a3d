"""The first few elements of a row in order, kept while the row is gone through: one that comes before the last of them
pushes it out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import log
from typing import Final

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import (
    IntImm,
    PrimExpr,
    Ramp,
    Var,
    add,
    bitwise_or,
    broadcast,
    floordiv,
    logical_or,
    minimum,
    sub,
)
from eutectic.ir.prim_logic import Select
from eutectic.tir.buffer import Buffer
from eutectic.tir.stmt import BufferStore, IfThenElse, Stmt, seq
from eutectic.topi.order_keys import Entry, chosen, given, int64, precedes
from eutectic.topi.order_rows import Rows, each, loop
from eutectic.topi.shapes import static
from eutectic.topi.special_values import accumulator

_MOST_KEPT: Final = 64  # of which a row in the wrong order inserts every element, at about a cycle for each kept one
_FEW: Final = 16  # that are kept of rows of unknown size
_ALWAYS_PUSHED: Final = 4  # so few entries are compared with every element sooner than a branch is mispredicted
_LANES: Final = 8
_CHUNK: Final = 4 * _LANES
_LEAST_CHUNKS: Final = 4


def is_kept(size: int | None, count: int) -> bool:
    """Whether to keep so many first elements of a row costs less than to sort it, by cycles that were measured.

    An element that is looked at takes 3 of them, one that is inserted 3 for each entry that is kept, and a row whose
    order is random inserts few; to sort takes 10 for each element, and 5 in each merge.
    """
    if size is None:
        return count <= _FEW
    inserted = min(size, count * (1 + log(max(size / max(count, 1), 1))))
    merges = max(size // 16, 1).bit_length()
    return count <= _MOST_KEPT and 3 * size + 3 * count * inserted < size * (10 + 5 * merges)


class FirstEntries:
    """The first entries of all that were seen, and how elements of a row get there.

    Attributes:
        kept: The entries, in order.
        memory: All buffers that it takes.
    """

    def __init__(self, rows: Rows, count: int) -> None:
        self.rows, self.count = rows, count
        self.kept, self.new = rows.entries("kept", count), rows.entries("new", 1)
        self.limit = Buffer("limit", (1,), rows.dtype)
        self.hits = Buffer("hits", (_LANES,), "int32")
        size = static(rows.count)
        is_long = size is None or size >= count + _LEAST_CHUNKS * _CHUNK
        self.by_chunks = is_long and rows.axis == len(rows.shape) - 1 and rows.dtype != "bool"
        memory = [self.limit, self.hits] if self.by_chunks else []
        self.memory = [*self.kept.buffers, *self.new.buffers, *memory]

    def found(self, at: Sequence[Var]) -> Stmt:
        """All elements of a row, one after the other; of a long one a chunk at a time, as few of them are kept."""
        size = self.rows.count.astype("int64")
        fill = each("t", self.count, lambda t: self.kept.store(self.kept.last(size), t))
        return seq(fill, *self._looked(size, at))

    def _looked(self, size: PrimExpr, at: Sequence[Var]) -> list[Stmt]:
        if not self.by_chunks:
            return [loop("j", size, lambda j: self._look(at, j))]
        first = simplify(minimum(size, self.count))
        chunks = simplify(floordiv(sub(size, first), _CHUNK))
        behind = simplify(add(first, chunks * _CHUNK))
        return [
            loop("j", first, lambda j: self._look(at, j)),
            self._limited(at),
            loop("chunk", chunks, lambda chunk: self._chunk(at, add(first, chunk * _CHUNK))),
            loop("j", simplify(sub(size, behind)), lambda j: self._look(at, add(behind, j))),
        ]

    def _look(self, at: Sequence[Var], j: PrimExpr) -> Stmt:
        """One element."""
        always = not self.by_chunks and self.count <= _ALWAYS_PUSHED

        def look(entry: Entry) -> Stmt:
            push = seq(self.new.store(entry, int64(0)), self._pushed())
            return push if always else IfThenElse(precedes(entry, self.kept.load(int64(self.count - 1))), push)

        return given(self.rows.entry(self.kept, at, j), "entry", look)

    def _pushed(self) -> Stmt:
        """The new entry where it belongs, and each one behind it one further."""
        return each("t", self.count, self._pushed_at)

    def _pushed_at(self, t: PrimExpr) -> Stmt:
        def push(ends: Entry) -> Stmt:
            held, entry = ends[: len(ends) // 2], ends[len(ends) // 2 :]
            is_first = precedes(held, entry)
            stays, goes_on = chosen(is_first, held, entry), chosen(is_first, entry, held)
            return seq(self.kept.store(stays, t), self.new.store(goes_on, int64(0)))

        return given((*self.kept.load(t), *self.new.load(int64(0))), "end", push)

    def _limited(self, at: Sequence[Var]) -> Stmt:
        """The last element that is kept as the one to compare with."""
        place = self.kept.place(self.kept.load(int64(self.count - 1)))

        def keep(entry: Entry) -> Stmt:
            return BufferStore(self.limit, self.rows.data[self.rows.point(at, entry[0])], (int64(0),))

        return given((place,), "place", keep)

    def _chunk(self, at: Sequence[Var], first: PrimExpr) -> Stmt:
        """So many elements, of which most often none is kept: an equal one comes later than the last that is."""
        lanes = Ramp(int64(0), int64(1), _LANES)
        tests = [self._tested(at, add(first, _LANES * part)) for part in range(_CHUNK // _LANES)]
        tested = BufferStore(self.hits, reduce(bitwise_or, tests), (lanes,))
        hit = reduce(bitwise_or, (self.hits[int64(lane)] for lane in range(_LANES)))
        found = seq(loop("j", _CHUNK, lambda j: self._look(at, add(first, j))), self._limited(at))
        return seq(tested, IfThenElse(hit.not_equal(0), found))

    def _tested(self, at: Sequence[Var], first: PrimExpr) -> PrimExpr:
        """Which of some neighbours may come before the limit: one of a vector, as an integer in each lane."""
        wide = accumulator(self.rows.dtype)
        x = self.rows.data[self.rows.point(at, Ramp(first, int64(1), _LANES))].astype(f"{wide}x{_LANES}")
        limit = broadcast(self.limit[int64(0)].astype(wide), _LANES)
        is_behind = x <= limit if self.rows.descending else x >= limit
        if is_float(wide) and not self.rows.descending:  # a NaN is behind all numbers, and is before none
            is_behind = logical_or(is_behind, x.not_equal(x))
        return Select(is_behind, _of_lanes(0), _of_lanes(1))


def _of_lanes(value: int) -> PrimExpr:
    return broadcast(IntImm("int32", value), _LANES)
