"""What rewrite_call and rewrite_bindings refuse, and what they say then."""

from __future__ import annotations

from typing import Any

import pytest

from eutectic.ir.module import IRModule
from eutectic.relax import extern, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.dpl import PatternContext, is_op, rewrite_bindings, rewrite_call, wildcard
from eutectic.relax.expr import Call, DataflowBlock, DataflowVar, Function, MatchCast, SeqExpr, Var, VarBinding
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import assert_same_results, graph

STRANGER = Var("stranger", TensorStructInfo((2, 3), "float32"))


def unary(name: str, x: Any = None) -> Any:
    return is_op(f"relax.{name}")(wildcard() if x is None else x)


def by_call(pattern: Any, rewriter: Any) -> Any:
    return lambda function: rewrite_call(pattern, rewriter, function)


def by_context(ctx: PatternContext, rewriter: Any) -> Any:
    return lambda function: rewrite_bindings(ctx, rewriter, function)


def refused(error: type[Exception], rewrite: Any) -> str:
    main = graph({"x": (2, 3)}, lambda bb, x: op.exp(op.nn.relu(op.tanh(x))))["main"]
    with pytest.raises(error) as info:
        rewrite(main)
    return str(info.value)


@pytest.mark.parametrize(
    "replacement",
    [
        pytest.param(lambda x: op.sum(x), id="another shape"),
        pytest.param(lambda x: op.astype(x, "float16"), id="another dtype"),
        pytest.param(lambda x: op.call_pure_packed("f", x), id="no declared type"),
        pytest.param(lambda x: None, id="nothing"),
        pytest.param(lambda x: 3, id="a number"),
        pytest.param(lambda x: op.exp(STRANGER), id="a variable from elsewhere"),
    ],
)
def test_what_cannot_stand_there_is_refused(replacement: Any, golden):
    x = wildcard()
    golden(refused(PatternError, by_call(unary("nn.relu", x), lambda _, found: replacement(found[x]))))


@pytest.mark.parametrize(
    "rewriter",
    [
        pytest.param(lambda orig: op.nn.relu(orig), id="wraps itself"),
        pytest.param(lambda orig: op.add(op.nn.relu(op.negative(orig)), op.nn.relu(op.cos(orig))), id="doubles"),
    ],
)
def test_rewriting_that_does_not_end_is_refused(rewriter: Any):
    text = refused(PatternError, by_call(unary("nn.relu"), lambda orig, _: rewriter(orig)))
    assert "rewriting relax.nn.relu does not end: after" in text
    assert "the function had 3 bindings" in text


def test_rewriters_of_bindings_are_checked():
    with PatternContext() as ctx:
        first, second = unary("tanh"), is_op("relax.nn.relu")(wildcard(), add_constraint=False)
        first >> second

    def message(rewriter: Any) -> str:
        return refused(PatternError, by_context(ctx, rewriter)).splitlines()[0]

    assert message(lambda found, _: None).endswith("returned NoneType, not a mapping of variables to new values")
    assert message(lambda found, _: {STRANGER: STRANGER}).endswith(
        "replaced stranger, which is not one of the bindings it was given"
    )
    assert message(lambda found, _: {found[first]: op.exp(found[first])}).endswith(
        "the replacement of lv depends on itself"
    )
    both = message(lambda found, _: {found[first]: op.exp(found[second]), found[second]: op.cos(found[first])})
    assert both.endswith("the replacement of lv, lv1 depends on themselves")


def test_a_match_that_others_stand_in_between_is_left_alone():
    """Joining both pairs would make a circle: each needs a value that is computed from the other."""

    def body(bb, x, y, a, b):
        p, r = bb.emit(op.matmul(x, a)), bb.emit(op.matmul(y, b))
        return op.add(op.matmul(x, op.exp(r)), op.matmul(y, op.cos(p)))

    with PatternContext() as ctx:
        x, v, w = wildcard(), wildcard(), wildcard()
        left, right = is_op("relax.matmul")(x, v), is_op("relax.matmul")(x, w)

    def rewriter(found, _):
        parts = op.split(op.matmul(found[x], op.concat([found[v], found[w]], axis=1)), 2, axis=1)
        return {found[left]: parts[0], found[right]: parts[1]}

    mod = graph(dict.fromkeys("xyab", (2, 2)), body)
    after = IRModule({"main": rewrite_bindings(ctx, rewriter, mod["main"])})
    assert problems_of(after) == []
    assert_same_results(mod, after)
    products = [v for v in get_var2val(after["main"]).values() if isinstance(v, Call) and v.op.name == "relax.matmul"]
    assert len(products) == 3

    chain = graph({"x": (2, 3)}, lambda bb, x: op.exp(op.nn.relu(op.tanh(x))))["main"]
    with PatternContext() as ctx:
        first, second = unary("tanh"), is_op("relax.nn.relu")(wildcard(), add_constraint=False)
        first >> second
    backwards = rewrite_bindings(ctx, lambda found, b: {found[first]: op.cos(list(b)[2])}, chain)
    assert backwards is chain


def test_side_effects_cannot_enter_a_dataflow_block():
    x = wildcard()
    text = refused(
        PatternError,
        by_call(
            unary("nn.relu", x),
            lambda _, found: Call(extern("print"), (found[x],), sinfo_args=TensorStructInfo((2, 3), "float32")),
        ),
    )
    assert "rewriting relax.nn.relu made an ill-formed function: main: " in text
    assert "has side effects inside a dataflow block" in text


def test_wrong_arguments_are_refused():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.exp(x))
    with pytest.raises(TypeError, match="expected a relax Function to rewrite, got IRModule"):
        rewrite_call(unary("exp"), lambda o, _: o, mod)
    with pytest.raises(TypeError, match="rewrite_call takes a pattern, got str"):
        rewrite_call("relax.exp", lambda o, _: o, mod["main"])
    with pytest.raises(TypeError, match="rewrite_bindings takes a PatternContext, got ExprPattern"):
        rewrite_bindings(is_op("relax.exp"), lambda *_: {}, mod["main"])


def test_errors_of_operators_say_which_replacement_they_belong_to():
    x = wildcard()
    bad = Call(op.matmul(STRANGER, op.permute_dims(STRANGER)).op, (STRANGER, STRANGER), span=None)
    with pytest.raises(Exception, match="in the replacement of lv1") as error:
        rewrite_call(
            unary("nn.relu", x),
            lambda *_: bad,
            graph({"x": (2, 3)}, lambda bb, x: op.exp(op.nn.relu(op.tanh(x))))["main"],
        )
    assert "matmul" in str(error.value)


def test_a_cast_cannot_be_replaced():
    info = TensorStructInfo((2,), "float32")
    x, mid, out = Var("x", TensorStructInfo(None, "float32", ndim=1)), DataflowVar("mid", info), Var("out", info)
    block = DataflowBlock((MatchCast(mid, x, info), VarBinding(out, op.nn.relu(mid))))
    function = Function((x,), SeqExpr((block,), out))
    with PatternContext() as ctx:
        source = wildcard()
        unary("nn.relu", source)
    with pytest.raises(PatternError, match="replaced mid, which is not one of the bindings"):
        rewrite_bindings(ctx, lambda found, _: {found[source]: x}, function)
