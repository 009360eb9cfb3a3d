"""What remove_all_unused drops, what it must keep, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic.ir.structural import structural_equal
from eutectic.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    SeqExpr,
    TensorStructInfo,
    Var,
    VarBinding,
    const,
    op,
)
from eutectic.relax.analysis import contains_impure_call, problems_of, remove_all_unused
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.interpret import Interpreter
from eutectic.testing.graphs import graph
from eutectic.tir import Var as SizeSymbol

INFO = TensorStructInfo((2,))
BOOL = TensorStructInfo((), "bool")


def trim(function: Function) -> list[str]:
    """Names that are left; the result is well formed, and trimming again changes nothing."""
    after = remove_all_unused(function)
    assert problems_of(after) == problems_of(function)
    assert remove_all_unused(after) is after
    return [b.var.name_hint for b in walk_bindings(after)]


def build(body, *params: Var, pure: bool = True) -> Function:
    """A function whose bindings are in plain blocks."""
    bb = BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        bb.emit_func_output(body(bb))
    return bb.get()["main"]


def log(x: Var) -> Call:
    return Call(ExternFunc("test.log"), [x], None, [INFO])


def test_chains_that_end_nowhere_go_as_a_whole():
    def body(bb, x):
        bb.emit(op.exp(bb.emit(op.tanh(x))))
        return op.nn.relu(x)

    assert trim(graph({"x": (2,)}, body)["main"]) == ["gv"]


def test_nothing_to_drop_returns_the_same_function():
    function = graph({"x": (2,)}, lambda bb, x: op.nn.relu(op.exp(x)))["main"]
    assert remove_all_unused(function) is function


def test_a_block_without_bindings_disappears():
    x = Var("x", INFO)
    after = remove_all_unused(build(lambda bb: (bb.emit(op.exp(x)), x)[1], x))
    assert after.body.blocks == ()
    assert after.body.body is x


def test_calls_with_side_effects_stay_with_what_they_read():
    x = Var("x", INFO)

    def body(bb):
        bb.emit(log(bb.emit(op.exp(x), "logged")), "effect")
        bb.emit(op.tanh(x), "dead")
        return x

    assert trim(build(body, x, pure=False)) == ["logged", "effect"]


def test_branches_and_what_they_read_are_trimmed():
    x, c = Var("x", INFO), Var("c", BOOL)
    a, d, dead, r = Var("a", INFO), Var("d", INFO), Var("dead", INFO), Var("r", INFO)

    def body(bb):
        outer = bb.emit(op.tanh(x), "outer")
        unread = bb.emit(op.sqrt(x), "unread")
        true = SeqExpr((BindingBlock((VarBinding(dead, op.exp(unread)), VarBinding(a, op.exp(outer)))),), a)
        false = SeqExpr((BindingBlock((VarBinding(d, op.sin(x)),)),), d)
        bb.emit_normalized(VarBinding(r, If(c, true, false, struct_info=INFO)))
        return r

    assert trim(build(body, x, c)) == ["outer", "a", "d", "r"]


def test_an_unread_conditional_goes_unless_a_branch_has_side_effects():
    x, c = Var("x", INFO), Var("c", BOOL)
    kept, a, b = Var("kept", INFO), Var("a", INFO), Var("b", INFO)

    def branch(var, value) -> SeqExpr:
        return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)

    def body(value):
        def emit(bb):
            bb.emit_normalized(VarBinding(kept, If(c, branch(a, value), branch(b, op.sin(x)), struct_info=INFO)))
            return x

        return emit

    assert trim(build(body(log(x)), x, c, pure=False)) == ["a", "b", "kept"]
    assert trim(build(body(op.exp(x)), x, c)) == []


def test_local_functions_are_trimmed_and_unread_ones_go():
    x, p, dead, inner = Var("x", INFO), Var("p", INFO), Var("dead", INFO), Var("inner", INFO)
    block = BindingBlock((VarBinding(dead, op.sin(p)), VarBinding(inner, op.exp(p))))
    local = Function([p], SeqExpr((block,), inner), INFO)
    f, g = Var("f", local.struct_info), Var("g", local.struct_info)
    out = Var("out", INFO)
    bindings = (VarBinding(f, local), VarBinding(g, local), VarBinding(out, Call(f, [x], struct_info=INFO)))
    after = remove_all_unused(Function([x], SeqExpr((BindingBlock(bindings),), out), INFO))
    left = list(walk_bindings(after))
    assert [b.var.name_hint for b in left] == ["f", "out"]
    assert [b.var.name_hint for b in walk_bindings(left[0].value)] == ["inner"]


def test_a_cast_outside_dataflow_stays_because_it_checks():
    x = Var("x", TensorStructInfo(None, "float32", None, 1))
    assert trim(build(lambda bb: (bb.match_cast(x, INFO, "checked"), x)[1], x)) == ["checked"]


def test_a_cast_that_defines_a_size_stays_while_the_size_is_used():
    n = SizeSymbol("n", "int64")

    def body(reads: bool):
        def emit(bb, x):
            bb.match_cast(x, TensorStructInfo((n, 2)), "cast")
            return op.zeros((n,), "float32") if reads else op.exp(x)

        return emit

    unknown = {"x": (SizeSymbol("k", "int64"), 2)}
    assert trim(graph(unknown, body(reads=True))["main"]) == ["cast", "gv"]
    assert trim(graph(unknown, body(reads=False))["main"]) == ["gv"]
    mod = graph(unknown, body(reads=True))
    mod["main"] = remove_all_unused(mod["main"])
    assert Interpreter(mod).run("main", np.ones((3, 2), "float32")).shape == (3,)


@pytest.mark.parametrize(
    ("value", "impure"),
    [
        (op.exp(Var("x", INFO)), False),
        (log(Var("x", INFO)), True),
        (Call(op.exp(const(1.0)).op, [log(Var("x", INFO))]), True),
        (Call(Var("f", FuncStructInfo((INFO,), INFO, purity=False)), [const(1.0)]), True),
        (Call(Var("f", FuncStructInfo((INFO,), INFO)), [const(1.0)]), False),
        (op.call_dps_packed("f", const(1.0), INFO), False),
        (
            If(
                const(True),
                SeqExpr((), const(1.0)),
                SeqExpr((BindingBlock((VarBinding(Var("v"), log(const(1.0))),)),), const(1.0)),
            ),
            True,
        ),
        (
            Function([], SeqExpr((BindingBlock((VarBinding(Var("v"), log(const(1.0))),)),), const(1.0)), INFO, False),
            False,
        ),
    ],
    ids=["operator", "extern", "nested", "impure-variable", "pure-variable", "dps", "branch", "function-value"],
)
def test_which_values_have_side_effects(value, impure: bool):
    assert contains_impure_call(value) is impure


def test_the_input_is_left_as_it_was():
    def body(bb, x):
        bb.emit(op.tanh(x))
        return op.nn.relu(x)

    one, other = graph({"x": (2,)}, body)["main"], graph({"x": (2,)}, body)["main"]
    remove_all_unused(one)
    assert structural_equal(one, other)
