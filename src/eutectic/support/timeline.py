"""Seconds of named steps, steps inside of steps included: the one clock of everything that reports times of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Step:
    """One step.

    Attributes:
        name: What was done.
        depth: Number of steps around it.
        seconds: How long it took; 0 while it runs.
    """

    name: str
    depth: int
    seconds: float = 0.0


class Timeline:
    """Steps in the order in which they began.

    Attributes:
        steps: All of them, the running ones included.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._open: list[tuple[Step, float]] = []

    def begin(self, name: str) -> Step:
        """Begin a step inside of those that run."""
        step = Step(name, len(self._open))
        self.steps.append(step)
        self._open.append((step, time.perf_counter()))
        return step

    def end(self) -> None:
        """End the innermost step that runs."""
        step, start = self._open.pop()
        step.seconds = time.perf_counter() - start

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """A step that lasts as long as the block; it ends when the block raises, too."""
        begun = self.begin(name)
        try:
            yield begun
        finally:
            self.end()

    def outermost(self) -> list[tuple[str, float]]:
        """Names and seconds of the steps that are in no other."""
        return [(step.name, step.seconds) for step in self.steps if step.depth == 0]
