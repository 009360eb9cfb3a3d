"""Instruments: objects a `PassContext` calls around each pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eutectic.support.timeline import Timeline


class PassInstrument:
    """Base of instruments; every method may be left as it is."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether the pass may run; one False of any instrument skips it."""
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Called before the pass, with its input."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Called after the pass, with its result."""


def pass_instrument(cls: type | None = None) -> Any:
    """Class decorator that makes any class with some of the methods an instrument."""

    def decorate(subject: type) -> type:
        return type(subject.__name__, (subject, PassInstrument), {"__doc__": subject.__doc__})

    return decorate if cls is None else decorate(cls)


class PassTimingInstrument(PassInstrument):
    """Seconds per pass, nested passes indented under the one that ran them."""

    def __init__(self) -> None:
        self.timeline = Timeline()

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Start the clock of the pass."""
        self.timeline.begin(info.name)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Stop the clock of the pass."""
        self.timeline.end()

    def render(self) -> str:
        """One line per pass: name and milliseconds."""
        steps = self.timeline.steps
        return "\n".join(f"{'  ' * step.depth}{step.name}: {step.seconds * 1e3:.3f} ms" for step in steps)


class PrintAfterAll(PassInstrument):
    """Print the module after every pass."""

    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """Print name and module."""
        self._write(f"# after {info.name}\n{mod.script()}")


class PrintBeforeAll(PassInstrument):
    """Print the module before every pass."""

    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """Print name and module."""
        self._write(f"# before {info.name}\n{mod.script()}")
