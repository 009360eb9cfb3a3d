"""reorder: loops of a nest change places."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.node import replace
from eutectic.tir.analysis.dependence import carried, order_conflict
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.nests import chain, require_free_bounds
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.refusals import refuse_conflict
from eutectic.tir.schedule.state import LoopSite
from eutectic.tir.stmt import For, Stmt


@primitive
def reorder(edit: Edit, *ordered_loops: LoopRV) -> None:
    """Let loops of a nest change places, where every element still sees its reads and writes in the same order.

    Loops that are not given stay where they are. Sums of floats keep the order of their terms, so that
    loops of one reduction cannot be exchanged; those of integers can.

    Args:
        edit: The call.
        ordered_loops: Loops of one nest in the wanted order, outermost first.

    Raises:
        ScheduleError: a loop is gone or given twice; there is something else between the loops; bounds depend
            on one another; or two accesses of an element would change their order, or cannot be
            shown not to.

    before: for i, j in T.grid(4, 8): f(i, j)
    after reorder(j, i): for j, i in T.grid(8, 4): f(i, j)
    """
    sites = [edit.loop(rv) for rv in ordered_loops]
    if not sites:
        edit.refuse(None, "reorder: no loop is given")
    if len({site.stmt for site in sites}) != len(sites):
        edit.refuse(sites, "reorder: a loop is given twice")
    nest = chain(edit, sites)
    order = _new_order(nest, sites)
    if all(a is b for a, b in zip(nest, order, strict=True)):
        return
    require_free_bounds(edit, nest)
    loops, wanted = [site.stmt for site in nest], [site.stmt for site in order]
    conflict = order_conflict(loops, wanted, nest[0].above)
    if conflict is not None:
        refuse_conflict(
            edit,
            nest,
            conflict,
            "reorder: the loops cannot change places",
            help="keep the order of the loops that carry the dependence; sums of floats are not reassociated",
        )
    reordered = _rebuilt(wanted, loops[-1].body)
    _check_concurrent(edit, nest, reordered)
    edit.replace(nest[0].function, {loops[0]: reordered})


def _new_order(nest: Sequence[LoopSite], sites: Sequence[LoopSite]) -> list[LoopSite]:
    remaining = iter(sites)
    chosen = {site.stmt for site in sites}
    return [next(remaining) if site.stmt in chosen else site for site in nest]


def _rebuilt(loops: Sequence[For], body: Stmt) -> For:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    assert isinstance(body, For)
    return body


def _check_concurrent(edit: Edit, nest: Sequence[LoopSite], reordered: For) -> None:
    """Loops that run at once were proved free of dependences inside the loops that were around them then."""
    above = nest[0].above
    loop: Stmt = reordered
    for _ in nest:
        assert isinstance(loop, For)
        if loop.kind not in ("serial", "unrolled") and (conflict := carried(loop, above)) is not None:
            what = f"reorder: iterations of the {loop.kind} loop {loop.loop_var.name} would depend on each other"
            refuse_conflict(edit, nest, conflict, what, help=f"reorder before the loop becomes {loop.kind}")
        above, loop = (*above, loop), loop.body
