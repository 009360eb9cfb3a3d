"""sample_perfect_tile, sample_categorical: numbers chosen at random, and written down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import ExprRV, LoopRV
from eutectic.tir.schedule.primitive import primitive


@primitive
def sample_perfect_tile(
    edit: Edit, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
) -> list[ExprRV]:
    """Choose factors whose product is the extent of a loop; each choice is as likely as any other.

    Args:
        edit: The call.
        loop: A loop of constant extent.
        n: Number of factors, outermost first.
        max_innermost_factor: Largest last factor, where there is a choice; -1 for any.
        decision: The factors, when they are known; a first factor that does not fit is made to.

    Returns:
        The factors.

    Raises:
        ScheduleError: the loop is gone, or its extent is not constant or zero; or `n` is not positive; or the
            decision is not of `n` positive numbers that divide the extent.
    """
    site = edit.loop(loop)
    extent = edit.require_constant(site, "so it has no factors")
    if n <= 0 or extent <= 0:
        edit.refuse(
            site, f"sample_perfect_tile: {extent} iterations have no {n} factors", help="give at least one factor"
        )
    if decision is None:
        factors = perfect_tile(edit.rng, extent, n, max_innermost_factor)
    else:
        factors = [edit.number(f) for f in decision]
        rest = prod(factors[1:])
        if len(factors) != n or any(f <= 0 for f in factors) or extent % rest:
            message = f"sample_perfect_tile: {factors} are not {n} factors of {extent}"
            edit.refuse(site, message, help="leave the decision out to have one made")
        factors[0] = extent // rest
    edit.decision = list(factors)
    return [edit.expr_rv(factor) for factor in factors]


def perfect_tile(rng: random.Random, extent: int, n: int, max_innermost: int) -> list[int]:
    """`n` factors of `extent`, all choices alike."""
    choices = [d for d in divisors(extent) if max_innermost <= 0 or d <= max_innermost] if n > 1 else [extent]
    factors: list[int] = []
    rest = extent
    for left in range(n - 1, 0, -1):
        weights = [ways(rest // d, left) for d in choices]
        chosen = rng.choices(choices, weights)[0]
        factors.insert(0, chosen)
        rest //= chosen
        choices = divisors(rest)
    return [rest, *factors]


def divisors(number: int) -> list[int]:
    """The divisors of a number, smallest first."""
    return [d for d in range(1, number + 1) if number % d == 0]


def ways(number: int, factors: int) -> int:
    """In how many ways a number is a product of so many factors, in order."""
    out, rest, prime = 1, number, 2
    while rest > 1:
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        for k in range(power):
            out = out * (factors + k) // (k + 1)
        prime = prime + 1 if prime * prime <= rest else max(rest, prime + 1)
    return out


@primitive
def sample_categorical(
    edit: Edit, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
) -> ExprRV:
    """Choose one of several numbers.

    Args:
        edit: The call.
        candidates: The numbers.
        probs: How likely each is; the sum is one.
        decision: Which candidate, counted from zero, when that is known.

    Returns:
        The number.

    Raises:
        ScheduleError: there is not one probability per candidate; they are negative, or their sum is not one; or
            the decision is none of the candidates.
    """
    numbers, likely = [edit.number(c) for c in candidates], [float(p) for p in probs]
    if not numbers or len(numbers) != len(likely):
        edit.refuse(None, f"sample_categorical: {len(likely)} probabilities are given for {len(numbers)} candidates")
    if min(likely) < 0 or abs(sum(likely) - 1) > 1e-6:
        edit.refuse(None, f"sample_categorical: probabilities {likely} are negative, or their sum is not 1")
    chosen = edit.rng.choices(range(len(numbers)), likely)[0] if decision is None else edit.number(decision)
    if not 0 <= chosen < len(numbers):
        edit.refuse(None, f"sample_categorical: decision {chosen} is none of the {len(numbers)} candidates")
    edit.decision = chosen
    return edit.expr_rv(numbers[chosen])
