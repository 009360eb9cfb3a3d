"""merge: loops that follow each other become one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eutectic.ir.prim_expr import Var
from eutectic.tir.analysis.dependence import Conflict, displaced
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.nests import require_free_bounds
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.refusals import refuse_conflict
from eutectic.tir.schedule.rewriting.index_rewrite import reindexed
from eutectic.tir.schedule.state import LoopSite, Site
from eutectic.tir.stmt import For, SeqStmt, Stmt, seq


@primitive
def merge(edit: Edit, *loops: LoopRV) -> LoopRV:
    """Replace loops that follow each other by one whose iterations do what one iteration of each did.

    Loops around the given ones, up to where their nests follow each other, are merged too.

    Args:
        edit: The call.
        loops: At least two serial loops without annotations, in the order of the program; their nests follow each
            other directly, are equally deep, and have the same bounds.

    Returns:
        The new loop in the place of the given ones.

    Raises:
        ScheduleError: a loop is gone or not plain; the nests do not follow each other or are not alike; or an
            iteration of a later loop would come before one of an earlier loop that it depends on.

    before: for i in range(4): f(i)
            for j in range(4): g(j)

    after merge(i, j): for i_m in range(4): f(i_m); g(i_m)
    """
    sites = [edit.loop(rv) for rv in loops]
    if len(sites) < 2:
        edit.refuse(sites, "merge: fewer than two loops are given", help="give the loops that follow each other")
    parent = _parent(edit, sites)
    nests = [_nest(edit, site, parent) for site in sites]
    _require_alike(edit, sites, nests)
    for number, later in enumerate(nests):
        for earlier in nests[:number]:
            conflict = displaced([s.stmt for s in earlier], [s.stmt for s in later], earlier[0].above)
            if conflict is not None:
                _refuse(edit, [earlier[-1], later[-1]], conflict)
    fresh = [Var(f"{site.stmt.loop_var.name}_m", site.stmt.loop_var.dtype) for site in nests[0]]
    merged = [For(v, s.stmt.min, s.stmt.extent, "serial", s.stmt.body) for v, s in zip(fresh, nests[0], strict=True)]
    bodies = [
        reindexed(
            nest[-1].stmt.body, {s.stmt.loop_var: v for s, v in zip(nest, fresh, strict=True)}, nests[0][0], merged
        )
        for nest in nests
    ]
    body: Stmt = seq(*bodies)
    for loop in reversed(merged):
        body = For(loop.loop_var, loop.min, loop.extent, "serial", body)
    tops = [nest[0].stmt for nest in nests]
    around = parent.stmt
    assert isinstance(around, SeqStmt)
    rest = [body if part is tops[0] else part for part in around.seq if part is tops[0] or part not in tops]
    edit.replace(parent.function, {around: seq(*rest)})
    return edit.loop_rv(parent.function, merged[-1])


def _parent(edit: Edit, sites: Sequence[LoopSite]) -> Site:
    """The sequence that all nests are parts of, one directly after the other."""
    first = sites[0]
    shared = [
        item
        for item in first.above
        if all(site.function == first.function and any(x is item for x in site.above) for site in sites)
    ]
    if not shared or not isinstance(shared[-1], SeqStmt):
        edit.refuse(sites, "merge: the loops are not in nests that follow each other", help="merge loops side by side")
    parent = first.site_of(shared[-1])
    places = [_place(shared[-1], site) for site in sites]
    if places != list(range(places[0], places[0] + len(places))):
        message = "merge: the nests of the loops do not follow each other directly, in the order given"
        edit.refuse(sites, message, help="give loops between which there is nothing else")
    return parent


def _place(parent: SeqStmt, site: LoopSite) -> int:
    line = [*site.above, site.stmt]
    return next(k for k, part in enumerate(parent.seq) if any(part is item for item in line))


def _nest(edit: Edit, site: LoopSite, parent: Site) -> list[LoopSite]:
    line = [*site.above, site.stmt][len(parent.above) + 1 :]
    index = edit.state.index(site.function)
    for outer, inner in pairwise(line):
        if not isinstance(outer, For) or outer.body is not inner:
            message = f"merge: loop {site.stmt.loop_var.name} is not all that is in its nest"
            edit.refuse(site, message, help="merge loops that are alone in the loops around them")
    nest = [index.loops[item.loop_var] for item in line if isinstance(item, For)]
    for item in nest:
        edit.require_plain(item)
    require_free_bounds(edit, nest)
    return nest


def _require_alike(edit: Edit, sites: Sequence[LoopSite], nests: Sequence[Sequence[LoopSite]]) -> None:
    analyzer = analyzer_for(nests[0][0])
    if len({len(nest) for nest in nests}) != 1:
        edit.refuse(
            sites,
            f"merge: the nests are {', '.join(str(len(n)) for n in nests)} loops deep",
            help="fuse or split first",
        )
    for row in zip(*nests, strict=True):
        first = row[0].stmt
        for other in (site.stmt for site in row[1:]):
            same = first.loop_var.dtype == other.loop_var.dtype and all(
                analyzer.can_prove_equal(a, b) for a, b in ((first.min, other.min), (first.extent, other.extent))
            )
            if not same:
                message = f"merge: loops {first.loop_var.name} and {other.loop_var.name} do not have the same bounds"
                edit.refuse(list(row), message, help="merge loops that run over the same values")


def _refuse(edit: Edit, sites: Sequence[LoopSite], conflict: Conflict | Stmt) -> None:
    names = " and ".join(site.stmt.loop_var.name for site in sites)
    message = f"merge: iterations of {names} would come in another order than they depend on each other"
    refuse_conflict(edit, sites, conflict, message, help="merge loops of which each iteration needs earlier ones only")
