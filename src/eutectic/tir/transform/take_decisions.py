"""TakeDecisions: tensor programs bring with them what was measured to be best for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import SCHEDULED, is_lowered
from eutectic.tir.schedule.rules.choosing import given_decisions, with_decisions, workload_key
from eutectic.tir.scheduled import was_scheduled


@dataclass(frozen=True)
class TakeDecisions(Pass):
    """Give tensor programs the decisions that the services of the context have for them.

    They are an attribute of a program, `tir.decisions`, so that whoever schedules it later sees them, and a cache of
    kernels tells programs with different decisions apart. Programs that are scheduled or lowered, or that nothing was
    measured for, stay as they are; without any decisions nothing is looked at.

    before:                                  after:
        @T.prim_func                             @T.prim_func
        def main(...):                           def main(...):
                                                     T.func_attr({"tir.decisions": '{"register_tile@0": ...}'})
            ...                                      ...

    Cost: a digest of each program where there are decisions, nothing otherwise.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        known = ctx.services.measured.decisions
        if not known:
            return mod
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items():
            if not isinstance(func, PrimFunc) or func.attr(SCHEDULED) or is_lowered(func) or was_scheduled(func):
                continue
            decisions = known.get(workload_key(func))
            if decisions and decisions != given_decisions(func):
                changed[gv] = with_decisions(func, decisions)
        return with_functions(mod, changed)
