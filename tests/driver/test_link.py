"""Linked modules compute what the interpreter computes, whatever the structure of the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.driver.libraries import Libraries
from eutectic.driver.link import link
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    Function,
    If,
    ObjectStructInfo,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
    call_dps_packed,
    const,
    op,
)
from eutectic.relax.interpret import Interpreter
from eutectic.runtime.executable import Executable
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.loading import Loading
from eutectic.support.errors import CallError, CodegenError
from eutectic.testing.graphs import arrays, assert_close, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol

N, M = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")
INFO, BOOL = TensorStructInfo((1, 4, 5, 5)), TensorStructInfo((), "bool")


def flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


def linked(mod: IRModule, *args: np.ndarray) -> Executable:
    """The executable; its results equal the interpreter's, twice, even when the first were overwritten."""
    program = link(mod)
    want = [np.array(value, copy=True) for value in flat(evaluate(mod, *args))]
    for _ in range(2):
        got = program(*args)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)
        for value in got:
            if not any(value is arg for arg in args):
                value[...] = 7
    return program


def run(params, body, seed: int = 0) -> Executable:
    mod = graph(params, body)
    return linked(mod, *arrays(mod["main"], seed))


def plain(*pairs) -> BindingBlock:
    return BindingBlock(tuple(VarBinding(v, value) for v, value in pairs))


# ---- straight-line programs


def test_nested_tuples_of_results():
    run({"x": (2,), "y": (3,)}, lambda bb, x, y: Tuple((op.exp(x), Tuple((op.sin(y), Tuple((x,)))), Tuple(()))))


def test_fields_of_operator_results():
    def body(bb, x):
        parts = bb.emit(op.split(x, 3, axis=1))
        return [parts[2], op.add(parts[0], parts[1]), parts[0]]

    run({"x": (2, 6)}, body)


def test_a_whole_operator_result_that_is_a_tuple():
    mod = graph({"x": (2, 6)}, lambda bb, x: bb.emit(op.split(x, 2, axis=1)))
    linked(mod, *arrays(mod["main"]))


def test_tuples_as_operands_and_aliases():
    def body(bb, x, y):
        pair = bb.emit(Tuple((x, Tuple((y, x)))))
        inner = bb.emit(TupleGetItem(pair, 1))
        return op.concat([inner[0], bb.emit(pair[0])], axis=0)

    run({"x": (2, 3), "y": (1, 3)}, body)


def test_the_same_value_twice_and_a_parameter():
    def body(bb, x):
        a = bb.emit(op.exp(x))
        return [a, x, a]

    run({"x": (3,)}, body)


@pytest.mark.parametrize("how", ["constant", "alias", "tuple field", "match_cast", "reshape"])
def test_constants_as_results_are_copies(how: str):
    table = weights(2, 3)
    before = table.data.copy()

    def body(bb, x):
        made = {
            "constant": lambda: table,
            "alias": lambda: bb.emit(table),
            "tuple field": lambda: bb.emit(TupleGetItem(bb.emit(Tuple((x, table))), 1)),
            "match_cast": lambda: bb.match_cast(table, TensorStructInfo((N, 3))),
            "reshape": lambda: op.reshape(table, (2, 3)),
        }[how]()
        return [made, op.exp(x)]

    run({"x": (1,)}, body)
    np.testing.assert_array_equal(table.data, before)


def test_symbolic_sizes_are_bound_derived_and_cast():
    def body(bb, x, y):
        cast = bb.match_cast(y, TensorStructInfo((M, 2)))
        flat_y = bb.emit(op.reshape(cast, (M * 2,)))
        return [
            op.concat([x, flat_y], axis=0),
            op.broadcast_to(const(1.0), (N + M,)),
            op.full((N,), const(2.0), "float32"),
        ]

    mod = graph({"x": (N,), "y": (SizeSymbol("k", "int64"), 2)}, body)
    program = linked(mod, np.ones(3, "float32"), np.ones((4, 2), "float32"))
    assert [r.shape for r in program(np.ones(1, "float32"), np.ones((2, 2), "float32"))] == [(5,), (3,), (1,)]


