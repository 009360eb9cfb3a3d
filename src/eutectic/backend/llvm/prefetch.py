"""Prefetches: which elements the annotation of a loop asks for, and the intrinsic that asks."""

from __future__ import annotations

from typing import Final

from eutectic.arith import simplify
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.memory import element
from eutectic.backend.llvm.types import memory_bytes
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, Var, add, sub
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.annotation_keys import PREFETCH
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import For

LINE_BYTES: Final = 64
MOST: Final = 16  # prefetches in an iteration; more would not be answered in time
_INTRINSIC: Final = "llvm.prefetch.p0"


def prefetch(emitter: ExprEmitter, loop: For) -> None:
    """Ask for what the annotation of a loop says, at the beginning of an iteration."""
    for name, ahead in loop.annotations.get(PREFETCH, ()):
        for buffer, index in _lines(emitter, loop, name, ahead):
            emitter.text.declare("void", _INTRINSIC, ["ptr", "i32", "i32", "i32"])
            # to be read, kept in all caches, data
            emitter.text.do(f"call void @{_INTRINSIC}(ptr {element(emitter, buffer, index)}, i32 0, i32 3, i32 1)")


def _lines(emitter: ExprEmitter, loop: For, name: str, ahead: int) -> list[tuple[Buffer, PrimExpr]]:
    """An element of each line of memory that a later iteration begins to read."""
    inside = {item.loop_var: item.min for item in post_order(loop.body) if isinstance(item, For)}
    later = {**inside, loop.loop_var: add(loop.loop_var, ahead)}
    known = {loop.loop_var, *inside, *emitter.indices}
    lines: list[tuple[Buffer, PrimExpr]] = []
    for load in post_order(loop.body):
        if not isinstance(load, BufferLoad) or load.buffer.data.name != name or len(load.indices) != 1:
            continue
        used = {item for item in post_order(load.indices[0]) if isinstance(item, Var | BufferLoad)}
        if loop.loop_var not in used or not used <= known:  # what is computed in the iteration is not known before
            continue
        index = _at(load.indices[0], later)
        if not any(_is_near(load.buffer, index, other) for buffer, other in lines if buffer.data is load.buffer.data):
            lines.append((load.buffer, index))
    return lines[:MOST]


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


def _is_near(buffer: Buffer, a: PrimExpr, b: PrimExpr) -> bool:
    gap = simplify(sub(a, b))
    return isinstance(gap, IntImm) and abs(gap.value) * memory_bytes(buffer.dtype) < LINE_BYTES
