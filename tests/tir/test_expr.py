"""Scalar expressions: dtypes of operands, folding, and what Python operators build or refuse."""

from __future__ import annotations

import pytest

from eutectic import tir
from eutectic.arith.proofs import prove_equal, simplify
from eutectic.ir.prim_expr import evaluate
from eutectic.ir.structural import structural_equal
from eutectic.tir import Add, And, Call, Cast, Div, FloatImm, IntImm, Not, Select, Var

M, N, L = Var("i"), Var("j"), Var("l", "int64")
X, H, P = Var("x", "float32"), Var("h", "float16"), Var("p", "bool")


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (M < 3, tir.LT(M, IntImm("int32", 3))),
        (M <= N, tir.LE(M, N)),
        (M >= N, tir.GE(M, N)),
        (M.equal(3), tir.EQ(M, IntImm("int32", 3))),
        (M.not_equal(N), tir.NE(M, N)),
        (X / 2, Div(X, FloatImm("float32", 2.0))),
        (1 / X, Div(FloatImm("float32", 1.0), X)),
        (X + 1, Add(X, FloatImm("float32", 1.0))),
        (H * 0.5, tir.Mul(H, FloatImm("float16", 0.5))),
        (-X, tir.Mul(X, FloatImm("float32", -1.0))),
        (L + 1, Add(L, IntImm("int64", 1))),
        (L + IntImm("int32", 1), Add(L, IntImm("int64", 1))),
        (M + L, Add(Cast("int64", M), L)),
        (10 % M, tir.FloorMod(IntImm("int32", 10), M)),
        (P & (M < N), And(P, tir.LT(M, N))),
        (P | True, IntImm("bool", 1)),
        (~P, Not(P)),
        (P ^ P, tir.NE(P, P)),
        (M & 7, Call("int32", "tir.bitwise_and", (M, IntImm("int32", 7)))),
        (1 << M, Call("int32", "tir.shift_left", (IntImm("int32", 1), M))),
        (~M, Call("int32", "tir.bitwise_not", (M,))),
        (M.astype("float32"), Cast("float32", M)),
        (tir.ceildiv(M, 4), (M + 4 - 1) // 4),
        (tir.abs(M), Select(M >= 0, M, 0 - M)),
    ],
)
def test_operators_build_nodes(expr, want):
    assert structural_equal(expr, want)


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (IntImm("int32", 7) < 8, IntImm("bool", 1)),
        (IntImm("int32", 6) & 3, IntImm("int32", 2)),
        (IntImm("int32", 1) << 4, IntImm("int32", 16)),
        (~IntImm("int32", 5), IntImm("int32", -6)),
        (tir.truncdiv(IntImm("int32", -7), 2), IntImm("int32", -3)),
        (tir.truncmod(IntImm("int32", -7), 2), IntImm("int32", -1)),
        (IntImm("int32", -7) // 2, IntImm("int32", -4)),
        (IntImm("int32", 3).astype("float16"), FloatImm("float16", 3.0)),
        (FloatImm("float32", -1.5).astype("int8"), IntImm("int8", -1)),
        (FloatImm("float32", float("nan")).astype("int8"), Cast("int8", FloatImm("float32", float("nan")))),
        (IntImm("int32", 300).astype("uint8"), Cast("uint8", IntImm("int32", 300))),
        (tir.all(True, P), P),
        (tir.any(False, P), P),
        (tir.if_then_else(True, M, N), M),
        (tir.isnan(M), IntImm("bool", 0)),
        (tir.floor(M), M),
        (tir.max_value("int8"), IntImm("int8", 127)),
        (tir.min_value("float16"), FloatImm("float16", -65504.0)),
    ],
)
def test_constants_are_folded(expr, want):
    assert structural_equal(expr, want)


def test_float_identities_are_kept_because_of_signed_zeros():
    assert isinstance(X + 0.0, Add)
    assert isinstance(X * 1.0, tir.Mul)
    assert (M + 0) is M
    assert (L * 1) is L


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: M / N, r"`/` of int32 with int32 is not defined: write `a // b`"),
        (lambda: M / 2, "tir.truncdiv"),
        (lambda: M + X, "Add of int32 with float32: both operands need one dtype"),
        (lambda: X * H, "Mul of float32 with float16"),
        (lambda: M + 0.5, "Add of int32 with float32"),
        (lambda: M + P, "Add of int32 with bool"),
        (lambda: M + Var("u", "uint32"), "Add of int32 with uint32"),
        (lambda: X & 1, "bitwise_and needs integers, got float32"),
        (lambda: tir.exp(M), "exp needs floating-point arguments, got int32"),
        (lambda: tir.logical_and(M, P), "and needs bool operands, got int32"),
        (lambda: tir.if_then_else(M, 1, 2), "condition of if_then_else must be bool"),
        (lambda: Select(P, M, X), "Select between int32 and float32"),
        (lambda: tir.Let(M, X, X), "Let binds i of int32 to a value of float32"),
        (lambda: bool(M < N), "LT is symbolic, so Python cannot branch on it"),
        (lambda: 1 if P else 2, "Var is symbolic"),
        (lambda: M + "x", "expected an integer or a scalar expression, got str"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(TypeError, match=message):
        build()


def test_python_branches_on_constants():
    assert IntImm("int64", 3) < 4
    assert not IntImm("int64", 3) > 4
    assert not IntImm("int64", 0)
    assert max(IntImm("int64", 3), IntImm("int64", 5)) == 5
    assert M  # an expression of another dtype is true, as any object


def test_vectors():
    ramp = tir.Ramp(M, 1, 4)
    assert ramp.dtype == "int32x4"
    assert (ramp + 1).dtype == "int32x4"
    assert structural_equal(ramp + 1, Add(ramp, tir.Broadcast(1, 4)))
    assert (ramp < M).dtype == "boolx4"
    assert ramp.astype("float32").dtype == "float32x4"
    with pytest.raises(TypeError, match="vectors of different lengths"):
        ramp + tir.Ramp(M, 1, 8)
    with pytest.raises(ValueError, match="at least 2 lanes"):
        tir.Ramp(M, 1, 1)


def test_reading_a_dtype_needs_no_recursion():
    total = X
    for _ in range(5000):
        total = total + X
    assert total.dtype == "float32"


def test_evaluate_conditions():
    expr = Select(tir.all(M < 3, N.not_equal(1)), M * 2, tir.truncdiv(N, 2))
    assert evaluate(expr, {M: 2, N: 5}) == 4
    assert evaluate(expr, {M: 3, N: -5}) == -2
    assert evaluate(Cast("int8", M), {M: 5}) == 5
    with pytest.raises(TypeError, match="has no integer value"):
        evaluate(tir.exp(X), {})


def test_proofs_know_the_new_nodes():
    assert simplify(X + 1.0 - X) is not X  # float arithmetic keeps its order
    assert structural_equal(simplify(L + M.astype("int64") - L), Cast("int64", M))
    assert prove_equal(tir.truncdiv(M, 2) + 1, 1 + tir.truncdiv(M, 2))
    assert not prove_equal(tir.truncdiv(M, M), M)
    assert not prove_equal(tir.truncdiv(M, N), tir.truncdiv(N, M))
    assert prove_equal(M < N, M < N)
    assert not prove_equal(tir.call_extern("int32", "f"), tir.call_extern("int32", "f"))