def test_a_cast_that_fails_at_run_time():
    mod = graph({"x": (N,), "y": (M,)}, lambda bb, x, y: bb.match_cast(y, TensorStructInfo((N,))))
    with pytest.raises(CallError, match="lv must have size 2 on axis 0, got 3"):
        link(mod)(np.ones(2, "float32"), np.ones(3, "float32"))


def test_ranges_of_sizes_come_from_the_function():
    mod = graph({"x": (N,)}, lambda bb, x: op.exp(x))
    mod["main"] = mod["main"].with_attr({"tir_var_lower_bound": {"n": 2}, "tir_var_upper_bound": {"n": 4}})
    with pytest.raises(CallError, match="for n from 2 to 4"):
        link(mod)(np.ones(5, "float32"))


def test_sizes_of_one_name_are_different_sizes():
    other = SizeSymbol("n", "int64")
    mod = graph({"x": (N,), "y": (other,)}, lambda bb, x, y: op.concat([x, y], axis=0))
    linked(mod, np.ones(2, "float32"), np.ones(3, "float32"))


# ---- functions


def conv(bb, x):
    return bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 3, 3), padding=1)))


def with_helper(result) -> IRModule:
    """`main(x) = exp(helper(x))`, the helper private."""
    bb, x, y = BlockBuilder(), Var("x", INFO), Var("y", INFO)
    with bb.function("helper", [y], private=True):
        with bb.dataflow():
            out = bb.emit_output(result(bb, y))
        helper = bb.emit_func_output(out)
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(Call(helper, [x]))
        bb.emit_func_output(out)
    return bb.get()


def test_a_private_function_is_called():
    linked(with_helper(lambda bb, y: op.exp(y)), np.ones((1, 4, 5, 5), "float32"))


@pytest.mark.parametrize("shape", [(1, 4, 5, 5), (2, 3)])
def test_a_private_function_that_returns_a_constant_gives_copies(shape):
    table = weights(*shape)
    before = table.data.copy()
    linked(with_helper(lambda bb, y: table), np.ones((1, 4, 5, 5), "float32"))
    np.testing.assert_array_equal(table.data, before)


def test_a_private_function_that_returns_tuples():
    mod = with_helper(lambda bb, y: Tuple((y, Tuple((weights(2), op.exp(y))))))
    linked(mod, np.ones((1, 4, 5, 5), "float32"))


def test_regions_of_private_functions_are_native():
    mod = with_helper(conv)
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype("float32")
    assert_close(eutectic.compile(mod)(x), evaluate(mod, x))


# ---- control flow


def conditional(result) -> IRModule:
    """`conv` before, `result` in one branch, the identity in the other."""
    bb, x, c = BlockBuilder(), Var("x", INFO), Var("c", BOOL)
    with bb.function("main", [x, c]):
        with bb.dataflow():
            before = bb.emit_output(conv(bb, x))
        bb.begin_block(is_dataflow=True)
        made = bb.normalize_argument(result(bb, before))
        out = Var("out", made.struct_info)
        block = bb.end_block()
        true = SeqExpr((type(block)((*block.bindings, VarBinding(out, made))),), out)
        value = If(c, true, SeqExpr((), before), struct_info=made.struct_info)
        r = Var("r", made.struct_info)
        bb.emit_normalized(VarBinding(r, value))
        bb.emit_func_output(r)
    return bb.get()


def test_conditionals_are_interpreted_and_their_regions_native():
    mod = conditional(conv)
    fast = eutectic.compile(mod, target="llvm -libs=dnnl", verify=True)
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype("float32")
    for flag in (True, False):
        assert_close(fast(x, np.array(flag)), evaluate(mod, x, np.array(flag)))
    assert len(fast.report.regions) == 2
    assert [t.name for t in fast.profile(x, np.array(True))] == ["main"]


