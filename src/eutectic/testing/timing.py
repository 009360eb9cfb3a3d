"""Latencies that can be compared: everything measured in turns, in one process, on one machine at one time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

SAMPLE_SECONDS = 2e-4  # a sample lasts at least this long; shorter calls are repeated inside of it
PAUSE_SECONDS = 5e-2  # before each turn, so that threads of the one before stop spinning: some do for 20 ms and more
UNCOUNTED = 2  # calls at the start of a turn that bring code, data and threads back


def interleaved(
    calls: Mapping[str, Callable[[], object]], *, rounds: int, per_turn: int = 3, warm_up: int = 3
) -> dict[str, list[float]]:
    """Measure several functions in turns.

    Each round gives every function one turn, starting with another one each time. A turn is a pause,
    `UNCOUNTED` calls, and `per_turn` samples.

    Args:
        calls: What to measure, by name.
        rounds: Turns for each; positive.
        per_turn: Samples in a turn; positive.
        warm_up: Calls of each before the first round.

    Returns:
        Seconds for one call, `rounds * per_turn` samples for each name.
    """
    names = list(calls)
    repeats = {name: _repeats(calls[name], warm_up) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for k in range(rounds if names else 0):
        for name in [*names[k % len(names) :], *names[: k % len(names)]]:
            time.sleep(PAUSE_SECONDS)
            for _ in range(UNCOUNTED):
                calls[name]()
            samples[name] += [_sample(calls[name], repeats[name]) for _ in range(per_turn)]
    return samples


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each list of samples."""
    return {name: statistics.median(values) for name, values in samples.items()}


def _repeats(call: Callable[[], object], warm_up: int) -> int:
    for _ in range(warm_up):
        call()
    return max(1, round(SAMPLE_SECONDS / max(_sample(call, 1), 1e-9)))


def _sample(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats
