"""Whether a primitive would do something: a trial, of which nothing stays."""

from __future__ import annotations

from typing import Any, NoReturn

from eutectic.support.errors import ScheduleError
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.primitive import Performs, Primitive


class _Possible(Exception):
    """Ends a trial; what was done in it is forgotten."""


def is_possible(schedule: Performs, primitive: Primitive[Any, Any], *args: Any) -> bool:
    """Whether a primitive would not refuse. Nothing changes, and the trace does not tell of it.

    Args:
        schedule: The schedule.
        primitive: What is tried.
        args: Its arguments.
    """

    def trial(edit: Edit, *args: Any) -> NoReturn:
        edit.level = "none"  # nobody sees the refusal
        primitive.function(edit, *args)
        raise _Possible

    tried: Primitive[Any, Any] = Primitive(trial)
    tried.signature, tried.block_params = primitive.signature, primitive.block_params
    try:
        schedule.perform(tried, args, {})
    except _Possible:
        return True
    except ScheduleError:
        return False
    raise AssertionError("a trial ended without an answer")
