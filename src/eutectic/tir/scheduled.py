"""Programs that somebody has scheduled, and which keep their loops therefore.

That is known of objects, not written into programs: what a schedule gives is what its steps made, and nothing else.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Stmt

_SCHEDULED: Final[WeakSet[Stmt]] = WeakSet()


def mark_scheduled(func: PrimFunc) -> None:
    """Say that a step of a schedule made the loops of a program."""
    _SCHEDULED.add(func.body)


def was_scheduled(func: PrimFunc) -> bool:
    """Whether a step of a schedule made the loops of a program, also when its attributes were changed since."""
    return func.body in _SCHEDULED
