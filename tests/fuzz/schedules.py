"""Random schedules: what is accepted computes the same, interpreted bit for bit and compiled."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.tir.schedule.test_random_all import PROGRAMS, check_natively

EXAMPLES = 4  # schedules of a case


def case(number: int) -> str:
    """Some schedules of one program."""
    name = random.Random(number).choice(sorted(PROGRAMS))

    @seed(number)
    @settings(
        phases=[Phase.generate],
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check_natively(name, data)

    run()
    return "equal"
