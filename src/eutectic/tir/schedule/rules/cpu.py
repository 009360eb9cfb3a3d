"""The default schedule of a CPU: rules, in the order in which they are tried, and primitives only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.elementwise import Elementwise
from eutectic.tir.schedule.rules.epilogues import with_epilogues
from eutectic.tir.schedule.rules.lane_reduction import LaneReduction
from eutectic.tir.schedule.rules.nest import Nest, run_by_threads
from eutectic.tir.schedule.rules.packing import pack
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.producers import inlined_order
from eutectic.tir.schedule.rules.register_tile import RegisterTile
from eutectic.tir.schedule.rules.rows import Group, groups_of
from eutectic.tir.schedule.rules.rule import Decisions, Rule
from eutectic.tir.schedule.rules.stage import Stage, stages_of
from eutectic.tir.schedule.rules.walk import Walk, walk_of
from eutectic.tir.schedule.schedule import Schedule

RULES: Final[tuple[Rule[Any, Any], ...]] = (Elementwise(), LaneReduction(), RegisterTile())


@dataclass(frozen=True)
class _Match:
    """The rule that schedules a stage, and what it chose."""

    rule: Rule[Any, Any]
    axes: Any
    decisions: Decisions


def schedule_by_rules(func: PrimFunc, processor: Processor) -> Schedule | None:
    """A program scheduled by rules; None when there is a part that no rule is for.

    Args:
        func: The program.
        processor: What it will run on.
    """
    found = stages_of(func)
    if found is None:
        return None
    sch = Schedule(func, error_render_level="none", enable_check=False)
    for name in inlined_order(*found):
        sch.compute_inline(name, name_values=True)
    for stage in _stages(sch)[0]:
        pack(sch, stage)
    _with_stores(sch)
    stages, intermediates = _stages(sch)
    for group in groups_of(stages, intermediates):
        matches = [_match(walk_of(stage, group.depth), processor) for stage in group.stages]
        if not all(matches):
            return None
        _apply(sch, group, [match for match in matches if match is not None])
    return sch


def _with_stores(sch: Schedule) -> None:
    """Every reduction has another block that stores what is finished: an epilogue, or a copy."""
    for stage in _stages(sch)[0]:
        if stage.init is not None and stage.epilogue is None:
            sch.cache_write(stage.name, 0, "local")


def _stages(sch: Schedule) -> tuple[list[Stage], Collection[Buffer]]:
    found = stages_of(sch.func)
    assert found is not None
    stages, intermediates = found
    return with_epilogues(stages, intermediates), intermediates


def _match(walk: Walk, processor: Processor) -> _Match | None:
    for rule in RULES:
        axes = rule.matches(walk, processor)
        if axes is not None:
            return _Match(rule, axes, rule.decide(axes, processor))
    return None


def _apply(sch: Schedule, group: Group, matches: Sequence[_Match]) -> None:
    nests = [item.rule.nest(sch, item.axes, item.decisions) for item in matches]
    first = sch.get_block(nests[0].block)
    if group.depth:
        _merge(sch, nests)
        for stage in group.kept:
            sch.set_scope((stage.epilogue or stage).name, 0, "local")
    for nest, item in zip(nests, matches, strict=True):
        item.rule.apply(nest, item.axes, item.decisions, shared=not group.depth)
    if group.depth:
        run_by_threads(sch, sch.get_loops(first)[: group.depth])


def _merge(sch: Schedule, nests: Sequence[Nest]) -> None:
    """One nest of the loops over shared axes."""
    found = {name: loop for nest in nests for name, loop in nest.innermost_shared.items()}
    children = map(sch.get, sch.get_child_blocks(sch.get_block("root")))
    order = [block.name_hint for block in children if isinstance(block, Block)]
    sch.merge(*(found[name] for name in order if name in found))
