"""A reduction and the block that is applied to its result: what must hold of the two so that they can be one nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eutectic.arith.sets import Region, covers, is_injective
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, cast, logical_and
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Access, Accesses, is_opaque, same_indices
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import context_of, region_of, writes_once
from eutectic.tir.analysis.program_order import between, fixed_loops, shared
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.buffers import has_other_name
from eutectic.tir.schedule.legality.elementwise import axes_from_indices, elementwise
from eutectic.tir.schedule.legality.scope import known_accesses, require_closed, scope_of
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A reduction with what is applied to its result; both run over the same elements, each once.

    Attributes:
        reduction: The block `R[v] = R[v] + term`.
        block: The block `D[w] = g(R[w], ...)`, which may run as soon as an element of `R` is complete.
        scope: The block around both.
        init: First store of the reduction.
        update: Its other store.
        store: The store of the epilogue.
        values: The axes of the epilogue in terms of those of the reduction.
        accesses: All accesses in the scope.
        place: Where the epilogue can stand.
    """

    reduction: BlockSite
    block: BlockSite
    scope: BlockSite
    init: BufferStore
    update: BufferStore
    store: BufferStore
    values: Mapping[Var, PrimExpr]
    accesses: Accesses
    place: Place

    @property
    def result(self) -> Buffer:
        """The buffer of the sum."""
        return self.update.buffer

    @property
    def is_local(self) -> bool:
        """Whether the sum lives in the scope only, under one name."""
        alone = not has_other_name(self.scope.stmt, self.result)
        return alone and self.result in self.scope.block.alloc_buffers

    @property
    def is_alone(self) -> bool:
        """Whether only the epilogue reads the sum."""
        own = (self.update, self.store)
        return all(any(item.stmt is x for x in own) for item in self.accesses.of(self.result.data) if not item.is_write)

    def in_reduction(self, expr: PrimExpr) -> PrimExpr:
        """An expression of the epilogue at the axes of the reduction."""
        return with_values(expr, self.values)


@dataclass(frozen=True, slots=True)
class Place:
    """The innermost place where all terms of an element have been added.

    Attributes:
        after: The outermost loop of the reduction, or its block when there is none.
        loops: Loops over the elements inside of `after`, copied.
        values: The spatial axes of the reduction in terms of `loops` and what is around `after`.
        predicate: The points that the reduction runs at.
        elements: The elements that are reached by all of these loops.
    """

    after: Stmt
    loops: tuple[For, ...]
    values: Mapping[Var, PrimExpr]
    predicate: PrimExpr
    elements: Region


def epilogue_of(edit: Edit, reduction: BlockSite, block: BlockSite) -> Epilogue:
    """A block as the epilogue of a reduction.

    Raises:
        ScheduleError: it is none.
    """
    init, update = reduction_of(edit, reduction)
    scope = scope_of(edit, block)
    if reduction.function != block.function or reduction.scope is not block.scope:
        message = f"{edit.name}: {_names(reduction, block)} are not in the same block"
        edit.refuse([reduction, block], message, help="choose two blocks directly inside one block")
    store = elementwise(edit, block)
    load = _result_of(edit, reduction, block, store, update.buffer)
    axes = axes_from_indices(edit, block, load.indices, f"that {load.buffer.name} is read at in")
    values: dict[Var, PrimExpr] = {
        axis.var: axis.dom.min for axis in block.block.iter_vars if axis.var not in axes and axis.dom is not None
    }
    for var, index in zip(axes, update.indices, strict=True):
        if var is not None:
            values[var] = index if index.dtype == var.dtype else cast(var.dtype, index)
    accesses = known_accesses(edit, scope)
    around = _shared(edit, reduction, block, accesses, update, store)
    require_closed(edit, block, around)
    place = _place(edit, reduction, update, around)
    _require_same_elements(edit, reduction, block, scope, accesses, store, place, around)
    _require_available(edit, reduction, block, accesses, update, store)
    return Epilogue(reduction, block, scope, init, update, store, values, accesses, place)


