"""Networks of random parts with two dynamic sizes, compiled once and compared with eager at six of them."""

from __future__ import annotations

import random

from eutectic.testing.dynamic import check_sizes, random_sized


def case(number: int) -> str:
    """One network, for one of the targets."""
    rng = random.Random(number)
    sized = random_sized(rng)
    options = rng.choice(({}, {"target": "llvm"}, {"precision": "strict"}))
    check_sizes(sized, sized.sizes(rng, 6), number, **options)
    return "equal"
