"""Buffers of blocks: which one an index means, and one put in the place of another."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Var
from eutectic.ir.prim_type import PointerType, PrimType
from eutectic.ir.visit import rewrite
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite, walk
from eutectic.tir.stmt import BufferStore, DeclBuffer, Stmt


def written_buffer(edit: Edit, site: BlockSite, index: int) -> Buffer:
    """The buffer of one of the regions that a block writes.

    Raises:
        ScheduleError: there is no such region.
    """
    return _buffer(edit, site, index, site.block.writes, "writes")


def read_buffer(edit: Edit, site: BlockSite, index: int) -> Buffer:
    """The buffer of one of the regions that a block reads.

    Raises:
        ScheduleError: there is no such region.
    """
    return _buffer(edit, site, index, site.block.reads, "reads")


def _buffer(edit: Edit, site: BlockSite, index: int, regions: tuple[BufferRegion, ...], what: str) -> Buffer:
    if not 0 <= index < len(regions):
        names = ", ".join(region.buffer.name for region in regions) or "none"
        edit.refuse(site, f"{edit.name}: block {site.block.name_hint} {what} no buffer {index!r}; it {what}: {names}")
    return regions[index].buffer


def like(buffer: Buffer, name: str, scope: str) -> Buffer:
    """A compact buffer of the same shape and dtype in memory of its own."""
    return Buffer(name, buffer.shape, buffer.dtype, scope=scope)


def in_scope(buffer: Buffer, scope: str) -> Buffer:
    """A buffer in every other way like one, in other memory."""
    data = Var(buffer.data.name, "handle", type_annotation=PointerType(PrimType(buffer.dtype), scope))
    return replace_data(buffer, data)


def replace_data(buffer: Buffer, data: Var) -> Buffer:
    """A buffer in every other way like one, with other data."""
    return Buffer(
        buffer.name,
        buffer.shape,
        buffer.dtype,
        data,
        buffer.strides,
        buffer.elem_offset,
        None,
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.axis_separators,
    )


def has_other_name(scope: Stmt, buffer: Buffer) -> bool:
    """Whether a block of a scope gives the memory of a buffer, or a part of it, another name."""
    return any(
        match.source.buffer.data is buffer.data
        for stmt, _ in walk(scope)
        if isinstance(stmt, BlockRealize)
        for match in stmt.block.match_buffers
    )


def with_buffers(stmt: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with accesses and regions of buffers made ones of other buffers."""

    def change(item: Node) -> Node | None:
        if isinstance(item, BufferLoad | BufferStore | BufferRegion | DeclBuffer) and item.buffer in buffers:
            return replace(item, buffer=buffers[item.buffer])
        if isinstance(item, Block) and any(buffer in buffers for buffer in item.alloc_buffers):
            return replace(item, alloc_buffers=tuple(buffers.get(b, b) for b in item.alloc_buffers))
        return None

    made = rewrite(stmt, change)
    assert isinstance(made, Stmt)
    return made
