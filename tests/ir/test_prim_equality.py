"""`==` and `!=` of scalar expressions: an expression where one is used, identity where Python asks for the truth."""

# ruff: noqa: SIM300  # which operand stands first is what many tests are about

from __future__ import annotations

import copy

import numpy as np
import pytest

from eutectic import tir
from eutectic.arith import Analyzer
from eutectic.compat.arith_names import Analyzer as CompatAnalyzer
from eutectic.compat.arith_names import deduce_bound
from eutectic.compat.stmt_functor import post_order_visit, substitute
from eutectic.compat.tir_analysis import undefined_vars
from eutectic.compat.tir_names import convert
from eutectic.ir.json_form import load_json, save_json
from eutectic.ir.prim_expr import as_prim
from eutectic.ir.structural import structural_equal, structural_hash
from eutectic.relax import PrimValue, op
from eutectic.te.reduction import CommReducer, Reduce
from eutectic.tir import EQ, NE, And, EqualOp, FloatImm, IntImm, Not, NotEqualOp, Or, Var

M, N = Var("i"), Var("j")
X, P = Var("x", "float32"), Var("p", "bool")
ZERO = IntImm("int32", 0)
TRUE = IntImm("bool", 1)


class Colliding(Var):
    """Variables that share one hash, so that a dictionary has to compare them."""

    def __hash__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("compared", "want"),
    [
        (M == N, EQ(M, N)),
        (M != N, NE(M, N)),
        (M % 3 == 0, EQ(M % 3, ZERO)),
        (0 == M, EQ(M, ZERO)),
        (0 != M, NE(M, ZERO)),
        (np.int64(0) == M, EQ(M, ZERO)),
        (M == np.int32(0), EQ(M, ZERO)),
        (X == 1.5, EQ(X, FloatImm("float32", 1.5))),
        (X == np.float32(1.5), EQ(X, FloatImm("float32", 1.5))),
        (P == True, EQ(P, TRUE)),  # noqa: E712  # what is tested
        (P != np.bool_(True), NE(P, TRUE)),
        (ZERO == M, EQ(M, ZERO)),
        (ZERO != M, NE(M, ZERO)),
        ((M == 0) == (N == 0), EQ(EQ(M, ZERO), EQ(N, ZERO))),
    ],
    ids=str,
)
def test_a_comparison_is_an_expression(compared, want):
    assert isinstance(compared, (EqualOp, NotEqualOp))
    assert structural_equal(compared.asobject(), want)
    assert structural_equal(compared, want)
    assert structural_hash(compared) == structural_hash(want)
    assert structural_equal(as_prim(compared), want)
    assert compared.dtype == "bool"
    assert repr(compared) == repr(want) == str(compared)


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        ((M == 0) & (N != 1), And(EQ(M, 0), NE(N, 1))),
        ((M == 0) & (M < N), And(EQ(M, 0), M < N)),
        ((M < N) & (M == 0), And(M < N, EQ(M, 0))),
        ((M == 0) | (N == 1), Or(EQ(M, 0), EQ(N, 1))),
        ((M == 0) | True, TRUE),
        (True & (M == 0), EQ(M, 0)),
        ((M == 0) ^ (N == 1), NE(EQ(M, 0), EQ(N, 1))),
        (~(M == N), Not(EQ(M, N))),
        ((M == N).astype("int32"), tir.Cast("int32", EQ(M, N))),
        ((M == N).equal(P), EQ(EQ(M, N), P)),
        ((M == N).not_equal(P), NE(EQ(M, N), P)),
        ((M == N).astype("int32") + 1, tir.Add(tir.Cast("int32", EQ(M, N)), 1)),
        ((M == N) < P, tir.LT(EQ(M, N), P)),
        (tir.all(M == 0, N == 1), And(EQ(M, 0), EQ(N, 1))),
        (tir.any(M == 0, N == 1), Or(EQ(M, 0), EQ(N, 1))),
        (tir.Not(M == N), Not(EQ(M, N))),
        (tir.And(M == N, P), And(EQ(M, N), P)),
        (tir.EQ(M == N, P), EQ(EQ(M, N), P)),
        (tir.Cast("int32", M == N), tir.Cast("int32", EQ(M, N))),
        (tir.Select(M == N, M, N), tir.Select(EQ(M, N), M, N)),
        (tir.Select(P, M == 0, N == 0), tir.Select(P, EQ(M, 0), EQ(N, 0))),
        (tir.Select(P, True, N == 0), tir.Select(P, TRUE, EQ(N, 0))),
        (tir.if_then_else(M == N, M, 0), tir.if_then_else(EQ(M, N), M, 0)),
        (tir.if_then_else(P, M == 0, N == 0), tir.if_then_else(P, EQ(M, 0), EQ(N, 0))),
        (tir.if_then_else(P, True, N == 0), tir.if_then_else(P, TRUE, EQ(N, 0))),
        (tir.likely(M == N), tir.likely(EQ(M, N))),
        (tir.assume(M == N), tir.assume(EQ(M, N))),
        (tir.call_extern("int32", "f", M == N), tir.call_extern("int32", "f", EQ(M, N))),
        (tir.Let(P, M == N, P), tir.Let(P, EQ(M, N), P)),
        (tir.Broadcast(M == N, 4), tir.Broadcast(EQ(M, N), 4)),
        (tir.Ramp(0, 1, 4) == tir.Ramp(M, 1, 4), EQ(tir.Ramp(0, 1, 4), tir.Ramp(M, 1, 4))),
        (tir.ret(M == N), tir.ret(EQ(M, N))),
        (convert(M == N), EQ(M, N)),
    ],
    ids=str,
)
def test_it_can_be_used_as_any_expression(expr, want):
    assert structural_equal(expr, want)


