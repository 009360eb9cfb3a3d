"""What is put together of parts, or padded, and then read across: it is stored first.

Where a part begins changes within vectors whose lanes are read across, so that each lane asks on its own. On a Zen 5,
with two threads, patches of 8 x 8 x 3 numbers of a padded image of 232 x 232 took 258 us, and 14 when the image was
stored in between; 64 and 80 channels of 80 x 80 numbers, written with channels last, 130 and 90.
"""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.visit import post_order
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.digit_axes import linear_walk
from eutectic.tir.schedule.rules.guards import guards_of, is_guarded
from eutectic.tir.schedule.rules.producers import Inlining
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.schedule.rules.work import is_small


def stored_first(stages: Sequence[Stage], inlining: Inlining) -> list[Buffer]:
    """Outputs of stages that are better stored, though they could be computed where they are read.

    Args:
        stages: All stages, in order.
        inlining: What would be computed where it is read, and what would be left.
    """
    readers = {stage.name for stage in inlining.left if _lanes_ask(stage)}
    names = set(inlining.names) if readers else set()
    inlined = {id(stage.output): stage for stage in stages if stage.name in names}
    return [source.output for stage in stages if stage.name in readers for source in _parts(stage, inlined)]


def _lanes_ask(stage: Stage) -> bool:
    """Whether neighbours in a large result lie far apart in what is read, and conditions differ between them."""
    guards = guards_of(stage.value)
    if stage.init is not None or not stage.spatial or not guards:
        return False
    seen = linear_walk(walk_of(stage))
    if seen is None or is_small(seen.spatial, stage.value) or seen.store.coefficient(seen.spatial[-1]) != 1:
        return False
    steps = [access.coefficient(seen.spatial[-1]) for access in seen.reads]
    asked = (part for guard in guards for part in post_order(guard))
    return any(step not in (0, 1) for step in steps) and any(part is stage.spatial[-1].var for part in asked)


def _parts(stage: Stage, inlined: dict[int, Stage]) -> list[Stage]:
    """The stages with conditions that would be inlined, and that are read through others without."""
    found: dict[int, Stage] = {}
    waiting = [stage]
    while waiting:
        sources = {id(load.buffer) for load in waiting.pop().reads()} & inlined.keys()
        found |= {key: inlined[key] for key in sources if is_guarded(inlined[key].value)}
        waiting += [inlined[key] for key in sources - found.keys()]
    return list(found.values())
