"""The default schedule of a CPU: rules, in the order in which they are tried, and primitives only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eutectic.support.errors import ScheduleError
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.elementwise import Elementwise
from eutectic.tir.schedule.rules.nest import Nest
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Rule
from eutectic.tir.schedule.rules.stage import Stage, stages_of
from eutectic.tir.schedule.rules.walk import walk_of
from eutectic.tir.schedule.schedule import Schedule

RULES: Final[tuple[Rule[Any], ...]] = (Elementwise(),)


def schedule_by_rules(func: PrimFunc, processor: Processor) -> Schedule | None:
    """A program scheduled by rules; None when there is a part that no rule is for."""
    found = stages_of(func)
    if found is None:
        return None
    sch = Schedule(func, error_render_level="none", enable_check=False)
    for stage in found[0]:
        if not _scheduled(sch, stage, processor):
            return None
    return sch


def _scheduled(sch: Schedule, stage: Stage, processor: Processor) -> bool:
    walk = walk_of(stage)
    for rule in RULES:
        axes = rule.matches(walk, processor)
        if axes is not None:
            rule.apply(Nest(sch, walk), axes, rule.decide(axes, processor), shared=True)
            return True
    return False