def reduction_of(edit: Edit, site: BlockSite) -> tuple[BufferStore, BufferStore]:
    """The first store and the update of a reduction block.

    Raises:
        ScheduleError: it is none.
    """
    block = site.block
    kinds = {axis.iter_type for axis in block.iter_vars}
    why = None
    if block.init is None:
        why = "it has no init"
    elif kinds - {"data_par", "comm_reduce"} or "comm_reduce" not in kinds:
        why = "it has no reduced axis, or axes that are neither spatial nor reduced"
    elif not isinstance(block.init, BufferStore) or not isinstance(block.body, BufferStore):
        why = "its init or its body is more than one store"
    elif block.alloc_buffers or block.match_buffers:
        why = "it has buffers of its own"
    else:
        why = _not_reducing(site, block.init, block.body)
    if why is not None or not isinstance(block.init, BufferStore) or not isinstance(block.body, BufferStore):
        message = f"{edit.name}: block {block.name_hint} is not a reduction into one buffer: {why}"
        edit.refuse(site, message, help="choose a block of the form R[i] = R[i] + f(i, k) with an init R[i] = ...")
    return block.init, block.body


def _not_reducing(site: BlockSite, init: BufferStore, update: BufferStore) -> str | None:
    """Why two stores are not the first and the later ones of each element."""
    reduced = {axis.var for axis in site.block.iter_vars if axis.iter_type == "comm_reduce"}
    if init.buffer is not update.buffer or not same_indices(init.indices, update.indices):
        return "its init stores other elements than its body"
    if any(isinstance(item, BufferLoad) for index in update.indices for item in post_order(index)):
        return "its indices come from memory"
    if any(variables(index) & reduced for index in update.indices):
        return "an axis that it reduces is an index of what it stores"
    if init.predicate is not None or update.predicate is not None:
        return "its stores have predicates"
    if any(is_opaque(item) for store in (init, update) for item in _parts(store.value)):
        return "it has effects"
    if any(isinstance(item, Var) and item in reduced for item in _parts(init.value)):
        return "its init uses an axis that it reduces"
    if any(isinstance(x, BufferLoad) and x.buffer.data is update.buffer.data for x in _parts(init.value)):
        return "its init reads what it stores"
    own = [x for x in _parts(update.value) if isinstance(x, BufferLoad) and x.buffer.data is update.buffer.data]
    if not own or any(x.buffer is not update.buffer or not same_indices(x.indices, update.indices) for x in own):
        return "it does not update each element from what it was before"
    return None


def _parts(expr: PrimExpr) -> list[Node]:
    """What an expression consists of, without the buffers."""
    return list(post_order(expr, enter=lambda item: not isinstance(item, Buffer)))


def _names(reduction: BlockSite, block: BlockSite) -> str:
    return f"blocks {reduction.block.name_hint} and {block.block.name_hint}"


def _result_of(edit: Edit, reduction: BlockSite, block: BlockSite, store: BufferStore, result: Buffer) -> BufferLoad:
    """The load of the sum; all loads of it must be of one element."""
    loads = [x for x in post_order(store.value) if isinstance(x, BufferLoad) and x.buffer.data is result.data]
    if not loads:
        message = (
            f"{edit.name}: block {block.block.name_hint} does not read {result.name}, which block "
            f"{reduction.block.name_hint} computes"
        )
        edit.refuse([reduction, block], message, help="choose a block that reads the result of the reduction")
    for load in loads:
        if load.buffer is not result or not same_indices(load.indices, loads[0].indices) or load.predicate is not None:
            message = f"{edit.name}: block {block.block.name_hint} reads several elements of {result.name} at a point"
            edit.refuse(block, message, help="each point of an epilogue may need one element of the sum only")
    return loads[0]


