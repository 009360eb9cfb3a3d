"""Tensor programs with good and bad accesses: refused, checked at run time, or what the interpreter computes."""

from __future__ import annotations

import random

from eutectic.testing.bad_accesses import check, program_with_accesses

PROGRAMS = 5  # of a case


def case(number: int) -> str:
    """Some programs."""
    rng = random.Random(number)
    kinds = set()
    for _ in range(PROGRAMS):
        func = program_with_accesses(rng)
        found = check(func, rng.randrange(1 << 30))
        if found.kind == "wrong":
            raise AssertionError(f"{found.detail}\n{func.script()}")
        kinds.add(found.kind)
    return "equal" if "equal" in kinds else "refused: every access leaves its buffer"
