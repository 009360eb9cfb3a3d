"""Blocks whose buffers are indexed by plain axes, as in Einstein's notation, and whose axes can get more points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eutectic.ir.dtype import integer_limits
from eutectic.ir.prim_expr import (
    IntImm,
    PrimExpr,
    Var,
    add,
    floordiv,
    lanes_of,
    mul,
)
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import is_opaque, same_indices
from eutectic.tir.analysis.init_placement import loop_after_init
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.legality.scope import require_one_name_each, scope_of
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.legality.speculatable import why_not_speculatable
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import is_zero
from eutectic.tir.stmt import BufferStore, For, SeqStmt


@dataclass(frozen=True, slots=True)
class Einsum:
    """A block whose buffers are indexed by plain axes.

    Attributes:
        site: The block.
        scope: The block around it.
        loops: The loop of each axis.
        store: What the block does at a point.
        raised: The new extent of axes that get more points.
    """

    site: BlockSite
    scope: BlockSite
    loops: Mapping[Var, For]
    store: BufferStore
    raised: Mapping[Var, PrimExpr]

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.site.block.name_hint

    def is_raised(self, indices: Sequence[PrimExpr]) -> bool:
        """Whether an access would reach new points."""
        return any(isinstance(index, Var) and index in self.raised for index in indices)

    def old_extent(self, axis: Var) -> PrimExpr:
        """How many points an axis has."""
        return self.loops[axis].extent

    def extent(self, axis: Var) -> PrimExpr:
        """How many points an axis gets."""
        return self.raised.get(axis, self.loops[axis].extent)


def einsum_of(edit: Edit, site: BlockSite, padding: Sequence[int]) -> Einsum:
    """A block as one whose axes get more points.

    Args:
        edit: The call.
        site: The block.
        padding: What the extent of each axis becomes a multiple of.

    Raises:
        ScheduleError: the block is of another form; there is not one positive number per axis, or an extent would not
            fit its dtype; or a loop that gets longer is one of threads.
    """
    block, name, body = site.block, site.block.name_hint, site.block.body
    if len(padding) != len(block.iter_vars) or any(number < 1 for number in padding):
        message = f"pad_einsum: {list(padding)} is not one positive number for each of {len(block.iter_vars)} axes"
        edit.refuse(site, message, help="give 1 for axes that stay as they are")
    reduced = any(axis.iter_type == "comm_reduce" for axis in block.iter_vars)
    why = None
    if any(axis.iter_type not in ("data_par", "comm_reduce") for axis in block.iter_vars):
        why = "it has axes that are neither spatial nor reduced"
    elif not isinstance(body, BufferStore) or not isinstance(block.init, BufferStore | None):
        why = "it is more than one store"
    elif reduced != (block.init is not None):
        why = "it is a reduction without its initial values" if reduced else "it has initial values, but no reduction"
    elif block.alloc_buffers or block.match_buffers:
        why = "it has buffers of its own"
    elif body.predicate is not None or (block.init is not None and block.init.predicate is not None):
        why = "its stores have predicates"
    if why is not None or not isinstance(body, BufferStore):
        message = f"pad_einsum: block {name} is not of the form C[i, j] = f(C[i, j], A[i, k], ...): {why}"
        edit.refuse(site, message, help="pad it before decompose_reduction, blockize and the like")
    loops = _loops(edit, site)
    raised: dict[Var, PrimExpr] = {}
    analyzer = analyzer_for(site)
    for axis, number in zip(block.iter_vars, padding, strict=True):
        loop = loops[axis.var]
        extent = analyzer.simplify(mul(floordiv(add(loop.extent, number - 1), number), number))
        if isinstance(extent, IntImm) and extent.value > integer_limits(extent.dtype)[1]:
            edit.refuse(site, f"pad_einsum: {extent.value} points of axis {axis.var.name} do not fit {extent.dtype}")
        if analyzer.can_prove_equal(extent, loop.extent):
            continue
        if loop.kind == "thread_binding":
            message = f"pad_einsum: loop {loop.loop_var.name} is bound to threads, of which there cannot be more"
            edit.refuse([site, edit.state.index(site.function).loops[loop.loop_var]], message, help="bind it later")
        raised[axis.var] = extent
    return Einsum(site, scope_of(edit, site), loops, body, raised)


def _loops(edit: Edit, site: BlockSite) -> dict[Var, For]:
    """The loop of each axis."""
    block, name, around = site.block, site.block.name_hint, list(site.within_scope)
    if around and isinstance(around[0], SeqStmt):
        around.pop(0)
    loops = [item for item in around if isinstance(item, For)]
    if len(loops) != len(around) or not site.stmt.always_runs:
        message = f"pad_einsum: there is more than loops around block {name}, or it has a predicate"
        edit.refuse(site, message, help="pad it before its loops are split or merged with others")
    by_var = {loop.loop_var: loop for loop in loops}
    analyzer = analyzer_for(site)
    by_axis: dict[Var, For] = {}
    for axis, value in zip(block.iter_vars, site.stmt.iter_values, strict=True):
        loop = by_var.pop(value, None) if isinstance(value, Var) else None
        same = loop is not None and axis.dom is not None
        if loop is None or axis.dom is None or not same or not is_zero(loop.min) or not is_zero(axis.dom.min):
            break
        if not analyzer.can_prove_equal(loop.extent, axis.dom.extent):
            break
        by_axis[axis.var] = loop
    bound = {loop.loop_var for loop in loops}
    free = not any(isinstance(x, Var) and x in bound for loop in loops for x in post_order(loop.extent))
    if by_var or len(by_axis) != len(block.iter_vars) or not free or any(x in bound for x in post_order(block)):
        message = f"pad_einsum: axes of block {name} have not one loop each, from zero on, over the same values"
        edit.refuse(site, message, help="pad it before its loops are split or fused")
    return by_axis


def loads_of(edit: Edit, einsum: Einsum) -> list[BufferLoad]:
    """What the block reads besides its result."""
    site, store, block = einsum.site, einsum.store, einsum.site.block
    require_one_name_each(edit, site)
    stores = [store, *([block.init] if isinstance(block.init, BufferStore) else [])]
    _require_result(edit, einsum, stores)
    loads: list[BufferLoad] = []
    for value in (item.value for item in stores):
        for item in post_order(value, enter=lambda n: not isinstance(n, Buffer)):
            if is_opaque(item):
                edit.refuse(site, f"pad_einsum: the value of block {einsum.name} has effects")
            if not isinstance(item, BufferLoad):
                continue
            if item.buffer.data is store.buffer.data:
                same = item.buffer is store.buffer and same_indices(item.indices, store.indices)
                if not same or value is not store.value or block.init is None:
                    message = f"pad_einsum: block {einsum.name} reads {item.buffer.name}, which it stores, elsewhere"
                    edit.refuse(site, message, help="only a reduction may read what it has stored, at the same place")
                continue
            _require_plain(edit, einsum, item.buffer, item.indices)
            if item.predicate is not None:
                edit.refuse(site, f"pad_einsum: block {einsum.name} reads {item.buffer.name} under a predicate")
            loads.append(item)
    return loads


def _require_result(edit: Edit, einsum: Einsum, stores: Sequence[BufferStore]) -> None:
    """Each point of the spatial axes has an element of its own, and the init stores that element."""
    site, indices = einsum.site, einsum.store.indices
    buffer = einsum.store.buffer
    _require_plain(edit, einsum, buffer, indices)
    used = [index for index in indices if isinstance(index, Var)]
    spatial = [axis for axis in site.block.iter_vars if axis.iter_type == "data_par"]
    missing = [a.var.name for a in spatial if a.var not in used and not (a.dom is not None and a.dom.is_point)]
    raised = [a.var.name for a in spatial if a.var not in used and a.var in einsum.raised]
    if missing or raised or len(set(used)) != len(used) or not set(used) <= {axis.var for axis in spatial}:
        listed = ", ".join(map(shown, indices))
        message = f"pad_einsum: block {einsum.name} stores at [{listed}], not at each of its spatial axes once"
        edit.refuse(site, message, help="each point of the spatial axes must have an element of its own")
    if any(item.buffer is not buffer or not same_indices(item.indices, indices) for item in stores):
        edit.refuse(site, f"pad_einsum: the init of block {einsum.name} stores other elements than its body")


def _require_plain(edit: Edit, einsum: Einsum, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
    for index in indices:
        if not (isinstance(index, IntImm) or (isinstance(index, Var) and index in einsum.loops)):
            message = f"pad_einsum: index `{shown(index)}` of {buffer.name} is neither an axis nor a constant"
            edit.refuse(einsum.site, message, help="reindex makes copies that are indexed by axes")
    if lanes_of(buffer.dtype) > 1:
        edit.refuse(einsum.site, f"pad_einsum: the elements of {buffer.name} are vectors")


def require_in_bounds(edit: Edit, einsum: Einsum, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
    """All elements that are copied exist, also when another axis has no points at all."""
    analyzer = analyzer_for(einsum.site)
    for index, size in zip(indices, buffer.shape, strict=True):
        end = einsum.old_extent(index) if isinstance(index, Var) else add(index, 1)
        begins = isinstance(index, Var) or (isinstance(index, IntImm) and index.value >= 0)
        if not begins or not analyzer.can_prove_greater_equal(size, end):
            message = (
                f"pad_einsum: it is not proved that block {einsum.name} accesses {buffer.name} within its "
                f"{shown(size)} elements along an axis: {shown(end)} are accessed"
            )
            edit.refuse(einsum.site, message, help="what is copied must exist")


def require_safe(edit: Edit, einsum: Einsum) -> None:
    """What is computed at new points cannot fail, and initial values are stored for all elements."""
    block = einsum.site.block
    for stmt in (einsum.store, block.init):
        why = why_not_speculatable(stmt.value) if isinstance(stmt, BufferStore) else None
        if why is not None:
            message = f"pad_einsum: block {einsum.name} cannot compute at points that it has not now: {why}"
            edit.refuse(einsum.site, message, help="only what cannot fail may be computed there")
    empty = [
        axis.var.name
        for axis in block.iter_vars
        if axis.iter_type == "comm_reduce" and not (einsum.loops[axis.var].static_extent or 0) > 0
    ]
    chain = [item for item in einsum.site.within_scope if isinstance(item, For | SeqStmt)]
    if empty and loop_after_init(einsum.site.stmt, chain) is None:
        message = f"pad_einsum: block {einsum.name} stores nothing where axis {empty[0]} has no points"
        edit.refuse(einsum.site, message, help="what is copied back must have been stored")