def test_results_of_interpreted_functions_are_copies():
    x, c, r = Var("x", TensorStructInfo((2, 3))), Var("c", BOOL), Var("r", TensorStructInfo((2, 3)))
    table = weights(2, 3)
    body = SeqExpr((plain((r, If(c, SeqExpr((), table), SeqExpr((), x), struct_info=r.struct_info))),), Tuple((r, r)))
    mod = IRModule({"main": Function([x, c], body, attrs={"global_symbol": "main"})})
    linked(mod, np.ones((2, 3), "float32"), np.array(True))
    linked(mod, np.ones((2, 3), "float32"), np.array(False))


def test_local_functions_are_interpreted():
    x, p, q, out = (Var(name, TensorStructInfo((2,))) for name in "xpqo")
    local = Function([p], SeqExpr((plain((q, op.add(p, x))),), q))
    f = Var("f", local.struct_info)
    body = SeqExpr((plain((f, local), (out, Call(f, [x], struct_info=out.struct_info))),), out)
    linked(IRModule({"main": Function([x], body, attrs={"global_symbol": "main"})}), np.ones(2, "float32"))


def test_interpreted_regions_get_contiguous_arrays():
    seen = []

    class Kernel:
        native = None

        def __call__(self, inputs, outputs):
            fill(inputs, outputs)

    def fill(inputs, outputs):
        seen.extend(value.flags.c_contiguous for value in inputs)
        outputs[0][:] = inputs[0]

    x, c, r = Var("x", TensorStructInfo((2, 3))), Var("c", BOOL), Var("r", TensorStructInfo((2, 3)))
    flipped = const(np.arange(6, dtype="float32").reshape(3, 2).T)
    value = If(c, SeqExpr((), x), SeqExpr((), x), struct_info=r.struct_info)
    native = Var("native", r.struct_info)
    block = plain((r, value), (native, call_dps_packed("lib", [flipped], r.struct_info)))
    mod = IRModule({"main": Function([x, c], SeqExpr((block,), native), attrs={"global_symbol": "main"})})
    loading = Loading(lambda name: lambda kernel, threads: Kernel())
    libraries = Libraries(loading, {"lib": LibraryKernel("some", "lib", {}, {})})
    (got,) = link(mod, libraries)(np.ones((2, 3), "float32"), np.array(True))
    np.testing.assert_array_equal(got, flipped.data)
    assert seen == [True]


# ---- refusals


@pytest.mark.parametrize(
    "info", [ObjectStructInfo(), TensorStructInfo((2,), ""), TupleStructInfo((TensorStructInfo((2,), ""),))], ids=str
)
def test_parameters_that_are_not_tensors(info):
    p = Var("p", info)
    with pytest.raises(CodegenError, match=r"parameter p(\[0\])? is not a tensor of known dtype"):
        link(IRModule({"main": Function([p], p)}))


def test_a_region_that_was_never_made():
    mod = graph({"x": (2,)}, lambda bb, x: call_dps_packed("lib", x, TensorStructInfo((2,))))
    with pytest.raises(CodegenError, match="external function lib is in no module"):
        link(mod)


def test_a_call_of_something_unknown():
    mod = graph({"x": (2,)}, lambda bb, x: Call(GlobalVar("f"), [x], None, [TensorStructInfo((2,))]))
    with pytest.raises(CodegenError, match=r"gv calls f, which the module does not have"):
        link(mod)


def test_an_operator_without_a_meaning_is_refused_when_it_runs():
    mod = graph({"x": (2,)}, lambda bb, x: op.call_tir_inplace(x, x, 0, TensorStructInfo((2,))))
    with pytest.raises(CodegenError, match="no reference implementation"):
        link(mod)(np.ones(2, "float32"))
    with pytest.raises(CodegenError, match="no reference implementation"):
        Interpreter(mod).run("main", np.ones(2, "float32"))
