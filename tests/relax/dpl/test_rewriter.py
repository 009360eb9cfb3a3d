"""Rewriters: made of patterns and of modules, combined, on functions and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as SizeSymbol
from eutectic.ir.structural import assert_structural_equal
from eutectic.ir.transform import PassContext, Sequential
from eutectic.relax import BlockBuilder, const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.dpl import (
    ExprPatternRewriter,
    OrRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    is_op,
    is_tuple,
    wildcard,
)
from eutectic.relax.expr import Call, ExternFunc, Function, Tuple, Var
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import assert_same_results, graph

Body = Callable[..., Any]


def ops(function: Function) -> list[str]:
    values = get_var2val(function).values()
    return [
        v.op.name.removeprefix("relax.") if isinstance(v.op, Op) else v.op.name_hint
        for v in values
        if isinstance(v, Call)
    ]


def rules(params: dict[str, Any], pattern: Body, replacement: Body) -> IRModule:
    """A module with the functions of a rewriter."""
    return IRModule({"pattern": graph(params, pattern)["main"], "replacement": graph(params, replacement)["main"]})


def symbolic(shapes: Callable[..., list[Any]], pattern: Body, replacement: Body) -> IRModule:
    """The same with symbolic sizes, which each function has its own of."""
    out = {}
    for name, body in (("pattern", pattern), ("replacement", replacement)):
        sizes = SizeSymbol("n"), SizeSymbol("m")
        out[name] = graph({f"p{i}": shape for i, shape in enumerate(shapes(*sizes))}, body)["main"]
    return IRModule(out)


def checked(rewriter: PatternMatchingRewriter, mod: IRModule) -> IRModule:
    after = rewriter(mod)
    assert problems_of(after) == []
    assert_same_results(mod, after)
    return after


def relu_once() -> ExprPatternRewriter:
    x = wildcard()
    inner = is_op("relax.nn.relu")(x)
    return ExprPatternRewriter(is_op("relax.nn.relu")(inner), lambda _, found: op.nn.relu(found[x]))


def negative_twice() -> PatternMatchingRewriter:
    return PatternMatchingRewriter.from_module(
        rules({"x": (2, 3)}, lambda bb, x: op.negative(op.negative(x)), lambda bb, x: x)
    )


# ---- from patterns


def test_a_rewriter_takes_functions_and_modules():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.nn.relu(x)))
    rewriter = relu_once()
    function = rewriter(mod["main"])
    assert ops(function) == ["nn.relu"]
    assert_structural_equal(checked(rewriter, mod)["main"], function)
    done = rewriter(mod)
    assert rewriter(done) is done
    assert rewriter(done["main"]) is done["main"]


def test_a_rewriter_is_a_pass():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.nn.relu(op.negative(op.negative(x)))))
    with PassContext(verify=True) as ctx:
        after = Sequential([relu_once(), negative_twice()])(mod)
    assert ops(after["main"]) == ["nn.relu"]
    assert [record.name for record in ctx.records[:2]] == ["ExprPatternRewriter", "_ModuleRewriter"]
    assert all(record.changed for record in ctx.records)


def test_from_pattern_does_what_the_pattern_says():
    x = wildcard()
    single = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(x), lambda o, _: o)
    double = PatternMatchingRewriter.from_pattern(is_tuple([x, wildcard()]), lambda o, _: o)
    assert type(single) is ExprPatternRewriter
    assert type(double) is TupleRewriter


def test_alternatives_take_turns():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.negative(op.nn.relu(op.nn.relu(op.negative(x)))))
    either = relu_once() | negative_twice()
    assert isinstance(either, OrRewriter)
    assert ops(checked(either, mod)["main"]) == ["negative", "nn.relu", "negative"]

    x = wildcard()
    first = ExprPatternRewriter(is_op("relax.tanh")(x), lambda _, f: op.exp(f[x]))
    second = ExprPatternRewriter(is_op("relax.tanh")(x), lambda _, f: op.cos(f[x]))
    main = graph({"x": (2, 3)}, lambda bb, x: op.tanh(x))["main"]
    assert ops((first | second)(main)) == ["exp"]
    assert ops((second | first)(main)) == ["cos"]


def test_one_alternative_can_make_work_for_the_other():
    x = wildcard()
    unfold = ExprPatternRewriter(is_op("relax.exp")(x), lambda _, f: op.nn.relu(op.nn.relu(f[x])))
    main = graph({"x": (2, 3)}, lambda bb, x: op.exp(x))["main"]
    for rewriter in (unfold | relu_once(), relu_once() | unfold):
        assert ops(rewriter(main)) == ["nn.relu"]


@pytest.mark.parametrize("as_pattern", [True, False])
def test_separate_bindings_match_the_fields_of_a_tuple(as_pattern: bool):
    x, v, w = wildcard(), wildcard(), wildcard()
    fields = [is_op("relax.matmul")(x, v), is_op("relax.matmul")(x, w)]

    def rewriter(orig, found):
        return op.split(op.matmul(found[x], op.concat([found[v], found[w]], axis=1)), 2, axis=1)

    def body(bb, x, a, b):
        first = bb.emit(op.nn.relu(op.matmul(x, a)))
        return op.add(first, op.matmul(x, bb.emit(op.negative(b))))

    mod = graph({"x": (2, 3), "a": (3, 4), "b": (3, 4)}, body)
    after = checked(TupleRewriter(is_tuple(fields) if as_pattern else fields, rewriter), mod)
    assert ops(after["main"]) == ["negative", "concat", "matmul", "split", "nn.relu", "add"]


def test_tuples_whose_fields_read_each_other_crosswise_are_merged_one_at_a_time():
    """Merging both pairs would make a cycle: each pair has a member that the other one needs."""
    x, y = wildcard(), wildcard()

    def pair(left: str, right: str) -> TupleRewriter:
        def rewriter(orig, found):
            return Tuple((Call(left_op, (found[x],)), Call(right_op, (found[y],))))

        left_op, right_op = Op.get(f"relax.{left}"), Op.get(f"relax.{right}")
        return TupleRewriter([is_op(f"relax.{left}")(x), is_op(f"relax.{right}")(y)], rewriter)

    # The rebuilt values are equal to what is there: nothing changes, and nothing fails.
    def body(bb, a, b):
        p = bb.emit(op.nn.relu(a))
        q = bb.emit(op.tanh(b))
        return [bb.emit(op.negative(p)), bb.emit(op.exp(q))]

    mod = graph({"a": (2, 3), "b": (2, 3)}, body)
    assert (pair("nn.relu", "exp") | pair("negative", "tanh"))(mod) is mod

    def joined(left: str, right: str) -> TupleRewriter:
        def rewriter(orig, found):
            return op.split(op.concat([op.abs(found[x]), op.abs(found[y])], axis=0), 2, axis=0)

        return TupleRewriter([is_op(f"relax.{left}")(x), is_op(f"relax.{right}")(y)], rewriter)

    after = (joined("nn.relu", "exp") | joined("negative", "tanh"))(mod)
    assert problems_of(after) == []
    assert ops(after["main"]).count("split") == 1
    assert {"negative", "tanh"} <= set(ops(after["main"]))


def test_a_tuple_of_four_is_matched_as_a_tuple_only():
    fields = [is_op(f"relax.{name}")(wildcard()) for name in ("exp", "cos", "sin", "tanh")]
    rewriter = TupleRewriter(fields, lambda orig, _: Tuple((*orig.fields[1:], orig.fields[0])))
    four = lambda x: [op.exp(x), op.cos(x), op.sin(x), op.tanh(x)]  # noqa: E731
    apart = graph({"x": (2, 3)}, lambda bb, x: [bb.emit(v) for v in four(x)])["main"]
    assert rewriter(apart) is apart
    together = graph({"x": (2, 3)}, lambda bb, x: op.concat(bb.emit(Tuple(tuple(map(bb.emit, four(x))))), axis=0))
    (made,) = [v for v in get_var2val(rewriter(together["main"])).values() if isinstance(v, Tuple)]
    assert isinstance(made, Tuple)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda x: op.exp(x), 'R.Tensor((2, 3), "float32")'),
        (lambda x: Tuple((x, x, x)), "R.Tuple("),
        (lambda x: None, "None"),
    ],
)
def test_what_replaces_two_bindings_is_a_pair(given: Any, said: str):
    x = wildcard()
    fields = [is_op("relax.exp")(x), is_op("relax.cos")(x)]
    main = graph({"x": (2, 3)}, lambda bb, x: [bb.emit(op.exp(x)), bb.emit(op.cos(x))])["main"]
    with pytest.raises(PatternError) as error:
        TupleRewriter(fields, lambda _, found: given(found[x]))(main)
    assert f"the rewriter returned {said}" in error.value.message
    assert "for 2 bindings (lv, lv1)" in error.value.message
    assert error.value.help == "return a tuple of 2 values"


# ---- from modules


def test_functions_as_pattern_and_replacement(golden):
    source = rules(
        {"x": (2, 3), "y": (2, 3)},
        lambda bb, x, y: op.add(op.negative(x), y),
        lambda bb, x, y: op.subtract(y, x),
    )

    def body(bb, a, b):
        return op.nn.relu(op.add(op.negative(op.exp(a)), b))

    after = checked(PatternMatchingRewriter.from_module(source), graph({"a": (2, 3), "b": (2, 3)}, body))
    assert ops(after["main"]) == ["exp", "subtract", "nn.relu"]
    golden(after.script())


def test_parameters_match_values_of_their_type_only():
    rewriter = negative_twice()
    for spec, matches in (((2, 3), True), ((3, 2), False), (((2, 3), "float64"), False)):
        main = graph({"x": spec}, lambda bb, x: op.exp(op.negative(op.negative(x))))["main"]
        assert (rewriter(main) is not main) is matches


def test_options_of_calls_have_to_agree():
    source = rules({"x": (2, 3)}, lambda bb, x: op.sum(x, axis=1), lambda bb, x: op.max(x, axis=1))
    rewriter = PatternMatchingRewriter.from_module(source)
    along = [graph({"x": (2, 3)}, lambda bb, x, axis=axis: op.sum(x, axis=axis))["main"] for axis in (0, 1)]
    assert [rewriter(main) is main for main in along] == [True, False]


def test_constants_and_literals_have_to_agree():
    source = rules(
        {"x": (2, 3)},
        lambda bb, x: op.add(op.reshape(x, (3, 2)), const(1.0)),
        lambda bb, x: op.zeros((3, 2), "float32"),
    )
    rewriter = PatternMatchingRewriter.from_module(source)

    def main(shape: tuple[int, ...], number: float) -> Function:
        return graph({"x": (2, 3)}, lambda bb, x: op.add(op.reshape(x, shape), const(number)))["main"]

    assert ops(rewriter(main((3, 2), 1.0))) == ["zeros"]
    for other in (main((3, 2), 2.0), main((6, 1), 1.0)):
        assert rewriter(other) is other


def test_symbolic_sizes_are_the_same_everywhere():
    source = symbolic(
        lambda n, m: [(n, m), (m, n)],
        lambda bb, a, b: op.permute_dims(op.matmul(a, b)),
        lambda bb, a, b: op.matmul(op.permute_dims(b), op.permute_dims(a)),
    )
    rewriter = PatternMatchingRewriter.from_module(source)
    swap = lambda bb, a, b: op.permute_dims(op.matmul(a, b))  # noqa: E731
    mod = graph({"a": (2, 5), "b": (5, 2)}, swap)
    after = rewriter(mod)
    assert ops(after["main"]) == ["permute_dims", "permute_dims", "matmul"]
    assert_same_results(mod, after, exact=False)
    other = graph({"a": (2, 5), "b": (5, 3)}, swap)
    assert rewriter(other) is other


def test_symbolic_sizes_reach_shapes_and_declared_results():
    def rows(n: Any) -> TensorStructInfo:
        return TensorStructInfo((n, 4), "float32")

    functions = {}
    for name, external in (("pattern", "f"), ("replacement", "g")):
        bb, n = BlockBuilder(), SizeSymbol("n")
        x = Var("x", rows(n))
        with bb.function(name, [x]):
            with bb.dataflow():
                flat = bb.emit(op.reshape(x, (n * 4,)))
                out = bb.emit_output(op.call_dps_packed(external, (flat,), rows(n)))
            bb.emit_func_output(out)
        functions[name] = bb.get()[name]
    rewriter = PatternMatchingRewriter.from_module(IRModule(functions))

    def main(rows_out: int) -> Function:
        body = lambda bb, x: op.call_dps_packed("f", (bb.emit(op.reshape(x, (28,))),), rows(rows_out))  # noqa: E731
        return graph({"x": (7, 4)}, body)["main"]

    (call,) = [v for v in get_var2val(rewriter(main(7))).values() if isinstance(v, Call) and v.sinfo_args]
    assert isinstance(call.args[0], ExternFunc)
    assert call.args[0].global_symbol == "g"
    assert call.sinfo_args == (rows(7),)
    assert rewriter(other := main(8)) is other


def test_a_function_with_two_results_matches_separate_bindings():
    source = rules(
        {"x": (2, 3), "a": (3, 4), "b": (3, 4)},
        lambda bb, x, a, b: [bb.emit(op.matmul(x, a)), bb.emit(op.matmul(x, b))],
        _split_product,
    )
    mod = graph(
        {"x": (2, 3), "a": (3, 4), "b": (3, 4)},
        lambda bb, x, a, b: op.add(op.exp(op.matmul(x, a)), op.matmul(x, b)),
    )
    after = PatternMatchingRewriter.from_module(source)(mod)
    assert ops(after["main"]) == ["concat", "matmul", "split", "exp", "add"]
    assert_same_results(mod, after, exact=False)


def _split_product(bb, x, a, b):
    parts = bb.emit(op.split(op.matmul(x, op.concat([a, b], axis=1)), 2, axis=1))
    return [bb.emit(parts[0]), bb.emit(parts[1])]


# ---- functions that replacements call


def with_subroutine(body: Body, name: str = "helper", taken: str = "exp") -> PatternMatchingRewriter:
    """exp(x), or what is `taken`, becomes helper(x), where the module has the helper."""
    helper = graph({"x": (2, 3)}, body)["main"].with_attr("global_symbol", name)
    gv = GlobalVar(name, struct_info=helper.struct_info)
    source = rules({"x": (2, 3)}, lambda bb, x: getattr(op, taken)(x), lambda bb, x: gv(x))
    source[gv] = helper
    return PatternMatchingRewriter.from_module(source)


def test_functions_that_are_called_come_along():
    rewriter = with_subroutine(lambda bb, x: op.cos(x))
    mod = graph({"x": (2, 3)}, lambda bb, x: op.exp(x))
    after = rewriter(mod)
    assert problems_of(after) == []
    assert [gv.name_hint for gv in after.get_global_vars()] == ["helper", "main"]
    assert_same_results(graph({"x": (2, 3)}, lambda bb, x: op.cos(x)), after)
    assert rewriter(after) is after
    untouched = graph({"x": (2, 3)}, lambda bb, x: op.sin(x))
    assert rewriter(untouched) is untouched
    with pytest.raises(PatternError, match="calls helper, which a function alone cannot bring"):
        rewriter(mod["main"])


def test_an_equal_function_is_shared_and_another_one_keeps_its_name():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.exp(x))
    cos = graph({"x": (2, 3)}, lambda bb, x: op.cos(x))["main"].with_attr("global_symbol", "helper")
    want = graph({"x": (2, 3)}, lambda bb, x: op.cos(x))
    for there, names in ((cos, ["helper", "main"]), (_sine(), ["helper", "helper1", "main"])):
        mod["helper"] = there
        after = with_subroutine(lambda bb, x: op.cos(x))(mod)
        assert problems_of(after) == []
        assert [gv.name_hint for gv in after.get_global_vars()] == names
        assert after["helper"] is there
        assert_same_results(want, after)


def _sine() -> Function:
    return graph({"x": (2, 3)}, lambda bb, x: op.sin(x))["main"].with_attr("global_symbol", "helper")


def test_alternatives_with_subroutines_of_one_name():
    either = with_subroutine(lambda bb, x: op.cos(x)) | with_subroutine(lambda bb, x: op.sin(x), taken="tanh")
    after = either(graph({"x": (2, 3)}, lambda bb, x: op.add(op.tanh(x), op.exp(x))))
    assert problems_of(after) == []
    assert [gv.name_hint for gv in after.get_global_vars()] == ["helper", "helper1", "main"]
    assert_same_results(graph({"x": (2, 3)}, lambda bb, x: op.add(op.sin(x), op.cos(x))), after)


def test_functions_that_subroutines_call_come_along():
    inner = graph({"x": (2, 3)}, lambda bb, x: op.cos(x))["main"].with_attr("global_symbol", "inner")
    helper = GlobalVar("inner", struct_info=inner.struct_info)
    outer = graph({"x": (2, 3)}, lambda bb, x: op.negative(helper(x)))["main"].with_attr("global_symbol", "outer")
    unused = graph({"x": (2, 3)}, lambda bb, x: op.sin(x))["main"].with_attr("global_symbol", "unused")
    gv = GlobalVar("outer", struct_info=outer.struct_info)
    source = rules({"x": (2, 3)}, lambda bb, x: op.exp(x), lambda bb, x: gv(x))
    source.update({helper: inner, gv: outer, GlobalVar("unused"): unused})
    after = PatternMatchingRewriter.from_module(source)(graph({"x": (2, 3)}, lambda bb, x: op.exp(x)))
    assert problems_of(after) == []
    assert [gv.name_hint for gv in after.get_global_vars()] == ["inner", "main", "outer"]


# ---- refusals


def message(source: Any) -> str:
    with pytest.raises(PatternError) as error:
        PatternMatchingRewriter.from_module(source)
    return str(error.value)


def test_faults_of_a_module_are_named(golden):
    same = lambda bb, *args: op.nn.relu(args[0])  # noqa: E731
    one, two = graph({"x": (2, 3)}, same)["main"], graph({"x": (2, 3), "y": (2, 3)}, same)["main"]
    wide, half = graph({"x": (2, 4)}, same)["main"], graph({"x": ((2, 3), "float16")}, same)["main"]
    total = graph({"x": (2, 3)}, lambda bb, x: op.sum(x))["main"]
    nothing = graph({"x": (2, 3)}, lambda bb, x: x)["main"]
    late = graph({"x": (2, 3), "y": (2, 3)}, lambda bb, x, y: op.nn.relu(y))["main"]
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(None, "float32", ndim=2))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.match_cast(x, TensorStructInfo((2, 3), "float32")))
    faults = {
        "missing": IRModule({"pattern": one, "replacment": one}),
        "empty": IRModule(),
        "counts": IRModule({"pattern": one, "replacement": two}),
        "shape": IRModule({"pattern": one, "replacement": wide}),
        "dtype": IRModule({"pattern": one, "replacement": half}),
        "result": IRModule({"pattern": one, "replacement": total}),
        "identity": IRModule({"pattern": nothing, "replacement": nothing}),
        "unmatched": IRModule({"pattern": two, "replacement": late}),
        "cast": IRModule({"pattern": bb.get()["main"], "replacement": bb.get()["main"]}),
    }
    golden("\n\n".join(f"{name}\n{message(source)}" for name, source in faults.items()))


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="from_module takes an IRModule, got dict"):
        PatternMatchingRewriter.from_module({})
    with pytest.raises(TypeError, match="a rewriter needs a pattern, got str"):
        PatternMatchingRewriter.from_pattern("relax.exp", lambda o, _: o)
    with pytest.raises(TypeError, match="needs another rewriter, got function"):
        relu_once() | (lambda x: x)
    with pytest.raises(TypeError, match="expected a relax Function to rewrite, got int"):
        relu_once()(3)


def test_values_that_differ_only_in_the_last_bit_are_not_equal_constants():
    source = rules({"x": (2, 3)}, lambda bb, x: op.add(x, const(1.0)), lambda bb, x: op.exp(x))
    near = graph({"x": (2, 3)}, lambda bb, x: op.add(x, const(float(np.nextafter(np.float32(1), np.float32(2))))))[
        "main"
    ]
    assert PatternMatchingRewriter.from_module(source)(near) is near
