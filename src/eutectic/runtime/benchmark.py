"""How long a call takes: `VirtualMachine.time_evaluator`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eutectic.support.errors import CallError


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per call.

    Attributes:
        results: One number for each repetition: the mean over its calls.
    """

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the repetitions."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median of the repetitions."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The fastest repetition."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repetition."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the repetitions."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        return ", ".join(f"{name} {getattr(self, name) * 1e3:.4f} ms" for name in names)


def measure(
    call: Callable[[], Any],
    *,
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Time a call after one that is not counted.

    Args:
        call: What to time.
        number: Calls in a repetition.
        repeat: Repetitions.
        min_repeat_ms: The least time of a repetition; `number` grows until it takes that long.
        cooldown_interval_ms: Rest after so many repetitions.
        repeats_to_cooldown: After how many.

    Raises:
        CallError: a count is not positive.
    """
    for name, count in (("number", number), ("repeat", repeat), ("repeats_to_cooldown", repeats_to_cooldown)):
        if count < 1:
            raise CallError(f"{name} must be positive, got {count}")
    call()
    results = []
    for index in range(repeat):
        spent = _time(call, number)
        while spent * 1e3 < min_repeat_ms:
            number = max(number + 1, int(number * min(min_repeat_ms / 1e3 / max(spent, 1e-9) * 1.05, 100)))
            spent = _time(call, number)
        results.append(spent / number)
        if cooldown_interval_ms and (index + 1) % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(tuple(results))


def _time(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start
