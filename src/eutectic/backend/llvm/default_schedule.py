"""Default schedules of programs that LLVM compiles: the rules for CPUs, for the processor of a target."""

from __future__ import annotations

from eutectic.backend.llvm.machine import machine_of
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.schedule.rules.registry import register_scheduler


def _schedule(func: PrimFunc, target: Target) -> PrimFunc:
    return schedule_for_cpu(func, machine_of(target))


register_scheduler("llvm", _schedule)
