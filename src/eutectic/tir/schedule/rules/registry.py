"""Which function gives a tensor program its default schedule, by kind of target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from eutectic.support.errors import CodegenError
from eutectic.support.registry import load_providers, note_addition
from eutectic.target import Target
from eutectic.tir.function import PrimFunc

Scheduler: TypeAlias = Callable[[PrimFunc, Target], PrimFunc]

_SCHEDULERS: Final[dict[str, Scheduler]] = {}


def register_scheduler(kind: str, scheduler: Scheduler) -> None:
    """Say who schedules tensor programs for a kind of target.

    There is one for each, as the cache knows a kernel by its program before scheduling.

    Args:
        kind: As in `Target.kind.name`.
        scheduler: Gives a program with loops that suit the target, or the one that it was given.

    Raises:
        CodegenError: there is one already.
    """
    if _SCHEDULERS.get(kind, scheduler) is not scheduler:
        raise CodegenError(
            f"targets of the kind {kind} have a default schedule already",
            help="schedule a program yourself with tir.Schedule: it then keeps its loops",
        )
    note_addition(f"default schedule for {kind}")
    _SCHEDULERS[kind] = scheduler


def scheduler_of(target: Target) -> Scheduler:
    """Who schedules for a target.

    Raises:
        CodegenError: nobody does for targets of its kind.
    """
    load_providers("schedulers")
    kind = target.kind.name
    if kind not in _SCHEDULERS:
        known = ", ".join(sorted(_SCHEDULERS))
        raise CodegenError(
            f"there is no default schedule for target {target}",
            help=f"there is one for targets of the kinds {known}; schedule the program yourself with tir.Schedule",
        )
    return _SCHEDULERS[kind]
