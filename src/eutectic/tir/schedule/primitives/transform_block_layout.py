"""transform_block_layout: a block runs through another space of the same points, by an index map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.tir.analysis.accesses import is_affine
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import context_of
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.index_map import IndexMap
from eutectic.tir.index_map_box import MapOnBox
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.nests import require_free_bounds
from eutectic.tir.schedule.legality.permutation_legality import permutation_conflict
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.refusals import refuse_conflict
from eutectic.tir.schedule.rewriting.layout_rewrite import index_map_argument, with_axes
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.state import BlockSite, LoopSite
from eutectic.tir.statement_mutator import is_zero, with_values
from eutectic.tir.stmt import For, Stmt


@dataclass(frozen=True, slots=True)
class _Nest:
    """A block that is all that is in loops which its axes are bound to.

    Attributes:
        site: The block.
        loops: The loops, outermost first.
        bound: The loop of each axis; None for an axis of one point without a loop.
    """

    site: BlockSite
    loops: tuple[For, ...]
    bound: tuple[For | None, ...]


@dataclass(frozen=True, slots=True)
class _Space:
    """The new axes, and the old ones in terms of them.

    Attributes:
        space: The map on the extents of the old axes.
        back: Its inverse.
        kinds: Type of each new axis.
    """

    space: MapOnBox
    back: IndexMap
    kinds: tuple[str, ...]


@primitive
def transform_block_layout(edit: Edit, block: BlockLike, index_map: IndexMap | Callable[..., Any]) -> None:
    """Replace the axes of a block, and the loops that they are bound to, by those that an index map gives.

    The points of the block stay the same; the order in which they run becomes that of the new axes. Where the order of
    two of them matters it is kept, so that sums of floats keep the order of their terms.

    Args:
        edit: The call.
        block: A block that is all that is in its loops, with each axis bound to one of them.
        index_map: A function from the axes to the new ones, bijective on their extents, such as
            `lambda i, j: (j // 16, i, j % 16)`.

    Raises:
        ScheduleError: the block is gone; its axes are not bound to loops of their own around nothing else, from zero
            on, which are serial and without annotations; the map has another number of indices, or operations that a
            trace cannot keep; it is not proved to be bijective, or no inverse of it is found; a new axis would be
            spatial and reduced, or is neither; initial values would be stored at another point; or two accesses of an
            element would change their order, or cannot be shown not to.

    before: for i, j in T.grid(30, 64): B_global[j // 16, i, j % 16] = B[i, j]
    after transform_block_layout(block, lambda i, j: (j // 16, i, j % 16)):
            for ax0, i, ax2 in T.grid(4, 30, 16): B_global[ax0, i, ax2] = B[i, ax0 * 16 + ax2]
    """
    site = edit.block(block)
    rank = len(site.block.iter_vars)
    kept = index_map_argument(edit, site, index_map, rank, f"block {site.block.name_hint}")
    edit.resolved["index_map"] = kept
    nest = _nest(edit, site)
    new_axes = _space(edit, nest, kept)
    _require_order(edit, nest, new_axes)
    stmt, fresh = _rebuilt(nest, new_axes)
    edit.replace(site.function, {nest.loops[0] if nest.loops else site.stmt: stmt})
    edit.follow(site.function, site.block, fresh)


# ---- what is legal


def _nest(edit: Edit, site: BlockSite) -> _Nest:
    block, name = site.block, site.block.name_hint
    if not site.above:
        edit.refuse(site, f"{edit.name}: the root of a function has no axes", help="choose a block inside")
    around = {loop.loop_var: loop for loop in site.loops}
    bound: list[For | None] = []
    for axis, value in zip(block.iter_vars, site.stmt.iter_values, strict=True):
        loop = around.pop(value, None) if isinstance(value, Var) else None
        one = axis.dom is not None and axis.dom.is_point and is_zero(axis.dom.min) and is_zero(value)
        if loop is None and not one:
            message = (
                f"{edit.name}: axis {axis.var.name} of block {name} is bound to {shown(value)}, no loop of its own"
            )
            edit.refuse(site, message, help="do it before the loops are split or fused")
        bound.append(loop)
        if loop is not None and not (axis.dom is not None and _same_range(site, loop, axis.dom)):
            message = f"{edit.name}: axis {axis.var.name} of block {name} and loop {loop.loop_var.name} do not both run"
            edit.refuse(site, f"{message} from zero on over the same values", help="only whole axes can be mapped")
    used = {loop for loop in bound if loop is not None}
    chosen = [loop for loop in site.loops if loop in used]
    places = [_place(edit, site, loop) for loop in chosen]
    for outer, inner in pairwise([*chosen, site.stmt]):
        if not isinstance(outer, For) or outer.body is not inner:
            message = f"{edit.name}: block {name} is not all that is in the loops of its axes"
            edit.refuse([site, *places], message, help="nothing else, and no other loop, may stand in these loops")
    for place in places:
        edit.require_plain(place)
    require_free_bounds(edit, places)
    return _Nest(site, tuple(chosen), tuple(bound))


def _place(edit: Edit, site: BlockSite, loop: For) -> LoopSite:
    return edit.state.index(site.function).loops[loop.loop_var]


def _same_range(site: BlockSite, loop: For, dom: Range) -> bool:
    if not (is_zero(loop.min) and is_zero(dom.min) and loop.loop_var.dtype == dom.extent.dtype):
        return False
    return is_affine(dom.extent) and analyzer_for(site).can_prove_equal(loop.extent, dom.extent)


def _space(edit: Edit, nest: _Nest, kept: IndexMap) -> _Space:
    site = nest.site
    block, name = site.block, site.block.name_hint
    extents = [axis.dom.extent for axis in block.iter_vars if axis.dom is not None]
    listed = ", ".join(map(shown, extents))
    if len({size.dtype for size in extents}) > 1:
        edit.refuse(site, f"{edit.name}: the axes of block {name} have different dtypes")
    depth = _depth(nest)
    space = kept.on(extents, context_of(site.above[:depth]))
    said = f"{kept.as_python()} on [{listed}], the axes of block {name},"
    if not space.is_bijective:
        message = f"{edit.name}: {said} is not proved to be bijective"
        edit.refuse(site, message, help="each point must become one of a box, and each point of the box must be one")
    try:
        back = kept.proved_inverse(space)
    except ValueError as error:
        edit.refuse(site, f"{edit.name}: {error}")
    kinds = tuple(_kind(edit, nest, space, number) for number in range(len(space.outputs)))
    _require_kinds(edit, nest, back, kinds)
    if block.init is not None:
        _require_first(edit, nest, space, kinds)
    return _Space(space, back, kinds)


def _kind(edit: Edit, nest: _Nest, space: MapOnBox, number: int) -> str:
    """The type of a new axis: that of the old ones that it is made of."""
    inside = variables(space.outputs[number])
    pairs_ = zip(space.inputs, nest.site.block.iter_vars, strict=True)
    every = [axis for var, axis in pairs_ if var in inside]
    used = [axis for axis in every if not (axis.dom is not None and axis.dom.is_point)] or every[:1]
    kinds = {axis.iter_type for axis in used}
    if len(kinds) > 1 or not kinds <= {"data_par", "comm_reduce"}:
        said = ", ".join(f"{axis.var.name} ({axis.iter_type})" for axis in used)
        message = f"{edit.name}: axis {number} of the map is made of {said} of block {nest.site.block.name_hint}"
        edit.refuse(nest.site, message, help="a new axis must be made of spatial axes alone, or of reduced ones alone")
    return next(iter(kinds), "data_par")


def _require_kinds(edit: Edit, nest: _Nest, back: IndexMap, kinds: Sequence[str]) -> None:
    """Old axes are made of new ones of their type."""
    kind_of = dict(zip(back.initial_indices, kinds, strict=True))
    for axis, value in zip(nest.site.block.iter_vars, back.final_indices, strict=True):
        if any(kind_of[var] != axis.iter_type for var in variables(value) if var in kind_of):
            message = f"{edit.name}: axis {axis.var.name} of block {nest.site.block.name_hint} would be {shown(value)}"
            edit.refuse(nest.site, f"{message}, which is of spatial and of reduced axes")


def _require_first(edit: Edit, nest: _Nest, space: MapOnBox, kinds: Sequence[str]) -> None:
    """The first point of the reduction stays the first: initial values are stored there."""
    axes = zip(space.inputs, nest.site.block.iter_vars, strict=True)
    first = {var: IntImm(var.dtype, 0) for var, axis in axes if axis.iter_type == "comm_reduce"}
    for output, kind in zip(space.outputs, kinds, strict=True):
        if kind == "comm_reduce" and not is_zero(Analyzer().simplify(with_values(output, first))):
            message = f"{edit.name}: block {nest.site.block.name_hint} would begin its reduction at another point"
            edit.refuse(nest.site, message, help="a map of reduced axes must map their first point to zero")


def _require_order(edit: Edit, nest: _Nest, new_axes: _Space) -> None:
    """Two accesses whose order matters come one after the other as before."""
    if not nest.loops:
        return
    values: dict[Var, PrimExpr] = {}
    for var, loop in zip(new_axes.space.inputs, nest.bound, strict=True):
        values[var] = IntImm(var.dtype, 0) if loop is None else loop.loop_var
    order = [with_values(output, values) for output in new_axes.space.outputs]
    conflict = permutation_conflict(nest.loops, order, nest.site.above[: _depth(nest)])
    if conflict is not None:
        what = f"{edit.name}: the points of block {nest.site.block.name_hint} cannot run in this order"
        help = "a map must keep the order in which an element is accessed; sums of floats are not reassociated"
        refuse_conflict(edit, [nest.site], conflict, what, help=help)


def _depth(nest: _Nest) -> int:
    """How many statements are around the nest."""
    above = nest.site.above
    return next((k for k, item in enumerate(above) if nest.loops and item is nest.loops[0]), len(above))


# ---- the new block


def _rebuilt(nest: _Nest, new_axes: _Space) -> tuple[Stmt, Block]:
    site, block = nest.site, nest.site.block
    names = _names(nest, new_axes)
    extents = new_axes.space.extents or ()
    dtypes = [size.dtype for size in extents]
    axes = [
        IterVar(Range(min=IntImm(dtype, 0), extent=size), Var(name[1], dtype), kind)
        for name, dtype, size, kind in zip(names, dtypes, extents, new_axes.kinds, strict=True)
    ]
    loop_vars = [Var(name[0], dtype) for name, dtype in zip(names, dtypes, strict=True)]
    known = analyzer_for(site)
    for axis, var in zip(axes, loop_vars, strict=True):
        assert axis.dom is not None
        known.bind(axis.var, axis.dom)
        known.bind(var, axis.dom)
    inside = _values(new_axes, [axis.var for axis in axes], known)
    values = {axis.var: value for axis, value in zip(block.iter_vars, inside, strict=True)}
    body = with_axes(replace(block, iter_vars=()), values, known)
    fresh = with_recomputed_regions(replace(body, iter_vars=tuple(axes)))
    outside = _values(new_axes, loop_vars, known)
    there = {loop.loop_var: value for loop, value in zip(nest.bound, outside, strict=True) if loop is not None}
    stmt: Stmt = BlockRealize(tuple(loop_vars), with_values(site.stmt.predicate, there), fresh)
    for var, axis in reversed(list(zip(loop_vars, axes, strict=True))):
        assert axis.dom is not None
        stmt = For(var, axis.dom.min, axis.dom.extent, "serial", stmt)
    return stmt, fresh


def _values(new_axes: _Space, variables_: Sequence[Var], known: Analyzer) -> list[PrimExpr]:
    """The old axes in terms of new variables."""
    values: dict[Var, PrimExpr] = dict(zip(new_axes.back.initial_indices, variables_, strict=True))
    return [known.simplify(with_values(item, values)) for item in new_axes.back.final_indices]


def _names(nest: _Nest, new_axes: _Space) -> list[tuple[str, str]]:
    """Names of the new loops and axes: those of the old ones that they are, else of their own."""
    names: list[tuple[str, str]] = []
    own = [(f"ax{k}", f"v_ax{k}") for k in range(len(new_axes.space.outputs))]
    for number, output in enumerate(new_axes.space.outputs):
        place = next((k for k, var in enumerate(new_axes.space.inputs) if var is output), None)
        loop = None if place is None else nest.bound[place]
        if place is None or loop is None:
            names.append(own[number])
        else:
            names.append((loop.loop_var.name, nest.site.block.iter_vars[place].var.name))
    return names if len(set(names)) == len({name for name, _ in names}) == len(names) else own
