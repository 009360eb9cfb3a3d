"""compute_inline: readers of a buffer compute its elements themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.arith.bounds import intrinsic_name
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Call, LogicalBinary, PrimExpr, Var, cast, lanes_of
from eutectic.ir.structural import StructuralKey
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Access
from eutectic.tir.analysis.program_order import between, shared, written_before
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.elementwise import axes_from_indices, elementwise
from eutectic.tir.schedule.legality.scope import known_accesses, local_buffer, require_closed, scope_of
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import RegionRecomputer, with_recomputed_regions
from eutectic.tir.schedule.rewriting.removal import taken_out, without_buffer
from eutectic.tir.schedule.state import BlockSite, replaced
from eutectic.tir.statement_mutator import rewrite_expr
from eutectic.tir.stmt import BufferStore, Stmt
from eutectic.tir.substitute import fresh_lets

IF: Final = "tir.if_then_else"


@primitive
def compute_inline(edit: Edit, block: BlockLike, name_values: bool = False) -> None:
    """Compute the elements of a buffer where they are read, and take the block that stored them away.

    Args:
        edit: The call.
        block: A block `B[i, j] = f(i, j)` whose indices are its axes, each once.
        name_values: Name a value by `T.let` where an expression reads it more than once, so that it is computed once;
            not where one of the reads could be guarded.

    Raises:
        ScheduleError: the block is gone, or of another form; `B` is not allocated in the block around, has other
            writers or is read as a vector; an element could be read that the block has not
            written before; something that the block reads is written between it and a reader; or the block is alone.

    before: B[i] = A[i] * 2; C[i] = B[i] + 1
    after:  C[i] = A[i] * 2 + 1
    """
    site = edit.block(block)
    store = elementwise(edit, site)
    scope = scope_of(edit, site)
    local_buffer(edit, site, scope, store.buffer)
    axes = axes_from_indices(edit, site, store.indices, "that it is stored at in")
    _require_inlinable(edit, site, scope, store)
    removal = taken_out(edit, site)
    if not name_values:
        edit.unsaid.add("name_values")
    inliner = _Inliner(store, axes, site.block, name_values)
    work = inliner.stmt(replaced(scope.stmt, removal))
    edit.replace(scope.function, {scope.stmt: inliner.finished(work, store.buffer)})


def _require_inlinable(edit: Edit, site: BlockSite, scope: BlockSite, store: BufferStore) -> None:
    found = known_accesses(edit, scope)
    name, buffer = site.block.name_hint, store.buffer
    used = found.of(buffer.data)
    writes = [item for item in used if item.is_write]
    if len(writes) != 1 or any(item.buffer is not buffer for item in used):
        message = f"compute_inline: buffer {buffer.name} has other writers than block {name}, or another name"
        edit.refuse(site, message, help="only what one block computes can be inlined")
    inputs = {item.buffer.data for item in found.items if item.stmt is store and not item.is_write}
    for read in (item for item in used if not item.is_write):
        sites = [site, *_reader(edit, scope, read)]
        require_closed(edit, site, shared(writes[0], read)[0])
        if not written_before(writes[0], read, scope.above):
            message = (
                f"compute_inline: it is not proved that block {name} has written every element of {buffer.name} "
                "that is read"
            )
            edit.refuse(sites, message, help="a reader must come after the whole of what it reads")
        for item in between(found, writes[0], read):
            if item.is_write and item.buffer.data in inputs:
                message = (
                    f"compute_inline: buffer {item.buffer.name}, which block {name} reads, is written before "
                    f"a reader of {buffer.name} is done"
                )
                edit.refuse(sites, message, help="the values would be computed from what is written later")
        if any(lanes_of(load.dtype) > 1 for load in _loads(read, buffer)):
            edit.refuse(
                sites, f"compute_inline: buffer {buffer.name} is read as a vector", help="inline before vectorizing"
            )


def _reader(edit: Edit, scope: BlockSite, read: Access) -> list[BlockSite]:
    line = {id(item) for item in read.above}
    sites = [site for site in edit.state.index(scope.function).blocks if id(site.stmt) in line and site.block.iter_vars]
    return sites[-1:]


def _loads(read: Access, buffer: Buffer) -> list[BufferLoad]:
    return [item for item in post_order(read.stmt) if isinstance(item, BufferLoad) and item.buffer is buffer]


class _Inliner(RegionRecomputer):
    """Puts values in the place of loads."""

    def __init__(self, store: BufferStore, axes: Sequence[Var | None], block: Block, named: bool) -> None:
        self.store, self.axes = store, axes
        self.points = {
            axis.var: axis.dom.min for axis in block.iter_vars if axis.var not in axes and axis.dom is not None
        }
        self.named = named and not _may_guard(store.value)

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """An expression with loads replaced."""
        named = self.named and not _may_guard(expr)
        places = [StructuralKey(load.indices) for load in self._reads(expr)] if named else []
        several = {place for place in places if places.count(place) > 1}
        names: dict[StructuralKey, tuple[Var, PrimExpr]] = {}

        def change(item: PrimExpr) -> PrimExpr | None:
            if not isinstance(item, BufferLoad) or item.buffer is not self.store.buffer:
                return None
            place = StructuralKey(item.indices)
            if place not in several:
                return self._value(item)
            if place not in names:
                names[place] = (Var(self.store.buffer.name, item.dtype), self._value(item))
            return names[place][0]

        made = rewrite_expr(expr, change)
        for var, value in names.values():
            made = Let(var, value, made)
        return made

    def _reads(self, expr: PrimExpr) -> list[BufferLoad]:
        """Loads of the buffer; none where a place depends on another load of it, or on what is named inside."""
        parts = list(post_order(expr))
        found = [item for item in parts if isinstance(item, BufferLoad) and item.buffer is self.store.buffer]
        apart: set[int] = {id(item) for item in found} | {id(item.var) for item in parts if isinstance(item, Let)}
        places = (part for load in found for index in load.indices for part in post_order(index))
        return [] if any(id(part) in apart for part in places) else found

    def _value(self, load: BufferLoad) -> PrimExpr:
        values: dict[Var, PrimExpr] = dict(self.points)
        for var, index in zip(self.axes, load.indices, strict=True):
            if var is not None:
                values[var] = index if index.dtype == var.dtype else cast(var.dtype, index)
        value = fresh_lets(self.store.value)
        return rewrite_expr(value, lambda part: values.get(part) if isinstance(part, Var) else None)

    def finished(self, work: Stmt, buffer: Buffer) -> Stmt:
        """The scope without the buffer."""
        assert isinstance(work, BlockRealize)
        return replace(work, block=with_recomputed_regions(without_buffer(work.block, buffer)))


def _may_guard(expr: PrimExpr) -> bool:
    """Whether a part of an expression could be left out when it is computed."""
    return any(isinstance(item, LogicalBinary) or _is_if(item) for item in post_order(expr))


def _is_if(item: Node) -> bool:
    return isinstance(item, Call) and intrinsic_name(item) == IF
