"""blockize: what is under a loop becomes a block around the block that is there."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, LoopRV
from eutectic.tir.schedule.legality.nest_under import nest_of_block, nest_under_loop
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.blockize_group import outer_of_group
from eutectic.tir.schedule.rewriting.blockize_nest import blockize_nest


@primitive
def blockize(edit: Edit, target: LoopRV | BlockLike | Sequence[BlockLike], preserve_unit_iters: bool = True) -> BlockRV:
    """Put a block around what is under a loop, so that schedules move and replace it as a whole.

    Each axis of the block inside is divided: `v` is `v_o * n + v_i`, where the outer part `v_o` is an axis of
    the new block, bound by loops around it, and the inner part `v_i` one of the block inside, bound by the
    loops in the new block. Conditions on outer loops go to the new block, those on inner loops to the block inside.
    The initial values of a reduction are stored by the new block, in loops of their own around a
    block `<name>_init`; where the reduction has no terms they are stored all the same.

    Several blocks, parts of one sequence, get a block around them whose axes are the loops around all of them.

    Args:
        edit: The call.
        target: A loop with nothing but loops and one block under it; or a block; or several blocks that
            follow each other.
        preserve_unit_iters: Whether blocks have axes of one value too.

    Returns:
        The new block, `<name>_o`, or `outer_<names>_` around several; the handle of the block is now the inner one's.

    Raises:
        ScheduleError: the loop or a block is gone, or has no block around it; there is something else under the
            loop; bounds of inner loops depend on outer ones; an axis or a condition does not divide; the new
            block could run at points where nothing ran; or it is not proved that the same initial values are
            stored, each once and before the terms.

    before: for i_0, j_0, i_1, j_1 in T.grid(4, 4, 8, 8): B[i_0 * 8 + i_1, j_0 * 8 + j_1] = ...
    after blockize(i_1):
        for i_0, j_0 in T.grid(4, 4):
            with T.block("B_o"):
                vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
                for i_1, j_1 in T.grid(8, 8): B[vi_o * 8 + i_1, vj_o * 8 + j_1] = ...
    """
    if isinstance(target, LoopRV):
        nest = nest_under_loop(edit, edit.loop(target))
    else:
        sites = [edit.block(rv) for rv in ([target] if isinstance(target, BlockRV | str) else target)]
        if len(sites) != 1:
            changes, group = outer_of_group(edit, sites)
            edit.replace(sites[0].function, changes)
            return edit.block_rv(sites[0].function, group)
        nest = nest_of_block(sites[0])
    return blockize_nest(edit, nest, preserve_unit_iters)
