"""Memory that iterations of a loop can have each for themselves: they read only what they wrote themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Call, PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.index_facts import exprs_of, statements
from eutectic.tir.analysis.privatization import is_privatizable
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)

_ENTERED: Final = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED)
_APART: Final = {"shared": ("blockIdx",), "local": ("blockIdx", "threadIdx"), "warp": ("blockIdx",)}


def are_apart(scope: str, tag: str) -> bool:
    """Whether threads of a hardware axis have memory of a kind each for itself."""
    return tag.startswith(_APART.get(scope.partition(".")[0], ("\n",)))


def private_buffers(loop: For, above: Sequence[Stmt]) -> list[Buffer]:
    """Buffers allocated around a loop of which its iterations can each have their own; lowering gives it to them.

    Args:
        loop: The loop.
        above: Statements around it, outermost first.
    """
    around = [item.block for item in above if isinstance(item, BlockRealize) and item.block.init is None]
    return [
        buffer
        for block in around
        for buffer in block.alloc_buffers
        if any(part is loop for part in statements_around(block.body, buffer)[:-1]) and is_private(loop, buffer, above)
    ]


def home_of(buffer: Buffer, body: Stmt, above: Sequence[Stmt]) -> For | None:
    """The innermost loop around all accesses of a buffer whose iterations can each have memory of their own for it.

    Args:
        buffer: A buffer.
        body: Where it exists.
        above: Statements around `body`, outermost first.
    """
    line = statements_around(body, buffer)
    for depth in reversed(range(len(line) - 1)):  # the last of them is not entered
        loop = line[depth]
        if isinstance(loop, For) and is_private(loop, buffer, [*above, *line[:depth]]):
            return loop
    return None


def is_private(loop: For, buffer: Buffer, above: Sequence[Stmt]) -> bool:
    """Whether each iteration of a loop around all accesses of a buffer reads only what it wrote itself."""
    accesses = accesses_of(loop.body, [*above, loop], name_outer=True)
    own = accesses.of(buffer.data)
    return not any(item.stmt in accesses.opaque for item in own) and is_privatizable(own, [*above, loop])


def statements_around(body: Stmt, buffer: Buffer) -> list[Stmt]:
    """The statements around all accesses of a compact buffer, outermost first; all but the last can hold its memory.

    Empty when the memory is used in other ways than by accesses of the buffer.
    """
    if buffer.strides or buffer.elem_offset is not None or not buffer.shape or _has_other_uses(body, buffer):
        return []
    line: list[Stmt] = []
    item: Stmt | None = body
    while item is not None:
        line.append(item)
        using = [part for part in _parts(item, buffer) if _uses(part, buffer)]
        item = using[0] if len(using) == 1 else None
    return line


def _parts(item: Stmt, buffer: Buffer) -> tuple[Stmt, ...]:
    """The statements in one that could hold the memory; none where it is needed outside of them."""
    match item:
        case For() if _has_memory(item, buffer) and not _touches((item.min, item.extent), buffer):
            return (item.body,)
        case SeqStmt():
            return item.seq
        case IfThenElse() if not _touches((item.condition,), buffer):
            return (item.then_case,) if item.else_case is None else (item.then_case, item.else_case)
        case LetStmt() if not _touches((item.value,), buffer):
            return (item.body,)
        case Allocate() | DeclBuffer():
            return (item.body,)
        case BlockRealize() if not _uses_directly(item, buffer):
            block = item.block
            return (block.body,) if block.init is None else (block.init, block.body)
        case _:
            return ()


def _has_memory(loop: For, buffer: Buffer) -> bool:
    """Whether iterations of a loop can have memory of their own."""
    axis = loop.thread_binding
    return loop.kind in _ENTERED or (axis is not None and are_apart(buffer.scope(), axis.thread_tag))


def _uses_directly(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement itself, rather than those in it, uses a buffer."""
    if isinstance(stmt, BlockRealize) and any(m.source.buffer is buffer for m in stmt.block.match_buffers):
        return True
    return (isinstance(stmt, BufferStore) and stmt.buffer is buffer) or _touches(exprs_of(stmt), buffer)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return any(_uses_directly(part, buffer) for part in statements(stmt))


def _touches(exprs: Sequence[PrimExpr], buffer: Buffer) -> bool:
    return any(
        isinstance(part, BufferLoad) and part.buffer is buffer
        for expr in exprs
        for part in post_order(expr, enter=lambda item: not isinstance(item, Buffer))
    )


def _has_other_uses(body: Stmt, buffer: Buffer) -> bool:
    data = buffer.data
    for stmt in statements(body):
        if isinstance(stmt, DeclBuffer) and stmt.buffer.data is data:
            return True
        if isinstance(stmt, AttrStmt) and (stmt.node is buffer or stmt.node is data):
            return True
        for expr in exprs_of(stmt):
            for part in post_order(expr, enter=lambda item: not isinstance(item, Buffer)):
                if part is data or (isinstance(part, Call) and any(_is_of(arg, data) for arg in part.args)):
                    return True
    return False


def _is_of(arg: Node, data: Var) -> bool:
    """Whether an argument of a call hands out memory."""
    buffer = arg.buffer if isinstance(arg, BufferRegion) else arg
    return isinstance(buffer, Buffer) and buffer.data is data