def _shared(
    edit: Edit, reduction: BlockSite, block: BlockSite, accesses: Accesses, update: BufferStore, store: BufferStore
) -> tuple[Stmt, ...]:
    """What is around both blocks; the reduction comes first in it, with all its loops."""
    write, target = _write_of(accesses, update), _write_of(accesses, store)
    around, first, second = shared(write, target)
    if not 0 <= first < second:
        message = f"{edit.name}: block {block.block.name_hint} does not follow block {reduction.block.name_hint}"
        edit.refuse([reduction, block], message, help="the epilogue must come after the reduction, beside its loops")
    for axis, value in zip(reduction.block.iter_vars, reduction.stmt.iter_values, strict=True):
        outside = [item for item in around if isinstance(item, For) and item.loop_var in variables(value)]
        if axis.iter_type == "comm_reduce" and outside:
            message = (
                f"{edit.name}: block {block.block.name_hint} is inside loop {outside[0].loop_var.name} of the "
                "reduction, where the sum is not complete"
            )
            edit.refuse([reduction, block], message, help="the epilogue must come after all loops of the reduction")
    return around


def _write_of(accesses: Accesses, store: BufferStore) -> Access:
    return next(item for item in accesses.items if item.stmt is store and item.is_write)


def _place(edit: Edit, site: BlockSite, update: BufferStore, around: Sequence[Stmt]) -> Place:
    """The place after the outermost loop of a reduction.

    Raises:
        ScheduleError: the loops over elements cannot be told from those over terms, or there is more than loops.
    """
    name = site.block.name_hint
    if not all(isinstance(item, For | SeqStmt) for item in site.within_scope):
        message = f"{edit.name}: block {name} is under a condition or a binding"
        edit.refuse(site, message, help="only loops may be around the reduction")
    pairs = list(zip(site.block.iter_vars, site.stmt.iter_values, strict=True))
    reduced = {v for axis, value in pairs if axis.iter_type == "comm_reduce" for v in variables(value)}
    spatial = {v for axis, value in pairs if axis.iter_type == "data_par" for v in variables(value)}
    loops = list(site.loops)
    for loop in loops:
        if loop.loop_var in reduced and (loop.loop_var in spatial or loop.kind == "thread_binding"):
            what = "runs over elements and terms at once" if loop.loop_var in spatial else "is spread over threads"
            message = f"{edit.name}: loop {loop.loop_var.name} of reduction {name} {what}"
            edit.refuse([site, edit.state.index(site.function).loops[loop.loop_var]], message)
    start = next((k for k, loop in enumerate(loops) if loop.loop_var in reduced), len(loops))
    kept = [loop for loop in loops[start:] if loop.loop_var in spatial]
    dropped = {loop.loop_var for loop in loops[start:]} - spatial
    if any((variables(loop.min) | variables(loop.extent)) & dropped for loop in kept):
        edit.refuse(site, f"{edit.name}: the elements that block {name} stores depend on a loop of the reduction")
    names = {loop.loop_var: Var(f"{loop.loop_var.name}_e", loop.loop_var.dtype) for loop in kept}
    predicate = _spatial_predicate(edit, site, reduced, dropped)
    values = {axis.var: value for axis, value in pairs if axis.iter_type == "data_par"}
    outer = [loop for loop in loops[:start] if not any(item is loop for item in around)]
    elements = Region(
        tuple(with_values(index, values) for index in update.indices),
        {loop.loop_var: (loop.min, loop.extent) for loop in (*outer, *kept)},
        predicate,
    )
    return Place(
        loops[start] if start < len(loops) else site.stmt,
        tuple(_copy(loop, names) for loop in kept),
        {var: with_values(value, names) for var, value in values.items()},
        with_values(predicate, names),
        elements,
    )


