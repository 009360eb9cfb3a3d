"""The order of accesses within a program: what is around both of two, which one comes first, what is between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.analysis.accesses import Access, Accesses
from eutectic.tir.analysis.dependence import context_of, region_of, whole, writes_all
from eutectic.tir.stmt import For, SeqStmt, Stmt


def shared(a: Access, b: Access) -> tuple[tuple[Stmt, ...], int, int]:
    """What is around both of two accesses, and the parts of the last sequence of it that they are in; -1 for none."""
    count = 0
    for x, y in zip((*a.above, a.stmt), (*b.above, b.stmt), strict=False):
        if x is not y:
            break
        count += 1
    around = (*a.above, a.stmt)[:count]
    if not around or not isinstance(around[-1], SeqStmt):
        return around, -1, -1
    return around, part_of(around[-1].seq, a), part_of(around[-1].seq, b)


def part_of(parts: Sequence[Stmt], access: Access) -> int:
    """Which of some statements an access is in; -1 when it is in none."""
    return _part_of({id(part): place for place, part in enumerate(parts)}, access)


def _part_of(places: Mapping[int, int], access: Access) -> int:
    """`part_of` statements whose places are known by their identity."""
    return next((places[id(item)] for item in (*access.above, access.stmt) if id(item) in places), -1)


def fixed_loops(around: Sequence[Stmt]) -> dict[Var, PrimExpr]:
    """The loops around a place, each standing for one iteration."""
    return {item.loop_var: item.loop_var for item in around if isinstance(item, For)}


def written_before(write: Access, read: Access, above: Sequence[Stmt]) -> bool:
    """Whether each element that is read was written in an earlier part of the same iteration of what is around both.

    Args:
        write: A write.
        read: A read of the same buffer.
        above: Statements around both walks.
    """
    around, first, second = shared(write, read)
    if first < 0 or first >= second or write.buffer is not read.buffer:
        return False
    fixed, context = fixed_loops(around), context_of([*above, *around])
    if writes_all(write, whole(write.buffer), fixed, context):
        return True
    return None not in read.indices and writes_all(write, region_of(read, fixed), fixed, context)


def between(accesses: Accesses, a: Access, b: Access) -> list[Access]:
    """Accesses in the parts of a sequence from that of one access to that of a later one, both included."""
    around, first, second = shared(a, b)
    last = around[-1] if around else None
    if not isinstance(last, SeqStmt) or first < 0:
        return list(accesses.items)
    places = {id(part): place for place, part in enumerate(last.seq)}
    return [
        item
        for item in accesses.items
        if first <= _part_of(places, item) <= second and any(x is last for x in item.above)
    ]
