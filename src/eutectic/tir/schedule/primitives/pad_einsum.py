"""pad_einsum: the axes of a block are made multiples of numbers, over copies of what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import (
    LT,
    IntImm,
    PrimExpr,
    Var,
    compare,
    logical_and,
)
from eutectic.tir import op
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import accesses_of, same_indices
from eutectic.tir.analysis.dependence import TRUE
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, ExprRV
from eutectic.tir.schedule.legality.einsum_form import Einsum, einsum_of, loads_of, require_in_bounds, require_safe
from eutectic.tir.schedule.legality.identity_elements import IdentityElement, identity_element
from eutectic.tir.schedule.legality.scopes import require_shared
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.state import replaced
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq

_Body: TypeAlias = Callable[[tuple[Var, ...], tuple[PrimExpr, ...]], Stmt]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A larger copy of what is accessed at some indices.

    Attributes:
        buffer: What is copied.
        indices: Where: axes and constants.
        copy: The copy; constants are axes of one element in it.
    """

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    copy: Buffer

    @property
    def places(self) -> tuple[PrimExpr, ...]:
        """The same access in the copy."""
        return tuple(i if isinstance(i, Var) else IntImm(i.dtype, 0) for i in self.indices)


@primitive
def pad_einsum(edit: Edit, block: BlockLike, padding: Sequence[int | ExprRV]) -> None:
    """Raise the extents of the axes of a block to multiples of numbers, with padded copies of what it accesses.

    What a block adds at new points of a reduction makes no difference to any bit of its results:

    * Copies are filled with the identity element: 0 for sums, 1 for products, the smallest number for maxima, the
      largest for minima. The term at a new point is proved to be that: `0 * x` is not when `x` may be infinite or NaN,
      so that each float of a product needs every reduced axis that gets new points.
    * A sum of floats does not change when 0 is added to it, unless it is -0.0; it never is when its initial value is
      a constant other than -0.0, as rounding to nearest gives -0.0 only for the sum of two of it.
    * Adding 0 to integers, multiplying by 1, and the maximum with the smallest number change nothing, NaN included.

    What it computes at new points of spatial axes is not copied back. Nothing that is computed at new points can
    fail, as a division by zero would.

    Args:
        edit: The call.
        block: A block with one store, and loops of their own around it, one per axis; buffers are indexed by axes and
            constants, what is stored by each spatial axis once.
        padding: A number per axis: its extent becomes the next multiple of it.

    Raises:
        ScheduleError: the block is gone, or of another form; there is not one positive number per axis; an extent would
            not fit its dtype; a loop that gets longer is one of threads; the block is not proved to be in bounds
            everywhere; it reads what it stores at other places; a new term is not proved to be the identity; or
            what is computed at new points could fail.

    before: for i, j, k in T.grid(7, 7, 7): C[i, j] += A[i, k] * B[k, j]
    after pad_einsum(block, [4, 4, 4]):
        for i, k in T.grid(8, 8): A_pad[i, k] = T.if_then_else(i < 7 and k < 7, A[i, k], 0)
        for k, j in T.grid(8, 8): B_pad[k, j] = T.if_then_else(k < 7 and j < 7, B[k, j], 0)
        for i, j, k in T.grid(8, 8, 8): C_pad[i, j] += A_pad[i, k] * B_pad[k, j]
        for i, j in T.grid(7, 7): C[i, j] = C_pad[i, j]
    """
    site = edit.block(block)
    einsum = einsum_of(edit, site, [edit.number(number) for number in padding])
    if not einsum.raised:
        return
    loads = loads_of(edit, einsum)
    require_safe(edit, einsum)
    identity = _identity(edit, einsum)
    names: set[str] = set()
    copies = [
        _Copy(load.buffer, load.indices, _larger(einsum, load.buffer, load.indices, names))
        for load in _distinct(load for load in loads if einsum.is_raised(load.indices))
    ]
    store, result = einsum.store, None
    if einsum.is_raised(store.indices):
        result = _Copy(store.buffer, store.indices, _larger(einsum, store.buffer, store.indices, names))
    for access in (*copies, *([] if result is None else [result])):
        require_in_bounds(edit, einsum, access.buffer, access.indices)
    _insert_copies(edit, einsum, copies, result, identity)


# ---- what comes of it


def _identity(edit: Edit, einsum: Einsum) -> IdentityElement | None:
    """What copies are filled with, when a reduction gets new points."""
    block = einsum.site.block
    axes = [a.var for a in block.iter_vars if a.iter_type == "comm_reduce" and a.var in einsum.raised]
    if not axes or not isinstance(block.init, BufferStore):
        return None
    identity = identity_element(einsum.store, block.init.value, axes)
    if isinstance(identity, str):
        message = f"pad_einsum: new terms of the reduction {einsum.name} would change its result: {identity}"
        edit.refuse(einsum.site, message, help="give 1 for the axis, or make what is not padded a factor of its own")
    return identity


def _distinct(loads: Iterable[BufferLoad]) -> list[BufferLoad]:
    out: list[BufferLoad] = []
    for load in loads:
        if not any(load.buffer is other.buffer and same_indices(load.indices, other.indices) for other in out):
            out.append(load)
    return out


def _larger(einsum: Einsum, buffer: Buffer, indices: Sequence[PrimExpr], names: set[str]) -> Buffer:
    """A compact buffer with room for the new points."""
    shape = [einsum.extent(index) if isinstance(index, Var) else IntImm(index.dtype, 1) for index in indices]
    name, number = f"{buffer.name}_pad", 0
    while name in names:
        number += 1
        name = f"{buffer.name}_pad_{number}"
    names.add(name)
    return Buffer(name, tuple(shape), buffer.dtype, scope=buffer.scope())


