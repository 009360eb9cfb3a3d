"""Prefetches: which elements the annotation of a loop asks for, and the intrinsic that asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.arith import simplify
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.memory import element
from eutectic.backend.llvm.types import memory_bytes
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, Var, add, floordiv, mul, sub
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.annotation_keys import PREFETCH, SPREAD
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import For, ForKind

LINE_BYTES: Final = 64
NEAR_BYTES: Final = 32 << 10  # what is read later than so many others does not stay in the nearest cache until then
MOST: Final = 16  # prefetches in an iteration; more would not be answered in time
_INTRINSIC: Final = "llvm.prefetch.p0"


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


def prefetch(emitter: ExprEmitter, loop: For, around: Sequence[For]) -> None:
    """Ask for what the annotation of a loop says, at the beginning of an iteration.

    Args:
        emitter: Of the function.
        loop: The loop.
        around: Loops around it, from the outside in.
    """
    for name, ahead, *spread in loop.annotations.get(PREFETCH, ()):
        for line in _lines(emitter, loop, name, ahead, around if SPREAD in spread else None):
            emitter.text.declare("void", _INTRINSIC, ["ptr", "i32", "i32", "i32"])
            place = element(emitter, line.buffer, line.index)
            emitter.text.do(f"call void @{_INTRINSIC}(ptr {place}, i32 0, i32 {line.caches}, i32 1)")


def _lines(emitter: ExprEmitter, loop: For, name: str, ahead: int, around: Sequence[For] | None) -> list[_Line]:
    """What an iteration asks for; with loops around, of which the innermost may share the asking."""
    inside = {item.loop_var: item.min for item in post_order(loop.body) if isinstance(item, For)}
    known = {loop.loop_var, *inside, *emitter.indices}
    lines: list[_Line] = []
    for load in post_order(loop.body):
        if not isinstance(load, BufferLoad) or load.buffer.data.name != name or len(load.indices) != 1:
            continue
        used = {item for item in post_order(load.indices[0]) if isinstance(item, Var | BufferLoad)}
        if loop.loop_var not in used or not used <= known:  # what is computed in the iteration is not known before
            continue
        now = _at(load.indices[0], inside)
        later = _at(now, {loop.loop_var: add(loop.loop_var, ahead)})
        again = None if around is None else _again(loop, around, used)
        asked = later if again is None else _at(now, {loop.loop_var: add(_part(loop, again), ahead)})
        buffer, bytes_ahead = load.buffer, _gap(load.buffer, later, now)
        if around is not None and bytes_ahead is not None:
            bytes_ahead *= 2  # what is read again is between them, too
        others = (line.index for line in lines if line.buffer.data is buffer.data)
        gaps = (_gap(buffer, asked, other) for other in others)
        if not any(gap is not None and abs(gap) < LINE_BYTES for gap in gaps):
            lines.append(_Line(buffer, asked, bytes_ahead))
    return lines[:MOST]


def _again(loop: For, around: Sequence[For], used: Collection[Node]) -> For | None:
    """The innermost loop around with several iterations, if these read the same elements."""
    again = next((item for item in reversed(around) if item.static_extent != 1), None)
    if again is None or again.loop_var in used or again.kind != ForKind.SERIAL:
        return None
    is_known = None not in (again.static_extent, loop.static_extent)
    return again if is_known and again.loop_var.dtype == loop.loop_var.dtype else None


def _part(loop: For, again: For) -> PrimExpr:
    """The iteration of which an iteration of a loop asks for the elements, if one of the loop around is a part."""
    done = add(mul(sub(again.loop_var, again.min), loop.extent), sub(loop.loop_var, loop.min))
    return add(loop.min, floordiv(done, again.extent))


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
