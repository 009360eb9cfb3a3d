"""Recursion between functions, and values that are known when compiling."""

from __future__ import annotations

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.structural import structural_equal
from eutectic.relax import Call, Function, TensorStructInfo, Var, op
from eutectic.relax.analysis import computable_at_compile_time, copy_with_new_vars, detect_recursion
from eutectic.testing.graphs import graph


def calling(*names: str) -> Function:
    """A function that calls others one after another."""
    x = Var("x", TensorStructInfo((2,)))
    value: object = x
    for name in names:
        value = Call(GlobalVar(name), [value], struct_info=x.struct_info)
    return Function([x], value)


def test_cycles_are_found_and_chains_are_not():
    mod = IRModule(
        {
            "a": calling("b"),
            "b": calling("c"),
            "c": calling("a"),
            "d": calling("d"),
            "e": calling("a", "f"),
            "f": calling(),
        }
    )
    assert [[gv.name_hint for gv in group] for group in detect_recursion(mod)] == [["a", "b", "c"], ["d"]]
    assert detect_recursion(IRModule({"a": calling("b"), "b": calling()})) == []


def test_a_long_chain_of_calls_needs_no_recursion():
    mod = IRModule({f"f{i}": calling(f"f{i + 1}") for i in range(3000)})
    assert detect_recursion(mod) == []


def test_what_depends_on_parameters_only():
    mod = graph({"x": (2, 3), "w": (4, 3)}, lambda bb, x, w: op.matmul(x, bb.emit(op.permute_dims(w))))
    assert computable_at_compile_time(mod["main"]) == []
    known = computable_at_compile_time(mod["main"].with_attr("num_input", 1))
    assert [var.name_hint for var in known] == ["lv"]


def test_copies_share_no_variable():
    function = graph({"x": (2,)}, lambda bb, x: op.nn.relu(op.tanh(x)))["main"]
    copy = copy_with_new_vars(function)
    assert structural_equal(function, copy)
    assert copy.params[0] is not function.params[0]
