"""The analyzer never changes a value, never proves what is false, and knows the forms that schedules make."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from tests.arith.expressions import analyzer, conditions, exprs, literal, values

import eutectic.script  # noqa: F401  # registers the printer
from eutectic.arith import Analyzer, Interval, ModularSet
from eutectic.ir.prim_expr import (
    And,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Select,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    evaluate,
    shift_left,
    shift_right,
)
from eutectic.tir import Range

I0, I1, P, J, X, Y = (Var(name) for name in ("i0", "i1", "i", "j", "x", "y"))
N, M = SizeVar("n"), SizeVar("m")


@pytest.fixture
def known() -> Analyzer:
    made = Analyzer()
    made.bind(I0, Range(0, 8))
    made.bind(I1, Range(0, 4))
    made.bind(P, Range(0, N))
    made.bind(J, Range(0, M))
    return made


def text(expr: PrimExpr) -> str:
    return re.sub(r"T\.int32\((-?\d+)\)", r"\1", str(expr))


@given(exprs())
def test_simplify_keeps_every_value(expr: PrimExpr):
    under = analyzer()
    made = under.simplify(expr)
    for point, value in values(expr):
        assert evaluate(made, point) == value
    assert under.simplify(made) is made
    assert all(value in under.const_int_bound(expr) for _, value in values(expr))
    assert all(value in under.modular_set(expr) for _, value in values(expr))


@given(exprs())
def test_simplify_without_ranges_holds_for_all_values(expr: PrimExpr):
    made = Analyzer().simplify(expr)
    assert all(evaluate(made, point) == value for point, value in values(expr))


@given(conditions())
def test_conditions_keep_their_value_and_proofs_are_true(condition: PrimExpr):
    under = analyzer()
    made = under.simplify(condition)
    found = values(condition)
    for point, value in found:
        assert evaluate(made, point) == value
    if under.can_prove(condition):
        assert all(value for _, value in found)
    assert under.simplify(made) is made


@given(exprs(6), exprs(6))
def test_relations_are_never_wrong(a: PrimExpr, b: PrimExpr):
    under = analyzer()
    both = values(Sub(a, b))
    if under.can_prove_equal(a, b):
        assert all(value == 0 for _, value in both)
    if under.can_prove_less(a, b):
        assert all(value < 0 for _, value in both)
    if under.can_prove_greater_equal(a, b):
        assert all(value >= 0 for _, value in both)


@given(conditions(), exprs(6), conditions())
def test_constraints_hold_where_the_condition_does(constraint: PrimExpr, expr: PrimExpr, claim: PrimExpr):
    under = analyzer()
    with under.constraint_scope(constraint):
        made, proved = under.simplify(expr), under.can_prove(claim)
        limits = under.const_int_bound(expr)
    inside = [point for point, holds in values(constraint) if holds]
    for point, value in values(expr):
        if point in inside:
            assert evaluate(made, point) == value
            assert value in limits
    assert not proved or all(value for point, value in values(claim) if point in inside)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((I0 * 4 + I1) // 4, "i0"),
        ((I0 * 4 + I1) % 4, "i1"),
        ((I0 * 4 + I1) // 8, "i0 // 2"),
        ((I0 * 4 + I1) % 8, "i0 % 2 * 4 + i1"),
        ((I0 * 4 + I1) // 2 % 2, "i1 // 2"),
        ((I0 * 4 + I1) % 4 + (I0 * 4 + I1) // 4 * 4, "i0 * 4 + i1"),
        ((P * M + J) // M, "i"),
        ((P * M + J) % M, "j"),
        ((P * (M * 4) + J * 4 + I1) // (M * 4), "i"),
        ((P * (M * 4) + J * 4 + I1) // 4 % M, "j"),
        ((P * (N + 1) + P) // (N + 1), "i"),
        (X // 4 * 4 + X % 4, "x"),
        (X - X // 4 * 4, "x % 4"),
        (X // 8 % 4 * 8 + X % 8, "x % 32"),
        (X // 8 % 4, "x // 8 % 4"),
        (X % 32 // 8, "x // 8 % 4"),
        (X // 2 // 4, "x // 8"),
        ((X // 2 + 3) // 4, "(x + 6) // 8"),
        (X % 12 % 4, "x % 4"),
        ((X % 12 + Y) % 4, "(x + y) % 4"),
        (X // 1, "x"),
        (X % 1, "0"),
        ((X * 8 + Y * 4 + I1) // 4, "x * 2 + y"),
        ((X % 9 * 16 + I0) // 40 * 40 + (X % 9 * 4 + I0 // 4) % 10 * 4 + I0 % 4, "x % 9 * 16 + i0"),
        ((X * 6 + 4) // 8, "(x * 3 + 2) // 4"),
        ((X * 8 + 3) % 4, "3"),
        ((X * -4 + I1) // 4, "x * -1"),
        ((N * M) // M, "n"),
        ((0 - X) // -4, "x // 4"),
        ((X + 4) % -4, "x * -1 % 4 * -1"),
        (I0 * 4 + I1 < 32, "True"),
        (I0 * 4 + I1 >= 32, "False"),
        (P * M + J < N * M, "True"),
        ((N + 3) // 4 * 4 >= N, "True"),
        (X + 3 < Y + 3, "x < y"),
        (X * 4 < 32, "x < 8"),
        (X * 4 + 2 <= 32, "x < 8"),
        (X - 3 < 5, "x < 8"),
        ((X * 2).equal(Y * 2), "x == y"),
        ((X * 2).equal(Y * 2 + 1), "False"),
        (Min(I0, literal(9)), "i0"),
        (Max(I0 * 4 + I1, literal(-1)), "i0 * 4 + i1"),
        (Min(X, Min(Y, X)), "T.min(x, y)"),
        (Min(X + 1, X + 3), "x + 1"),
        (Min(I0 * 4 + 4, N) - I0 * 4 <= 4, "True"),
        (Select(I0 < 8, X, Y), "x"),
        (Select(X < Y, I0 + 1, 1 + I0), "i0 + 1"),
        (And(X < 5, I0 < 8), "x < 5"),
        (And(X < 5, Not(X < 5)), "False"),
        (Or(X < 5, X >= 5), "True"),
        (Not(X < 5), "x >= 5"),
        (TruncDiv(I0 * 4 + I1, literal(4)), "i0"),
        (TruncMod(I0 * 4 + I1, literal(4)), "i1"),
        (TruncDiv(X, literal(4)), "T.truncdiv(x, 4)"),
        (shift_left(X, 2) + (X - X), "x * 4"),
        (shift_right(X * 8, 2), "x * 2"),
        (X + Y - X, "y"),
        ((X + 1) * (X - 1), "x * x - 1"),
        (5 - X, "5 - x"),
    ],
    ids=str,
)
def test_forms_of_schedules(known: Analyzer, expr: PrimExpr, expected: str):
    made = known.simplify(expr)
    assert text(made) == expected
    assert known.simplify(made) is made
    assert known.canonical_simplify(expr) is not None
    assert text(known.rewrite_simplify(expr)) == expected


def test_constraints_last_as_long_as_their_scope(known: Analyzer):
    inside = And(And(X >= 3, X < 8), (Y % 4).equal(0))
    with known.constraint_scope(inside):
        assert text(known.simplify(Y // 4 * 4)) == "y"
        assert known.can_prove(inside)
        assert known.const_int_bound(X * 2) == Interval(6, 14)
        with known.constraint_scope(X.equal(5)):
            assert text(known.simplify(X + 1)) == "6"
    assert not known.can_prove(X < 9)
    with known.constraint_scope(X < Y):
        assert known.can_prove(X + 1 <= Y)
        assert not known.can_prove(X + 1 < Y)


def test_a_variable_stands_for_its_expression_until_bound_anew():
    under = Analyzer()
    under.bind(X, Y * 4 + 1)
    assert text(under.simplify(X % 4)) == "1"
    under.bind(X, Interval(0, 2))
    assert text(under.simplify(X // 3)) == "0"
    under.bind_modular(Y, ModularSet(4, 2))
    assert text(under.simplify(Y.equal(8))) == "False"


def test_unsigned_operations_that_may_wrap_stay():
    u, v = Var("u", "uint8"), Var("v", "uint8")
    under = Analyzer()
    assert not under.can_prove(u + 1 > u)
    assert not under.can_prove_less(u - v, 1)
    under.bind(u, Interval(0, 7))
    assert under.can_prove(u + 1 > u)
    assert under.can_prove_equal((u * 4 + 3) // 4, u)


def test_casts_that_keep_the_value_are_joined():
    under = Analyzer()
    x = Var("x", "int16")
    assert under.simplify(Cast("int16", Cast("int64", x))) is x
    assert under.can_prove_equal(Cast("int64", Cast("int32", x)), Cast("int64", x))
    narrowed = Cast("int64", Cast("int8", x))
    assert not under.can_prove_equal(narrowed, Cast("int64", x))


def test_calls_and_floats_are_kept_and_looked_into():
    call = Call("int32", "tir.if_then_else", (X < Y, X // 4 * 4 + X % 4, Y))
    assert text(Analyzer().simplify(call)) == 'T.Call("int32", "tir.if_then_else", [x < y, x, y])'
    f = Var("f", "float32")
    assert Analyzer().simplify(f + FloatImm("float32", 1.0) - f).script() == (f + FloatImm("float32", 1.0) - f).script()


def test_large_expressions_take_little_time():
    x: PrimExpr = X
    for _ in range(40):  # shared operands: a tree of 2**40 nodes
        x = Min(x * x + 1, x)
    Analyzer().simplify(x)
    total: PrimExpr = literal(0)
    for k in range(1, 2000):
        total = total + X * k
    assert text(Analyzer().simplify(total)) == f"x * {1999 * 2000 // 2}"
    power: PrimExpr = X + Y
    for _ in range(12):
        power = power * (X + Y)
    Analyzer().simplify(power)


def test_constants_beyond_the_dtype_are_not_made():
    x = Var("x", "int8")
    expr = x * IntImm("int8", 100) * IntImm("int8", 2)
    assert Analyzer().simplify(expr) is expr
