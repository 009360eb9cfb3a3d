"""The reference interpreter: control flow, closures, symbolic sizes, external functions, and refused values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.relax import (
    BindingBlock,
    BlockBuilder,
    Call,
    DataTypeImm,
    ExternFunc,
    FuncStructInfo,
    Function,
    If,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    VarBinding,
    call_dps_packed,
    call_pure_packed,
    const,
    op,
)
from eutectic.relax.interpret import Interpreter, check_value, concrete
from eutectic.relax.transform import BindParams
from eutectic.support import registry
from eutectic.support.errors import CallError, CodegenError
from eutectic.testing.graphs import evaluate, graph
from eutectic.tir import FloatImm, IntImm
from eutectic.tir import Var as SizeSymbol

N, M = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")
INFO, BOOL = TensorStructInfo((2,)), TensorStructInfo((), "bool")
ONES = np.ones(2, "float32")


def plain(*pairs) -> BindingBlock:
    return BindingBlock(tuple(VarBinding(v, value) for v, value in pairs))


def module(params, block: BindingBlock, result, **others: Function) -> IRModule:
    return IRModule({"main": Function(params, SeqExpr((block,), result), attrs={"global_symbol": "main"}), **others})


@pytest.fixture
def registered() -> Iterator[dict]:
    """Global functions of one test."""
    before = set(registry._FUNCTIONS)
    yield registry._FUNCTIONS
    for name in set(registry._FUNCTIONS) - before:
        del registry._FUNCTIONS[name]


# ---- control flow


def conditional() -> IRModule:
    x, c, a, b, r = Var("x", INFO), Var("c", BOOL), Var("a", INFO), Var("b", INFO), Var("r", INFO)
    true, false = SeqExpr((plain((a, op.negative(x))),), a), SeqExpr((plain((b, op.add(x, x))),), b)
    return module([x, c], plain((r, If(c, true, false, struct_info=INFO))), r)


def test_only_the_chosen_branch_is_evaluated():
    np.testing.assert_array_equal(evaluate(conditional(), ONES, np.array(True)), -ONES)
    np.testing.assert_array_equal(evaluate(conditional(), ONES, np.array(False)), ONES * 2)


def test_a_conditional_may_call_itself_through_the_module():
    x, y, out, r = Var("x", INFO), Var("y", INFO), Var("out", INFO), Var("r", INFO)
    small = Var("small", BOOL)
    again = SeqExpr(
        (plain((y, op.multiply(x, const(2.0))), (out, Call(GlobalVar("main"), [y], struct_info=INFO))),), out
    )
    block = plain((small, op.less(op.max(x), const(100.0))), (r, If(small, again, SeqExpr((), x), struct_info=INFO)))
    np.testing.assert_array_equal(evaluate(module([x], block, r), ONES), ONES * 128)


# ---- function values


def test_local_functions_see_captured_variables():
    x, p, inner, out = Var("x", INFO), Var("p", INFO), Var("inner", INFO), Var("out", INFO)
    local = Function([p], SeqExpr((plain((inner, op.add(p, x))),), inner))
    f = Var("f", local.struct_info)
    mod = module([x], plain((f, local), (out, Call(f, [x], struct_info=INFO))), out)
    np.testing.assert_array_equal(evaluate(mod, ONES), ONES * 2)


def test_local_functions_see_captured_sizes():
    x, s, inner = Var("x", TensorStructInfo((N,))), Var("s", INFO), Var("inner", TensorStructInfo((N,)))
    local = Function([s], SeqExpr((plain((inner, op.broadcast_to(const(3.0), (N,)))),), inner))
    f, out = Var("f", local.struct_info), Var("out", TensorStructInfo((N,)))
    mod = module([x], plain((f, local), (out, Call(f, [const(ONES)], struct_info=out.struct_info))), out)
    np.testing.assert_array_equal(evaluate(mod, np.ones(4, "float32")), np.full(4, 3, "float32"))


def test_functions_are_values():
    x, f, out = Var("x", INFO), Var("f", FuncStructInfo((INFO,), INFO)), Var("out", INFO)
    y, z = Var("y", INFO), Var("z", INFO)
    helper = Function([y], SeqExpr((plain((z, op.exp(y))),), z), INFO)
    mod = module([x], plain((f, GlobalVar("helper")), (out, Call(f, [x], struct_info=INFO))), out, helper=helper)
    np.testing.assert_array_equal(evaluate(mod, ONES), np.exp(ONES))


def test_a_function_may_be_called_where_it_stands():
    x, y, out = Var("x", INFO), Var("y", INFO), Var("out", INFO)
    literal = Function([y], SeqExpr((), y), INFO)
    np.testing.assert_array_equal(evaluate(module([x], plain((out, literal(x))), out), ONES), ONES)


def test_wrong_calls_of_local_functions_are_refused():
    x, p, out = Var("x", INFO), Var("p", INFO), Var("out", INFO)
    local = Function([p], SeqExpr((), p), INFO)
    f = Var("f", local.struct_info)
    with pytest.raises(CallError, match="function takes 1 arguments, got 2"):
        evaluate(module([x], plain((f, local), (out, Call(f, [x, x], struct_info=INFO))), out), ONES)


# ---- symbolic sizes


def test_match_cast_binds_sizes_for_what_follows():
    def body(bb, x):
        y = bb.match_cast(x, TensorStructInfo((N, M)))
        return op.reshape(y, (N * M,))

    mod = graph({"x": (SizeSymbol("a", "int64"), SizeSymbol("b", "int64"))}, body)
    assert evaluate(mod, np.ones((3, 4), "float32")).shape == (12,)


def test_match_cast_checks_sizes_that_are_known_already():
    def body(bb, x, y):
        return bb.match_cast(y, TensorStructInfo((N,)))

    mod = graph({"x": (N,), "y": (M,)}, body)
    assert evaluate(mod, ONES, ONES).shape == (2,)
    with pytest.raises(CallError, match=r"lv must have size 2 on axis 0, got 3: shape \(3,\)"):
        evaluate(mod, ONES, np.ones(3, "float32"))


def test_casts_check_the_sizes_of_bound_parameters():
    def body(bb, x, w):
        return op.add(bb.match_cast(x, TensorStructInfo((N, 2))), w)

    bound = BindParams("main", {"w": np.ones((3, 2), "float32")})(graph({"x": (M, 2), "w": (N, 2)}, body))
    assert evaluate(bound, np.ones((3, 2), "float32")).shape == (3, 2)
    with pytest.raises(CallError, match="lv must have size 3 on axis 0, got 1"):
        evaluate(bound, np.ones((1, 2), "float32"))


def test_sizes_that_a_later_argument_defines_are_checked_too():
    mod = graph({"x": (N + 1,), "y": (N,)}, lambda bb, x, y: [x, y])
    assert [part.shape for part in evaluate(mod, np.ones(3, "float32"), ONES)] == [(3,), (2,)]
    with pytest.raises(CallError, match="x must have size 3 on axis 0, got 2"):
        evaluate(mod, ONES, ONES)


def test_scalars_of_every_kind_are_evaluated():
    values = (N * 2, FloatImm("float32", 0.5), True, 3)
    x, out = Var("x", TensorStructInfo((N,))), Var("out", ObjectStructInfo())
    fields = [PrimValue(v) for v in values] + [StringImm("s"), DataTypeImm("int8"), ShapeExpr((N, 1))]
    found = evaluate(module([x], plain((out, Tuple(fields))), out), ONES)
    assert found == (4, 0.5, True, 3, "s", "int8", (2, 1))
    assert found[2] is True


def test_struct_info_with_sizes_filled_in():
    info = TupleStructInfo((TensorStructInfo((N, N + 1)), ObjectStructInfo()))
    assert concrete(info, {N: 3}) == TupleStructInfo((TensorStructInfo((3, 4)), ObjectStructInfo()))


# ---- external functions


def test_destination_passing_functions_write_into_new_memory(registered):
    def double(a, b, out):
        out[:] = a * 2 + b

    registered["test.double"] = double
    mod = graph({"x": (N,)}, lambda bb, x: call_dps_packed("test.double", [x, x], TensorStructInfo((N,))))
    np.testing.assert_array_equal(evaluate(mod, ONES), ONES * 3)


def test_destination_passing_functions_may_have_several_results(registered):
    def both(a, low, high):
        low[:], high[:] = a - 1, a.astype("float64").sum()

    registered["test.both"] = both
    infos = [TensorStructInfo((2,)), TensorStructInfo((1,), "float64")]
    low, high = evaluate(graph({"x": (2,)}, lambda bb, x: call_dps_packed("test.both", x, infos)), ONES)
    np.testing.assert_array_equal(low, ONES * 0)
    assert (high.dtype, high[0]) == (np.float64, 2)


def test_packed_functions_return_their_result(registered):
    registered["test.twice"] = lambda a: a * 2
    bb, x = BlockBuilder(), Var("x", INFO)
    with bb.function("main", [x], pure=False):
        first = bb.emit(Call(ExternFunc("test.twice"), [x], None, [INFO]))
        bb.emit_func_output(bb.emit(call_pure_packed("test.twice", first, sinfo_args=INFO)))
    np.testing.assert_array_equal(evaluate(bb.get(), ONES), ONES * 4)


def test_what_runs_external_functions_can_be_given():
    calls = []

    def external(name, args, infos):
        calls.append((name, [a.shape for a in args], list(infos)))
        return args[0]

    mod = graph({"x": (N,)}, lambda bb, x: call_dps_packed("lib.f", x, TensorStructInfo((N,))))
    Interpreter(mod, external).run("main", ONES)
    assert calls == [("lib.f", [(2,)], [TensorStructInfo((2,))])]


def test_unknown_external_functions_are_refused_with_a_near_name(registered):
    registered["test.known"] = lambda a, out: None
    mod = graph({"x": (2,)}, lambda bb, x: call_dps_packed("test.knwon", x, INFO))
    with pytest.raises(CodegenError, match=r"no global function is called 'test.knwon'"):
        evaluate(mod, ONES)


def test_results_of_unknown_shape_cannot_be_allocated(registered):
    registered["test.f"] = lambda a, out: None
    mod = graph({"x": (2,)}, lambda bb, x: call_dps_packed("test.f", x, TensorStructInfo(None, "float32")))
    with pytest.raises(CodegenError, match=r"test.f has a result of unknown shape"):
        evaluate(mod, ONES)


# ---- refused values


REFUSED = [
    (INFO, [1.0, 1.0], "v must be a tensor, got list"),
    (INFO, np.ones(2), "v must be float32, got float64"),
    (INFO, np.ones((1, 2), "float32"), r"v must have 1 axes, got 2: shape \(1, 2\)"),
    (INFO, np.ones(3, "float32"), r"v must have size 2 on axis 0, got 3: shape \(3,\)"),
    (TensorStructInfo((N, N)), np.ones((2, 3), "float32"), "v must have size 2 on axis 1, got 3"),
    (TensorStructInfo((N, N * 2)), np.ones((2, 3), "float32"), "v must have size 4 on axis 1, got 3"),
    (TupleStructInfo((INFO,)), ONES, "v must be a tuple of 1"),
    (TupleStructInfo((INFO,)), (ONES, ONES), "v must be a tuple of 1"),
    (TupleStructInfo((INFO, INFO)), (ONES, ONES[:1]), r"v\[1\] must have size 2 on axis 0, got 1"),
    (ShapeStructInfo((2, N)), (3, 4), r"v must have size 2 on axis 0, got 3: shape \(3, 4\)"),
    (ShapeStructInfo((2, N)), (2,), "v must have 2 sizes, got 1"),
    (ShapeStructInfo((2, N)), 3, "v must be a shape, got int"),
    (ShapeStructInfo(None, 2), (1, 2, 3), "v must have 2 sizes, got 3"),
    (PrimStructInfo(value=IntImm("int64", 3)), 4, "v must be 3, got 4"),
]


@pytest.mark.parametrize(("info", "value", "message"), REFUSED, ids=lambda item: str(item)[:40])
def test_values_that_do_not_fit(info, value, message: str):
    with pytest.raises(CallError, match=message):
        check_value(value, info, {}, "v")


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (INFO, ONES),
        (TensorStructInfo(None, ""), np.ones((1, 1), "int8")),
        (TensorStructInfo(None, "float32", None, 1), ONES),
        (ShapeStructInfo((N, 3)), (1, 3)),
        (PrimStructInfo(value=N), 7),
        (PrimStructInfo(value=FloatImm("float32", 0.5)), 0.5),
        (PrimStructInfo("float32"), 0.5),
        (TupleStructInfo((INFO, TupleStructInfo(()))), [ONES, ()]),
        (ObjectStructInfo(), ...),
        (None, ...),
    ],
    ids=lambda item: str(item)[:40],
)
def test_values_that_fit(info, value):
    check_value(value, info, {}, "v")


def test_sizes_are_remembered_from_one_value_to_the_next():
    sizes: dict = {}
    check_value(ONES, TensorStructInfo((N,)), sizes, "a")
    check_value((2, 5), ShapeStructInfo((N, M)), sizes, "b")
    assert sizes == {N: 2, M: 5}
    with pytest.raises(CallError, match="c must be 10, got 11"):
        check_value(11, PrimStructInfo(value=N * M), sizes, "c")


def test_functions_that_are_missing_or_called_wrongly():
    mod = conditional()
    with pytest.raises(CallError, match="main takes 2 arguments, got 1"):
        evaluate(mod, ONES)
    with pytest.raises(ValueError, match="no function 'mian' in the module"):
        Interpreter(mod).run("mian")


def test_programs_that_are_not_there_are_refused():
    mod = graph({"x": (2,)}, lambda bb, x: op.call_tir(GlobalVar("f"), x, INFO))
    with pytest.raises(CodegenError, match=r"call_tir needs a tensor program of the module, and f is none"):
        evaluate(mod, ONES)


def test_operators_without_a_meaning_are_refused():
    mod = graph({"x": (2,)}, lambda bb, x: op.call_tir_inplace(GlobalVar("f"), x, 0, INFO))
    with pytest.raises(CodegenError, match=r"operator relax.call_tir_inplace has no reference implementation"):
        evaluate(mod, ONES)