NOTHING = tir.Evaluate(0)
A = tir.decl_buffer((4,), "bool", "A")
V = tir.decl_buffer((4,), "bool", "V")
LANES = tir.Ramp(0, 1, 4)


@pytest.mark.parametrize(
    "made",
    [
        lambda c: tir.IfThenElse(c, NOTHING),
        lambda c: tir.While(c, NOTHING),
        lambda c: tir.AssertStmt(c, "wrong", NOTHING),
        lambda c: tir.LetStmt(P, c, NOTHING),
        lambda c: tir.Evaluate(c),
        lambda c: tir.BufferStore(A, c, [M]),
        lambda c: tir.AttrStmt(M, "key", c, NOTHING),
        lambda c: tir.Allocate(Var("m", "handle"), "int8", (4,), c, NOTHING),
        lambda c: tir.BlockRealize((), c, tir.Block((), (), (), "b", NOTHING)),
        lambda c: PrimValue(c),
        lambda c: op.assert_op(c),
        lambda c: CommReducer((P,), (P,), (c,), (c,)),
        lambda c: Reduce(CommReducer((P,), (P,), (P,), (P,)), (), (c,), c, 0, (c,)),
        lambda c: tir.IndexMap.from_func(lambda i: c),
    ],
)
def test_nodes_hold_the_expression(made):
    assert structural_equal(made(M == N), made(EQ(M, N)), map_free_vars=True)


def test_vectors_of_comparisons_are_stored_and_mask():
    lanes = LANES == tir.Broadcast(M, 4)
    store = tir.BufferStore(V, lanes, [LANES], lanes)
    assert structural_equal(store, tir.BufferStore(V, as_prim(lanes), [LANES], as_prim(lanes)))
    assert structural_equal(tir.BufferLoad(V, [LANES], lanes), tir.BufferLoad(V, [LANES], as_prim(lanes)))
    one = tir.BufferStore(V, M == N, [LANES])
    assert structural_equal(one.value, tir.Broadcast(EQ(M, N), 4))


def test_its_truth_is_identity():
    assert M == M
    assert M != N
    assert not (M == N)  # noqa: SIM201  # what is tested
    assert not (M != M)  # noqa: SIM202  # as above
    assert not M == 0  # noqa: SIM201  # as above
    same = M + 1
    assert same == same
    assert same != M + 1
    assert (M, N) == (M, N)
    assert (M, N) != (N, M)


