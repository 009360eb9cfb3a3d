"""Sums with quotients by numbers: what is proved of them holds, and what holds of usual sizes is proved."""

from __future__ import annotations

import random
from itertools import product

import pytest

from eutectic.arith import Analyzer, Interval
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, floordiv
from eutectic.tir.statement_mutator import with_values

N, M = Var("n", "int64"), Var("m", "int64")
RANGE = range(1, 13)


def analyzer() -> Analyzer:
    known = Analyzer()
    for var in (N, M):
        known.bind(var, Interval(RANGE[0], RANGE[-1]))
    return known


def holds(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether one size is at least another one, for all values."""
    gaps = (known_gap(a - b, n, m) for n, m in product(RANGE, RANGE))
    return all(gap >= 0 for gap in gaps)


def known_gap(gap: PrimExpr, n: int, m: int) -> int:
    value = Analyzer().simplify(with_values(gap, {N: IntImm("int64", n), M: IntImm("int64", m)}))
    assert isinstance(value, IntImm)
    return value.value


AT_LEAST = [
    (N, N // 2),
    (N * M, N * M // 2),
    (N - 1, (N - 1) // 2),
    ((N + 1) // 2, N // 2),
    (N, N // 3 * 2),
    (N, N // 2 + N // 3),
    ((N + 1) // 2, (N + 1) // 2 // 2),
    (N // 2 * 2 + 1, N),
]


@pytest.mark.parametrize("number", range(len(AT_LEAST)))
def test_parts_of_a_size_are_no_more_than_it(number: int):
    more, less = AT_LEAST[number]
    assert holds(more, less)
    assert analyzer().can_prove_at_least(more, less)
    assert not analyzer().can_prove_at_least(less, more + 1)


def test_what_is_proved_holds():
    rng = random.Random(0)

    def size() -> PrimExpr:
        base = rng.choice((N, M, N + M, N * M, N * 2 - M)) + rng.randint(-2, 2)
        return floordiv(base, rng.randint(2, 4)) * rng.choice((1, 1, 2, 3)) + rng.choice((0, N, M, N // 2, -1))

    pairs = [(size(), size()) for _ in range(200)]
    proved = [(a, b) for a, b in pairs if analyzer().can_prove_at_least(a, b)]
    assert len(proved) > 5
    assert all(holds(a, b) for a, b in proved)
