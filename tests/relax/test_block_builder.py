"""BlockBuilder: names, normal form, scopes, sharing of functions."""

from __future__ import annotations

import pytest

from eutectic.relax import (
    BlockBuilder,
    DataflowBlock,
    DataflowVar,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    const,
    op,
)
from eutectic.relax.analysis import problems_of
from eutectic.relax.expr import Call, MatchCast, VarBinding
from eutectic.support.errors import TypeInferenceError, WellFormedError
from eutectic.tir import Var as SizeSymbol


def tensor(*shape, dtype="float32"):
    return TensorStructInfo(shape, dtype)


def test_variables_are_named_by_their_block():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    with bb.function("main", [x]):
        with bb.dataflow():
            first, second = bb.emit(op.nn.relu(x)), bb.emit(op.tanh(x))
            out = bb.emit_output(op.add(first, second))
        outside = bb.emit(op.exp(out))
        bb.emit_func_output(outside)
    assert [v.name_hint for v in (first, second, out, outside)] == ["lv", "lv1", "gv", "gv1"]
    assert isinstance(first, DataflowVar)
    assert not isinstance(out, DataflowVar)
    assert problems_of(bb.get()) == []
    assert bb.get()["main"].attrs["global_symbol"] == "main"


def test_nested_calls_get_bindings_and_one_object_gets_one():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    shared = op.nn.relu(x)
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.add(shared, shared))
        bb.emit_func_output(out)
    (block,) = bb.get()["main"].body.blocks
    assert [b.value.op.name for b in block.bindings] == ["relax.nn.relu", "relax.add"]


def test_consecutive_dataflow_blocks_become_one_and_empty_ones_vanish():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_output(op.nn.relu(x))
        with bb.dataflow():
            pass
        with bb.dataflow():
            b = bb.emit_output(op.tanh(a))
        bb.emit_func_output(b)
    (block,) = bb.get()["main"].body.blocks
    assert isinstance(block, DataflowBlock)
    assert len(block.bindings) == 2


def test_parameters_are_given_once():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    with bb.function("main"):
        gv = bb.emit_func_output(bb.emit(op.nn.relu(x)), params=[x])
    assert gv.name_hint == "main"
    with pytest.raises(WellFormedError, match=r"either to function\(\) or to emit_func_output\(\)"):  # noqa: SIM117
        with BlockBuilder().function("main", [x]):
            BlockBuilder.current().emit_func_output(x, params=[x])


def test_a_function_needs_its_output_once():
    x = Var("x", tensor(2))
    with pytest.raises(RuntimeError, match="function f ended without emit_func_output"):  # noqa: SIM117
        with BlockBuilder().function("f", [x]):
            pass
    bb = BlockBuilder()
    with bb.function("f", [x]):
        bb.emit_func_output(x)
        with pytest.raises(WellFormedError, match="already has its output"):
            bb.emit_func_output(x)


def test_emit_output_is_for_dataflow_blocks():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    with pytest.raises(WellFormedError, match="emit_output is for dataflow blocks"):  # noqa: SIM117
        with bb.function("f", [x]):
            bb.emit_output(op.nn.relu(x))


def test_tuples_are_results_and_their_fields_are_taken():
    bb, x = BlockBuilder(), Var("x", tensor(4, 2))
    with bb.function("main", [x]):
        with bb.dataflow():
            parts = bb.emit(op.split(x, 2))
            out = bb.emit_output(parts[1])
        bb.emit_func_output([out, x])
    ret = bb.get()["main"].ret_struct_info
    assert ret == TupleStructInfo((tensor(2, 2), tensor(4, 2)))
    assert isinstance(bb.get()["main"].body.body, Tuple)


def test_equal_functions_are_shared_and_names_are_numbered():
    def made(shape):
        inner = BlockBuilder()
        y = Var("y", tensor(*shape))
        with inner.function("f", [y], private=True):
            inner.emit_func_output(inner.emit(op.nn.relu(y)))
        return inner.get()["f"]

    bb = BlockBuilder()
    first, second, third = (bb.add_func(made(s), "relu") for s in [(2,), (2,), (3,)])
    assert first is second
    assert third.name_hint == "relu1"
    assert bb.add_func(made((4,)), "a.b c").name_hint == "a_b_c"


def test_match_cast_defines_sizes_and_impossible_casts_are_refused():
    n = SizeSymbol("n", "int64")
    bb, x = BlockBuilder(), Var("x", TensorStructInfo(None, "float32", ndim=2))
    with bb.function("main", [x]):
        y = bb.match_cast(x, tensor(n, 4))
        bb.emit_func_output(bb.emit(op.nn.relu(y)))
    binding = bb.get()["main"].body.blocks[0].bindings[0]
    assert isinstance(binding, MatchCast)
    assert problems_of(bb.get()) == []
    with bb.testing_scope(), pytest.raises(TypeInferenceError, match="can never succeed"):
        bb.match_cast(Var("z", tensor(2, 2)), tensor(2, 2, 2))


def test_sizes_out_of_scope_do_not_leave_the_function():
    n = SizeSymbol("n", "int64")
    bb, x = BlockBuilder(), Var("x", TensorStructInfo(None, "float32", ndim=1))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.match_cast(x, tensor(n)))
    assert bb.get()["main"].ret_struct_info == TensorStructInfo(None, "float32", ndim=1)


def test_calls_of_functions_know_their_result():
    n = SizeSymbol("n", "int64")
    bb, y = BlockBuilder(), Var("y", tensor(n, 4))
    with bb.function("f", [y]):
        f = bb.emit_func_output(bb.emit(op.nn.relu(y)))
    x = Var("x", tensor(3, 4))
    with bb.function("main", [x]):
        out = bb.emit(Call(f, [x]))
        bb.emit_func_output(out)
    assert out.struct_info == tensor(3, 4)
    with bb.testing_scope(), pytest.raises(TypeInferenceError, match=r"argument 0 has type R.Tensor\(\(3, 5\)"):
        bb.emit(Call(f, [Var("z", tensor(3, 5))]))


def test_values_are_found_by_variable():
    bb, x = BlockBuilder(), Var("x", tensor(2))
    with bb.function("main", [x]):
        y = bb.emit(op.nn.relu(x))
        assert bb.lookup_binding(y).op.name == "relax.nn.relu"
        assert bb.lookup_binding(x) is None
        bb.emit_normalized(VarBinding(Var("z", tensor(2)), y))
        bb.emit_func_output(y)


def test_constants_follow_python_and_numpy():
    import numpy as np

    assert const(1).struct_info.dtype == "int32"
    assert const(1.5).struct_info.dtype == "float32"
    assert const(True).struct_info.dtype == "bool"
    assert const(np.zeros(2)).struct_info.dtype == "float32"
    assert const(np.zeros(2, "int64")).struct_info.dtype == "int32"
    assert const(np.zeros(2, "float16")).struct_info.dtype == "float16"
    assert const(2, "int8").data.dtype == np.int8
