"""Which buffer the index of a region means, and whether it has other names."""

from __future__ import annotations

from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferRegion
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite, walk
from eutectic.tir.stmt import Stmt


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


def has_other_name(scope: Stmt, buffer: Buffer) -> bool:
    """Whether a block of a scope gives the memory of a buffer, or a part of it, another name."""
    return any(
        match.source.buffer.data is buffer.data
        for stmt, _ in walk(scope)
        if isinstance(stmt, BlockRealize)
        for match in stmt.block.match_buffers
    )
