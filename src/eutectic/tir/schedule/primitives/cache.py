"""cache_read, cache_write: a copy of a buffer that blocks read or write in its place."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import Var
from eutectic.tir.analysis.accesses import Access, accesses_of
from eutectic.tir.analysis.dependence import context_of, late, region_of, whole, writes_all
from eutectic.tir.analysis.program_order import part_of, written_before
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV
from eutectic.tir.schedule.legality.buffers import has_other_name, read_buffer, written_buffer
from eutectic.tir.schedule.legality.scope import known_accesses, scope_of
from eutectic.tir.schedule.legality.scopes import require_scope, require_shared
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.buffers import like, with_buffers
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.state import BlockSite, replaced, walk
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq


@primitive
def cache_read(
    edit: Edit,
    block: BlockLike,
    read_buffer_index: int,
    storage_scope: str,
    consumer_blocks: Sequence[BlockLike] | None = None,
) -> BlockRV:
    """Copy a buffer before it is read, and read the copy.

    The whole buffer is copied, once, right before the part of the scope that reads it first.

    Args:
        edit: The call.
        block: A block that reads the buffer.
        read_buffer_index: Which of the buffers that it reads.
        storage_scope: Memory of the copy.
        consumer_blocks: Blocks of the same scope that read the copy; None for all from the copy on.

    Returns:
        The block that copies.

    Raises:
        ScheduleError: a block is gone or reads no such buffer; the scope is unknown; the buffer is not wholly
            written before, or written from the copy on; or it is used under another name.

    before: C[i] = A[i] + 1
    after:  A_local[i] = A[i]; C[i] = A_local[i] + 1
    """
    site = edit.block(block)
    buffer = read_buffer(edit, site, read_buffer_index)
    scope = scope_for(edit, site, storage_scope)
    accesses = known_accesses(edit, scope)
    consumers = [site, *(edit.block(rv) for rv in consumer_blocks or ())]
    parts = parts_of(scope.block.body)
    first = min(part_of_scope(edit, scope, parts, consumer) for consumer in consumers)
    later = [item for item in accesses.of(buffer.data) if part_of(parts, item) >= first]
    require_one_name(edit, site, scope, buffer, later)
    if any(item.is_write for item in later):
        message = f"cache_read: buffer {buffer.name} is written where the copy would be read"
        edit.refuse(site, message, help="the copy would not see what is written")
    _require_whole(edit, site, scope, buffer, [i for i in accesses.of(buffer.data) if part_of(parts, i) < first])
    cache = like(buffer, f"{buffer.name}_{storage_scope.replace('.', '_')}", storage_scope)
    copy, copier = _copy(edit, scope.function, buffer, cache, cache.name)
    chosen: Sequence[Stmt] = [c.stmt for c in consumers] if consumer_blocks is not None else parts[first:]
    changes = {stmt: with_buffers(stmt, {buffer: cache}) for stmt in chosen}
    fresh = [replaced(part, _inside(part, changes)) for part in parts]
    body = seq(*fresh[:first], copy, *fresh[first:])
    insert_cache(edit, site, scope, body, cache)
    return edit.block_rv(scope.function, copier)


@primitive
def cache_write(
    edit: Edit,
    block: BlockLike,
    write_buffer_index: int,
    storage_scope: str,
    consumer_blocks: Sequence[BlockLike] | None = None,
) -> BlockRV:
    """Write a copy of a buffer, and copy it back when it is complete.

    The whole buffer is copied, once, right after the part of the scope that the block is in.

    Args:
        edit: The call.
        block: A block that writes the buffer.
        write_buffer_index: Which of the buffers that it writes.
        storage_scope: Memory of the copy.
        consumer_blocks: Not taken: later readers read the buffer.

    Returns:
        The block that copies back.

    Raises:
        ScheduleError: the block is gone or writes no such buffer; the scope is unknown; that part of the scope does
            not write the whole buffer, or reads elements that it has not written; or the buffer is used
            under another name.

    before: C[i] = A[i] + 1
    after:  C_local[i] = A[i] + 1; C[i] = C_local[i]
    """
    site = edit.block(block)
    if consumer_blocks:
        edit.refuse(site, "cache_write: consumer_blocks are not taken", help="cache_read for the consumers afterwards")
    buffer = written_buffer(edit, site, write_buffer_index)
    scope = scope_for(edit, site, storage_scope)
    accesses = known_accesses(edit, scope)
    parts = parts_of(scope.block.body)
    place = part_of_scope(edit, scope, parts, site)
    inside = [item for item in accesses.of(buffer.data) if part_of(parts, item) == place]
    require_one_name(edit, site, scope, buffer, inside)
    _require_whole(edit, site, scope, buffer, inside, always=True)
    for read in (item for item in inside if not item.is_write):
        if not any(_is_before(write, read, scope) for write in inside if write.is_write):
            message = f"cache_write: it is not proved that {buffer.name} is only read there where it was written before"
            edit.refuse(site, message, help="choose a block that computes the buffer from the beginning")
    cache = like(buffer, f"{buffer.name}_{storage_scope.replace('.', '_')}", storage_scope)
    copy, copier = _copy(edit, scope.function, cache, buffer, cache.name)
    body = seq(*parts[:place], with_buffers(parts[place], {buffer: cache}), copy, *parts[place + 1 :])
    insert_cache(edit, site, scope, body, cache)
    return edit.block_rv(scope.function, copier)


def scope_for(edit: Edit, site: BlockSite, storage_scope: str) -> BlockSite:
    """The block around a block, for a copy in some memory."""
    require_scope(edit, site, storage_scope)
    return scope_of(edit, site)


def part_of_scope(edit: Edit, scope: BlockSite, parts: Sequence[Stmt], site: BlockSite) -> int:
    """Which part of the body of a scope a block is in."""
    line = (*site.above, site.stmt)
    place = next((number for number, part in enumerate(parts) if any(part is item for item in line)), None)
    if place is None:
        message = f"{edit.name}: block {site.block.name_hint} is not in the same scope as the others"
        edit.refuse([scope, site], message, help="choose consumers directly in one block")
    return place


def _inside(part: Stmt, changes: dict[Stmt, Stmt]) -> dict[Stmt, Stmt]:
    there = {stmt for stmt, _ in walk(part)}
    return {old: new for old, new in changes.items() if old in there}


def require_one_name(edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer, items: Sequence[Access]) -> None:
    """Refuse a buffer whose memory has a second name."""
    if has_other_name(scope.stmt, buffer) or any(item.buffer is not buffer for item in items):
        message = f"{edit.name}: the memory of buffer {buffer.name} is used under another name"
        edit.refuse(site, message, help="only buffers without a second name can be cached")


def _require_whole(
    edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer, items: Sequence[Access], *, always: bool = False
) -> None:
    """Refuse to copy what is not there: every element must have been written, or come from the caller."""
    for loop in (item for item in scope.above if isinstance(item, For) and item.kind not in ("serial", "unrolled")):
        around = accesses_of(loop)
        if buffer.data in around.written - around.private:
            message = (
                f"{edit.name}: iterations of the {loop.kind} loop {loop.loop_var.name} write {buffer.name} at once"
            )
            edit.refuse(site, message, help="a copy of the whole buffer would read what others are writing")
    func = edit.state.function(scope.function)
    if not always and any(buffer is param for param in func.buffer_map.values()):
        return
    context = context_of([*scope.above, scope.stmt])
    if not any(item.is_write and writes_all(item, whole(buffer), None, context) for item in items):
        message = f"{edit.name}: it is not proved that all of {buffer.name} is written before it would be copied"
        help = "the copy is of the whole buffer, which one block must write: copy before loop_partition"
        edit.refuse(site, message, help=help)


def _is_before(write: Access, read: Access, scope: BlockSite) -> bool:
    """Whether what is read has been written: by an earlier part, or by the init of the same block."""
    if written_before(write, read, scope.above):
        return True
    at = next((k for k, (a, b) in enumerate(zip(write.above, read.above, strict=False)) if a is not b), None)
    around = write.above if at is None else write.above[:at]
    block = around[-1] if around else None
    if not isinstance(block, BlockRealize) or block.block.init is None or None in read.indices:
        return False
    init = block.block.init
    in_init = init is write.stmt or any(init is item for item in write.above)
    read_in_init = init is read.stmt or any(init is item for item in read.above)
    if not in_init or read_in_init:
        return False
    loops = [item for item in around if isinstance(item, For)]
    context = context_of([*scope.above])
    return writes_all(write, region_of(read), None, context) and not late(write, read, loops, scope.above)


def _copy(edit: Edit, function: str, source: Buffer, target: Buffer, name: str) -> tuple[Stmt, Block]:
    """Loops around a block that copies a whole buffer, and the block."""
    unique = edit.free_block_name(function, name)
    dtypes = [size.dtype for size in source.shape]
    loops = [Var(f"ax{k}", dtype) for k, dtype in enumerate(dtypes)]
    axes = [
        IterVar(Range(min=0, extent=size), Var(f"v{k}", size.dtype), "data_par") for k, size in enumerate(source.shape)
    ]
    at = tuple(axis.var for axis in axes)
    store = BufferStore(target, BufferLoad(source, at), at)
    block = Block(
        tuple(axes), (BufferRegion.from_point(source, at),), (BufferRegion.from_point(target, at),), unique, store
    )
    stmt: Stmt = BlockRealize(tuple(loops), True, block)  # type: ignore[arg-type]  # the node converts the predicate
    for var, size in reversed(list(zip(loops, source.shape, strict=True))):
        stmt = For(var, 0, size, "serial", stmt)  # type: ignore[arg-type]  # and bounds
    return stmt, block


def insert_cache(edit: Edit, site: BlockSite, scope: BlockSite, body: Stmt, cache: Buffer) -> None:
    """Give the scope its new body, with memory for the copy."""
    block = replace(scope.block, body=body, alloc_buffers=(*scope.block.alloc_buffers, cache))
    new_scope = replace(scope.stmt, block=with_recomputed_regions(block))
    require_shared(edit, site, accesses_of(new_scope), cache, cache.scope())
    edit.replace(scope.function, {scope.stmt: new_scope})
