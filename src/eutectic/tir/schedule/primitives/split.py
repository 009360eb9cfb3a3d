"""split: one loop becomes several nested ones. The model file of a schedule primitive."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eutectic.ir.dtype import integer_limits
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import LT, IntImm, PrimExpr, Var, add, compare, floordiv, mul
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import ExprRV, LoopRV
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.index_rewrite import guarded, reindexed
from eutectic.tir.schedule.state import LoopSite
from eutectic.tir.stmt import For


@primitive
def split(
    edit: Edit,
    loop: LoopRV,
    factors: Sequence[int | ExprRV | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRV]:
    """Replace a loop by nested loops that run through the same values in the same order.

    Args:
        edit: The call.
        loop: A serial loop without annotations.
        factors: Extents of the new loops, outermost first. At most one may be None: it
            becomes the smallest extent that covers the loop. When the product is more than
            the extent, blocks get a predicate.
        preserve_unit_iters: Keep loops of one iteration in the axes of blocks, where they are 0.
        disable_predication: Refuse rather than make predicates.

    Returns:
        One handle per factor, outermost first.

    Raises:
        ScheduleError: the loop is gone, or not plain; a factor is not positive; two are None; the
            product is, or could be, less than the extent; it does not fit the dtype of the loop; or a predicate is
            needed and not wanted.

    before: for i in range(10): f(i)
    after split(i, [None, 4]):
        for i_0, i_1 in T.grid(3, 4):
            where(i_0 * 4 + i_1 < 10): f(i_0 * 4 + i_1)
    """
    site = edit.loop(loop)
    extents = _legal_extents(edit, site, [None if f is None else edit.number(f) for f in factors])
    old = site.stmt
    dtype = old.loop_var.dtype
    fresh = [Var(f"{old.loop_var.name}_{k}", dtype) for k in range(len(extents))]
    loops = [For(v, IntImm(dtype, 0), extent, "serial", old.body) for v, extent in zip(fresh, extents, strict=True)]
    index: PrimExpr = IntImm(dtype, 0)
    for v, extent in zip(fresh, extents, strict=True):
        index = add(mul(index, extent), v)
    total = _product(extents, dtype)
    exact = analyzer_for(site).can_prove_equal(total, old.extent)
    if not exact and disable_predication:
        message = f"split: {_said(extents)} do not divide the extent {shown(old.extent)} of loop {old.loop_var.name}"
        edit.refuse(site, message, help="give factors that divide it, or allow predicates")
    condition: PrimExpr = (
        IntImm("bool", 1) if exact else compare(LT, analyzer_for(site, *loops).simplify(index), old.extent)
    )
    inside = reindexed(old.body, {old.loop_var: add(old.min, index)}, site, loops, preserve_unit_iters)
    body = guarded(inside, condition, fresh)
    for new_loop in reversed(loops):
        body = replace(new_loop, body=body, span=old.span)
    edit.replace(site.function, {old: body})
    return [edit.loop_rv(site.function, new_loop) for new_loop in loops]


def _legal_extents(edit: Edit, site: LoopSite, factors: Sequence[int | None]) -> list[PrimExpr]:
    loop = edit.require_plain(site)
    numbers = [f for f in factors if f is not None]
    name, dtype, cover = loop.loop_var.name, loop.loop_var.dtype, prod(numbers)
    if not factors or any(f <= 0 for f in numbers):
        edit.refuse(
            site, f"split: factors {list(factors)} are not all positive", help="give at least one, all positive"
        )
    if len(factors) - len(numbers) > 1:
        edit.refuse(site, f"split: two of the factors {list(factors)} are None", help="leave out at most one")
    extent = loop.static_extent
    if extent is not None and extent + cover > integer_limits(dtype)[1]:
        edit.refuse(
            site, f"split: {cover} iterations per step over {extent} do not fit {dtype}", help="use smaller factors"
        )
    if len(numbers) < len(factors):
        analyzer = analyzer_for(site)
        covering = analyzer.simplify(floordiv(add(loop.extent, cover - 1), cover))
        if extent == 0:
            covering = IntImm(dtype, 0)
        return [covering if f is None else IntImm(dtype, f) for f in factors]
    if extent is None and not analyzer_for(site).can_prove_greater_equal(IntImm(dtype, cover), loop.extent):
        message = f"split: factors {numbers} are not proved to cover the extent {shown(loop.extent)} of loop {name}"
        edit.refuse(site, message, help="make one of them None")
    if extent is not None and cover < extent:
        message = f"split: factors {numbers} cover {cover} of the {extent} iterations of loop {name}"
        edit.refuse(site, message, help="raise a factor, or make one of them None")
    return [IntImm(dtype, f) for f in numbers]


def _product(extents: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    total: PrimExpr = IntImm(dtype, 1)
    for extent in extents:
        total = mul(total, extent)
    return total


def _said(extents: Sequence[PrimExpr]) -> str:
    return "factors [" + ", ".join(shown(extent) for extent in extents) + "]"
