"""When first values of a reduction are stored where it has no terms, which a schedule must not change."""

from __future__ import annotations

from itertools import takewhile

from eutectic.ir.prim_expr import GT, compare
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import block_key
from eutectic.tir.schedule.index_rewrite import analyzer_for
from eutectic.tir.schedule.state import BlockSite, ScheduleState
from eutectic.tir.stmt import For, SeqStmt
from eutectic.tir.transform.conditions import variables
from eutectic.tir.transform.lower_init_block import loop_after_init


def loop_of_first_values(site: BlockSite) -> For | None:
    """The loop before which the first values are stored; None when they are stored with the first term."""
    around = takewhile(lambda item: isinstance(item, For | SeqStmt), reversed(site.above))
    chain = [item for item in around if isinstance(item, For | SeqStmt)]
    return loop_after_init(site.stmt, chain[::-1])


def has_terms(site: BlockSite) -> bool:
    """Whether each loop of a reduction is proved to have an iteration."""
    analyzer = analyzer_for(site)
    reduced = {
        var
        for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True)
        if axis.iter_type == "comm_reduce"
        for var in variables(value)
    }
    loops = [loop for loop in site.loops if loop.loop_var in reduced]
    return all(analyzer.can_prove(compare(GT, loop.extent, 0)) for loop in loops)


def require_first_values(edit: Edit, before: ScheduleState) -> None:
    """Refuse a step after which a reduction without terms would not store its first values any more.

    Args:
        edit: The call, when it is done.
        before: The program before it.
    """
    for name in before.functions():
        old, new = before.function(name), edit.state.function(name)
        if old is new:
            continue
        stored = {
            block_key(site.block)
            for site in before.index(name).blocks
            if site.block.init is not None and loop_of_first_values(site) is not None and not has_terms(site)
        }
        for site in edit.state.index(name).blocks if stored else ():
            lost = block_key(site.block) in stored and site.block.init is not None
            if lost and loop_of_first_values(site) is None and not has_terms(site):
                message = (
                    f"{edit.name}: block {site.block.name_hint} would not store its first values where its reduction "
                    "has no terms"
                )
                edit.refuse(site, message, help="decompose_reduction before, or loops over terms that are known to run")
