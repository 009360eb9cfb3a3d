"""Samples of torch's own operator table in every dtype that it has them for, compiled for both targets."""

from __future__ import annotations

import random

from eutectic.testing.operator_samples import DTYPES, samples, select
from eutectic.testing.operator_sweep import REFUSED, WRONG, sweep, targets

SAMPLES = 4  # of a case


def case(number: int) -> str:
    """Some samples of one operator."""
    rng = random.Random(number)
    operator, dtype = rng.choice(select(())), rng.choice(DTYPES)
    candidates = samples(operator, dtype, None)
    chosen = rng.sample(candidates, min(SAMPLES, len(candidates)))
    outcomes = list(sweep(chosen, targets()))
    for outcome in outcomes:
        if outcome.result == WRONG:
            raise AssertionError(f"{outcome.sample}: {outcome.said}")
    refused = [outcome for outcome in outcomes if outcome.result == REFUSED]
    return f"refused: {operator} {dtype}: {refused[0].said}" if outcomes and len(refused) == len(outcomes) else "equal"
