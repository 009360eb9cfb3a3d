"""rewrite_call and rewrite_bindings: what is replaced, in which order, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as SizeSymbol
from eutectic.ir.span import Span
from eutectic.ir.structural import structural_equal
from eutectic.relax import const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.dpl import (
    PatternContext,
    is_const,
    is_op,
    is_tuple,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from eutectic.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.testing.graphs import assert_same_results, graph, weights

ANY = wildcard()


def unary(name: str, x: Any = None) -> Any:
    return is_op(f"relax.{name}")(wildcard() if x is None else x)


def ops(function: Function) -> list[str]:
    values = get_var2val(function).values()
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, Call) and isinstance(v.op, Op)]


def checked(mod: IRModule, rewrite: Any) -> IRModule:
    """Rewrite `main`: the input stays as it is; the result is well formed and computes the same."""
    text = mod.script()
    after = mod.clone()
    after["main"] = rewrite(mod["main"])
    assert mod.script() == text
    assert problems_of(after) == []
    assert structural_equal(after["main"].struct_info, mod["main"].struct_info)
    assert_same_results(mod, after)
    return after


def by_call(pattern: Any, rewriter: Any) -> Any:
    return lambda function: rewrite_call(pattern, rewriter, function)


def by_context(ctx: PatternContext, rewriter: Any) -> Any:
    return lambda function: rewrite_bindings(ctx, rewriter, function)


def relu_once() -> Any:
    """relu(relu(x)) -> relu(x)"""
    x = wildcard()
    return by_call(unary("nn.relu", unary("nn.relu", x)), lambda _, found: op.nn.relu(found[x]))


# ---- rewrite_call


def test_a_match_is_replaced(golden):
    def body(bb, x, y):
        both = bb.emit(op.add(op.nn.relu(op.nn.relu(x)), y))
        return op.multiply(op.nn.relu(both), op.tanh(both))

    mod = checked(graph({"x": (2, 3), "y": (2, 3)}, body), relu_once())
    assert ops(mod["main"]) == ["nn.relu", "add", "nn.relu", "tanh", "multiply"]
    golden(mod.script())


def test_no_match_and_a_declined_match_give_the_same_object():
    main = graph({"x": (2, 3)}, lambda bb, x: op.tanh(op.nn.relu(x)))["main"]
    asked = []
    assert relu_once()(main) is main
    assert rewrite_call(unary("tanh"), lambda orig, _: asked.append(orig) or orig, main) is main
    assert asked == [v for v in get_var2val(main).values() if isinstance(v, Call) and v.op.name == "relax.tanh"]


def test_an_equal_replacement_changes_nothing():
    x = wildcard()
    main = graph({"x": (2, 3)}, lambda bb, x: op.tanh(op.nn.relu(x)))["main"]
    assert rewrite_call(unary("tanh", x), lambda _, found: op.tanh(found[x]), main) is main


def test_all_matches_of_a_round_are_replaced_in_program_order():
    x, seen = wildcard(), []

    def rewriter(orig, found):
        seen.append(found[x].name_hint)
        return op.divide(op.sinh(found[x]), op.cosh(found[x]))

    main = graph(dict.fromkeys("abc", (2, 3)), lambda bb, *args: [bb.emit(op.tanh(v)) for v in args])["main"]
    assert ops(rewrite_call(unary("tanh", x), rewriter, main)) == ["sinh", "cosh", "divide"] * 3
    assert seen == ["a", "b", "c"]


def test_rewriting_goes_on_until_nothing_changes():
    def body(bb, x):
        for _ in range(9):
            x = bb.emit(op.nn.relu(x))
        return x

    assert ops(checked(graph({"x": (2, 3)}, body), relu_once())["main"]) == ["nn.relu"]


def test_a_replaced_value_is_not_looked_through_in_its_round():
    x, sizes = wildcard(), []
    pattern = unary("nn.relu", unary("nn.relu", x))

    def rewriter(orig, found):
        sizes.append(isinstance(found[x], Call))
        return op.nn.relu(found[x])

    def body(bb, x):
        for _ in range(4):
            x = bb.emit(op.nn.relu(x))
        return x

    checked(graph({"x": (2, 3)}, body), by_call(pattern, rewriter))
    # Round one: lv1 is replaced, lv2 reads the new lv1 and is no match, lv3 is; round two finds one more.
    assert len(sizes) == 3


def test_matched_values_are_not_computed_again():
    x = wildcard()
    inner = unary("tanh", x)

    def body(bb, x):
        inside = bb.emit(op.tanh(x))
        return op.add(bb.emit(op.exp(inside)), inside)

    pattern = unary("exp", inner)
    mod = graph({"x": (2, 3)}, body)
    after = mod.clone()
    after["main"] = rewrite_call(pattern, lambda _, found: op.nn.relu(found[inner]), mod["main"])
    assert ops(after["main"]) == ["tanh", "nn.relu", "add"]
    assert len(set(get_var2val(after["main"]))) == 3


def test_a_value_can_become_a_parameter_or_a_constant():
    x = wildcard()
    twice = by_call(unary("negative", unary("negative", x)), lambda _, found: found[x])
    mod = graph({"x": (2, 3)}, lambda bb, x: op.negative(op.negative(x)))
    after = checked(mod, twice)
    assert ops(after["main"]) == []
    assert after["main"].body.body is after["main"].params[0]
    zeros = graph({"x": (2, 3)}, lambda bb, x: op.add(x, op.zeros((2, 3), "float32")))
    folded = checked(zeros, by_call(is_op("relax.zeros")(ANY), lambda *_: const(np.zeros((2, 3), "float32"))))
    assert ops(folded["main"]) == ["add"]


def test_shared_parts_of_a_replacement_are_computed_once():
    x = wildcard()

    def rewriter(_, found):
        half = op.nn.relu(found[x])
        return op.add(half, op.minimum(half, half))

    mod = graph({"x": (2, 3)}, lambda bb, x: op.tanh(x))
    after = rewrite_call(unary("tanh", x), rewriter, mod["main"])
    assert ops(after) == ["nn.relu", "minimum", "add"]


def test_common_and_unused_values_go_after_a_change():
    x = wildcard()

    def body(bb, a):
        bb.emit(op.sqrt(a))
        return op.add(op.exp(a), op.nn.relu(op.nn.relu(op.exp(a))))

    assert ops(checked(graph({"x": (2, 3)}, body), relu_once())["main"]) == ["exp", "nn.relu", "add"]
    main = graph({"x": (2, 3)}, body)["main"]
    assert rewrite_call(unary("cos", x), lambda o, _: o, main) is main


def test_a_tuple_pattern_takes_explicit_and_separate_values():
    x = wildcard()
    pattern = is_tuple([unary("nn.relu", x), unary("negative", x)])
    calls = []

    def rewriter(orig, found):
        calls.append(orig)
        assert found[pattern] is orig
        stacked = op.concat([found[x], found[x]], axis=0)
        return op.split(op.call_pure_packed("f", stacked, sinfo_args=TensorStructInfo((4, 3), "float32")), 2, axis=0)

    main = graph({"x": (2, 3)}, lambda bb, x: [bb.emit(op.nn.relu(x)), op.tanh(bb.emit(op.negative(x)))])["main"]
    after = rewrite_call(pattern, rewriter, main)
    assert problems_of(after) == []
    assert ops(after) == ["concat", "call_pure_packed", "split", "tanh"]
    assert [type(field).__name__ for field in calls[0].fields] == ["DataflowVar", "DataflowVar"]


def test_values_that_need_each_other_are_no_implicit_tuple():
    x, y = wildcard(), wildcard()
    pattern = is_tuple([unary("nn.relu", x), unary("tanh", y)])
    asked = []
    main = graph({"x": (2, 3)}, lambda bb, x: op.tanh(op.exp(op.nn.relu(x))))["main"]
    assert rewrite_call(pattern, lambda orig, _: asked.append(orig) or orig, main) is main
    assert asked == []


def test_an_implicit_tuple_that_would_need_its_own_field_is_left_alone():
    x = wildcard()
    pattern = is_tuple([unary("nn.relu", x), unary("negative", x)])
    main = graph({"x": (2, 3)}, lambda bb, x: [bb.emit(op.nn.relu(x)), bb.emit(op.negative(x))])["main"]
    swapped = rewrite_call(pattern, lambda orig, _: Tuple((orig.fields[1], orig.fields[0])), main)
    assert swapped is main


def test_conditionals_and_blocks_with_side_effects():
    info = TensorStructInfo((2,), "float32")
    x, flag = Var("x", info), Var("flag", TensorStructInfo((), "bool"))

    def double_relu(tag: str) -> tuple[SeqExpr, Var]:
        first, second = Var(f"{tag}0", info), Var(f"{tag}1", info)
        bindings = (VarBinding(first, op.nn.relu(x)), VarBinding(second, op.nn.relu(first)))
        return SeqExpr((BindingBlock(bindings),), second), second

    picked = Var("picked", info)
    cond = If(flag, double_relu("t")[0], double_relu("f")[0], struct_info=info)
    out0, out1 = Var("o0", info), Var("o1", info)
    block = BindingBlock(
        (VarBinding(picked, cond), VarBinding(out0, op.nn.relu(picked)), VarBinding(out1, op.nn.relu(out0)))
    )
    function = Function((flag, x), SeqExpr((block,), out1))
    assert problems_of(function) == []
    after = relu_once()(function)
    assert problems_of(after) == []
    # Each branch and the rest lose one; what a branch computes is opaque outside.
    assert ops(after) == ["nn.relu"] * 3


def test_matching_stays_inside_a_block():
    info = TensorStructInfo((2,), "float32")
    x, mid, out = Var("x", info), Var("mid", info), Var("out", info)
    blocks = (
        DataflowBlock((VarBinding(mid, op.nn.relu(x)),)),
        BindingBlock((VarBinding(out, op.nn.relu(mid)),)),
    )
    function = Function((x,), SeqExpr(blocks, out))
    assert relu_once()(function) is function


def test_inner_functions_are_rewritten():
    info = TensorStructInfo((2,), "float32")
    y, a, b = Var("y", info), Var("a", info), Var("b", info)
    inner = Function((y,), SeqExpr((BindingBlock((VarBinding(a, op.nn.relu(y)), VarBinding(b, op.nn.relu(a)))),), b))
    x, f, out = Var("x", info), Var("f", inner.struct_info), Var("out", info)
    block = BindingBlock((VarBinding(f, inner), VarBinding(out, Call(f, (x,), struct_info=info))))
    function = Function((x,), SeqExpr((block,), out))
    after = relu_once()(function)
    assert problems_of(after) == []
    (found,) = [v for v in get_var2val(after).values() if isinstance(v, Function)]
    assert ops(found) == ["nn.relu"]


def test_casts_are_not_looked_through_and_keep_what_they_define_first():
    n = SizeSymbol("n")
    x = Var("x", TensorStructInfo(None, "float32", ndim=1))
    a, cast, b, c = (
        DataflowVar("a", TensorStructInfo(None, "float32", ndim=1)),
        DataflowVar("cast", TensorStructInfo((n,), "float32")),
        DataflowVar("b", TensorStructInfo((n,), "float32")),
        Var("c", TensorStructInfo(None, "float32", ndim=1)),
    )
    bindings = (
        VarBinding(a, op.nn.relu(x)),
        MatchCast(cast, a, cast.struct_info),
        VarBinding(b, op.nn.relu(cast)),
        VarBinding(c, op.nn.relu(b)),
    )
    function = Function((x,), SeqExpr((DataflowBlock(bindings),), c))
    after = relu_once()(function)
    assert problems_of(after) == []
    assert ops(after) == ["nn.relu", "nn.relu"]
    kinds = [type(b).__name__ for b in after.body.blocks[0].bindings]
    assert kinds == ["VarBinding", "MatchCast", "VarBinding"]


def test_the_replacement_takes_the_span_of_what_it_replaces():
    x, spot, own = wildcard(), Span("model.py", 7), Span("rules.py", 3)
    source = Var("x", TensorStructInfo((2,), "float32"))
    out = Var("out", source.struct_info)
    value = op.tanh(source, span=spot)
    function = Function((source,), SeqExpr((DataflowBlock((VarBinding(out, value),)),), out))
    after = rewrite_call(
        unary("tanh", x), lambda _, found: op.nn.relu(op.exp(op.negative(found[x], span=own))), function
    )
    spans = {v.op.name: v.span for v in get_var2val(after).values()}
    assert spans == {"relax.negative": own, "relax.exp": spot, "relax.nn.relu": spot}


# ---- rewrite_bindings


def merged_matmuls(count: int, seen: list[int] | None = None) -> Any:
    """Products of one value with several matrices become one product and a split; notes bindings searched."""
    with PatternContext() as ctx:
        x, matrices = wildcard(), [wildcard() for _ in range(count)]
        products = [is_op("relax.matmul")(x, w) for w in matrices]

    def rewriter(found, bindings):
        if seen is not None:
            seen.append(len(bindings))
        widths = [found[w].struct_info.static_shape[1] for w in matrices]
        whole = op.matmul(found[x], op.concat([found[w] for w in matrices], axis=1))
        parts = op.split(whole, [int(n) for n in np.cumsum(widths)[:-1]], axis=1)
        return {found[p]: parts[i] for i, p in enumerate(products)}

    return by_context(ctx, rewriter)


def test_bindings_found_together_are_replaced_together(golden):
    def body(bb, x, a, b, c):
        q, k, v = (bb.emit(op.matmul(x, w)) for w in (a, b, c))
        return op.add(op.multiply(q, k), v)

    mod = graph({"x": (2, 3), "a": (3, 4), "b": (3, 4), "c": (3, 4)}, body)
    after = checked(mod, merged_matmuls(3))
    assert ops(after["main"]) == ["concat", "matmul", "split", "multiply", "add"]
    golden(after.script())


def test_the_search_goes_on_with_the_bindings_that_are_left():
    def body(bb, x, *matrices):
        out = [bb.emit(op.matmul(x, w)) for w in matrices]
        return op.add(op.add(out[0], out[1]), op.multiply(out[2], out[3]))

    params = {"x": (2, 3), **dict.fromkeys("abcd", (3, 4))}
    seen: list[int] = []
    after = checked(graph(params, body), merged_matmuls(2, seen))
    # Two pairs in the first round; the second one joins the two products of the first.
    assert seen == [7, 5, 13]
    assert ops(after["main"]).count("matmul") == 1


def test_new_bindings_come_after_what_they_read():
    # The second matrix is computed between the two products.
    def body(bb, x, a, b):
        first = bb.emit(op.matmul(x, a))
        late = bb.emit(op.negative(b))
        return op.add(op.exp(first), op.matmul(x, late))

    after = checked(graph({"x": (2, 3), "a": (3, 4), "b": (3, 4)}, body), merged_matmuls(2))
    assert ops(after["main"])[0] == "negative"


def test_a_declined_match_does_not_hide_the_next_one():
    with PatternContext() as ctx:
        x = wildcard()
        first, second = unary("nn.relu", x), is_op("relax.tanh")(wildcard(), add_constraint=False)
        first >> second

    def body(bb, a, b):
        return op.add(op.tanh(op.nn.relu(a)), op.tanh(op.nn.relu(b)))

    seen = []

    def rewriter(found, bindings):
        seen.append(found[x].name_hint)
        return {found[second]: op.tanh(op.maximum(found[x], const(0.0)))} if found[x].name_hint == "b" else {}

    after = checked(graph({"a": (2, 3), "b": (2, 3)}, body), by_context(ctx, rewriter))
    assert seen[:2] == ["a", "b"]
    assert sorted(ops(after["main"])) == ["add", "maximum", "nn.relu", "tanh", "tanh"]


def test_only_used_by_looks_at_the_whole_function():
    info = TensorStructInfo((2,), "float32")
    x, mid, out, late = (Var(name, info) for name in ("x", "mid", "out", "late"))

    def function(last: Any) -> Function:
        first = DataflowBlock((VarBinding(mid, op.nn.relu(x)), VarBinding(out, op.tanh(mid))))
        return Function((x,), SeqExpr((first, BindingBlock((VarBinding(late, last),))), late))

    with PatternContext() as ctx:
        source = wildcard()
        a, b = unary("nn.relu", source), is_op("relax.tanh")(wildcard(), add_constraint=False)
        a >> b

    def rewrite(f: Function) -> Function:
        return rewrite_bindings(ctx, lambda found, _: {found[b]: op.exp(found[source])}, f)

    assert ops(rewrite(function(op.negative(out)))) == ["exp", "negative"]
    read_again = function(op.add(out, mid))
    assert rewrite(read_again) is read_again


def test_values_of_other_bindings_stand_for_their_variables():
    with PatternContext() as ctx:
        a, b = (
            is_op("relax.exp")(wildcard(), add_constraint=False),
            is_op("relax.tanh")(wildcard(), add_constraint=False),
        )
        a ^ b
    main = graph({"x": (2, 3)}, lambda bb, x: op.add(v := bb.emit(op.exp(x)), op.tanh(v)))["main"]
    after = rewrite_bindings(ctx, lambda found, bindings: {found[b]: op.sqrt(bindings[found[a]])}, main)
    assert ops(after) == ["exp", "sqrt", "add"]


# ---- random programs

STEPS: dict[str, Any] = {"nn.relu": op.nn.relu, "negative": op.negative, "add": op.add, "maximum": op.maximum}


@st.composite
def programs(draw: st.DrawFn) -> IRModule:
    steps = draw(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5), st.integers(0, 5)), max_size=12))
    count = draw(st.integers(1, 2))

    def body(bb, x, y):
        values = [x, y]
        for name, i, j in steps:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            make = STEPS[name]
            values.append(bb.emit(make(a, b) if name in ("add", "maximum") else make(a)))
        return [bb.emit(op.abs(v)) for v in values[-count:]]

    return graph({"x": (3,), "y": (3,)}, body)


@given(programs())
def test_rewriting_keeps_the_results_and_leaves_no_match(mod: IRModule):
    x, y = wildcard(), wildcard()
    zero = const(np.zeros((), "float32"))
    for pattern, rewriter in (
        (unary("nn.relu", unary("nn.relu", x)), lambda _, found: op.nn.relu(found[x])),
        (unary("negative", unary("negative", x)), lambda _, found: found[x]),
        (is_op("relax.maximum")(x, x), lambda _, found: found[x]),
        (unary("abs", unary("negative", x)), lambda _, found: op.abs(found[x])),
        (is_op("relax.add")(unary("negative", x), y), lambda _, found: op.subtract(found[y], found[x])),
        (unary("nn.relu", x) | unary("tanh", x), lambda _, found: op.maximum(found[x], zero)),
    ):
        after = checked(mod, by_call(pattern, rewriter))
        values = get_var2val(after["main"])
        assert not any(pattern.match(value, values) for value in values.values() if isinstance(value, Call))
        mod = after


@given(programs())
def test_rewriting_bindings_keeps_the_results(mod: IRModule):
    with PatternContext() as ctx:
        x = wildcard()
        first, second = is_op("relax.negative")(x), is_op("relax.nn.relu")(x)

    def rewriter(found, bindings):
        pair = op.concat([op.multiply(found[x], const(-1.0)), op.maximum(found[x], const(0.0))], axis=0)
        parts = op.split(pair, 2, axis=0)
        return {found[first]: parts[0], found[second]: parts[1]}

    after = checked(mod, by_context(ctx, rewriter))
    for block in after["main"].body.blocks:
        assert ctx.match_dfb(block) is None


def test_a_constant_can_be_an_operand_elsewhere():
    w = weights(3, 4)
    x, c = wildcard(), is_const()
    pattern = is_op("relax.matmul")(x, c)
    mod = graph({"x": (2, 3)}, lambda bb, x: op.matmul(x, w))
    after = rewrite_call(
        pattern, lambda _, f: op.permute_dims(op.matmul(op.permute_dims(f[c]), op.permute_dims(f[x]))), mod["main"]
    )
    assert ops(after) == ["permute_dims", "permute_dims", "matmul", "permute_dims"]
    assert get_var2val(after)[after.body.body].struct_info == mod["main"].ret_struct_info
