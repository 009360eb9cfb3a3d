"""Attributes of tensor programs that say how far they are: scheduled, lowered."""

from __future__ import annotations

from typing import Final

from eutectic.tir.function import PrimFunc

SCHEDULED: Final = "tir.is_scheduled"
LOWERED: Final = "tir.is_lowered"
TRACE: Final = "tir.schedule_trace"  # what the default schedule did, line by line
DECISIONS: Final = "tir.decisions"  # what default schedules are to choose, as JSON: decisions by choice point
CHOSEN: Final = "tir.chosen"  # what the default schedule chose, and which rules were refused, line by line


def is_lowered(func: PrimFunc) -> bool:
    """Whether a function went through `LowerTIR`."""
    return bool(func.attr(LOWERED))
