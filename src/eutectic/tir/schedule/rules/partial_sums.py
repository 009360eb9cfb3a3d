"""Long sums of floats in blocks of terms: each block is summed in registers, and added to a total in near memory.

A sum of n terms, one after the other, is wrong by about the square root of n / 2 roundings; a sum of blocks of b terms
by that of b / 2 + n / (2 b). The totals are touched once for each block, which is all that it costs.

Reference: N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific Computing 1993.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.combiner import combiner_of
from eutectic.tir.schedule.rules.nest import block_name
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.rules.tile_size import Extent
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import BufferStore

_TERMS: Final = 256  # of a block, where each of them is a multiply-add for a full tile of sums
_FEW_ROWS: Final = 4  # that share weights, which are waited for: more blocks cost nothing, and libraries have more
_TERMS_OF_FEW_ROWS: Final = 64


def terms_of_block(stage: Stage, reduce: Sequence[Extent], rows: int | None = None) -> int:
    """How many iterations of the outermost loop over terms are a block; 0 where all terms are one.

    Args:
        stage: A reduction.
        reduce: What it runs over, outermost first.
        rows: Results that share a factor of each term, the weights; None when it is not known.

    A block has so many terms that it costs nothing that can be measured, unless the stage says how many itself.
    """
    first, *rest = [span.size for span in reduce] or [1]
    most = stage.terms_of_sum or (_TERMS if rows is None or rows > _FEW_ROWS else _TERMS_OF_FEW_ROWS)
    inner = prod(size or most for size in rest)
    if not _is_sum(stage) or (first is not None and 2 * first * inner <= 3 * most):
        return 0
    fits = max(1, most // inner)
    if first is None or first <= fits:
        return fits if first is None else 0
    return next((k for k in range(fits, fits // 2, -1) if first % k == 0), -(-first // -(-first // fits)))


def terms_decided(block: int) -> Decisions:
    """What `terms_of_block` gives as a decision; none where all terms are one."""
    return {"terms": block} if block else {}


def in_blocks(sch: Schedule, loop: LoopRV, size: int) -> list[LoopRV]:
    """The loop over blocks of so many iterations of a loop, and that within, if there are several."""
    return sch.split(loop, [None, size]) if size > 1 else [loop]


def sum_blocks(sch: Schedule, blocks: LoopRV) -> tuple[str, LoopRV]:
    """Sum the terms of each iteration of a loop apart, and add what they are to the total.

    Args:
        sch: The schedule.
        blocks: The outermost loop over terms, in which the reduction is all there is.

    Returns:
        Name of the block with the partial sums, and the loop around it and that of the total.
    """
    total = block_name(sch, sch.get_child_blocks(blocks)[0])
    depth = [sch.get(rv) for rv in sch.get_loops(total)].index(sch.get(blocks))
    partial = block_name(sch, sch.rfactor(blocks, 0))
    return partial, sch.merge(sch.get_loops(partial)[depth], sch.get_loops(total)[depth])


def _is_sum(stage: Stage) -> bool:
    if not is_float(stage.output.dtype):
        return False
    combiner = combiner_of(BufferStore(stage.output, stage.value, stage.indices))
    return combiner is not None and combiner.kind == "sum"
