"""How tensor programs are scheduled when nobody says how: who does it for which kind of target."""

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy
from eutectic.tir.schedule.rules.registry import Scheduler, register_scheduler, scheduler_of

__all__ = ["Scheduler", "register_scheduler", "scheduler_of"]

open_doors(globals())
lazy(globals())
