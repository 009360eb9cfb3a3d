"""The initial values of a reduction that gets a block around it: stored by that block, in loops of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.arith.sets import Region, covers
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import EQ, GT, PrimExpr, Var, compare, logical_and
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import TRUE, conjunction, context_of, late, writes_once
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.nest_under import Nest
from eutectic.tir.schedule.rewriting.axis_division import AxisParts
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, Stmt


def outer_init(
    edit: Edit, nest: Nest, condition: PrimExpr, parts: Sequence[AxisParts], kept: Sequence[AxisParts]
) -> Stmt | None:
    """The statement that stores all initial values of one iteration of the loops outside, before anything else in it.

    Args:
        edit: The call.
        nest: The block and its loops.
        condition: What holds of the loops outside where the block runs.
        parts: Its axes in two parts.
        kept: The same, without the axes that the new blocks are not to have.

    Returns:
        The statement in terms of the outer axes; None when the block has no init.

    Raises:
        ScheduleError: it is not proved that it stores the same values, each before it is needed.
    """
    block = nest.site.block
    if block.init is None:
        return None
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == "comm_reduce"}
    if any(axis.iter_type not in ("data_par", "comm_reduce") for axis in block.iter_vars):
        message = f"{edit.name}: block {block.name_hint} has axes that are neither spatial nor reduced"
        edit.refuse(nest.site, message)
    if any(isinstance(item, Var) and item in reduced for item in post_order(block.init)):
        edit.refuse(nest.site, f"{edit.name}: the init of block {block.name_hint} uses an axis of the reduction")
    if block.alloc_buffers or block.match_buffers:
        message = f"{edit.name}: block {block.name_hint} has initial values and buffers of its own"
        edit.refuse(nest.site, message, help="decompose_reduction first")
    loops = _kept_loops(edit, nest, parts)
    names: dict[Var, PrimExpr] = {
        loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops
    }
    accesses = accesses_of(nest.top)
    _require_independent(edit, nest, accesses, block.init)
    _require_same_points(edit, nest, condition, parts, loops, names)
    _require_order(edit, nest, accesses, block.init)
    return _nest(edit, nest, block.init, kept, loops, names)


def _spatial(nest: Nest, parts: Sequence[AxisParts]) -> list[tuple[IterVar, PrimExpr, AxisParts]]:
    stmt = nest.site.stmt
    rows = zip(stmt.block.iter_vars, stmt.iter_values, parts, strict=True)
    return [row for row in rows if row[0].iter_type == "data_par"]


def _kept_loops(edit: Edit, nest: Nest, parts: Sequence[AxisParts]) -> list[For]:
    """The loops of the nest that spatial axes use."""
    used = {var for _, _, part in _spatial(nest, parts) for var in variables(part.inner_value)}
    kept = [loop for loop in nest.loops if loop.loop_var in used]
    dropped = nest.inside - used
    for loop in kept:
        if (variables(loop.min) | variables(loop.extent)) & dropped:
            message = f"{edit.name}: the bounds of loop {loop.loop_var.name} depend on the reduction"
            edit.refuse([nest.site, nest.loop_site(edit, loop)], message)
        if loop.kind not in ("serial", "unrolled", "vectorized", "parallel"):
            message = (
                f"{edit.name}: loop {loop.loop_var.name} is bound to threads, which would store initial values too"
            )
            edit.refuse([nest.site, nest.loop_site(edit, loop)], message, help="bind it later")
    return kept


def _condition(nest: Nest, loops: Sequence[For], names: Mapping[Var, PrimExpr]) -> PrimExpr:
    """What of the block's condition is on the kept loops alone."""
    kept = {loop.loop_var for loop in loops}
    out: PrimExpr = TRUE
    for part in conjuncts(nest.site.stmt.predicate):
        used = variables(part)
        if used & nest.inside and not used & nest.outside and used & nest.inside <= kept:
            out = logical_and(out, with_values(part, names))
    return out


def _require_independent(edit: Edit, nest: Nest, accesses: Accesses, init: Stmt) -> None:
    """What the init reads is not written in the nest, and all that happens there is known."""
    name = nest.site.block.name_hint
    if accesses.opaque:
        edit.refuse(nest.site, f"{edit.name}: something in block {name}, which has initial values, has effects")
    read = accesses_of(init).read
    for item in accesses.items:
        if item.is_write and item.buffer.data in read:
            message = f"{edit.name}: {item.buffer.name}, which the init of block {name} reads, is written by the block"
            edit.refuse(nest.site, message, help="decompose_reduction first")


