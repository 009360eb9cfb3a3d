"""reindex: a block accesses a copy of a buffer by its axes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eutectic.arith.sets import Region, covers
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import And, Or, PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import Access, accesses_of, same_indices
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import TRUE, context_of, region_of, whole, writes_all
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import BlockLike, BlockRV
from eutectic.tir.schedule.legality.buffers import read_buffer, written_buffer
from eutectic.tir.schedule.legality.complete_block import require_complete
from eutectic.tir.schedule.legality.scope import known_accesses, scope_of
from eutectic.tir.schedule.legality.scopes import require_shared
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.state import BlockSite, replaced
from eutectic.tir.statement_mutator import StmtMutator, is_zero, rewrite_expr, updated, with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq


@dataclass(frozen=True, slots=True)
class _Target:
    """What is accessed in another way.

    Attributes:
        site: The block.
        scope: The block around it.
        buffer: The buffer.
        indices: Where the block accesses it.
        axes: The axes that are in the indices.
        part: The part of the scope that the block is in.
    """

    site: BlockSite
    scope: BlockSite
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    axes: tuple[IterVar, ...]
    part: Stmt

    @property
    def box(self) -> Region:
        """The elements at all points of the axes."""
        ranges = {axis.var: (axis.dom.min, axis.dom.extent) for axis in self.axes if axis.dom is not None}
        return Region(self.indices, ranges)


@primitive
def reindex(edit: Edit, block: BlockLike, buffer: Sequence[str | int]) -> BlockRV:
    """Copy what a block accesses into a buffer whose indices are the block's axes, and let it access that.

    Args:
        edit: The call.
        block: The block; all of its accesses of the buffer are at the same indices.
        buffer: `("read", k)` or `("write", k)`: which of the buffers that it reads or writes.

    Returns:
        The block that copies, `<buffer>_reindex`: right before the part of the scope that the block is in
        for what it reads, right after it for what it writes.

    Raises:
        ScheduleError: the block is gone, or accesses no such buffer; its accesses differ, are made where a condition
            holds, or are at no affine indices of axes that begin at zero; what it reads is written in that part
            of the scope, or the copy would read what the block does not; or what it writes is accessed by
            others there, or not all of the copy is proved to be written, each element at one point.

    before: for i, k: C[i] = C[i] + A[i + k]
    after reindex(C, ("read", 0)):
        for i, k: A_reindex[i, k] = A[i + k]
        for i, k: C[i] = C[i] + A_reindex[i, k]
    """
    site = edit.block(block)
    kind, number = (*buffer, None, None)[:2]
    if kind not in ("read", "write") or not isinstance(number, int) or len(buffer) != 2:
        edit.refuse(site, f"reindex: {buffer!r} is no buffer of a block", help='give ("read", 0) or ("write", 0)')
    chosen = (read_buffer if kind == "read" else written_buffer)(edit, site, number)
    target = _target(edit, site, chosen)
    copy = Buffer(
        f"{chosen.name}_reindex",
        tuple(axis.dom.extent for axis in target.axes if axis.dom is not None),
        chosen.dtype,
        scope=chosen.scope(),
    )
    work = _Renaming(target, copy).block(site.block)
    work = with_recomputed_regions(work)
    part = replaced(target.part, {}, {site.block: work})
    if kind == "read":
        _require_readable(edit, target)
    else:
        _require_written(edit, target, part, copy)
    nest, copier = _copier(edit, target, copy, kind == "read")
    body = _with_part(target, seq(*((nest, part) if kind == "read" else (part, nest))))
    scope = replace(target.scope.block, body=body, alloc_buffers=(*target.scope.block.alloc_buffers, copy))
    new_scope = replace(target.scope.stmt, block=with_recomputed_regions(scope))
    require_shared(edit, site, accesses_of(new_scope), copy, copy.scope())
    edit.replace(site.function, {target.scope.stmt: new_scope})
    return edit.block_rv(site.function, copier)


def _target(edit: Edit, site: BlockSite, buffer: Buffer) -> _Target:
    scope = scope_of(edit, site)
    known_accesses(edit, scope)
    name, block = site.block.name_hint, site.block
    items = [item for root in (block.init, block.body) if root is not None for item in post_order(root)]
    accesses = [i for i in items if isinstance(i, BufferLoad | BufferStore) and i.buffer.data is buffer.data]
    used = [item.indices for item in accesses]
    one_name = all(item.buffer is buffer and item.predicate is None for item in accesses) and not block.match_buffers
    if not used or not one_name or not all(same_indices(indices, used[0]) for indices in used):
        message = f"reindex: block {name} accesses {buffer.name} at several places, or under another name"
        edit.refuse(site, message, help="all of its accesses must be at the same indices")
    if any(isinstance(item, PrimExpr) and _may_skip(item, buffer) for item in items):
        message = f"reindex: block {name} reads {buffer.name} only where a condition holds"
        edit.refuse(site, message, help="the copy would read elements that are not there")
    inside = {var for index in used[0] for var in variables(index)}
    axes = tuple(axis for axis in block.iter_vars if axis.var in inside)
    if inside - {axis.var for axis in axes} or not axes:
        listed = ", ".join(map(shown, used[0]))
        edit.refuse(site, f"reindex: the indices [{listed}] of {buffer.name} are not of axes of block {name} alone")
    if not all(axis.dom is not None and is_zero(axis.dom.min) for axis in axes):
        edit.refuse(site, f"reindex: axes of block {name} do not begin at zero")
    line = (*site.above, site.stmt)
    part = next((part for part in parts_of(scope.block.body) if any(part is item for item in line)), None)
    if part is None:
        message = f"reindex: block {name} is in the init of block {scope.block.name_hint}"
        edit.refuse(site, message, help="what computes initial values stays in the init")
    return _Target(site, scope, buffer, used[0], axes, part)


def _may_skip(expr: PrimExpr, buffer: Buffer) -> bool:
    """Whether an expression computes an operand that reads a buffer only where another one has some value."""
    if isinstance(expr, And | Or):
        rest: Sequence[PrimExpr] = (expr.b,)
    elif is_if_then_else(expr):
        rest = expr.args[1:]
    else:
        return False
    return any(isinstance(i, BufferLoad) and i.buffer.data is buffer.data for e in rest for i in post_order(e))


def _own(target: _Target, access: Access) -> bool:
    return any(item is target.site.stmt for item in access.above)


def _require_readable(edit: Edit, target: _Target) -> None:
    """The copy reads what the block reads, which nothing in the part writes."""
    name, buffer = target.site.block.name_hint, target.buffer
    used = accesses_of(target.part, (*target.scope.above, target.scope.stmt)).of(buffer.data)
    if any(item.is_write for item in used):
        message = f"reindex: {buffer.name} is written in the part of the scope that block {name} is in"
        edit.refuse(target.site, message, help="the copy would not see what is written there")
    context = context_of([*target.scope.above, target.scope.stmt])
    reads = [item for item in used if _own(target, item) and item.exact and None not in item.indices]
    if not any(covers(region_of(read), target.box, context) for read in reads):
        message = (
            f"reindex: it is not proved that block {name} reads all elements of {buffer.name} that would be copied"
        )
        edit.refuse(target.site, message, help="the block must run at all points of its axes")


def _require_written(edit: Edit, target: _Target, part: Stmt, copy: Buffer) -> None:
    """The block writes all of the copy, each element of the buffer at one point, and nobody else accesses it."""
    name, buffer, site = target.site.block.name_hint, target.buffer, target.site
    context = context_of([*target.scope.above, target.scope.stmt])
    require_complete(edit, site, site.loops, context)
    around = (*target.scope.above, target.scope.stmt)
    if any(not _own(target, item) for item in accesses_of(target.part, around).of(buffer.data)):
        message = f"reindex: {buffer.name} is accessed by others in the part of the scope that block {name} is in"
        edit.refuse(site, message, help="they would not see what is written to the copy")
    writes = [item for item in accesses_of(part, around).of(copy.data) if item.is_write]
    if not any(writes_all(write, whole(copy), assumption=context) for write in writes):
        message = (
            f"reindex: it is not proved that block {name} writes all elements of {buffer.name} that are copied back"
        )
        edit.refuse(site, message, help="the block must run at all points of its axes")


class _Renaming(StmtMutator):
    """Accesses of the copy in the place of those of the buffer."""

    def __init__(self, target: _Target, copy: Buffer) -> None:
        self.target, self.copy = target, copy
        self.at = tuple(axis.var for axis in target.axes)

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """An expression with loads replaced."""

        def change(item: PrimExpr) -> PrimExpr | None:
            mine = isinstance(item, BufferLoad) and item.buffer is self.target.buffer
            return BufferLoad(self.copy, self.at) if mine else None

        return rewrite_expr(expr, change)

    def visit_store(self, stmt: BufferStore) -> Stmt:
        """A store."""
        store = super().visit_store(stmt)
        if isinstance(store, BufferStore) and store.buffer is self.target.buffer:
            return updated(store, buffer=self.copy, indices=self.at)
        return store


def _copier(edit: Edit, target: _Target, copy: Buffer, is_read: bool) -> tuple[Stmt, Block]:
    """Loops around a block that copies at all points of the axes, and the block."""
    axes = [IterVar(axis.dom, Var(f"v{k}", axis.var.dtype), "data_par") for k, axis in enumerate(target.axes)]
    values: Mapping[Var, PrimExpr] = {old.var: new.var for old, new in zip(target.axes, axes, strict=True)}
    at = tuple(axis.var for axis in axes)
    place = tuple(with_values(index, values) for index in target.indices)
    if is_read:
        store = BufferStore(copy, BufferLoad(target.buffer, place), at)
    else:
        store = BufferStore(target.buffer, BufferLoad(copy, at), place)
    name = edit.free_block_name(target.site.function, copy.name)
    block = Block(tuple(axes), (), (), name, store)
    reads, writes = block_access(block)
    block = replace(block, reads=reads, writes=writes)
    loops = [Var(f"ax{k}", axis.var.dtype) for k, axis in enumerate(axes)]
    stmt: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, axis in reversed(list(zip(loops, axes, strict=True))):
        dom = axis.dom
        assert isinstance(dom, Range)
        stmt = For(var, dom.min, dom.extent, "serial", stmt)
    return stmt, block


def _with_part(target: _Target, new_part: Stmt) -> Stmt:
    return seq(*(new_part if part is target.part else part for part in parts_of(target.scope.block.body)))
