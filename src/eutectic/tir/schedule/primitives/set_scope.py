"""set_scope: a buffer moves to other memory."""

from __future__ import annotations

from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.buffers import has_other_name, written_buffer
from eutectic.tir.schedule.legality.scopes import require_scope, require_shared
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.buffers import in_scope, with_buffers


@primitive
def set_scope(edit: Edit, block: BlockLike, buffer_index: int | str, storage_scope: str) -> None:
    """Put a buffer into memory of another kind.

    Args:
        edit: The call.
        block: A block that writes the buffer.
        buffer_index: Which of the buffers that it writes, or its name.
        storage_scope: `global`, `shared`, `local`, `warp`, `wmma.accumulator` and the like.

    Raises:
        ScheduleError: the block is gone, or has no such buffer; the scope is unknown; the buffer belongs to the
            caller; its memory is used through a pointer or under another name; or threads that do not share
            memory of this scope access it.
    """
    site = edit.block(block)
    if isinstance(buffer_index, str):
        names = [region.buffer.name for region in site.block.writes]
        buffer_index = names.index(buffer_index) if buffer_index in names else len(names)
    buffer = written_buffer(edit, site, buffer_index)
    require_scope(edit, site, storage_scope)
    if buffer.scope() == storage_scope:
        return
    owner = next((o for o in edit.state.index(site.function).blocks if buffer in o.block.alloc_buffers), None)
    if owner is None:
        message = f"set_scope: buffer {buffer.name} belongs to the caller"
        edit.refuse(site, message, help="cache_read or cache_write it, and move the cache")
    accesses = accesses_of(owner.stmt)
    named = has_other_name(owner.stmt, buffer) or any(
        access.buffer is not buffer for access in accesses.of(buffer.data)
    )
    if named or accesses.opaque:
        message = f"set_scope: the memory of buffer {buffer.name} is used under another name, or by a call"
        edit.refuse(site, message, help="choose the memory before tensorize or match_buffer give it other names")
    require_shared(edit, site, accesses, buffer, storage_scope)
    edit.replace(site.function, {owner.stmt: with_buffers(owner.stmt, {buffer: in_scope(buffer, storage_scope)})})
