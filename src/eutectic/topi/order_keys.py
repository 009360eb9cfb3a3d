"""What programs that sort compare: integers in the order of the elements, each with the place of its element.

Elements of up to 32 bits are sorted as one integer, the key above the place, which costs one comparison and one move.
Wider ones have their key and their place in two buffers. No two entries are equal either way, so that every way of
sorting them is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eutectic.ir.dtype import is_float, item_bytes
from eutectic.ir.prim_expr import (
    IntImm,
    PrimExpr,
    Var,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    logical_and,
    logical_or,
    shift_left,
)
from eutectic.ir.prim_logic import Select
from eutectic.tir import isnan
from eutectic.tir.buffer import Buffer
from eutectic.tir.op import max_value, min_value, reinterpret
from eutectic.tir.stmt import BufferStore, LetStmt, Stmt, seq
from eutectic.topi.special_values import widen

Entry = tuple[PrimExpr, ...]
_HIGH, _LOW = 32, (1 << 32) - 1


def is_packed(dtype: str) -> bool:
    """Whether the key of an element leaves room for its place in 64 bits."""
    return item_bytes(dtype) <= 4


def key_of(x: PrimExpr, descending: bool) -> PrimExpr:
    """An integer of 64 bits that is smaller for what comes first: of 32 bits where elements have no more.

    NaN is larger than all numbers, whatever its bits, and the two zeros are equal.
    """
    key = _key_of_float(widen(x)) if is_float(x.dtype) else _key_of_integer(x)
    return bitwise_not(key) if descending else key


def _key_of_float(x: PrimExpr) -> PrimExpr:
    """The bits of a float; those of negative ones turned around."""
    integer = x.dtype.replace("float", "int")
    zero, largest = IntImm(integer, 0), max_value(integer)
    bits = Select(x.equal(0), zero, reinterpret(integer, x))
    ordered = Select(bits < 0, bitwise_xor(bits, largest), bits)
    return Select(isnan(x), largest, ordered).astype("int64")


def _key_of_integer(x: PrimExpr) -> PrimExpr:
    if x.dtype == "uint64":
        return bitwise_xor(reinterpret("int64", x), min_value("int64"))
    key: PrimExpr = x.astype("int64")
    return key - (1 << 31) if x.dtype == "uint32" else key


class Entries:
    """Memory for entries: keys with places.

    Args:
        name: Name of its buffers.
        size: How many.
        packed: Whether key and place are one integer.
    """

    def __init__(self, name: str, size: PrimExpr | int, packed: bool) -> None:
        names = [name] if packed else [f"{name}_keys", f"{name}_places"]
        self.packed = packed
        self.buffers = [Buffer(each, (size,), "int64") for each in names]

    def entry(self, key: PrimExpr, place: PrimExpr) -> Entry:
        """An entry of an element."""
        if self.packed:
            return (bitwise_or(shift_left(key, int64(_HIGH)), place),)
        return key, place

    def last(self, place: PrimExpr) -> Entry:
        """An entry after those of all elements at earlier places."""
        highest = (1 << 31) - 1 if self.packed else (1 << 63) - 1
        return self.entry(int64(highest), place)

    def load(self, at: PrimExpr) -> Entry:
        """The entry at an index."""
        return tuple(buffer[at] for buffer in self.buffers)

    def store(self, entry: Entry, at: PrimExpr) -> Stmt:
        """Write an entry to an index."""
        return seq(*(BufferStore(buffer, part, (at,)) for buffer, part in zip(self.buffers, entry, strict=True)))

    def place(self, entry: Entry) -> PrimExpr:
        """The place in an entry."""
        return bitwise_and(entry[0], int64(_LOW)) if self.packed else entry[1]


def precedes(a: Entry, b: Entry) -> PrimExpr:
    """Whether an entry comes before another one."""
    if len(a) == 1:
        return a[0] < b[0]
    return logical_or(a[0] < b[0], logical_and(a[0].equal(b[0]), a[1] < b[1]))


def chosen(condition: PrimExpr, yes: Entry, no: Entry) -> Entry:
    """One of two entries."""
    return tuple(Select(condition, a, b) for a, b in zip(yes, no, strict=True))


def given(entry: Sequence[PrimExpr], name: str, body: Callable[[Entry], Stmt]) -> Stmt:
    """A statement of variables with the values of an entry, which are computed once."""
    names = [Var(name if len(entry) == 1 else f"{name}{k}", part.dtype) for k, part in enumerate(entry)]
    stmt = body(tuple(names))
    for var, part in reversed(list(zip(names, entry, strict=True))):
        stmt = LetStmt(var, part, stmt)
    return stmt


def int64(value: int) -> IntImm:
    """A number as indices and keys are."""
    return IntImm("int64", value)
