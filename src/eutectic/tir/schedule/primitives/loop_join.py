"""loop_join: loops that follow each other become one, whose iterations are theirs one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import LT, IntImm, PrimExpr, Var, add, compare, sub
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.index_rewrite import reindexed
from eutectic.tir.schedule.state import LoopSite
from eutectic.tir.stmt import For, IfThenElse, SeqStmt, Stmt, seq


@primitive
def loop_join(edit: Edit, *loops: LoopRV) -> LoopRV:
    """Replace loops that follow each other by one loop over all of their iterations, in the same order.

    The opposite of `loop_partition`, with one difference: what was scheduled apart stays apart, in branches of a
    condition on the new loop. So the parts of a loop with a tail can be run at once by one `parallel` loop. Blocks in
    branches cannot be moved any more: join when they are in their places.

    Args:
        edit: The call.
        loops: At least two serial loops without annotations that follow each other directly, in the order of the
            program.

    Returns:
        The new loop.

    Raises:
        ScheduleError: a loop is gone or not plain; fewer than two are given; they are of different dtypes; or something
            else stands between them.

    before: for i in range(8): f(i)
            for j in range(8, 10): g(j)

    after loop_join(i, j):
            for i_j in range(10):
                if i_j < 8: f(i_j)
                else: g(i_j)
    """
    sites = [edit.loop(rv) for rv in loops]
    if len(sites) < 2:
        edit.refuse(sites, "loop_join: fewer than two loops are given", help="give the loops that follow each other")
    for site in sites:
        edit.require_plain(site)
    around = _sequence(edit, sites)
    first = sites[0].stmt
    if len({site.stmt.loop_var.dtype for site in sites}) > 1:
        edit.refuse(sites, "loop_join: the loops have different dtypes", help="join loops of one dtype")
    joined = _joined(sites, Var(f"{first.loop_var.name}_j", first.loop_var.dtype))
    others = {site.stmt for site in sites[1:]}
    rest = [joined if part is first else part for part in around.seq if part not in others]
    edit.replace(sites[0].function, {around: seq(*rest)})
    return edit.loop_rv(sites[0].function, joined)


def _sequence(edit: Edit, sites: Sequence[LoopSite]) -> SeqStmt:
    """The sequence that the loops are parts of, one directly after the other."""
    around = sites[0].above[-1] if sites[0].above else None
    if not isinstance(around, SeqStmt) or not _follow(around, sites):
        names = ", ".join(site.stmt.loop_var.name for site in sites)
        message = f"loop_join: loops {names} do not follow each other directly, in the order given"
        edit.refuse(sites, message, help="give the loops that loop_partition made, or others side by side")
    return around


def _follow(around: SeqStmt, sites: Sequence[LoopSite]) -> bool:
    if not all(site.above and site.above[-1] is around for site in sites):
        return False
    places = [next(k for k, part in enumerate(around.seq) if part is site.stmt) for site in sites]
    return places == list(range(places[0], places[0] + len(places)))


def _joined(sites: Sequence[LoopSite], var: Var) -> For:
    analyzer = analyzer_for(sites[0])
    begin: PrimExpr = IntImm(var.dtype, 0)
    branches: list[tuple[PrimExpr, Stmt]] = []
    for site in sites:
        loop = site.stmt
        part = For(var, begin, loop.extent, "serial", loop.body)
        value = analyzer.simplify(add(sub(var, begin), loop.min))
        end = analyzer.simplify(add(begin, loop.extent))
        branches.append((compare(LT, var, end), reindexed(loop.body, {loop.loop_var: value}, site, [part])))
        begin = end
    body = branches[-1][1]
    for condition, branch in reversed(branches[:-1]):
        body = IfThenElse(condition, branch, body)
    return For(var, IntImm(var.dtype, 0), begin, "serial", body)
