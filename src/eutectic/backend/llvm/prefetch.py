"""Prefetches: which elements the annotation of a loop asks for, and the intrinsic that asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod
from typing import Final

from eutectic.arith import simplify
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.memory import element_within
from eutectic.backend.llvm.types import memory_bytes
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, Var, add, floordiv, minimum, mul, sub
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.annotation_keys import PREFETCH, SPREAD
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import For, ForKind

LINE_BYTES: Final = 64
NEAR_BYTES: Final = 32 << 10  # what is read later than so many others does not stay in the nearest cache until then
FEW_TURNS: Final = 4  # that share lines where it varies how many there are: fewer turns leave some out
MOST: Final = 16  # prefetches at a time; more would not be answered in time
_INTRINSIC: Final = "llvm.prefetch.p0"
_Read = tuple[BufferLoad, PrimExpr]  # with the first element


@dataclass(frozen=True)
class _Line:
    """A line of memory that a later iteration begins to read.

    Attributes:
        buffer: What it belongs to.
        index: One of its elements.
        bytes_ahead: How much is read before it, if it is behind the line that this iteration reads; None when that is
            not known.
    """

    buffer: Buffer
    index: PrimExpr
    bytes_ahead: int | None

    @property
    def caches(self) -> int:
        """Which caches are to keep it, as the intrinsic has it: all of them, or the larger ones."""
        return 2 if self.bytes_ahead is not None and abs(self.bytes_ahead) > NEAR_BYTES else 3


def prefetch(emitter: ExprEmitter, loop: For, around: Sequence[For], together: int) -> None:
    """Ask for what the annotation of a loop says, at the beginning of an iteration or of a group of them.

    Args:
        emitter: Of the function.
        loop: The loop.
        around: Loops around it, from the outside in.
        together: Iterations of a group.
    """
    for name, ahead, *spread in loop.annotations.get(PREFETCH, ()):
        lines = _lines(_reads(emitter, loop, name), loop, ahead, around if SPREAD in spread else None, together)
        for line, place in zip(lines, _within(loop, lines), strict=True):
            emitter.text.declare("void", _INTRINSIC, ["ptr", "i32", "i32", "i32"])
            at = element_within(emitter, line.buffer, *place)
            emitter.text.do(f"call void @{_INTRINSIC}(ptr {at}, i32 0, i32 {line.caches}, i32 1)")


def _within(loop: For, lines: Sequence[_Line]) -> list[tuple[PrimExpr, PrimExpr, int]]:
    """Where lines are, as `element_within` has it: those that follow the first one at once share its index.

    One place that is compared with the end then serves all of them. Compared one by one, each keeps a register: sixteen
    lines of an iteration had most of them spilled, and a product of one row took 1.5 times as long (Zen 5).
    """
    gaps = [_gap(line.buffer, line.index, lines[0].index) if line.buffer is lines[0].buffer else None for line in lines]
    steps = [None if gap is None or gap < 0 else gap // memory_bytes(lines[0].buffer.dtype) for gap in gaps]
    furthest = max((step for step in steps if step is not None), default=0)
    places = []
    for line, step in zip(lines, steps, strict=True):
        first, added, most = _in_two(loop, line.index if step is None else lines[0].index)
        places.append((first, added, most) if step is None else (first, add(added, step), most + furthest))
    return places


def _in_two(loop: For, index: PrimExpr) -> tuple[PrimExpr, PrimExpr, int]:
    """An index as that of the first iteration of a loop, what is added to it in others, and the most that is added.

    What is the same in all iterations LLVM computes once, before them.
    """
    first = _at(index, {loop.loop_var: loop.min})
    added = simplify(sub(index, first))
    if isinstance(loop.extent, IntImm) and variables(added) <= {loop.loop_var}:
        most = _at(added, {loop.loop_var: add(loop.min, loop.extent.value - 1)})
        if isinstance(most, IntImm) and most.value >= 0:
            return first, added, most.value
    return index, IntImm("int64", 0), 0


def _lines(reads: Sequence[_Read], loop: For, ahead: int, around: Sequence[For] | None, together: int) -> list[_Line]:
    """What an iteration, or a group of them, asks for; with loops around, of which one may share the asking."""
    if around is not None and reads:
        shared = _shared_lines(loop, around, reads, ahead, together)
        if shared is not None:
            return shared[:MOST]
    lines: list[_Line] = []
    again = 1 if around is None else 2  # what is read again is between them, too
    for buffer, now in ((load.buffer, place) for load, first in reads for place in _places(load, first)):
        for k in range(together):
            later = _at(now, {loop.loop_var: add(loop.loop_var, ahead + k)})
            gaps = (_gap(buffer, later, line.index) for line in lines if line.buffer.data is buffer.data)
            if not any(gap is not None and abs(gap) < LINE_BYTES for gap in gaps):
                gap = _gap(buffer, later, now)
                lines.append(_Line(buffer, later, gap if gap is None else again * gap))
    return lines[:MOST]


def _reads(emitter: ExprEmitter, loop: For, name: str) -> list[_Read]:
    """The loads of memory by its name in a loop whose places are known before, and the first element of each."""
    inside = {item.loop_var: item.min for item in post_order(loop.body) if isinstance(item, For)}
    known = {loop.loop_var, *inside, *emitter.indices}
    found: list[_Read] = []
    for load in post_order(loop.body):
        if not isinstance(load, BufferLoad) or load.buffer.data.name != name or len(load.indices) != 1:
            continue
        used = {item for item in post_order(load.indices[0]) if isinstance(item, Var | BufferLoad)}
        if loop.loop_var in used and used <= known:  # what is computed in the iteration is not known before
            found.append((load, _at(load.indices[0], inside)))
    return found


def _shared_lines(
    loop: For, around: Sequence[For], reads: Sequence[_Read], ahead: int, together: int
) -> list[_Line] | None:
    """The lines that one turn of a loop around asks for, if turns can share them.

    Args:
        loop: The loop.
        around: Loops around it, from the outside in.
        reads: What an iteration reads of one buffer, with the first element of each load.
        ahead: How many iterations ahead.
        together: Iterations of a group.

    Returns:
        None when no loop reads the same again, or iterations do not read on line by line.
    """
    load, first = reads[0]
    buffer, each = load.buffer, memory_bytes(load.buffer.dtype)
    turns = _turns(loop, around, buffer, first)
    step = _gap(buffer, _at(first, {loop.loop_var: add(loop.loop_var, 1)}), first)
    begin = [_gap(buffer, place, first) for item, own in reads for place in _places(item, own)]
    if turns is None or step is None or not _reads_on(begin, step):
        return None
    start = _at(first, {item.loop_var: item.min for item in turns.terms})
    asks = -(-step * together // (LINE_BYTES * turns.count))
    line = add(_part(turns, step, asks), ahead * step // LINE_BYTES)
    places = (add(start, mul(add(line, k), LINE_BYTES // each)) for k in range(asks))
    return [_Line(buffer, simplify(place), 2 * ahead * step) for place in places]


def _reads_on(begin: Sequence[int | None], step: int) -> bool:
    """Whether iterations read on without leaving a line out.

    Args:
        begin: Bytes from the first element that an iteration reads to where it begins to read in a line.
        step: Bytes from the first element of an iteration to that of the next.
    """
    places = sorted({place for place in begin if place is not None})
    if None in begin or places[0] < 0 or places[-1] >= step:
        return False
    return all(after - before <= LINE_BYTES for before, after in pairwise([*places, step]))


def _places(load: BufferLoad, first: PrimExpr) -> list[PrimExpr]:
    """The first element, and one of each further line of memory that a vector of neighbours has."""
    index, each = load.indices[0], memory_bytes(load.buffer.dtype)
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or index.stride.value != 1:
        return [first]
    further = range(LINE_BYTES // each, index.lanes, LINE_BYTES // each)
    return [first, *(add(first, step) for step in further)]


@dataclass(frozen=True)
class _Turns:
    """A loop whose iterations read the same elements, one after the other.

    Attributes:
        again: The loop.
        terms: Loops within it that go through the elements, from the outside in.
    """

    again: For
    terms: tuple[For, ...]

    @property
    def count(self) -> int:
        """How many turns share the lines: all, or the first few of a number that varies."""
        return self.again.static_extent or FEW_TURNS


def _turns(loop: For, around: Sequence[For], buffer: Buffer, index: PrimExpr) -> _Turns | None:
    """The innermost loop with several iterations that read the same elements, if all within it is known.

    Of a number that varies it is the loop over whole tiles: what remains is one turn, which asks for all.

    Args:
        loop: The innermost loop that goes through the elements.
        around: Loops around it, from the outside in.
        buffer: What is read.
        index: Of the first element that an iteration reads.
    """
    used, terms = variables(index), [loop]
    for number, item in reversed(list(enumerate(around))):
        if item.static_extent == 1:
            continue
        if item.kind != ForKind.SERIAL or item.loop_var.dtype != loop.loop_var.dtype:
            return None
        if item.loop_var not in used:
            is_rest = _varies(item) and any(map(_varies, around[:number]))
            return None if loop.static_extent is None or is_rest else _Turns(item, tuple(terms))
        if item.static_extent is None or not _is_row_of(buffer, index, item, terms[0]):
            return None
        terms.insert(0, item)
    return None


def _varies(loop: For) -> bool:
    """Whether a serial loop has a number of iterations that varies, as one around what remains of tiles."""
    return loop.kind == ForKind.SERIAL and loop.static_extent is None


def _is_row_of(buffer: Buffer, index: PrimExpr, outer: For, inner: For) -> bool:
    """Whether an index is as far on after one iteration of a loop as after all those of the loop within."""
    one = _at(index, {outer.loop_var: add(outer.loop_var, 1)})
    row = _at(index, {inner.loop_var: add(inner.loop_var, inner.extent)})
    return _gap(buffer, one, row) == 0


def _part(turns: _Turns, step: int, asks: int) -> PrimExpr:
    """The line of memory that an iteration of the innermost loop asks for, from the first one on.

    Args:
        turns: What shares the lines of all iterations. Later ones than the first few ask for the last lines again.
        step: Bytes that an iteration reads.
        asks: For how many lines it asks together.
    """
    done = sub(turns.again.loop_var, turns.again.min)
    for item in turns.terms:
        done = add(mul(done, item.extent), sub(item.loop_var, item.min))
    common = gcd(step, LINE_BYTES)
    line = floordiv(mul(done, step // common), turns.count * (LINE_BYTES // common))
    if turns.again.static_extent is not None:
        return line
    all_lines = step * prod(item.static_extent or 1 for item in turns.terms) // LINE_BYTES
    return minimum(line, max(all_lines - asks, 0))


def _at(index: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
    """The first lane of an index, with loop variables replaced."""

    def change(item: Node) -> Node | None:
        if isinstance(item, Ramp):
            return item.base
        if isinstance(item, Broadcast):
            return item.value
        return values.get(item) if isinstance(item, Var) else None

    first_lane = rewrite(index, change)
    assert isinstance(first_lane, PrimExpr)
    return simplify(first_lane)


def _gap(buffer: Buffer, a: PrimExpr, b: PrimExpr) -> int | None:
    """Bytes from one element to another; None when that is not known."""
    gap = simplify(sub(a, b))
    return gap.value * memory_bytes(buffer.dtype) if isinstance(gap, IntImm) else None
