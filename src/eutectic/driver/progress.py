"""How far a compilation is: told to a function, or shown as a bar on a terminal or in a notebook."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from eutectic.support.errors import PassError
from eutectic.support.shown import kind_of

if TYPE_CHECKING:
    from rich.console import Console

Report: TypeAlias = Callable[[str, int, int], None]
"""Called with a step, how many are done, and how many there are; before and after each step."""
DELAY: Final = 1.0  # seconds of work before anything is shown


@contextmanager
def reports(progress: Report | bool | None) -> Iterator[Report | None]:
    """What is called as a compilation goes on, for what a user asks for.

    Args:
        progress: A function; True for a bar on the error stream; False or None for nothing.

    Raises:
        PassError: it is something else.
    """
    if progress is None or isinstance(progress, bool):
        with bar("compiling") if progress else _nothing() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise PassError(
            f"progress is {kind_of(progress)}: expected True, False, None, or a function of (step, done, total)"
        )


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def bar(what: str, console: Console | None = None, delay: float = DELAY) -> Iterator[Report | None]:
    """A bar with the step and the seconds, which goes when the work ends; None where nobody would see it.

    Args:
        what: What is done.
        console: Where; None is the error stream.
        delay: Seconds after which it appears; 0 shows it at once.
    """
    from rich.console import Console  # most compilations show nothing
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = console or Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = Progress(*columns, console=console, transient=True)
    task = shown.add_task(what, total=None)
    later = _Later(delay, shown.start)
    try:
        yield lambda step, done, total: shown.update(task, description=f"{what}: {step}", completed=done, total=total)
    finally:
        if later.cancelled_after():
            shown.stop()


class _Later:
    """Does something after a while, unless it is cancelled before.

    Args:
        seconds: How long to wait; 0 does it at once.
        action: What to do, in a thread of its own where it waits.
    """

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self._action, self._lock = action, threading.Lock()
        self._is_cancelled = self._is_done = False
        self._timer = threading.Timer(seconds, self._do)
        self._timer.daemon = True
        if seconds > 0:
            self._timer.start()
        else:
            self._do()

    def _do(self) -> None:
        with self._lock:
            if not self._is_cancelled:
                self._is_done = True
                self._action()

    def cancelled_after(self) -> bool:
        """Cancel it, and say whether it was done already."""
        self._timer.cancel()
        with self._lock:
            self._is_cancelled = True
            return self._is_done