def test_containers_ask_for_identity():
    assert N in [M, N]
    assert N not in [M, X]
    assert [M, N].index(N) == 1
    first, second = Colliding("a"), Colliding("b")
    table = {first: "a", second: "b"}
    assert (len(table), table[first], table[second]) == (2, "a", "b")
    assert Colliding("c") not in table
    assert {M: 0, N: 1}[N] == 1
    assert hash(M) == object.__hash__(M)
    assert len({M == N, M == N}) == 2


def test_other_objects_are_not_equal():
    for other in (None, "i", (), [M], object()):
        assert (M == other) is False
        assert (M != other) is True


def test_constants_are_compared_by_value():
    assert (IntImm("int32", 3) == IntImm("int64", 3)) is True
    assert (IntImm("int32", 3) != IntImm("int64", 3)) is False
    assert (IntImm("int32", 3) == 3) is True
    assert (IntImm("int32", 3) != 4) is True
    assert (3 == IntImm("int32", 3)) is True
    assert (IntImm("int32", 3) == "3") is False
    assert (IntImm("int32", 3) != None) is True  # noqa: E711  # what is tested
    assert hash(IntImm("int32", 3)) == hash(3)


def test_dtypes_matter_only_where_it_is_used():
    compared = X == P
    assert not compared
    assert X not in [P]
    with pytest.raises(TypeError, match="need one dtype"):
        compared.asobject()
    with pytest.raises(TypeError, match="need one dtype"):
        tir.Select(compared, M, N)
    assert repr(compared) == f"{X!r} == {P!r}"


def test_conditions_that_are_written_out_still_have_no_truth_value():
    for condition in (M.equal(N), (M == N) & (M != 0), ~(M == N), tir.EQ(M, N)):
        with pytest.raises(TypeError, match="cannot branch"):
            bool(condition)


@pytest.mark.parametrize("kind", [Analyzer, CompatAnalyzer])
def test_the_analyzer_takes_it(kind):
    rules = kind()
    rules.bind(M, tir.Range(0, 4))
    assert rules.can_prove(M // 4 == 0)
    assert rules.can_prove(M != 7)
    assert rules.can_prove(M + N == N + M)
    assert not rules.can_prove(M == N)
    assert structural_equal(rules.simplify(M // 4 == 0), TRUE)
    assert structural_equal(rules.rewrite_simplify(N == N + 0), TRUE)
    assert structural_equal(rules.canonical_simplify(N + 1 != N), TRUE)
    with rules.constraint_scope(N == 3):
        assert rules.can_prove(N + 1 == 4)
    assert rules.can_prove_equal(M == 0, EQ(M, 0))
    rules.bind(P, N == 2)
    assert structural_equal(rules.simplify(P), rules.simplify(EQ(N, 2)))
    assert rules.const_int_bound(M == 9) == rules.const_int_bound(TRUE - TRUE)


def test_functions_under_tvms_names_take_it():
    assert deduce_bound(M, M == 3, None, None).min_value == 3
    assert undefined_vars(M == N) == [M, N]
    seen = []
    post_order_visit(M == N, seen.append)
    assert [type(item).__name__ for item in seen] == ["Var", "Var", "EQ"]
    assert structural_equal(substitute(M == N, {N: 0}), EQ(M, 0))
    assert structural_equal(load_json(save_json(M == N)), EQ(M, N), map_free_vars=True)


def test_copies_mean_the_same():
    compared = ZERO + M == 1
    assert structural_equal(copy.copy(compared), compared)
    assert structural_equal(copy.deepcopy(compared), compared, map_free_vars=True)


def test_numpys_numbers_and_arrays_of_objects_go_on_working():
    assert structural_equal(np.int64(2) < M, M > 2)
    assert structural_equal(np.int64(2) * M, 2 * M)
    assert structural_equal(np.array(2) != M, NE(M, 2))
    products = np.arange(3) * M
    assert [structural_equal(x, y) for x, y in zip(products, (0 * M, M, 2 * M), strict=True)] == [True] * 3
    assert (np.array([M, N], object) == np.array([M, M], object)).tolist() == [True, False]