def _insert_copies(
    edit: Edit, einsum: Einsum, copies: Sequence[_Copy], result: _Copy | None, identity: IdentityElement | None
) -> None:
    site, scope, function = einsum.site, einsum.scope, einsum.site.function
    work = _work(einsum, copies, result)
    before = [_padded(edit, einsum, copy, identity) for copy in copies]
    after = [] if result is None else [_cut(edit, einsum, result)]
    parts = parts_of(scope.block.body)
    line = (*site.above, site.stmt)
    place = next(k for k, part in enumerate(parts) if any(part is item for item in line))
    part = replaced(parts[place], {site.stmt: work})
    part = _Longer({loop.loop_var: einsum.extent(axis) for axis, loop in einsum.loops.items()}).stmt(part)
    body = seq(*parts[:place], *before, part, *after, *parts[place + 1 :])
    fresh = [copy.copy for copy in (*copies, *([] if result is None else [result]))]
    block = replace(scope.block, body=body, alloc_buffers=(*scope.block.alloc_buffers, *fresh))
    new_scope = replace(scope.stmt, block=with_recomputed_regions(block))
    known = accesses_of(new_scope, scope.above)
    for buffer in fresh:
        require_shared(edit, site, known, buffer, buffer.scope())
    edit.replace(function, {scope.stmt: new_scope})


class _Longer(StmtMutator):
    """Loops with other extents."""

    def __init__(self, extents: Mapping[Var, PrimExpr]) -> None:
        self.extents = extents

    def visit_for(self, stmt: For) -> Stmt:
        """A loop."""
        loop = super().visit_for(stmt)
        assert isinstance(loop, For)
        return updated(loop, extent=self.extents.get(stmt.loop_var, loop.extent))


def _work(einsum: Einsum, copies: Sequence[_Copy], result: _Copy | None) -> BlockRealize:
    """The block over more points of its axes, with the copies in the place of what it accesses."""
    block = einsum.site.block
    known = [*copies, *([] if result is None else [result])]

    def change(item: PrimExpr) -> PrimExpr | None:
        if not isinstance(item, BufferLoad):
            return None
        copy = next((c for c in known if c.buffer is item.buffer and same_indices(c.indices, item.indices)), None)
        return None if copy is None else BufferLoad(copy.copy, copy.places)

    def stored(stmt: BufferStore) -> BufferStore:
        store = replace(stmt, value=rewrite_expr(stmt.value, change))
        return store if result is None else replace(store, buffer=result.copy, indices=result.places)

    axes = tuple(
        axis
        if axis.var not in einsum.raised
        else replace(axis, dom=Range(min=IntImm(axis.var.dtype, 0), extent=einsum.raised[axis.var]))
        for axis in block.iter_vars
    )
    init = stored(block.init) if isinstance(block.init, BufferStore) else None
    fresh = replace(block, iter_vars=axes, body=stored(einsum.store), init=init)
    return replace(einsum.site.stmt, block=_with_regions(fresh))


def _padded(edit: Edit, einsum: Einsum, copy: _Copy, identity: IdentityElement | None) -> Stmt:
    """Loops around a block that fills a copy."""
    used = [index for index in copy.indices if isinstance(index, Var)]
    matters = identity is not None and any(index in identity.axes for index in used)
    fill = (identity if identity is not None and matters else IdentityElement("sum", ())).fill(copy.buffer.dtype)

    def value(at: tuple[PrimExpr, ...], source: tuple[PrimExpr, ...]) -> PrimExpr:
        inside = TRUE
        for place, index in zip(at, copy.indices, strict=True):
            if isinstance(index, Var) and index in einsum.raised:
                inside = logical_and(inside, compare(LT, place, einsum.old_extent(index)))
        return op.if_then_else(inside, BufferLoad(copy.buffer, source), fill)

    sizes = [einsum.extent(i) if isinstance(i, Var) else IntImm(i.dtype, 1) for i in copy.indices]
    return _nest(edit, einsum, copy, sizes, lambda at, source: BufferStore(copy.copy, value(at, source), at))


def _cut(edit: Edit, einsum: Einsum, copy: _Copy) -> Stmt:
    """Loops around a block that copies back what the block stored at its old points."""
    sizes = [einsum.old_extent(i) if isinstance(i, Var) else IntImm(i.dtype, 1) for i in copy.indices]
    return _nest(
        edit, einsum, copy, sizes, lambda at, source: BufferStore(copy.buffer, BufferLoad(copy.copy, at), source)
    )


def _nest(edit: Edit, einsum: Einsum, copy: _Copy, sizes: Sequence[PrimExpr], body: _Body) -> Stmt:
    axes = [
        IterVar(Range(min=IntImm(size.dtype, 0), extent=size), Var(f"v{k}", size.dtype), "data_par")
        for k, size in enumerate(sizes)
    ]
    at = tuple(axis.var for axis in axes)
    source = tuple(place if isinstance(index, Var) else index for place, index in zip(at, copy.indices, strict=True))
    name = edit.free_block_name(einsum.site.function, copy.copy.name)
    block = _with_regions(Block(tuple(axes), (), (), name, body(at, source)))
    loops = [Var(f"ax{k}", size.dtype) for k, size in enumerate(sizes)]
    stmt: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, size in reversed(list(zip(loops, sizes, strict=True))):
        stmt = For(var, IntImm(size.dtype, 0), size, "serial", stmt)
    return stmt


def _with_regions(block: Block) -> Block:
    reads, writes = block_access(block)
    return replace(block, reads=reads, writes=writes)
