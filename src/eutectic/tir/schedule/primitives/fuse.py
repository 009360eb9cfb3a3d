"""fuse: loops directly inside each other become one."""

from __future__ import annotations

from eutectic.ir.dtype import integer_limits
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, floordiv, floormod, mul
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.nests import require_nest
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.index_rewrite import reindexed
from eutectic.tir.stmt import For


@primitive
def fuse(edit: Edit, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """Replace loops that are directly inside each other by one that runs through the same values in the same order.

    Args:
        edit: The call.
        loops: Loops without annotations, outermost first, all of them serial or all of them parallel; each is all
            that is in the one before.
        preserve_unit_iters: Keep loops of one iteration in the axes of blocks, where they are 0.

    Returns:
        The new loop; it is parallel when the loops were, as any two of its iterations differ in one of theirs.

    Raises:
        ScheduleError: a loop is gone, not plain, of another kind than the others, or not directly inside the one
            before; bounds depend on one another; dtypes differ; or the product of the extents does not fit.

    before: for i, j in T.grid(4, 8): f(i, j)
    after fuse(i, j): for i_j_fused in range(32): f(i_j_fused // 8, i_j_fused % 8)
    """
    nest = require_nest(edit, [edit.loop(rv) for rv in loops])
    first = nest[0]
    olds = [site.stmt for site in nest]
    kind = "parallel" if all(loop.kind == "parallel" for loop in olds) else "serial"
    for site in nest:
        edit.require_plain(site, kind)
    dtype = olds[0].loop_var.dtype
    if any(loop.loop_var.dtype != dtype for loop in olds):
        edit.refuse(nest, "fuse: the loops have different dtypes", help="fuse loops of one dtype only")
    total = 1
    for loop in olds:
        total *= loop.static_extent or 1
    if total > integer_limits(dtype)[1]:
        edit.refuse(nest, f"fuse: {total} iterations do not fit {dtype}", help="fuse fewer loops")
    name = "_".join(loop.loop_var.name for loop in olds) + "_fused"
    fresh = Var(name, dtype)
    extent: PrimExpr = IntImm(dtype, 1)
    for loop in olds:
        extent = mul(extent, loop.extent)
    several = [loop for loop in olds if loop.static_extent != 1] or olds[:1]
    values: dict[Var, PrimExpr] = {loop.loop_var: loop.min for loop in olds}
    rest: PrimExpr = fresh
    for loop in reversed(several):
        digit = rest if loop is several[0] else floormod(rest, loop.extent)
        values[loop.loop_var] = add(loop.min, digit)
        rest = floordiv(rest, loop.extent)
    fused = For(fresh, IntImm(dtype, 0), extent, kind, olds[-1].body, span=olds[0].span)
    body = reindexed(olds[-1].body, values, first, [fused], preserve_unit_iters)
    edit.replace(first.function, {olds[0]: replace(fused, body=body)})
    if any((first.function, loop.loop_var) in edit.relies for loop in olds):
        edit.relies.add((first.function, fresh))
    return edit.loop_rv(first.function, fused)
