"""Relations between struct infos: which covers which, what covers both, and what a call's result is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.ir.module import GlobalVar
from eutectic.relax import (
    Call,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
    op,
)
from eutectic.relax.analysis import (
    BaseCheckResult,
    defined_symbolic_vars,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    free_symbolic_vars,
    struct_info_base_check,
    struct_info_lca,
)
from eutectic.relax.struct_info_relations import bind_sizes, substitute_info
from eutectic.support.errors import TypeInferenceError
from eutectic.testing.graphs import graph
from eutectic.tir import IntImm
from eutectic.tir import Var as SizeSymbol

N, M = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")
L0, L1, L2, PASS = BaseCheckResult.FAIL_L0, BaseCheckResult.FAIL_L1, BaseCheckResult.FAIL_L2, BaseCheckResult.PASS


def tensor(*shape, dtype="float32") -> TensorStructInfo:
    return TensorStructInfo(shape, dtype)


def rank(ndim: int, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(None, dtype, None, ndim)


def shape(*sizes) -> ShapeStructInfo:
    return ShapeStructInfo(sizes)


OBJECT, ANY = ObjectStructInfo(), TensorStructInfo(None, "")


# ---- which covers which


@pytest.mark.parametrize(
    ("base", "derived", "result"),
    [
        (OBJECT, tensor(2), PASS),
        (tensor(2), OBJECT, L2),
        (tensor(2), shape(2), L0),
        (tensor(2), tensor(2), PASS),
        (tensor(2), tensor(3), L1),
        (tensor(2), tensor(2, 1), L0),
        (tensor(2), tensor(2, dtype="int32"), L0),
        (tensor(2), tensor(2, dtype=""), L2),
        (ANY, tensor(2), PASS),
        (rank(1), tensor(2), PASS),
        (rank(2), tensor(2), L0),
        (rank(1), rank(-1), L2),
        (tensor(2), rank(1), L2),
        (tensor(N), tensor(N), PASS),
        (tensor(N), tensor(M), L2),
        (tensor(N), tensor(4), L2),
        (tensor(N + 1), tensor(1 + N), PASS),
        (tensor(N + 1), tensor(N), L1),
        (tensor(2, N), tensor(3, M), L1),
        (shape(2, N), shape(2, N), PASS),
        (ShapeStructInfo(None, 2), shape(2, N), PASS),
        (shape(2), ShapeStructInfo(None, 1), L2),
        (shape(2), shape(2, 2), L0),
        (PrimStructInfo("int64"), PrimStructInfo(value=N), PASS),
        (PrimStructInfo(value=N), PrimStructInfo("int64"), L2),
        (PrimStructInfo("int64"), PrimStructInfo("float32"), L0),
        (PrimStructInfo(value=IntImm("int64", 3)), PrimStructInfo(value=IntImm("int64", 4)), L1),
    ],
    ids=str,
)
def test_base_check(base: StructInfo, derived: StructInfo, result: BaseCheckResult):
    assert struct_info_base_check(base, derived) is result


def test_tuples_are_checked_field_by_field_and_the_worst_counts():
    base = TupleStructInfo((tensor(2), tensor(N)))
    assert struct_info_base_check(base, base) is PASS
    assert struct_info_base_check(base, TupleStructInfo((tensor(2), tensor(M)))) is L2
    assert struct_info_base_check(base, TupleStructInfo((tensor(3), tensor(M)))) is L1
    assert struct_info_base_check(base, TupleStructInfo((tensor(2),))) is L0
    assert struct_info_base_check(TupleStructInfo(()), TupleStructInfo(())) is PASS


def test_functions_are_covered_by_equal_functions():
    one = FuncStructInfo((tensor(N),), tensor(N))
    other = FuncStructInfo((tensor(M),), tensor(M))
    assert struct_info_base_check(one, other) is PASS
    assert struct_info_base_check(one, FuncStructInfo((tensor(2),), tensor(2))) is L2


def test_a_shape_held_by_a_variable_covers_only_itself():
    held = Var("s", ShapeStructInfo(None, 1))
    of_variable = TensorStructInfo(held, "float32")
    assert of_variable.ndim == 1
    assert struct_info_base_check(of_variable, of_variable) is PASS
    assert struct_info_base_check(of_variable, tensor(2)) is L2
    assert struct_info_base_check(rank(1), of_variable) is PASS


# ---- what covers both


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (tensor(2), tensor(2), tensor(2)),
        (tensor(2), tensor(3), rank(1)),
        (tensor(2), tensor(2, 3), rank(-1)),
        (tensor(2), tensor(2, dtype="int32"), TensorStructInfo((2,), "")),
        (tensor(N), tensor(M), rank(1)),
        (tensor(N), rank(1), rank(1)),
        (tensor(2), OBJECT, OBJECT),
        (tensor(2), shape(2), OBJECT),
        (shape(2), shape(3), ShapeStructInfo(None, 1)),
        (shape(2), shape(3, 4), ShapeStructInfo(None, -1)),
        (PrimStructInfo(value=N), PrimStructInfo(value=M), PrimStructInfo("int64")),
        (PrimStructInfo("int64"), PrimStructInfo("float32"), OBJECT),
    ],
    ids=str,
)
def test_least_common_ancestor(a: StructInfo, b: StructInfo, result: StructInfo):
    assert struct_info_lca(a, b) == result
    assert struct_info_lca(b, a) == result


def test_ancestors_of_tuples_are_taken_field_by_field():
    a, b = TupleStructInfo((tensor(2), shape(1))), TupleStructInfo((tensor(3), shape(1)))
    assert struct_info_lca(a, b) == TupleStructInfo((rank(1), shape(1)))
    assert struct_info_lca(a, TupleStructInfo((tensor(2),))) == OBJECT


SIZES = st.sampled_from([1, 2, N, M, N + 1, N * 2])
SHAPES = st.lists(SIZES, max_size=3).map(tuple)
DTYPES = st.sampled_from(["float32", "int32", ""])
LEAVES = st.one_of(
    st.builds(TensorStructInfo, SHAPES, DTYPES),
    st.builds(rank, st.integers(-1, 3), DTYPES),
    st.builds(ShapeStructInfo, SHAPES),
    st.builds(ShapeStructInfo, st.none(), st.integers(-1, 3)),
    st.builds(lambda value: PrimStructInfo(value=value), st.sampled_from([N, M, IntImm("int64", 3)])),
    st.builds(PrimStructInfo, st.sampled_from(["int64", "float32"])),
    st.just(OBJECT),
)
INFOS = st.recursive(LEAVES, lambda below: st.lists(below, max_size=2).map(TupleStructInfo), max_leaves=4)


@given(INFOS, INFOS)
def test_the_ancestor_covers_both(a: StructInfo, b: StructInfo):
    found = struct_info_lca(a, b)
    assert struct_info_base_check(found, a) is PASS
    assert struct_info_base_check(found, b) is PASS


@given(INFOS)
def test_everything_covers_itself(info: StructInfo):
    assert struct_info_base_check(info, info) is PASS
    assert struct_info_lca(info, info) == info


@given(INFOS, INFOS, INFOS)
def test_covering_is_transitive(a: StructInfo, b: StructInfo, c: StructInfo):
    if struct_info_base_check(a, b) is PASS and struct_info_base_check(b, c) is PASS:
        assert struct_info_base_check(a, c) is PASS


# ---- names out of scope


def test_shapes_with_unknown_names_are_erased_and_ranks_stay():
    info = TupleStructInfo((tensor(N, 2), tensor(M, 2), shape(N + M), tensor(3)))
    erased = erase_to_well_defined(info, [N])
    assert erased == TupleStructInfo((tensor(N, 2), rank(2), ShapeStructInfo(None, 1), tensor(3)))


@given(INFOS)
def test_what_is_left_after_erasing_is_in_scope_and_covers(info: StructInfo):
    assert erase_to_well_defined(info, [N, M]) == info
    erased = erase_to_well_defined(info, [N])
    assert M not in free_symbolic_vars(erased)
    assert struct_info_base_check(erased, info) is PASS


# ---- symbols


def test_free_symbols_in_order_of_appearance():
    assert free_symbolic_vars(tensor(M, N, M + 1)) == [M, N]
    assert free_symbolic_vars([tensor(2), shape(N)]) == [N]
    mod = graph({"x": (M, 2), "y": (N, 2)}, lambda bb, x, y: op.concat([x, y], axis=0))
    assert free_symbolic_vars(mod["main"]) == [M, N]


def test_defined_symbols_stand_alone():
    infos = [tensor(N + 1, 2), TupleStructInfo((shape(M), PrimStructInfo("int64"))), None]
    assert defined_symbolic_vars(infos) == [M]
    assert defined_symbolic_vars([PrimStructInfo(value=N), tensor(N)]) == [N]


def test_replaced_sizes_are_simplified():
    info = substitute_info(TupleStructInfo((tensor(N + M - N, 2), shape(N * 2))), {N: IntImm("int64", 3)})
    assert info == TupleStructInfo((tensor(M, 2), shape(6)))


# ---- calls


def test_sizes_are_bound_by_their_first_use():
    bound: dict = {}
    bind_sizes(TupleStructInfo((tensor(N, 2), shape(M, N))), TupleStructInfo((tensor(3, 2), shape(4, 5))), bound)
    assert {symbol.name: int(size) for symbol, size in bound.items()} == {"n": 3, "m": 4}


def result_of(params: list[StructInfo], ret: StructInfo | None, args: list[StructInfo]) -> StructInfo:
    call = Call(GlobalVar("f"), [Var(f"a{i}", info) for i, info in enumerate(args)])
    return derive_call_ret_struct_info(FuncStructInfo(params, ret), call)


def test_results_take_the_sizes_of_the_arguments():
    assert result_of([tensor(N, M)], tensor(M, N + 1), [tensor(2, 3)]) == tensor(3, 3)
    assert result_of([tensor(N), tensor(N)], tensor(N), [tensor(M), tensor(M)]) == tensor(M)
    assert result_of([PrimStructInfo(value=N)], tensor(N), [PrimStructInfo(value=M * 2)]) == tensor(M * 2)
    assert result_of([shape(N)], tensor(N), [shape(7)]) == tensor(7)


def test_results_of_unknown_sizes_keep_their_rank():
    assert result_of([tensor(N)], tensor(N, 2), [rank(1)]) == rank(2)
    assert result_of([OBJECT], tensor(2), [rank(1)]) == tensor(2)


def test_symbols_may_be_exchanged_by_a_call():
    assert result_of([tensor(N, M)], tensor(N, M), [tensor(M, N)]) == tensor(M, N)


@pytest.mark.parametrize(
    ("params", "args", "message"),
    [
        ([tensor(2)], [], "function takes 1 arguments, got 0"),
        ([tensor(2)], [tensor(3)], r'argument 0 has type R.Tensor\(\(3,\), "float32"\), the function takes'),
        ([tensor(N)], [tensor(2, 2)], "argument 0 has type"),
        ([tensor(N), tensor(N)], [tensor(2), tensor(3)], r"argument 1 .* the function takes R.Tensor\(\(2,\)"),
        ([tensor(N + 1), tensor(N)], [tensor(4), tensor(4)], r"argument 0 .* the function takes R.Tensor\(\(5,\)"),
        ([TupleStructInfo((tensor(2),))], [TupleStructInfo(())], "argument 0 has type"),
    ],
)
def test_arguments_that_cannot_fit_are_refused(params, args, message):
    with pytest.raises(TypeInferenceError, match=message):
        result_of(params, tensor(2), args)


def test_opaque_functions_say_their_result_themselves():
    call = Call(GlobalVar("f"), [], None, [tensor(5)])
    assert derive_call_ret_struct_info(FuncStructInfo.opaque_func(), call) == tensor(5)
    assert derive_call_ret_struct_info(FuncStructInfo.opaque_func(ret=tensor(2)), Call(GlobalVar("f"), [])) == tensor(2)
    derived = FuncStructInfo.opaque_func(derive_func=lambda call: tensor(len(call.args)))
    assert derive_call_ret_struct_info(derived, call) == tensor(0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 2))
def test_static_arguments_give_static_results(sizes: list[int], at: int):
    symbols = [SizeSymbol(f"s{i}", "int64") for i in range(len(sizes))]
    chosen = symbols[at % len(sizes)]
    found = result_of([tensor(*symbols)], tensor(*reversed(symbols), chosen * 2 + 1), [tensor(*sizes)])
    assert found == tensor(*reversed(sizes), sizes[at % len(sizes)] * 2 + 1)
