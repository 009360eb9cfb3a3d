"""ScheduleForTarget: the default schedule, for programs that nobody has scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.target import Target, target_or_current
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import SCHEDULED, is_lowered
from eutectic.tir.schedule.rules.registry import scheduler_of
from eutectic.tir.scheduled import was_scheduled
from eutectic.tir.trusted import is_trusted, trust


@dataclass(frozen=True)
class ScheduleForTarget(Pass):
    """Give every tensor program loops that suit a target, and say so in its attribute `tir.is_scheduled`.

    A program that has the attribute keeps its loops, and so does one that is lowered, and one of which a step of a
    `Schedule` made the loops. Under several names it is scheduled once.

    before:                                  after:
        for i, j in T.grid(64, 64):              for p in T.parallel(64):
            with T.block("B"):                       for j_tile in range(2):
                ...                                      for l in T.vectorized(32):
                                                             ...

    Cost: what the schedules cost, which grows with the size of the programs.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.
    """

    target: str = ""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        target = target_or_current(self.target or None)
        done: dict[PrimFunc, PrimFunc] = {}
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items():
            if not isinstance(func, PrimFunc):
                continue
            if func not in done:
                done[func] = scheduled(func, target)
            if done[func] is not func:
                changed[gv] = done[func]
        return with_functions(mod, changed)


def scheduled(func: PrimFunc, target: Target) -> PrimFunc:
    """`ScheduleForTarget` of one function.

    Raises:
        CodegenError: there is no default schedule for the target.
    """
    if func.attr(SCHEDULED) or is_lowered(func):
        return func
    if was_scheduled(func):
        kept: PrimFunc = func.with_attr(SCHEDULED, True)
        return trust(kept) if is_trusted(func) else kept
    result: PrimFunc = scheduler_of(target)(func, target).with_attr(SCHEDULED, True)
    return trust(result) if is_trusted(func) else result
