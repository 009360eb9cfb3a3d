"""Two programs of the same results, measured in turns: which one is faster, and by more than the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from eutectic.runtime.executable import Executable

Array = np.ndarray[Any, Any]
_SAMPLE_SECONDS: Final = 2e-4  # a sample lasts at least this long
_LEAST, _SURE, _MOST = 6, 20, 48  # pairs of samples: before a loss, before a win, at all
_TRIES: Final = 3  # for each sample
_ERRORS: Final = 3.0  # standard errors that a difference must have, of very many pairs
_FEW: Final = 6  # pairs of which it must have twice as many, as their deviation is hardly known
_LEAST_GAIN: Final = 0.002  # share of a call that it must have
_NORMAL: Final = 1.4826 * 1.2533  # from the median deviation of normal numbers to the standard error of their median


@dataclass(frozen=True)
class Contest:
    """What came of measuring two programs in turns.

    Attributes:
        seconds: Median of the first.
        gain: Median of what the second saves, in seconds; negative when it is slower.
        spread: What noise makes of a difference of nothing: three standard errors of `gain`, more of few pairs.
        pairs: How many samples of each there are.
    """

    seconds: float
    gain: float
    spread: float
    pairs: int

    @property
    def is_won(self) -> bool:
        """Whether the second is faster by more than the noise, and by enough to care."""
        return self.gain > self.spread and self.gain > _LEAST_GAIN * self.seconds

    @property
    def is_lost(self) -> bool:
        """Whether the second is slower by more than the noise."""
        return -self.gain > self.spread

    @property
    def is_over(self) -> bool:
        """Whether more samples would hardly change the answer."""
        is_equal = self.gain + self.spread < _LEAST_GAIN * self.seconds
        return self.is_lost or self.pairs >= _MOST or (self.pairs >= _SURE and (self.is_won or is_equal))


def contest(
    first: Callable[[], object],
    second: Callable[[], object],
    until: float,
    clock: Callable[[], float] = perf_counter,
    *,
    least: int = _LEAST,
) -> Contest:
    """Measure two programs in turns until it is clear which one is faster, or time is up.

    Each pair has a sample of both; who begins changes from pair to pair. What counts are the differences within pairs,
    so that a machine that becomes slower for a while does no harm. Their spread is taken from their median deviation,
    which single disturbed samples do not change.

    Args:
        first: A call of the first.
        second: A call of the second.
        until: When to stop, on the clock.
        clock: Gives the time in seconds.
        least: Pairs that are measured in any case.
    """
    calls = (first, second)
    repeats = _repeats(calls, clock)
    samples: tuple[list[float], list[float]] = ([], [])
    while True:
        order = (0, 1) if len(samples[0]) % 2 == 0 else (1, 0)
        for k in order:
            samples[k].append(_sample(calls[k], repeats, clock))
        if len(samples[0]) < least:
            continue
        told = _told(*samples)
        if told.is_over or clock() > until:
            return told


def _told(first: Sequence[float], second: Sequence[float]) -> Contest:
    differences = [a - b for a, b in zip(first, second, strict=True)]
    gain = median(differences)
    deviation = median(abs(difference - gain) for difference in differences)
    pairs = len(differences)
    spread = _ERRORS * (1 + _FEW / pairs) * _NORMAL * deviation / sqrt(pairs)
    return Contest(median(first), gain, spread, pairs)


def _repeats(calls: Sequence[Callable[[], object]], clock: Callable[[], float]) -> int:
    """How many calls make a sample, after each was called for the first time."""
    for call in calls:
        call()
    return max(1, round(_SAMPLE_SECONDS / max(_sample(calls[0], 1, clock), 1e-9)))


def _sample(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Seconds of a call, of several the fastest: the first brings code and data back, others may be disturbed."""
    fastest = float("inf")
    for _ in range(_TRIES):
        start = clock()
        for _ in range(repeats):
            call()
        fastest = min(fastest, (clock() - start) / repeats)
    return fastest


def call_of(executable: Executable, args: Sequence[Array]) -> Callable[[], object]:
    """A call of a program, to be measured."""
    return lambda: executable.run(args)
