"""cache_inplace: a tile that is updated in place is loaded, updated in other memory, and stored back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eutectic.arith.sets import Region, covers, is_empty
from eutectic.ir.prim_expr import EQ, LE, LT, IntImm, PrimExpr, Var, add, compare, logical_and, logical_not, sub
from eutectic.tir.access import Interval
from eutectic.tir.analysis.accesses import Access, accesses_of, is_affine
from eutectic.tir.analysis.conditions import conjuncts
from eutectic.tir.analysis.dependence import TRUE, conjunction, context_of, region_of, writes_all
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV
from eutectic.tir.schedule.legality.buffers import read_buffer
from eutectic.tir.schedule.legality.scope import known_accesses
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.primitives.cache import insert_cache, part_of_scope, require_one_name, scope_for
from eutectic.tir.schedule.rewriting.buffers import like, with_buffers
from eutectic.tir.schedule.rewriting.move_block import joined, span_of
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq


@dataclass(frozen=True, slots=True)
class _Tile:
    """Elements of a buffer, as many along each axis as a loop has iterations.

    Attributes:
        lows: First index of each axis.
        sizes: Number of indices.
        loops: A loop variable for each axis of more than one index, None for the others.
        inside: Which of them are elements of the buffer.
    """

    lows: tuple[PrimExpr, ...]
    sizes: tuple[PrimExpr, ...]
    loops: tuple[Var | None, ...]
    inside: PrimExpr

    @property
    def indices(self) -> tuple[PrimExpr, ...]:
        """The element of an iteration of the loops."""
        pairs = zip(self.lows, self.loops, strict=True)
        return tuple(low if var is None else add(low, var) for low, var in pairs)

    @property
    def region(self) -> Region:
        """All elements."""
        pairs = zip(self.loops, self.sizes, strict=True)
        ends = {var: (IntImm(var.dtype, 0), size) for var, size in pairs if var is not None}
        return Region(self.indices, ends, self.inside)


@primitive
def cache_inplace(edit: Edit, block: BlockLike, read_buffer_index: int, storage_scope: str) -> list[BlockRV]:
    """Load what a block updates, update the copy, and store it back.

    The tile that the part of the scope with the block accesses is copied right before that part and right after it,
    each time that the scope runs: for the tile of a reduction in blocks, `blockize` what adds one block of terms first.

    Args:
        edit: The call.
        block: A block that updates elements of the buffer: it reads each before it stores it.
        read_buffer_index: Which of the buffers that it reads.
        storage_scope: Memory of the copy.

    Returns:
        The block that loads, and the one that stores.

    Raises:
        ScheduleError: the block is gone or reads no such buffer; the scope is unknown; that part of the scope does not
            update each element of a tile, or stores one that it has not read; the buffer is used under another name; or
            the scope is in loops of vectors or threads.

    before: for k: C[i] = C[i] + A[i, k]
    after:  C_local[i] = C[i]; for k: C_local[i] = C_local[i] + A[i, k]; C[i] = C_local[i]
    """
    site = edit.block(block)
    buffer = read_buffer(edit, site, read_buffer_index)
    scope = scope_for(edit, site, storage_scope)
    known_accesses(edit, scope)
    _require_serial(edit, scope, site)
    parts = parts_of(scope.block.body)
    place = part_of_scope(edit, scope, parts, site)
    used = accesses_of(parts[place], (*scope.above, scope.stmt)).of(buffer.data)
    require_one_name(edit, site, scope, buffer, used)
    _require_updates(edit, site, buffer, used)
    context = _known_of(scope)
    tile = _tile(edit, site, scope, buffer, used, context)
    _require_all_updated(edit, site, buffer, tile, used, context)
    cache = like(buffer, f"{buffer.name}_{storage_scope.replace('.', '_')}", storage_scope)
    name = edit.free_block_name(scope.function, cache.name)
    load, loader = _copy(buffer, cache, tile, edit.free_block_name(scope.function, f"{name}_load"))
    store, storer = _copy(cache, buffer, tile, name)
    updated = with_buffers(parts[place], {buffer: cache})
    insert_cache(edit, site, scope, seq(*parts[:place], load, updated, store, *parts[place + 1 :]), cache)
    return [edit.block_rv(scope.function, loader), edit.block_rv(scope.function, storer)]


def _require_serial(edit: Edit, scope: BlockSite, site: BlockSite) -> None:
    for loop in (item for item in scope.above if isinstance(item, For)):
        if loop.kind in ("vectorized", "thread_binding"):
            message = f"cache_inplace: block {scope.block.name_hint} is in the {loop.kind} loop {loop.loop_var.name}"
            edit.refuse([site, scope], message, help="cache before loops become vectors or threads")


def _require_updates(edit: Edit, site: BlockSite, buffer: Buffer, used: Sequence[Access]) -> None:
    """Each store is of an element that the same store reads: what is loaded was read anyway."""
    for write in (item for item in used if item.is_write):
        reads = [item for item in used if not item.is_write and item.stmt is write.stmt]
        if not any(read.indices is write.indices for read in reads):
            message = f"cache_inplace: {buffer.name} is stored beside block {site.block.name_hint} without being read"
            edit.refuse(
                site, message, help="blockize what updates only, or cache_write what is computed from the beginning"
            )


def _known_of(scope: BlockSite) -> PrimExpr:
    """What holds in a scope of the loops around it and of its axes: these have the values that they are given."""
    pairs = zip(scope.block.iter_vars, scope.stmt.iter_values, strict=True)
    values = [compare(EQ, axis.var, value) for axis, value in pairs if is_affine(value)]
    predicate = [part for part in conjuncts(scope.stmt.predicate) if is_affine(part)]
    return conjunction([context_of([*scope.above, scope.stmt]), *values, *predicate])


def _tile(
    edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer, used: Sequence[Access], context: PrimExpr
) -> _Tile:
    """The box around all accesses, without what is outside of the buffer."""
    analyzer = analyzer_for(scope)
    for axis in scope.block.iter_vars:
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)
    spans = [span_of(item.indices, item, {}) for item in used]
    ends: list[Interval] = []
    for number in range(len(buffer.shape)):
        intervals = [span[number] for span in spans]
        known = [item for item in intervals if item is not None]
        if len(known) < len(intervals) or not known:
            message = f"cache_inplace: which elements of {buffer.name} are updated is not known along axis {number}"
            edit.refuse(site, message, help="indices must be affine, in loops with affine bounds")
        whole = known[0]
        for other in known[1:]:
            whole = joined(whole, other, analyzer, union=True)
        ends.append(whole)
    sizes = tuple(analyzer.simplify(add(sub(last, first), 1)) for first, last in ends)
    lows = tuple(analyzer.simplify(first) for first, _ in ends)
    loops = [
        None if isinstance(size, IntImm) and size.value == 1 else Var(f"ax{k}", low.dtype)
        for k, (low, size) in enumerate(zip(lows, sizes, strict=True))
    ]
    box = _Tile(lows, sizes, tuple(loops), TRUE)
    inside: PrimExpr = TRUE
    for index, extent in zip(box.indices, buffer.shape, strict=True):
        for condition in (compare(LE, 0, index), compare(LT, index, extent)):
            outside = Region((), box.region.iters, logical_not(condition))
            if not is_empty(outside, context):
                inside = logical_and(inside, analyzer.simplify(condition))
    return replace(box, inside=inside)


def _require_all_updated(
    edit: Edit, site: BlockSite, buffer: Buffer, tile: _Tile, used: Sequence[Access], context: PrimExpr
) -> None:
    """The tile is what is updated, no less and no more."""
    outside = [item for item in used if None in item.indices or not covers(tile.region, region_of(item), context)]
    complete = any(item.is_write and writes_all(item, tile.region, None, context) for item in used)
    if outside or not complete:
        message = (
            f"cache_inplace: it is not proved that block {site.block.name_hint} updates all of a tile of {buffer.name}"
        )
        edit.refuse(site, message, help="elements between those that are updated would be stored, too")


def _copy(source: Buffer, target: Buffer, tile: _Tile, name: str) -> tuple[Stmt, Block]:
    """Loops around a block that copies a tile, and the block."""
    axes = [
        IterVar(Range(min=0, extent=size), Var(f"v{k}", size.dtype), "data_par") for k, size in enumerate(source.shape)
    ]
    at = tuple(axis.var for axis in axes)
    fresh = [None if var is None else Var(var.name, var.dtype) for var in tile.loops]
    here = _Tile(tile.lows, tile.sizes, tuple(fresh), tile.inside)
    block = Block(
        tuple(axes),
        (BufferRegion.from_point(source, at),),
        (BufferRegion.from_point(target, at),),
        name,
        BufferStore(target, BufferLoad(source, at), at),
    )
    names = {old: new for old, new in zip(tile.loops, fresh, strict=True) if old is not None and new is not None}
    stmt: Stmt = BlockRealize(here.indices, with_values(tile.inside, names), block)
    for var, size in reversed(list(zip(fresh, tile.sizes, strict=True))):
        if var is not None:
            stmt = For(var, IntImm(var.dtype, 0), size, "serial", stmt)
    return stmt, block
