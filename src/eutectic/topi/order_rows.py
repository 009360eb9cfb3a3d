"""Rows of a tensor, which programs sort one by one: where their elements are, and what is given of one at a place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from eutectic.ir.prim_expr import PrimExpr, StringImm, Var, as_prim
from eutectic.tir.buffer import Buffer
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import AssertStmt, BufferStore, For, Stmt, seq
from eutectic.topi.loop_nest import block_under_loops, loops_beside
from eutectic.topi.order_keys import Entries, Entry, given, int64, is_packed, key_of
from eutectic.topi.shapes import axis_of, static

_MOST_PLACES: Final = 1 << 32
_UNROLLED: Final = 8  # so many entries stay in registers
Body = Callable[..., Stmt]


@dataclass
class Rows:
    """The data of a program, and the loops over what is beside its axis.

    Attributes:
        shape: Sizes of the data.
        dtype: Dtype of the data.
        along: The axis; negative ones count from the end.
        descending: Whether the largest come first.
        counts_missing: Whether `missing` is for the number of NaNs in a row.
    """

    shape: Sequence[PrimExpr]
    dtype: str
    along: int
    descending: bool
    counts_missing: bool = False
    missing: Buffer = field(default_factory=lambda: Buffer("missing", (1,), "int64"))

    def __post_init__(self) -> None:
        self.axis = axis_of(self.along, len(self.shape))
        self.count = self.shape[self.axis]
        self.data = Buffer("A", tuple(self.shape), self.dtype)
        self.packed = is_packed(self.dtype)
        self.loops = loops_beside(self.axis, self.shape)

    def entries(self, name: str, size: PrimExpr | int) -> Entries:
        """Memory for entries of this data."""
        return Entries(name, size, self.packed)

    def point(self, at: Sequence[Var], k: PrimExpr) -> tuple[PrimExpr, ...]:
        """Index of the element at a place of a row."""
        return (*at[: self.axis], k.astype(self.count.dtype), *at[self.axis :])

    def entry(self, entries: Entries, at: Sequence[Var], k: PrimExpr) -> Entry:
        """The entry of the element at a place of a row."""
        return entries.entry(key_of(self.data[self.point(at, k)], self.descending), k)

    def stores(self, outs: Sequence[Buffer], place: PrimExpr, at: Sequence[Var], target: Sequence[PrimExpr]) -> Stmt:
        """What is given of the element at a place: itself, or the place."""

        def store(entry: Entry) -> Stmt:
            values = [self.data[self.point(at, entry[0])] if out.name == "T_values" else entry[0] for out in outs]
            return seq(
                *(BufferStore(out, x.astype(out.dtype), tuple(target)) for out, x in zip(outs, values, strict=True))
            )

        return given((place,), "place", store)

    def program(self, name: str, outs: Sequence[Buffer], body: Body, memory: Sequence[Buffer]) -> PrimFunc:
        """A function with one block for each row."""
        counted = [self.missing] if self.counts_missing else []
        stmt = block_under_loops(name, self.loops, partial(self._guarded, body), memory=[*memory, *counted])
        return complete(PrimFunc((self.data, *outs), stmt, attrs={"tir.noalias": True}))  # type: ignore[arg-type]  # the node converts what it is given

    def _guarded(self, body: Body, *at: Var) -> Stmt:
        """The body, where places of 32 bits are enough."""
        if not self.packed or static(self.count) is not None:
            return body(*at)
        fits = self.count.astype("int64") <= _MOST_PLACES
        message = StringImm(f"rows of more than {_MOST_PLACES} elements are not sorted")
        return AssertStmt(fits, message, body(*at))


def loop(name: str, extent: PrimExpr | int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """A statement for each of so many numbers; nothing of none."""
    var = Var(name, "int64")
    return For(var, int64(0), as_prim(extent, "int64"), "serial", body(var))


def each(name: str, extent: PrimExpr | int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """The same without a loop where numbers are few, so that memory that they index can be registers."""
    count = static(extent)
    if count is None or not 0 < count <= _UNROLLED:
        return loop(name, extent, body)
    return seq(*(body(int64(number)) for number in range(count)))
