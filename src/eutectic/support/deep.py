"""Recursion as deep as a program: what does not fit on the stack of a thread goes on on the stack of another one.

Programs are trees, and a sum of ten thousand terms is a tree ten thousand nodes deep. Python refuses to recurse
that far, and its limit belongs to the whole process, which is not ours to change. It counts per thread, though: a
function that is `deep` counts how many calls of such functions are open, and after so many the next one runs on a
new thread while the present one waits for it. Only one of them runs at any time, and all have ended when the
outermost call returns, so nobody outside can tell.

Reference: segmented stacks, as in R. Hieb, R. K. Dybvig, C. Bruggeman, "Representing control in the presence of
first-class continuations", PLDI 1990.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CALLS_ON_A_STACK: Final = 48  # open calls of deep functions, each with up to ten of others in between


class _Here(threading.local):
    """What belongs to a thread: how many calls of deep functions are open on its stack."""

    open_calls = 0


_here: Final = _Here()
_carried: Final[list[threading.local]] = []


def carried(state: threading.local) -> threading.local:
    """`state`, of which functions that go on on another thread find there what it has on this one."""
    _carried.append(state)
    return state


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """A function that may call itself, directly or through others, as deep as a program is.

    One function on each cycle of calls has to be one. It may not be a generator, whose frames are not open while it
    waits. Costs a fifth of a microsecond a call.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        outside = _here.open_calls
        if outside >= CALLS_ON_A_STACK:
            return _elsewhere(function, args, kwargs)
        _here.open_calls = outside + 1
        try:
            return function(*args, **kwargs)
        finally:
            _here.open_calls = outside

    return call


def as_here(function: Callable[[], R]) -> Callable[[], R]:
    """A function for another thread, which sees there what it would see here: context variables, and `carried` states.

    Lists among the states are copied, as both threads go on; the other one keeps its copies.
    """
    context = contextvars.copy_context()
    states = [(state, {name: _own(value) for name, value in vars(state).items()}) for state in _carried]

    def run() -> R:
        for state, values in states:
            vars(state).update(values)
        return context.run(function)

    return run


def _own(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _elsewhere(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    """What a function returns or raises, computed on a new stack."""
    outcome: list[Any] = []
    states = [(state, dict(vars(state))) for state in _carried]

    def run() -> None:
        for state, values in states:
            vars(state).update(values)
        _here.open_calls = 1
        try:
            outcome.append(function(*args, **kwargs))
        except BaseException as error:  # raised again on the thread that waits
            outcome.extend((None, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="eutectic-stack", daemon=True)
    thread.start()
    thread.join()
    if len(outcome) == 2:
        raise outcome.pop()
    returned: R = outcome[0]
    return returned