def _copy(loop: For, names: Mapping[Var, Var]) -> For:
    tag = None if loop.thread_binding is None else loop.thread_binding.thread_tag  # makes an axis of its own
    low, extent = with_values(loop.min, names), with_values(loop.extent, names)
    return replace(loop, loop_var=names[loop.loop_var], min=low, extent=extent, thread_binding=tag)


def _spatial_predicate(edit: Edit, site: BlockSite, reduced: set[Var], dropped: set[Var]) -> PrimExpr:
    """The part of a predicate that is about elements."""
    out: PrimExpr = IntImm("bool", 1)
    for part in conjuncts(site.stmt.predicate):
        used = variables(part)
        if not used & dropped:
            out = logical_and(out, part)
        elif not used <= reduced:
            message = f"{edit.name}: a predicate of block {site.block.name_hint} is about elements and terms at once"
            edit.refuse(site, message, help="only predicates of split loops may be there")
    return out


def _require_same_elements(
    edit: Edit,
    reduction: BlockSite,
    block: BlockSite,
    scope: BlockSite,
    accesses: Accesses,
    store: BufferStore,
    place: Place,
    around: Sequence[Stmt],
) -> None:
    result = reduction.block.body
    assert isinstance(result, BufferStore)
    name, both = result.buffer.name, [reduction, block]
    target, memory = _write_of(accesses, store), _write_of(accesses, result).buffer
    read = next(item for item in accesses.items if item.stmt is store and item.buffer is memory)
    fixed, context = fixed_loops(around), context_of([*scope.above, *around])
    if not is_injective(place.elements, context):
        message = f"{edit.name}: it is not proved that block {reduction.block.name_hint} completes each element once"
        edit.refuse(both, message, help="loops around the reduction must each choose other elements")
    equal = None not in read.indices and read.exact
    if not (
        equal
        and covers(place.elements, region_of(read, fixed), context)
        and covers(region_of(read, fixed), place.elements, context)
    ):
        if not block.stmt.always_runs:
            message = (
                f"{edit.name}: it is not proved that block {block.block.name_hint}, which has a predicate, runs for "
                f"every element of {name}"
            )
            edit.refuse(both, message, help="an epilogue must be applied to all that the reduction computes")
        message = f"{edit.name}: it is not proved that {_names(reduction, block)} run over the same elements of {name}"
        edit.refuse(both, message, help="each element that is computed must be read, and the other way round")
    if not writes_once(target, fixed, context):
        message = f"{edit.name}: it is not proved that block {block.block.name_hint} stores each element once"
        edit.refuse(both, message, help="the last of several stores might be another one then")


def _require_available(
    edit: Edit, reduction: BlockSite, block: BlockSite, accesses: Accesses, update: BufferStore, store: BufferStore
) -> None:
    """Nothing that the epilogue reads or writes is touched on the way from the reduction to it."""
    names, both = (reduction.block.name_hint, block.block.name_hint), [reduction, block]
    written = _write_of(accesses, update)
    result = written.buffer.data  # of the source, where the buffer is a name for a part of another one
    init = reduction.block.init
    if any(item.is_write and item.stmt is not update and item.stmt is not init for item in accesses.of(result)):
        message = f"{edit.name}: {update.buffer.name} is written by others than block {names[0]}"
        edit.refuse(both, message, help="give each computation a buffer of its own")
    target = _write_of(accesses, store)
    inputs = {item.buffer.data for item in accesses.items if item.stmt is store and not item.is_write} - {result}
    for item in between(accesses, written, target):
        data = item.buffer.data
        if item.stmt is store:
            continue
        if item.is_write and data in inputs:
            message = (
                f"{edit.name}: {item.buffer.name}, which block {names[1]} reads, is written from block {names[0]} on"
            )
            edit.refuse(both, message, help=f"compute {item.buffer.name} before the reduction")
        if data is target.buffer.data:
            message = f"{edit.name}: {item.buffer.name} is accessed before block {names[1]} stores it"
            edit.refuse(both, message, help="it would be stored too early")
