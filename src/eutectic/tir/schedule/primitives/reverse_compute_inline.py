"""reverse_compute_inline: a block computes what the only reader of its result would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var, cast
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Access, Accesses
from eutectic.tir.analysis.dependence import context_of, region_of, writes_all, writes_once
from eutectic.tir.analysis.program_order import between, fixed_loops, shared
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.elementwise import axes_from_indices, elementwise
from eutectic.tir.schedule.legality.scope import (
    known_accesses,
    local_buffer,
    require_closed,
    require_one_name_each,
    scope_of,
    siblings,
)
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.rewriting.removal import taken_out, without_buffer
from eutectic.tir.schedule.state import BlockSite, replaced
from eutectic.tir.statement_mutator import rewrite_expr
from eutectic.tir.stmt import BufferStore


@primitive
def reverse_compute_inline(edit: Edit, block: BlockLike) -> None:
    """Compute what a block computes in the block that it reads from, and take the block away.

    Args:
        edit: The call.
        block: A block `D[i, j] = g(B[i, j])`, the only reader of `B`; the indices of `B` are its axes, each once.

    Raises:
        ScheduleError: the block is gone, or of another form; there is no such `B`, allocated in the block around
            and written by one block `B[i, j] = f(i, j)`; the two do not run over the same elements; something that
            `g` reads is written from the first block on; or `D` is accessed between them.

    before: B[i] = A[i] * 2; D[i] = B[i] + 1
    after:  D[i] = A[i] * 2 + 1
    """
    site = edit.block(block)
    store = elementwise(edit, site)
    scope = scope_of(edit, site)
    accesses = known_accesses(edit, scope)
    load = _input(edit, site, scope, store)
    producer = _producer(edit, site, scope, load.buffer, accesses)
    producer_store = elementwise(edit, producer)
    axes = axes_from_indices(edit, site, load.indices, f"that {load.buffer.name} is read at in")
    for one in (site, producer):
        require_one_name_each(edit, one)
    _require_equal(edit, site, producer, scope, accesses, store, producer_store)
    values: dict[Var, PrimExpr] = {
        axis.var: axis.dom.min for axis in site.block.iter_vars if axis.var not in axes and axis.dom is not None
    }
    for var, index in zip(axes, producer_store.indices, strict=True):
        if var is not None:
            values[var] = index if index.dtype == var.dtype else cast(var.dtype, index)
    fresh = BufferStore(
        store.buffer,
        _substituted(store.value, values, load.buffer, producer_store.value),
        tuple(_substituted(index, values, load.buffer, producer_store.value) for index in store.indices),
        span=store.span,
    )
    joined = with_recomputed_regions(replace(producer.block, body=fresh))
    without = replaced(scope.stmt, taken_out(edit, site))
    work = replaced(without, {}, {producer.block: joined})
    assert isinstance(work, BlockRealize)
    edit.replace(
        scope.function,
        {scope.stmt: replace(work, block=with_recomputed_regions(without_buffer(work.block, load.buffer)))},
    )


def _substituted(expr: PrimExpr, values: Mapping[Var, PrimExpr], buffer: Buffer, value: PrimExpr) -> PrimExpr:
    def change(item: PrimExpr) -> PrimExpr | None:
        if isinstance(item, Var):
            return values.get(item)
        return value if isinstance(item, BufferLoad) and item.buffer is buffer else None

    return rewrite_expr(expr, change)


def _input(edit: Edit, site: BlockSite, scope: BlockSite, store: BufferStore) -> BufferLoad:
    """The load of the buffer that goes away."""
    loads = [item for item in post_order(store.value) if isinstance(item, BufferLoad)]
    local = [load for load in loads if load.buffer in scope.block.alloc_buffers]
    buffers = list(dict.fromkeys(load.buffer for load in local))
    candidates = [b for b in buffers if len(_producers(edit, site, b)) == 1]
    if len(candidates) != 1:
        names = ", ".join(b.name for b in candidates) or "none"
        message = (
            f"reverse_compute_inline: block {site.block.name_hint} must read one buffer that one other block of the "
            f"scope computes; it reads {names}"
        )
        edit.refuse(site, message, help="inline producers until one is left")
    local_buffer(edit, site, scope, candidates[0])
    own = [load for load in local if load.buffer is candidates[0]]
    first = own[0]
    for other in own[1:]:
        if len(other.indices) != len(first.indices) or any(
            a is not b for a, b in zip(other.indices, first.indices, strict=True)
        ):
            message = f"reverse_compute_inline: {candidates[0].name} is read at several places"
            edit.refuse(site, message, help="each element may be read at one place only")
    return first


def _producers(edit: Edit, site: BlockSite, buffer: Buffer) -> list[BlockSite]:
    def writes(block: BlockSite) -> bool:
        return any(isinstance(i, BufferStore) and i.buffer.data is buffer.data for i in post_order(block.stmt))

    return [other for other in siblings(edit, site) if writes(other)]


def _producer(edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer, accesses: Accesses) -> BlockSite:
    producer = _producers(edit, site, buffer)[0]
    used = accesses.of(buffer.data)
    others = [item for item in used if not item.is_write and not any(x is site.stmt for x in item.above)]
    writes = [item for item in used if item.is_write]
    if others or len(writes) != 1 or any(item.buffer is not buffer for item in used):
        message = f"reverse_compute_inline: block {site.block.name_hint} is not the only reader of {buffer.name}"
        edit.refuse([site, producer], message, help="only what nothing else needs can go away")
    return producer


def _require_equal(
    edit: Edit,
    site: BlockSite,
    producer: BlockSite,
    scope: BlockSite,
    accesses: Accesses,
    store: BufferStore,
    producer_store: BufferStore,
) -> None:
    names = f"blocks {producer.block.name_hint} and {site.block.name_hint}"
    write = next(item for item in accesses.items if item.stmt is producer_store and item.is_write)
    read = next(item for item in accesses.items if item.stmt is store and item.buffer is producer_store.buffer)
    target = next(item for item in accesses.items if item.stmt is store and item.is_write)
    around, first, second = shared(write, target)
    both = [producer, site]
    if not 0 <= first < second:
        edit.refuse(both, f"reverse_compute_inline: {names} do not follow each other in one sequence")
    fixed, context = fixed_loops(around), context_of([*scope.above, *around])
    equal = None not in write.indices and None not in read.indices and read.exact
    if not (
        equal
        and writes_all(write, region_of(read, fixed), fixed, context)
        and writes_all(read, region_of(write, fixed), fixed, context)
    ):
        message = (
            f"reverse_compute_inline: it is not proved that {names} run over the same elements of "
            f"{producer_store.buffer.name}"
        )
        edit.refuse(both, message, help="each element that is written must be read, and the other way round")
    if not writes_once(target, fixed, context):
        message = f"reverse_compute_inline: it is not proved that block {site.block.name_hint} stores each element once"
        edit.refuse(both, message, help="the last of several stores might be another one then")
    require_closed(edit, site, around)
    _require_undisturbed(edit, both, between(accesses, write, target), store, producer_store, target.buffer.data)


def _require_undisturbed(
    edit: Edit,
    both: Sequence[BlockSite],
    items: Sequence[Access],
    store: BufferStore,
    producer_store: BufferStore,
    target: Var,
) -> None:
    inputs = {item.buffer.data for item in items if item.stmt is store and not item.is_write} - {
        producer_store.buffer.data
    }
    for item in items:
        if item.stmt is store:
            continue
        data = item.buffer.data
        if data is target:
            name = both[1].block.name_hint
            message = f"reverse_compute_inline: {store.buffer.name} is accessed before block {name} stores it"
            edit.refuse(both, message, help="it would be stored too early")
        if item.is_write and data in inputs:
            message = (
                f"reverse_compute_inline: {item.buffer.name}, which block {both[1].block.name_hint} reads, is written "
                f"from block {both[0].block.name_hint} on"
            )
            edit.refuse(both, message, help="its values are not there yet when the first block runs")
