"""Loops over the terms of sums: which of their iterations are written out together, and what LLVM is told of loops.

A loop that multiplies and adds in registers has twelve or so such instructions in an iteration, and beside them others
that count, jump, and ask for what is read later. A processor that is alone decodes all of them in the time of the
multiplications. One whose core runs a second thread, as those of virtual machines do for somebody else, decodes half as
many, and what stands beside the multiplications costs time. So some terms are written out together, and ask once for
all; and loops over such groups begin with a line of memory, as instructions are fetched in lines. Measured on a core of
a Zen 3 that is shared: 128 rows times 768 x 3072 in 0.80 of the time, times 3072 x 768 in 0.72; alone 0.97 and 0.95.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.backend.llvm.types import memory_bytes
from eutectic.ir.node import children
from eutectic.ir.prim_expr import lanes_of
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.stmt import BufferStore, For, ForKind, Stmt

PLAIN: Final = "!0"
"""Of a loop that stays as it is."""
SUMS: Final = "!2"
"""Of a loop over terms, or over groups of them."""
WITHIN: Final = "!4"
"""Of the loop over a group, which is written out."""
METADATA: Final = (
    "!0 = distinct !{!0, !1}",
    '!1 = !{!"llvm.loop.unroll.disable"}',
    "!2 = distinct !{!2, !1, !3}",
    '!3 = !{!"llvm.loop.align", i32 64}',
    "!4 = distinct !{!4, !5}",
    '!5 = !{!"llvm.loop.unroll.full"}',
)
"""Lines of a module that `PLAIN`, `SUMS` and `WITHIN` need."""
_SIZES: Final = (8, 4, 2)
_FEWEST: Final = 128  # bytes of sums beside which that is worth the code
_MOST: Final = 1024  # beside more little else stands, and LLVM finds no registers for what it reads before its time
_MOST_OF_GROUP: Final = 3584
_MOST_REGISTERS: Final = 24  # of sums: 26 leave too few of 32 for elements of several terms


def vector_sums(loop: For) -> list[int]:
    """Bytes of each vector in memory that an iteration adds to; none of loops with loops inside, or not serial."""
    if loop.kind != ForKind.SERIAL:
        return []
    sums: list[int] = []
    stack = [loop.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For):
            return []
        if isinstance(stmt, BufferStore) and _adds(stmt):
            sums.append(lanes_of(stmt.value.dtype) * memory_bytes(stmt.buffer.dtype))
        stack += [part for part in children(stmt) if isinstance(part, Stmt)]
    return sums


def _adds(store: BufferStore) -> bool:
    """Whether a store adds to a vector in memory."""
    if lanes_of(store.value.dtype) == 1:
        return False
    return any(isinstance(part, BufferLoad) and part.buffer is store.buffer for part in post_order(store.value))


@dataclass(frozen=True)
class TermGroup:
    """What a loop has of terms of sums.

    Attributes:
        sums: Vectors in memory that an iteration adds to; 0 of loops that are of another kind.
        size: Iterations that are written out together; 1 for most loops.
        note: What LLVM is told of the loop.
    """

    sums: int
    size: int
    note: str


def term_group(loop: For, machine_lanes: int) -> TermGroup:
    """How the terms in a loop are written.

    Args:
        loop: Of any kind.
        machine_lanes: Elements of 32 bits in one vector register.
    """
    sums = vector_sums(loop)
    most = min(_MOST, _MOST_REGISTERS * machine_lanes * 4)
    size = _size(loop.static_extent, sum(sums)) if _FEWEST <= sum(sums) <= most else 1
    return TermGroup(len(sums), size, SUMS if sum(sums) >= _FEWEST else PLAIN)


def _size(extent: int | None, count: int) -> int:
    """How many iterations are written out together, by the bytes of the sums of one.

    Not a window of three, five or seven taps: rows read elements of it together, and LLVM would keep these in registers
    that the sums need. Not half of a loop: LLVM would make a bit of a counter with two values, and then keep all that
    both halves read in registers at once, and on the stack.
    """
    fits = (size for size in _SIZES if extent is not None and extent % size == 0 and count * size <= _MOST_OF_GROUP)
    return next((size for size in fits if extent != 2 * size), 1)
