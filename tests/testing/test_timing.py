"""Measuring in turns: everybody gets the same number of samples, short calls are repeated inside a sample."""

from __future__ import annotations

import time

from eutectic.testing.timing import SAMPLE_SECONDS, UNCOUNTED, interleaved, medians


def test_each_gets_its_turns_and_starts_a_round():
    order: list[str] = []
    calls = {name: (lambda name=name: (order.append(name), time.sleep(SAMPLE_SECONDS))) for name in "abc"}
    samples = interleaved(calls, rounds=3, per_turn=2, warm_up=1)
    assert {name: len(values) for name, values in samples.items()} == {"a": 6, "b": 6, "c": 6}
    turns = [order[k] for k in range(6, len(order), UNCOUNTED + 2)]
    assert turns == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_short_calls_are_repeated():
    counter = {"calls": 0}

    def call() -> None:
        counter["calls"] += 1

    (seconds,) = interleaved({"a": call}, rounds=1, per_turn=1)["a"]
    assert counter["calls"] > 10
    assert 0 < seconds < SAMPLE_SECONDS


def test_nothing_to_measure_gives_nothing():
    assert interleaved({}, rounds=3) == {}


def test_medians():
    assert medians({"a": [3.0, 1.0, 2.0], "b": [1.0, 2.0]}) == {"a": 2.0, "b": 1.5}
