"""Whether a primitive would do something, and what it would find: trials, of which nothing stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from eutectic.support.errors import ScheduleError
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.primitive import Performs, Primitive

_Found = TypeVar("_Found")


class _Answered(Exception):
    """Ends a trial; what was done in it is forgotten.

    Args:
        answer: What was asked for.
    """

    def __init__(self, answer: Any) -> None:
        self.answer = answer


def is_possible(schedule: Performs, primitive: Primitive[Any, Any], *args: Any) -> bool:
    """Whether a primitive would not refuse. Nothing changes, and the trace does not tell of it.

    Args:
        schedule: The schedule.
        primitive: What is tried.
        args: Its arguments.
    """

    def would_do_it(edit: Edit, *args: Any) -> bool:
        primitive.function(edit, *args)
        return True

    return found_by(schedule, primitive, would_do_it, *args) is not None


def found_by(
    schedule: Performs, primitive: Primitive[Any, Any], question: Callable[..., _Found], *args: Any
) -> _Found | None:
    """What a function finds that takes the arguments of a primitive; None where it refuses. Nothing changes.

    Args:
        schedule: The schedule.
        primitive: Says what arguments there are.
        question: Takes the edit and the arguments.
        args: The arguments.
    """

    def trial(edit: Edit, *args: Any) -> NoReturn:
        edit.level = "none"  # nobody sees the refusal
        raise _Answered(question(edit, *args))

    tried: Primitive[Any, Any] = Primitive(trial)
    tried.signature, tried.block_params = primitive.signature, primitive.block_params
    try:
        schedule.perform(tried, args, {})
    except _Answered as ended:
        found: _Found = ended.answer
        return found
    except ScheduleError:
        return None
    raise AssertionError("a trial ended without an answer")
