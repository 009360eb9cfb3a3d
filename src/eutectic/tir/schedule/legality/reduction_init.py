"""Which initial values of a reduction are stored, also where it has no terms: no schedule must change it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from eutectic.arith.sets import Region, covers
from eutectic.ir.prim_expr import GT, IntImm, Var, compare
from eutectic.ir.structural import structural_equal
from eutectic.tir.analysis.accesses import Bounds
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import conjunction, context_of, in_bounds
from eutectic.tir.analysis.first_points import FirstPoints, first_points
from eutectic.tir.analysis.init_placement import loop_after_init
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import block_key
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.state import BlockSite, ScheduleState
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt


def loop_of_reduction_init(site: BlockSite) -> For | None:
    """The loop before which the initial values are stored; None when they are stored with the first term."""
    around = takewhile(lambda item: isinstance(item, For | SeqStmt), reversed(site.above))
    chain = [item for item in around if isinstance(item, For | SeqStmt)]
    return loop_after_init(site.stmt, chain[::-1])


def has_terms(site: BlockSite) -> bool:
    """Whether each loop of a reduction is proved to have an iteration."""
    reduced = {
        var
        for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True)
        if axis.iter_type == "comm_reduce"
        for var in variables(value)
    }
    loops = [loop for loop in site.loops if loop.loop_var in reduced and (loop.static_extent or 0) <= 0]
    if not loops:
        return True
    analyzer = analyzer_for(site)
    return all(analyzer.can_prove(compare(GT, loop.extent, 0)) for loop in loops)


def first_points_of(site: BlockSite) -> FirstPoints:
    """Where the init of a block runs."""
    return first_points(site.stmt, site.loops)


def initial_elements(site: BlockSite, within: Mapping[Var, Bounds] | None = None) -> Region:
    """What the init of a block stores, or the points that it runs at.

    Args:
        site: The block.
        within: Bounds of loops in place of their own.
    """
    points, bounds = first_points_of(site), dict(within or {})
    pinned = points.begins
    iters: dict[Var, Bounds] = {}
    for loop in site.loops:
        var = loop.loop_var
        if pinned and var in points.begin:
            iters[var] = (points.begin[var], IntImm(var.dtype, 1))
        else:
            iters[var] = (loop.min, loop.extent)
    pairs = list(zip(site.block.iter_vars, site.stmt.iter_values, strict=True))
    values = {axis.var: value for axis, value in pairs}
    init = site.block.init
    indices = tuple(value for axis, value in pairs if axis.iter_type == "data_par")
    own = {*site.block.alloc_buffers, *(match.buffer for match in site.block.match_buffers)}
    if isinstance(init, BufferStore) and init.buffer not in own:
        indices = tuple(with_values(index, values) for index in init.indices)
    inside = [in_bounds(var, ends) for var, ends in bounds.items()]
    return Region(indices, iters, conjunction([*points.conditions, *points.axes_begin, *inside]))


def require_same_reduction_init(
    edit: Edit, old: BlockSite, new: BlockSite, within: Mapping[Var, Bounds] | None = None
) -> None:
    """Refuse a step after which other initial values would be stored, because a condition is about terms no more.

    Args:
        edit: The call, when it is done.
        old: A block before it.
        new: The block that came of it.
        within: Bounds of loops to which the block was restricted on purpose.

    Raises:
        ScheduleError: it is not proved that the same initial values are stored.
    """
    unchanged = new.stmt.predicate is old.stmt.predicate and all(
        map(structural_equal, old.stmt.iter_values, new.stmt.iter_values)
    )
    if unchanged or (first_points_of(old).terms_hold and first_points_of(new).terms_hold):
        return
    before, after = initial_elements(old, within), initial_elements(new)
    context = context_of([item for item in new.above if item not in new.within_scope])
    if covers(before, after, context) and covers(after, before, context):
        return
    name, mixed = new.block.name_hint, _said(old)
    message = (
        f"{edit.name}: block {name} runs where {mixed}, which leaves out terms and no initial values; it is not proved "
        "that it would store the same initial values"
    )
    help = "decompose_reduction first, or keep loops of the reduction apart from the others"
    edit.refuse(new, message, help=help)


def _said(site: BlockSite) -> str:
    """The conditions on terms of a block in words."""
    points = first_points_of(site)
    return " and ".join(shown(part) for part in points.terms or points.guards)


def require_reduction_init(edit: Edit, before: ScheduleState) -> None:
    """Refuse a step after which a reduction without terms would not store its initial values any more.

    Args:
        edit: The call, when it is done.
        before: The program before it.
    """
    for name in before.functions():
        old, new = before.function(name), edit.state.function(name)
        if old is new:
            continue
        _require_same_guards(edit, before, name)
        stored = {
            block_key(site.block)
            for site in before.index(name).blocks
            if site.block.init is not None and not has_terms(site) and loop_of_reduction_init(site) is not None
        }
        for site in edit.state.index(name).blocks if stored else ():
            lost = block_key(site.block) in stored and site.block.init is not None
            if lost and not has_terms(site) and loop_of_reduction_init(site) is None:
                message = (
                    f"{edit.name}: block {site.block.name_hint} would not store its initial values where its reduction "
                    "has no terms"
                )
                edit.refuse(site, message, help="decompose_reduction before, or loops over terms that are known to run")


def _require_same_guards(edit: Edit, before: ScheduleState, name: str) -> None:
    """As `require_same_reduction_init`, for all blocks of a function that are still there and may have changed."""
    if edit.name == "loop_partition":
        return  # it divides the points of a block, and has looked at each part
    for site in edit.state.index(name).blocks:
        if site.block.init is None or site.stmt.always_runs:
            continue
        old = before.index(name).with_key(block_key(site.block))
        if len(old) == 1 and old[0].block.init is not None:
            require_same_reduction_init(edit, old[0], site)
