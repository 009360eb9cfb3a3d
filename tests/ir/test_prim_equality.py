"""`==` and `!=` of scalar expressions: an expression where one is used, identity where Python asks for a truth value."""

from __future__ import annotations

import copy
import pickle

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

I, J = Var("i"), Var("j")
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
        (I == J, EQ(I, J)),
        (I != J, NE(I, J)),
        (I % 3 == 0, EQ(I % 3, ZERO)),
        (0 == I, EQ(I, ZERO)),  # noqa: SIM300  # the reflected operator
        (0 != I, NE(I, ZERO)),  # noqa: SIM300  # as above
        (np.int64(0) == I, EQ(I, ZERO)),
        (I == np.int32(0), EQ(I, ZERO)),
        (X == 1.5, EQ(X, FloatImm("float32", 1.5))),
        (X == np.float32(1.5), EQ(X, FloatImm("float32", 1.5))),
        (P == True, EQ(P, TRUE)),  # noqa: E712  # what is tested
        (P != np.bool_(True), NE(P, TRUE)),
        (ZERO == I, EQ(I, ZERO)),
        (ZERO != I, NE(I, ZERO)),
        ((I == 0) == (J == 0), EQ(EQ(I, ZERO), EQ(J, ZERO))),
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
        ((I == 0) & (J != 1), And(EQ(I, 0), NE(J, 1))),
        ((I == 0) & (I < J), And(EQ(I, 0), I < J)),
        ((I < J) & (I == 0), And(I < J, EQ(I, 0))),
        ((I == 0) | (J == 1), Or(EQ(I, 0), EQ(J, 1))),
        ((I == 0) | True, TRUE),
        (True & (I == 0), EQ(I, 0)),
        ((I == 0) ^ (J == 1), NE(EQ(I, 0), EQ(J, 1))),
        (~(I == J), Not(EQ(I, J))),
        ((I == J).astype("int32"), tir.Cast("int32", EQ(I, J))),
        ((I == J).equal(P), EQ(EQ(I, J), P)),
        ((I == J).not_equal(P), NE(EQ(I, J), P)),
        ((I == J).astype("int32") + 1, tir.Add(tir.Cast("int32", EQ(I, J)), 1)),
        ((I == J) < P, tir.LT(EQ(I, J), P)),
        (tir.all(I == 0, J == 1), And(EQ(I, 0), EQ(J, 1))),
        (tir.any(I == 0, J == 1), Or(EQ(I, 0), EQ(J, 1))),
        (tir.Not(I == J), Not(EQ(I, J))),
        (tir.And(I == J, P), And(EQ(I, J), P)),
        (tir.EQ(I == J, P), EQ(EQ(I, J), P)),
        (tir.Cast("int32", I == J), tir.Cast("int32", EQ(I, J))),
        (tir.Select(I == J, I, J), tir.Select(EQ(I, J), I, J)),
        (tir.Select(P, I == 0, J == 0), tir.Select(P, EQ(I, 0), EQ(J, 0))),
        (tir.Select(P, True, J == 0), tir.Select(P, TRUE, EQ(J, 0))),
        (tir.if_then_else(I == J, I, 0), tir.if_then_else(EQ(I, J), I, 0)),
        (tir.if_then_else(P, I == 0, J == 0), tir.if_then_else(P, EQ(I, 0), EQ(J, 0))),
        (tir.if_then_else(P, True, J == 0), tir.if_then_else(P, TRUE, EQ(J, 0))),
        (tir.likely(I == J), tir.likely(EQ(I, J))),
        (tir.assume(I == J), tir.assume(EQ(I, J))),
        (tir.call_extern("int32", "f", I == J), tir.call_extern("int32", "f", EQ(I, J))),
        (tir.Let(P, I == J, P), tir.Let(P, EQ(I, J), P)),
        (tir.Broadcast(I == J, 4), tir.Broadcast(EQ(I, J), 4)),
        (tir.Ramp(0, 1, 4) == tir.Ramp(I, 1, 4), EQ(tir.Ramp(0, 1, 4), tir.Ramp(I, 1, 4))),
        (tir.ret(I == J), tir.ret(EQ(I, J))),
        (convert(I == J), EQ(I, J)),
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
        lambda c: tir.BufferStore(A, c, [I]),
        lambda c: tir.AttrStmt(I, "key", c, NOTHING),
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
    assert structural_equal(made(I == J), made(EQ(I, J)), map_free_vars=True)


