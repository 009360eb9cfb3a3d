"""Schedules: programs transformed by primitives that prove that they keep what is computed."""

from eutectic.support.door import open_methods
from eutectic.support.errors import ScheduleError
from eutectic.support.lazy import lazy
from eutectic.tir.schedule.handles import BlockRV, ExprRV, LoopRV
from eutectic.tir.schedule.primitive import PRIMITIVES, Primitive, primitive
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.schedule.state import ScheduleState
from eutectic.tir.schedule.trace import Instruction, Trace
from eutectic.tir.schedule.trace_python import trace_from_python

__all__ = [
    "PRIMITIVES",
    "BlockRV",
    "ExprRV",
    "Instruction",
    "LoopRV",
    "Primitive",
    "Schedule",
    "ScheduleError",
    "ScheduleState",
    "Trace",
    "primitive",
    "trace_from_python",
]

open_methods(Schedule, "tir.Schedule", leave=("perform",))
open_methods(Trace, "tir.Trace")
lazy(globals())
