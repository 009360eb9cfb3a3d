"""Blocks and buffers taken out of a program."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.node import replace
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.stmt import For, SeqStmt, Stmt, seq


def taken_out(edit: Edit, site: BlockSite) -> Mapping[Stmt, Stmt]:
    """The change that takes a block away, with the loops that have nothing else in them.

    Raises:
        ScheduleError: nothing would be left in the block around it.
    """
    gone: Stmt = site.stmt
    around = list(site.within_scope)
    while around and isinstance(around[-1], For):
        gone = around.pop()
    last = around[-1] if around else None
    if not isinstance(last, SeqStmt):
        message = f"{edit.name}: nothing would be left without block {site.block.name_hint}"
        edit.refuse(site, message, help="a scope must keep a block")
    return {last: seq(*(part for part in last.seq if part is not gone))}


def without_buffer(block: Block, buffer: Buffer) -> Block:
    """A block that does not allocate a buffer any more."""
    return replace(block, alloc_buffers=tuple(b for b in block.alloc_buffers if b is not buffer))
