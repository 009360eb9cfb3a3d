"""Which of two programs is faster, when both are noise and when one is; and which results count as equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.tune.measure import Contest, contest


class Machine:
    """A clock that calls turn, with noise of some share of their time."""

    def __init__(self, noise: float, seed: int = 0) -> None:
        self.now, self.noise, self.rng = 0.0, noise, np.random.default_rng(seed)

    def clock(self) -> float:
        return self.now

    def call(self, seconds: float):
        def run() -> None:
            self.now += seconds * (1 + self.noise * abs(self.rng.standard_normal()))

        return run


def measured(first: float, second: float, noise: float, until: float = 1e9, seed: int = 0) -> Contest:
    machine = Machine(noise, seed)
    return contest(machine.call(first), machine.call(second), until, machine.clock)


@given(st.floats(1e-6, 1.0), st.sampled_from([0.5, 0.8, 0.9]), st.integers(0, 9))
def test_what_is_clearly_faster_wins(seconds: float, share: float, seed: int):
    outcome = measured(seconds, share * seconds, 0.01, seed=seed)
    assert outcome.is_won
    assert outcome.gain == pytest.approx((1 - share) * seconds, rel=0.2)
    assert outcome.pairs == 20
    lost = measured(share * seconds, seconds, 0.01, seed=seed)
    assert lost.is_lost
    assert not lost.is_won
    assert lost.pairs == 6  # a loss needs no more


def test_equals_hardly_ever_win():
    outcomes = [measured(1e-3, 1e-3, 0.05, seed=seed) for seed in range(200)]
    assert sum(outcome.is_won for outcome in outcomes) <= 2


def test_few_pairs_must_differ_more():
    outcomes = [measured(1e-3, 1e-3, 0.05, until=0.0, seed=seed) for seed in range(200)]
    assert {outcome.pairs for outcome in outcomes} == {6}
    assert sum(outcome.is_won for outcome in outcomes) <= 3
    assert measured(1e-3, 0.8e-3, 0.05, until=0.0).is_won


def test_as_many_pairs_as_are_asked_for():
    machine = Machine(0.0)
    assert contest(machine.call(1e-3), machine.call(2e-3), 0.0, machine.clock, least=24).pairs == 24


def test_a_gain_within_the_noise_does_not_win():
    assert sum(measured(1e-3, 0.999e-3, 0.5, seed=seed).is_won for seed in range(100)) <= 2


def test_a_gain_too_small_to_care_does_not_win():
    outcome = measured(1e-3, 0.999e-3, 0.0)
    assert outcome.gain > outcome.spread
    assert not outcome.is_won
    assert outcome.pairs == 20


def test_time_is_kept():
    outcome = measured(1.0, 0.999, 0.3, until=30.0)
    assert outcome.pairs == 6
    assert measured(1.0, 0.999, 0.3).pairs > 6


def test_a_machine_that_becomes_slower_does_no_harm():
    machine = Machine(0.0)

    def call(seconds: float):
        def run() -> None:
            machine.now += seconds * (1 + machine.now)

        return run

    assert not contest(call(1e-3), call(1e-3), 1e9, machine.clock).is_won
    assert contest(call(1e-3), call(0.9e-3), 1e9, machine.clock).is_won
