"""Loops directly inside each other, as fuse and reorder need them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eutectic.tir.analysis.conditions import variables
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import LoopSite
from eutectic.tir.stmt import For


def require_nest(edit: Edit, sites: Sequence[LoopSite]) -> list[LoopSite]:
    """Loops that are each all that is in the one before, with bounds that do not depend on each other.

    Raises:
        ScheduleError: they are not so.
    """
    if not sites:
        edit.refuse(None, f"{edit.name}: no loop is given")
    for outer, inner in pairwise(sites):
        if outer.stmt.body is not inner.stmt:
            message = f"{edit.name}: loop {_name(inner)} is not all that is in loop {_name(outer)}"
            edit.refuse([outer, inner], message, help="give the loops outermost first, without leaving one out")
    require_free_bounds(edit, sites)
    return list(sites)


def require_free_bounds(edit: Edit, sites: Sequence[LoopSite]) -> None:
    """Refuse loops whose bounds depend on each other."""
    names = {site.stmt.loop_var: site for site in sites}
    for site in sites:
        for var in variables(site.stmt.min) | variables(site.stmt.extent):
            if var in names:
                message = f"{edit.name}: the bounds of loop {_name(site)} depend on loop {var.name}"
                edit.refuse([names[var], site], message, help="only loops over a box can be exchanged or joined")


def chain(edit: Edit, sites: Sequence[LoopSite]) -> list[LoopSite]:
    """The loops from the outermost to the innermost of some, which must be all that is in the one before.

    Raises:
        ScheduleError: they are of different functions, or there is something else between them.
    """
    ordered = sorted(sites, key=lambda site: len(site.above))
    outermost, innermost = ordered[0], ordered[-1]
    for site in ordered[:-1]:
        if site.function != innermost.function or not any(item is site.stmt for item in innermost.above):
            message = f"{edit.name}: loops {_name(site)} and {_name(innermost)} are not inside each other"
            edit.refuse([site, innermost], message, help="give loops of one nest")
    between = innermost.above[len(outermost.above) :]
    for number, item in enumerate(between):
        below = between[number + 1] if number + 1 < len(between) else innermost.stmt
        if not isinstance(item, For) or item.body is not below:
            message = f"{edit.name}: there is something else between loops {_name(outermost)} and {_name(innermost)}"
            edit.refuse([outermost, innermost], message, help="exchange loops that are directly inside each other only")
    index = edit.state.index(outermost.function)
    return [*(index.loops[item.loop_var] for item in between if isinstance(item, For)), innermost]


def _name(site: LoopSite) -> str:
    return site.stmt.loop_var.name
