"""Buffers like others, and others in the place of some."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Var
from eutectic.ir.prim_type import PointerType, PrimType
from eutectic.ir.visit import rewrite
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.stmt import BufferStore, DeclBuffer, Stmt
from eutectic.tir.substitute import updated_data


def like(buffer: Buffer, name: str, scope: str) -> Buffer:
    """A compact buffer of the same shape and dtype in memory of its own."""
    return Buffer(name, buffer.shape, buffer.dtype, scope=scope)


def in_scope(buffer: Buffer, scope: str) -> Buffer:
    """A buffer in every other way like one, in other memory."""
    data = Var(buffer.data.name, "handle", type_annotation=PointerType(PrimType(buffer.dtype), scope))
    return updated_data(buffer, data)


def with_buffers(stmt: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with accesses and regions of buffers made ones of other buffers."""

    def change(item: Node) -> Node | None:
        if isinstance(item, BufferLoad | BufferStore | BufferRegion | DeclBuffer) and item.buffer in buffers:
            return replace(item, buffer=buffers[item.buffer])
        if isinstance(item, Block) and any(buffer in buffers for buffer in item.alloc_buffers):
            return replace(item, alloc_buffers=tuple(buffers.get(b, b) for b in item.alloc_buffers))
        return None

    rewritten = rewrite(stmt, change)
    assert isinstance(rewritten, Stmt)
    return rewritten
