"""A block around what is under a loop: axes and conditions divided in an outer and an inner part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.arith.sets import Region, is_empty
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import GT, LE, LT, PrimExpr, Var, add, compare, logical_and, logical_not
from eutectic.ir.visit import rewrite
from eutectic.support.errors import WellFormedError
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import TRUE, conjunction, context_of
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import BlockRV
from eutectic.tir.schedule.legality.nest_under import Nest
from eutectic.tir.schedule.legality.reduction_init import has_terms, loop_of_reduction_init
from eutectic.tir.schedule.legality.scope import scope_of
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.rewriting.axis_division import AxisParts, divided
from eutectic.tir.schedule.rewriting.blockize_init import outer_init
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import rewrite_expr, with_values
from eutectic.tir.stmt import Stmt


def blockize_nest(edit: Edit, nest: Nest, keep_unit_axes: bool = True) -> BlockRV:
    """Put a block around a block and the loops of a nest; what `blockize` does to a single one.

    Args:
        edit: The call.
        nest: The block and its loops.
        keep_unit_axes: Whether blocks have axes of one value too.

    Returns:
        The new block.

    Raises:
        ScheduleError: see `blockize`.
    """
    scope_of(edit, nest.site)
    realize, inner = _outer_block(edit, nest, keep_unit_axes)
    edit.replace(nest.site.function, {nest.top: realize})
    edit.follow(nest.site.function, nest.site.block, inner)
    outer = edit.block_rv(nest.site.function, realize.block)
    _require_reduction_init(edit, nest, edit.block(outer))
    return outer


@dataclass(frozen=True, slots=True)
class _Predicates:
    """The condition of a block taken apart.

    Attributes:
        outer: What does not depend on inner loops.
        inner: What does not depend on outer ones.
    """

    outer: PrimExpr
    inner: PrimExpr


def _outer_block(edit: Edit, nest: Nest, keep_unit_axes: bool) -> tuple[BlockRealize, Block]:
    """The new block, and the one inside."""
    site, block = nest.site, nest.site.block
    _require_own_bounds(edit, nest)
    predicates = _predicates(edit, nest)
    parts = divided(edit, nest, predicates.outer)
    _require_stable(edit, nest, predicates.outer, parts)
    _require_points(edit, nest, predicates, parts)
    kept = [part if keep_unit_axes else part.without_unit_axes() for part in parts]
    init = outer_init(edit, nest, predicates.outer, parts, kept)
    values = {axis.var: part.index for axis, part in zip(block.iter_vars, kept, strict=True)}
    inner = _substituted(replace(block, iter_vars=(), init=None), values)
    inner = replace(inner, iter_vars=tuple(p.inner for p in kept if p.inner is not None))
    inner = _with_regions(edit, nest, inner, block.init is not None)
    realize = replace(
        site.stmt,
        iter_values=tuple(p.inner_value for p in kept if p.inner is not None),
        predicate=predicates.inner,
        block=inner,
    )
    body: Stmt = realize
    for loop in reversed(nest.loops):
        body = replace(loop, body=body)
    name = edit.free_block_name(site.function, f"{block.name_hint}_o")
    outer = Block(tuple(p.outer for p in kept if p.outer is not None), (), (), name, body, init)
    reads, writes = block_access(outer)
    outer = replace(outer, reads=reads, writes=writes)
    bindings = tuple(p.outer_value for p in kept if p.outer is not None)
    return BlockRealize(bindings, predicates.outer, outer), inner


def _substituted(block: Block, values: dict[Var, PrimExpr]) -> Block:
    substituted = rewrite(block, lambda item: values.get(item) if isinstance(item, Var) else None)
    assert isinstance(substituted, Block)
    return substituted


def _with_regions(edit: Edit, nest: Nest, inner: Block, had_init: bool) -> Block:
    """The block with the regions of its body; those that were stated, where it uses pointers."""
    try:
        reads, writes = block_access(inner)
    except WellFormedError:
        if had_init:
            message = f"{edit.name}: block {inner.name_hint} has initial values and uses memory through a pointer"
            edit.refuse(nest.site, message, help="decompose_reduction first")
        return inner
    return replace(inner, reads=reads, writes=writes)


# ---- what is legal


def _require_own_bounds(edit: Edit, nest: Nest) -> None:
    """The loops inside, and the domains of the axes, do not depend on loops outside."""
    for loop in nest.loops:
        for var in (variables(loop.min) | variables(loop.extent)) & nest.outside:
            sites = [nest.loop_site(edit, loop), nest.loop_site(edit, var)]
            message = f"{edit.name}: the bounds of loop {loop.loop_var.name} depend on loop {var.name} outside"
            edit.refuse(sites, message, help="a block has loops of its own; choose the outer loop")
    for axis in nest.site.block.iter_vars:
        ends = set() if axis.dom is None else variables(axis.dom.min) | variables(axis.dom.extent)
        if axis.dom is None or ends & (nest.outside | nest.inside):
            message = f"{edit.name}: the domain of axis {axis.var.name} depends on a loop"
            edit.refuse(nest.site, message, help="only axes with a range of their own can be divided")


def _predicates(edit: Edit, nest: Nest) -> _Predicates:
    outer: PrimExpr = TRUE
    inner: PrimExpr = TRUE
    for part in conjuncts(nest.site.stmt.predicate):
        used = variables(part)
        if not used & nest.inside:
            outer = logical_and(outer, part)
        elif not used & nest.outside:
            inner = logical_and(inner, part)
        else:
            outer = logical_and(outer, _outer_part(edit, nest, part))
    return _Predicates(outer, inner)


def _outer_part(edit: Edit, nest: Nest, part: PrimExpr) -> PrimExpr:
    """A condition that holds in all iterations of the inner loops or in none, in terms of the outer ones."""
    second: dict[Var, PrimExpr] = {
        loop.loop_var: Var(f"{loop.loop_var.name}_2", loop.loop_var.dtype) for loop in nest.loops
    }

    def at(expr: PrimExpr) -> PrimExpr:
        return with_values(expr, second)

    iters = {loop.loop_var: (loop.min, loop.extent) for loop in nest.loops}
    iters |= {second[v]: (at(low), at(extent)) for v, (low, extent) in list(iters.items())}  # type: ignore[misc]
    differs = Region((), iters, logical_and(part, logical_not(at(part))))
    if not is_empty(differs, context_of(nest.above)):
        message = (
            f"{edit.name}: the condition {shown(part)} of block {nest.site.block.name_hint} is on inner and outer "
            "loops, and could hold in some of the inner iterations only"
        )
        edit.refuse(nest.site, message, help="split the loops by factors that divide their extents")
    first = nest.first_iteration
    condition = with_values(part, first)
    return analyzer_for(nest.top_site).simplify(condition)


def _require_stable(edit: Edit, nest: Nest, condition: PrimExpr, parts: Sequence[AxisParts]) -> None:
    """What is computed once, outside, has the same value in all iterations inside."""
    moved = [condition, *(part.outer_value for part in parts if part.outer is not None)]
    loads = [item for expr in moved if reads_memory(expr) for item in _loads(expr)]
    if not loads:
        return
    accesses = accesses_of(nest.top)
    for item in loads:
        if accesses.opaque or item.buffer.data in accesses.written:
            name = nest.site.block.name_hint
            message = f"{edit.name}: {item.buffer.name}, which decides where block {name} runs, could be written by it"
            edit.refuse(nest.site, message, help="only what does not change inside can be computed outside")


def _require_reduction_init(edit: Edit, nest: Nest, outer: BlockSite) -> None:
    """Where a reduction has no terms, its initial values are stored as before."""
    site = nest.site
    if site.block.init is None or has_terms(site):
        return
    before, after = loop_of_reduction_init(site), loop_of_reduction_init(outer)
    if after is None and before is not None:
        after = next((loop for loop in nest.loops if loop is before), None)  # the new block stores them unconditionally
    if before is None or after is None:
        message = (
            f"{edit.name}: it is not proved that the reduction of block {site.block.name_hint} has terms, and without "
            "any its initial values would be stored where they were not, or not where they were"
        )
        edit.refuse(outer, message, help="decompose_reduction first")


def _loads(expr: PrimExpr) -> list[BufferLoad]:
    loads: list[BufferLoad] = []

    def look(item: PrimExpr) -> None:
        if isinstance(item, BufferLoad):
            loads.append(item)

    rewrite_expr(expr, look)
    return loads


def _require_points(edit: Edit, nest: Nest, predicates: _Predicates, parts: Sequence[AxisParts]) -> None:
    """The new block runs at points of its axes only, also where nothing ran inside."""
    analyzer = analyzer_for(nest.top_site)
    never_idle = all(analyzer.can_prove(compare(GT, loop.extent, 0)) for loop in nest.loops)
    if never_idle and not conjuncts(predicates.inner):
        return  # each time it runs the block inside runs too, at a point of its axes
    with analyzer.constraint_scope(conjunction([context_of(nest.above), predicates.outer])):
        for part in parts:
            if part.outer is None or part.outer.dom is None:
                continue
            low, end = part.outer.dom.min, add(part.outer.dom.min, part.outer.dom.extent)
            value = part.outer_value
            if not (analyzer.can_prove(compare(LE, low, value)) and analyzer.can_prove(compare(LT, value, end))):
                message = (
                    f"{edit.name}: axis {part.outer.var.name} of the new block could be bound outside of its range, "
                    "where nothing ran before"
                )
                edit.refuse(nest.site, message, help="choose a loop that runs for each point of the loops outside")
