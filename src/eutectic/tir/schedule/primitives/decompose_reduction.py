"""decompose_reduction: the initial values of a reduction are stored by a block of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.arith.sets import Region, covers
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import GT, IntImm, PrimExpr, Var, compare, logical_and
from eutectic.ir.visit import post_order
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import conjunction, context_of, late, region_of, writes_once
from eutectic.tir.analysis.init_placement import touched
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, LoopRV
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.state import BlockSite, LoopSite, walk
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from eutectic.tir.substitute import substitute


@primitive
def decompose_reduction(edit: Edit, block: BlockLike, loop: LoopRV) -> BlockRV:
    """Store the initial values of a reduction by a block before a loop, and keep the rest as the update.

    Where the reduction has no terms the initial values are stored all the same, as they are when the program
    is lowered.

    Args:
        edit: The call.
        block: A reduction block with an init; it becomes `<name>_update`.
        loop: A loop around it; no loop outside of it may run over the reduction.

    Returns:
        The new block, `<name>_init`; handles of `block` are the update's.

    Raises:
        ScheduleError: the block or loop is gone; the block has no init, or axes that are neither spatial nor
            reduced; the loop is not around it, or inside a loop of the reduction; there is more than
            loops between them; or it is not proved that each initial value is stored once, before every
            update, and not needed or written by anything else in the loop.

    before: for i, k: [first k: C[i] = 0]; C[i] = C[i] + A[i, k]
    after decompose_reduction(block, k):
        for i: C[i] = 0; for k: C[i] = C[i] + A[i, k]
    """
    site, around = edit.block(block), edit.loop(loop)
    init = _legal(edit, site, around)
    inside = _inside(edit, site, around)
    first, loops, names = _reduction_init(edit, site, inside, init)
    accesses = accesses_of(around.stmt, around.above)
    _require_independent(edit, site, around, accesses, init)
    _require_same_elements(edit, site, around, inside, accesses, init, names, first.predicate)
    update = replace(site.block, name_hint=f"{site.block.name_hint}_update", init=None)
    reads, writes = block_access(update)
    update = replace(update, reads=reads, writes=writes)
    nest: Stmt = first
    for item in reversed(loops):
        nest = replace(item, body=nest)
    edit.replace(around.function, {}, {site.block: update})
    again = edit.state.index(around.function).loops[around.stmt.loop_var].stmt
    edit.replace(around.function, {again: seq(nest, again)})
    return edit.block_rv(around.function, first.block)


def _legal(edit: Edit, site: BlockSite, around: LoopSite) -> Stmt:
    block = site.block
    if block.init is None:
        message = f"decompose_reduction: block {block.name_hint} has no init"
        edit.refuse(site, message, help="choose a reduction that is not decomposed yet")
    if any(axis.iter_type not in ("data_par", "comm_reduce") or axis.dom is None for axis in block.iter_vars):
        message = f"decompose_reduction: block {block.name_hint} has axes that are neither spatial nor reduced"
        edit.refuse(site, message)
    if not any(item is around.stmt for item in site.loops):
        message = f"decompose_reduction: loop {around.stmt.loop_var.name} is not around block {block.name_hint}"
        edit.refuse([site, around], message, help="choose one of get_loops(block)")
    if not all(isinstance(stmt, BufferStore | SeqStmt | For | BlockRealize) for stmt, _ in walk(block.init)):
        edit.refuse(site, f"decompose_reduction: the init of block {block.name_hint} is more than stores")
    own = touched(block.init) & {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}
    if own:
        names = ", ".join(sorted(buffer.name for buffer in own))
        message = (
            f"decompose_reduction: the init of block {block.name_hint} uses {names}, which exists in this block only"
        )
        edit.refuse(site, message, help="let the init use buffers from outside of the block")
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == "comm_reduce"}
    if any(isinstance(item, Var) and item in reduced for item in post_order(block.init)):
        edit.refuse(site, f"decompose_reduction: the init of block {block.name_hint} uses an axis of the reduction")
    return block.init


def _inside(edit: Edit, site: BlockSite, around: LoopSite) -> list[For]:
    """The loops from the given one inwards."""
    depth = len(around.above)
    between = site.above[depth:]
    if not all(isinstance(item, For | SeqStmt) for item in between):
        message = "decompose_reduction: there is a condition or a binding between the loop and the block"
        edit.refuse([site, around], message, help="only loops may be there")
    loops = [item for item in between if isinstance(item, For)]
    outside = {loop.loop_var for loop in site.loops} - {loop.loop_var for loop in loops}
    for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True):
        if axis.iter_type == "comm_reduce" and variables(value) & outside:
            names = ", ".join(sorted(var.name for var in variables(value) & outside))
            message = (
                f"decompose_reduction: loop {names} outside of {around.stmt.loop_var.name} runs over the reduction"
            )
            edit.refuse([site, around], message, help="choose the outermost loop of the reduction, or one around it")
    return loops


def _reduction_init(
    edit: Edit, site: BlockSite, inside: Sequence[For], init: Stmt
) -> tuple[BlockRealize, list[For], dict[Var, Var]]:
    """The block that stores the initial values, the loops around it, and their variables by those they copy."""
    pairs = list(zip(site.block.iter_vars, site.stmt.iter_values, strict=True))
    spatial = [(axis, value) for axis, value in pairs if axis.iter_type == "data_par"]
    used = {var for _, value in spatial for var in variables(value)}
    kept = [loop for loop in inside if loop.loop_var in used]
    dropped = {loop.loop_var for loop in inside} - used
    for loop in kept:
        if (variables(loop.min) | variables(loop.extent)) & dropped:
            message = f"decompose_reduction: the bounds of loop {loop.loop_var.name} depend on the reduction"
            edit.refuse(site, message)
    names = {loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in kept}

    def renamed(expr: PrimExpr) -> PrimExpr:
        return with_values(expr, names)

    loops = [
        replace(
            loop,
            loop_var=names[loop.loop_var],
            min=renamed(loop.min),
            extent=renamed(loop.extent),
            # the tag makes an axis of its own, as each loop has to have
            thread_binding=None if loop.thread_binding is None else loop.thread_binding.thread_tag,
        )
        for loop in kept
    ]
    predicate: PrimExpr = IntImm("bool", 1)
    for part in conjuncts(site.stmt.predicate):
        if not variables(part) & dropped:
            predicate = logical_and(predicate, renamed(part))
    axes = [IterVar(axis.dom, Var(axis.var.name, axis.var.dtype), axis.iter_type) for axis, _ in spatial]
    inner = {old.var: new.var for (old, _), new in zip(spatial, axes, strict=True)}
    body = substitute(init, dict(inner), rename=True)
    block = Block(tuple(axes), (), (), f"{site.block.name_hint}_init", body)
    reads, writes = block_access(block)
    block = replace(block, reads=reads, writes=writes)
    return BlockRealize(tuple(renamed(value) for _, value in spatial), predicate, block), loops, names


def _require_independent(edit: Edit, site: BlockSite, around: LoopSite, accesses: Accesses, init: Stmt) -> None:
    """What the init writes is not touched by others in the loop, and what it reads is not written there."""
    name = site.block.name_hint
    if accesses.opaque:
        edit.refuse([site, around], f"decompose_reduction: something in loop {around.stmt.loop_var.name} has effects")
    own = accesses_of(init, (*site.above, site.stmt))
    for item in accesses.items:
        mine = any(x is site.stmt for x in item.above)
        if not mine and item.buffer.data in own.written:
            message = f"decompose_reduction: {item.buffer.name} is accessed in the loop outside of block {name}"
            edit.refuse([site, around], message, help="choose a loop with nothing else of this buffer in it")
        if item.is_write and item.buffer.data in own.read:
            message = (
                f"decompose_reduction: {item.buffer.name}, which the init of block {name} reads, is written in the loop"
            )
            edit.refuse([site, around], message)
    if own.written & accesses.private:
        edit.refuse([site, around], f"decompose_reduction: block {name} writes a buffer that is allocated in the loop")


def _require_same_elements(
    edit: Edit,
    site: BlockSite,
    around: LoopSite,
    inside: Sequence[For],
    accesses: Accesses,
    init: Stmt,
    names: Mapping[Var, Var],
    predicate: PrimExpr,
) -> None:
    """The new block stores what the init does, each element once and before its updates."""
    stores = {id(stmt) for stmt, _ in walk(init) if isinstance(stmt, BufferStore)}
    context = conjunction(
        [context_of(around.above), *(compare(GT, loop.extent, 0) for loop in inside if loop.loop_var not in names)]
    )
    for write in (item for item in accesses.items if item.is_write and id(item.stmt) in stores):
        name = write.buffer.name
        if not write.exact or None in write.indices or not writes_once(write, assumption=context):
            message = f"decompose_reduction: it is not proved that the init stores each element of {name} once"
            edit.refuse([site, around], message, help="loops that only repeat the reduction must stay outside")
        for update in accesses.of(write.buffer.data):
            if id(update.stmt) not in stores and late(write, update, inside, around.above):
                message = (
                    f"decompose_reduction: an element of {name} could be updated before its initial value is stored"
                )
                edit.refuse([site, around], message)
        new, old = _new_region(write, names, inside, predicate), region_of(write)
        if not (covers(old, new, context) and covers(new, old, context)):
            message = (
                f"decompose_reduction: it is not proved that the same elements of {name} are stored before the loop"
            )
            edit.refuse([site, around], message, help="choose a loop around the whole reduction")


def _new_region(write: Access, names: Mapping[Var, Var], inside: Sequence[For], predicate: PrimExpr) -> Region:
    def renamed(expr: PrimExpr) -> PrimExpr:
        return with_values(expr, names)

    iters = {
        names[loop.loop_var]: (renamed(loop.min), renamed(loop.extent)) for loop in inside if loop.loop_var in names
    }
    outer = {loop.loop_var for loop in inside}  # others are loops of the init itself, as blockize makes them
    iters |= {var: (renamed(low), renamed(size)) for var, (low, size) in write.iters.items() if var not in outer}
    return Region(tuple(renamed(index) for index in write.indices if index is not None), iters, predicate)
