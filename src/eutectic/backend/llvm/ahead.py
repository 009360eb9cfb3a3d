"""Asking for the weights that the next kernels read, while this one computes.

A network with one image reads each weight once, and has more of them than caches hold: kernels wait for memory at their
beginning, and leave it idle while they compute. So a kernel is told what memory is read next, and each thread asks for
its part of that, line by line, evenly over the loops that it is in most of the time: those without loops inside that
add to several vectors, of which some terms ask together (`term_groups.py`). Loops that ask for weights of their own, by
`prefetch`, do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.term_groups import TermGroup, term_group
from eutectic.backend.plan import Step, Tensor
from eutectic.ir.node import children
from eutectic.ir.prim_expr import IntImm
from eutectic.support.deep import deep
from eutectic.tir.annotation_keys import PREFETCH
from eutectic.tir.stmt import For, Stmt

LINE_BYTES: Final = 64
PARAMETERS: Final = (("ptr noalias readonly", "%ahead"), ("i64", "%ahead_bytes"))
_SOON: Final = 4  # kernels
_LEAST_BYTES: Final = 16 * 1024
_LEAST_STORES: Final = 6  # of vectors in an iteration, beside which asking for a line costs nothing
_INTRINSIC: Final = "llvm.prefetch.p0"


def next_constant(steps: Sequence[Step]) -> Tensor | None:
    """The largest constant that the next kernel reads which reads a large one; None when that is not soon.

    Args:
        steps: What is run next, in order.
    """
    for step in steps[:_SOON]:
        sizes = {id(tensor): _size(tensor) for tensor in step.tensors if tensor.home == "constant"}
        largest = max(sizes.values(), default=0)
        if largest >= _LEAST_BYTES:
            return next(tensor for tensor in step.tensors if sizes.get(id(tensor)) == largest)
    return None


def _size(tensor: Tensor) -> int:
    size = tensor.bytes
    return size.value if isinstance(size, IntImm) else 0


@deep
def steady_asks(stmt: Stmt, machine_lanes: int) -> int:
    """How many lines the steady loops of a statement ask for; those of unknown extents count as none."""
    if isinstance(stmt, For):
        extent, group = stmt.static_extent or 0, term_group(stmt, machine_lanes)
        return extent // group.size if is_steady(stmt, group) else extent * steady_asks(stmt.body, machine_lanes)
    return sum(steady_asks(part, machine_lanes) for part in children(stmt) if isinstance(part, Stmt))


def is_steady(loop: For, group: TermGroup) -> bool:
    """Whether a loop computes sums of several vectors in each iteration, and does not ask for weights of its own."""
    return PREFETCH not in loop.annotations and group.sums >= _LEAST_STORES


@dataclass(frozen=True)
class Ahead:
    """What a thread asks for next.

    Attributes:
        cursor: Where the offset of the next line is kept.
        step: Register with the bytes from one line that is asked for to the next.
        limit: Register with the last offset.
    """

    cursor: str
    step: str
    limit: str


def begin(text: FunctionText, asks: int) -> Ahead:
    """Write what a kernel does first: the part of its thread, and how fast it goes through it.

    Args:
        text: Of the kernel.
        asks: How many lines all threads ask for together.
    """
    part = text.assign("udiv i64 %ahead_bytes, %threads")
    first = text.assign(f"mul i64 {part}, %thread")
    own = text.assign(f"udiv i64 {asks}, %threads")
    some = text.assign(f"add i64 {own}, 1")
    rounded = text.assign(f"udiv i64 {part}, {some}")
    even = text.assign(f"add i64 {rounded}, 1")
    is_slow = text.assign(f"icmp ult i64 {even}, {LINE_BYTES}")
    step = text.assign(f"select i1 {is_slow}, i64 {even}, i64 {LINE_BYTES}")
    cursor = text.alloca("i64", 1)
    text.do(f"store i64 {first}, ptr {cursor}, align 8")
    rest = text.assign(f"sub i64 {part}, {LINE_BYTES}")
    before = text.call("i64", "llvm.smax.i64", [("i64", rest), ("i64", "0")])
    last = text.assign(f"add i64 {first}, {before}")
    return Ahead(cursor, step, last)


def ask(text: FunctionText, ahead: Ahead) -> None:
    """Ask for a line, and go on to the next.

    The cursor is an offset, so that LLVM sees which memory is asked for, and keeps sums in registers beside it.
    """
    offset = text.assign(f"load i64, ptr {ahead.cursor}, align 8")
    place = text.assign(f"getelementptr i8, ptr %ahead, i64 {offset}")
    text.declare("void", _INTRINSIC, ["ptr", "i32", "i32", "i32"])
    text.do(f"call void @{_INTRINSIC}(ptr {place}, i32 0, i32 2, i32 1)")  # to be read, kept in the larger caches
    following = text.assign(f"add i64 {offset}, {ahead.step}")
    is_inside = text.assign(f"icmp ult i64 {following}, {ahead.limit}")
    kept = text.assign(f"select i1 {is_inside}, i64 {following}, i64 {ahead.limit}")
    text.do(f"store i64 {kept}, ptr {ahead.cursor}, align 8")