def test_vectors_of_comparisons_are_stored_and_mask():
    lanes = LANES == tir.Broadcast(I, 4)
    store = tir.BufferStore(V, lanes, [LANES], lanes)
    assert structural_equal(store, tir.BufferStore(V, as_prim(lanes), [LANES], as_prim(lanes)))
    assert structural_equal(tir.BufferLoad(V, [LANES], lanes), tir.BufferLoad(V, [LANES], as_prim(lanes)))
    one = tir.BufferStore(V, I == J, [LANES])
    assert structural_equal(one.value, tir.Broadcast(EQ(I, J), 4))


def test_its_truth_is_identity():
    assert I == I  # noqa: PLR0124  # what is tested
    assert I != J
    assert not (I == J)  # noqa: SIM201  # what is tested
    assert not (I != I)  # noqa: PLR0124, SIM202  # as above
    assert not I == 0  # noqa: SIM201  # as above
    same = I + 1
    assert same == same  # noqa: PLR0124  # as above
    assert same != I + 1
    assert (I, J) == (I, J)
    assert (I, J) != (J, I)


def test_containers_ask_for_identity():
    assert J in [I, J]
    assert J not in [I, X]
    assert [I, J].index(J) == 1
    first, second = Colliding("a"), Colliding("b")
    table = {first: "a", second: "b"}
    assert (len(table), table[first], table[second]) == (2, "a", "b")
    assert Colliding("c") not in table
    assert {I: 0, J: 1}[J] == 1
    assert hash(I) == object.__hash__(I)
    assert len({I == J, I == J}) == 2


def test_other_objects_are_not_equal():
    for other in (None, "i", (), [I], object()):
        assert (I == other) is False
        assert (I != other) is True


def test_constants_are_compared_by_value():
    assert (IntImm("int32", 3) == IntImm("int64", 3)) is True
    assert (IntImm("int32", 3) != IntImm("int64", 3)) is False
    assert (IntImm("int32", 3) == 3) is True
    assert (IntImm("int32", 3) != 4) is True
    assert (3 == IntImm("int32", 3)) is True  # noqa: SIM300  # the reflected operator
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
        tir.Select(compared, I, J)
    assert repr(compared) == f"{X!r} == {P!r}"


def test_conditions_that_are_written_out_still_have_no_truth_value():
    for condition in (I.equal(J), (I == J) & (I != 0), ~(I == J), tir.EQ(I, J)):
        with pytest.raises(TypeError, match="cannot branch"):
            bool(condition)


@pytest.mark.parametrize("kind", [Analyzer, CompatAnalyzer])
def test_the_analyzer_takes_it(kind):
    rules = kind()
    rules.bind(I, tir.Range(0, 4))
    assert rules.can_prove(I // 4 == 0)
    assert rules.can_prove(I != 7)
    assert rules.can_prove(I + J == J + I)
    assert not rules.can_prove(I == J)
    assert structural_equal(rules.simplify(I // 4 == 0), TRUE)
    assert structural_equal(rules.rewrite_simplify(J == J + 0), TRUE)
    assert structural_equal(rules.canonical_simplify(J + 1 != J), TRUE)
    with rules.constraint_scope(J == 3):
        assert rules.can_prove(J + 1 == 4)
    assert rules.can_prove_equal(I == 0, EQ(I, 0))
    rules.bind(P, J == 2)
    assert structural_equal(rules.simplify(P), rules.simplify(EQ(J, 2)))
    assert rules.const_int_bound(I == 9) == rules.const_int_bound(TRUE - TRUE)


def test_functions_under_tvms_names_take_it():
    assert deduce_bound(I, I == 3, None, None).min_value == 3
    assert undefined_vars(I == J) == [I, J]
    seen = []
    post_order_visit(I == J, seen.append)
    assert [type(item).__name__ for item in seen] == ["Var", "Var", "EQ"]
    assert structural_equal(substitute(I == J, {J: 0}), EQ(I, 0))
    assert structural_equal(load_json(save_json(I == J)), EQ(I, J), map_free_vars=True)


def test_copies_mean_the_same():
    compared = ZERO + I == 1
    assert structural_equal(copy.copy(compared), compared)
    for copied in (copy.deepcopy(compared), pickle.loads(pickle.dumps(compared))):
        assert structural_equal(copied, compared, map_free_vars=True)
