"""reorder_block_iter_var, add_unit_loop: changes of form that no iteration notices."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, LoopRV
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.stmt import For


@primitive
def reorder_block_iter_var(edit: Edit, block: BlockLike, new_order: Sequence[int]) -> None:
    """List the axes of a block in another order; the loops around it stay as they are.

    Args:
        edit: The call.
        block: The block.
        new_order: The number of the old axis for each new one: a permutation.

    Raises:
        ScheduleError: the block is gone, or the order is no permutation of its axes.
    """
    site = edit.block(block)
    old = site.stmt
    if sorted(new_order) != list(range(len(old.iter_values))):
        message = f"reorder_block_iter_var: {list(new_order)} is no permutation of {len(old.iter_values)} axes"
        edit.refuse(site, message, help="name each axis once")
    fresh = replace(old.block, iter_vars=tuple(old.block.iter_vars[k] for k in new_order))
    values = tuple(old.iter_values[k] for k in new_order)
    edit.replace(site.function, {old: replace(old, iter_values=values, block=fresh)})
    edit.follow(site.function, old.block, fresh)


@primitive
def add_unit_loop(edit: Edit, block_or_loop: BlockRV | LoopRV) -> LoopRV:
    """Put a loop of one iteration around a loop or block.

    Args:
        edit: The call.
        block_or_loop: The loop or block.

    Returns:
        The new loop.

    Raises:
        ScheduleError: the loop or block is gone, or the block is the root of the function.
    """
    site = edit.site(block_or_loop)
    if not site.above:
        edit.refuse(site, "add_unit_loop: the root of a function has nothing around it", help="choose a block inside")
    loop = For(Var("u", "int32"), IntImm("int32", 0), IntImm("int32", 1), "serial", site.stmt)
    edit.replace(site.function, {site.stmt: loop})
    return edit.loop_rv(site.function, loop)