def _require_same_points(
    edit: Edit,
    nest: Nest,
    condition: PrimExpr,
    parts: Sequence[AxisParts],
    loops: Sequence[For],
    names: Mapping[Var, PrimExpr],
) -> None:
    """The init runs at the same points of the spatial axes as before, in one iteration of the loops outside."""
    stmt = nest.site.stmt
    rows = list(zip(stmt.block.iter_vars, stmt.iter_values, parts, strict=True))
    at_first: list[PrimExpr] = []
    in_first_tile: list[PrimExpr] = []
    for axis, value, part in rows:
        if axis.iter_type == "comm_reduce":
            assert axis.dom is not None and part.outer is not None and part.outer.dom is not None
            at_first.append(compare(EQ, value, axis.dom.min))
            in_first_tile.append(compare(EQ, part.outer_value, part.outer.dom.min))
    spatial = _spatial(nest, parts)
    before = Region(
        tuple(value for _, value, _ in spatial),
        {loop.loop_var: (loop.min, loop.extent) for loop in nest.loops},
        conjunction([stmt.predicate, *at_first]),
    )
    iters = {names[v.loop_var]: (with_values(v.min, names), with_values(v.extent, names)) for v in loops}
    after = Region(
        tuple(with_values(value, names) for _, value, _ in spatial),
        {var: ends for var, ends in iters.items() if isinstance(var, Var)},
        conjunction([condition, _condition(nest, loops, names), *in_first_tile]),
    )
    kept = {loop.loop_var for loop in loops}
    terms = [compare(GT, loop.extent, 0) for loop in nest.loops if loop.loop_var not in kept]
    context = conjunction([context_of(nest.above), *terms])
    if not (covers(before, after, context) and covers(after, before, context)):
        message = (
            f"{edit.name}: it is not proved that block {nest.site.block.name_hint} begins its reduction at the same "
            "points as the block around it would"
        )
        edit.refuse(nest.site, message, help="decompose_reduction first, or choose a loop around the whole reduction")


def _require_order(edit: Edit, nest: Nest, accesses: Accesses, init: Stmt) -> None:
    """Each initial value is stored once, before anything touches it."""
    name, context = nest.site.block.name_hint, context_of(nest.above)

    def is_first(item: Access) -> bool:
        return item.stmt is init or any(x is init for x in item.above)

    for write in (item for item in accesses.items if item.is_write and is_first(item)):
        if None in write.indices or not writes_once(write, assumption=context):
            message = (
                f"{edit.name}: it is not proved that block {name} stores each initial value of {write.buffer.name} once"
            )
            edit.refuse(nest.site, message, help="loops that repeat the reduction must stay outside")
        for other in accesses.of(write.buffer.data):
            if not is_first(other) and late(write, other, nest.loops, nest.above):
                message = (
                    f"{edit.name}: an element of {write.buffer.name} could be accessed in block {name} before its "
                    "initial value is stored"
                )
                edit.refuse(nest.site, message, help="decompose_reduction first")


def _nest(
    edit: Edit,
    nest: Nest,
    init: Stmt,
    parts: Sequence[AxisParts],
    loops: Sequence[For],
    names: Mapping[Var, PrimExpr],
) -> Stmt:
    values: dict[Var, PrimExpr] = {}
    axes: list[IterVar] = []
    for axis, _, part in _spatial(nest, parts):
        values[axis.var] = part.index
        if part.inner is not None:
            fresh = replace(part.inner, var=Var(f"{part.inner.var.name}_init", axis.var.dtype))
            axes.append(fresh)
            values[axis.var] = with_values(part.index, {part.inner.var: fresh.var})
    body = rewrite(init, lambda item: values.get(item) if isinstance(item, Var) else None)
    assert isinstance(body, Stmt)
    name = edit.free_block_name(nest.site.function, f"{nest.site.block.name_hint}_init")
    block = Block(tuple(axes), (), (), name, body)
    reads, writes = block_access(block)
    block = replace(block, reads=reads, writes=writes)
    bindings = tuple(with_values(p.inner_value, names) for _, _, p in _spatial(nest, parts) if p.inner is not None)
    stmt: Stmt = BlockRealize(bindings, _condition(nest, loops, names), block)
    for loop in reversed(loops):
        var = names[loop.loop_var]
        assert isinstance(var, Var)
        stmt = replace(
            loop, loop_var=var, min=with_values(loop.min, names), extent=with_values(loop.extent, names), body=stmt
        )
    return stmt
