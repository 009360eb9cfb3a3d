"""Bounds and residue classes hold every value, and are tight for simple forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.arith.expressions import RANGES, J, P, X, conditions, exprs, literal, values

from eutectic.arith import INF, Interval, ModularSet, bounds, modular_set
from eutectic.ir.prim_expr import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    shift_left,
    shift_right,
)

FULL32 = Interval(-(2**31), 2**31 - 1)


@given(exprs())
def test_bounds_and_residues_hold_every_value(expr: PrimExpr):
    found, residue = bounds(expr, RANGES), modular_set(expr, ranges=RANGES)
    for _, value in values(expr):
        assert value in found
        assert value in residue


@given(conditions())
def test_bounds_of_conditions(condition: PrimExpr):
    found = bounds(condition, RANGES)
    assert all(value in found for _, value in values(condition))


@given(
    st.sampled_from([Add, Sub, Mul, FloorDiv, FloorMod, TruncDiv, Min, Max, TruncMod]),
    st.tuples(st.integers(-12, 12), st.integers(0, 9)),
    st.integers(-9, 9).filter(bool),
)
def test_one_operation_with_a_constant_is_tight(kind: type[PrimExpr], where: tuple[int, int], constant: int):
    x = Var("x")
    expr = kind(x, literal(constant))  # type: ignore[call-arg]
    low, high = where[0], where[0] + where[1]
    seen = [bounds(expr, {x: (value, value)}).value for value in range(low, high + 1)]
    assert None not in seen
    found = bounds(expr, {x: (low, high)})
    if kind in (FloorMod, TruncMod) and len({v // constant for v in range(low, high + 1)}) > 1:
        assert found.covers(Interval(min(seen), max(seen)))  # type: ignore[type-var]
    else:
        assert found == Interval(min(seen), max(seen))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (P * 4 + J, Interval(0, 23)),
        (X * X - P, Interval(-47, 49)),
        (X // -2, Interval(-3, 3)),
        (X % -4, Interval(-3, 0)),
        (X % 4, Interval(0, 3)),
        (P % 8, Interval(0, 5)),
        ((P + 8) % 8, Interval(0, 5)),
        (TruncMod(X, literal(4)), Interval(-3, 3)),
        (shift_left(P, 3), Interval(0, 40)),
        (shift_right(X, 1), Interval(-4, 3)),
        (Select(P < 9, J, X), Interval(0, 3)),
        (Select(P < 3, J, X), Interval(-7, 6)),
        (Cast("int8", P * 20), Interval(0, 100)),
        (Cast("uint8", X), Interval(0, 255)),
        (Cast("int64", Var("free")), FULL32),
        (SizeVar("n") * 4 + 1, Interval(1, INF)),
        (IntImm("int32", 3) // SizeVar("n"), Interval(0, 3)),
        (Var("u", "uint8"), Interval(0, 255)),
        (Sub(Var("u", "uint8"), IntImm("uint8", 1)), Interval(0, 255)),
        (P * 2**29, Interval(0, 5 * 2**29) if 5 * 2**29 < 2**31 else FULL32),
        (P // 0, Interval()),
    ],
    ids=str,
)
def test_bounds_of(expr: PrimExpr, expected: Interval):
    assert bounds(expr, RANGES) == expected


@given(st.lists(st.sampled_from([Add, Sub, Mul]), min_size=1, max_size=3), st.integers(1, 127))
def test_overflow_may_give_any_value_of_the_dtype(kinds: list[type[PrimExpr]], constant: int):
    x = Var("x", "int8")
    expr: PrimExpr = x
    for kind in kinds:
        expr = kind(expr, IntImm("int8", constant))  # type: ignore[call-arg]
    found = bounds(expr, {x: (-3, 40)})
    for value in range(-3, 41):
        for kind in kinds:
            exact = {Add: value + constant, Sub: value - constant, Mul: value * constant}[kind]
            value = (exact + 128) % 256 - 128
        assert value in found


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (X * 4 + 2, ModularSet(4, 2)),
        ((X * 8 + 4) // 4, ModularSet(2, 1)),
        ((X * 8 + 3) % 4, ModularSet(0, 3)),
        (Min(X * 6, X * 4 + 2), ModularSet(2, 0)),
        (X * 2 * (X * 3), ModularSet(6, 0)),
        (Sub(Var("u", "uint8") * 6, IntImm("uint8", 1)), ModularSet(2, 1)),
    ],
    ids=str,
)
def test_residue_of(expr: PrimExpr, expected: ModularSet):
    assert modular_set(expr) == expected
