"""Where rewriting looks: runs, inner functions, other names, casts; and what of a function stays."""

from __future__ import annotations

from typing import Any

from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as SizeSymbol
from eutectic.relax import extern, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.dpl import PatternContext, is_op, is_tuple, is_var, rewrite_bindings, rewrite_call, wildcard
from eutectic.relax.dpl.run import Run
from eutectic.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.testing.graphs import graph

INFO = TensorStructInfo((2, 3), "float32")
RANK = TensorStructInfo(None, "float32", ndim=2)


def tanh(x: Any = None) -> Any:
    return is_op("relax.tanh")(wildcard() if x is None else x, add_constraint=False)


def relu(x: Any = None) -> Any:
    return is_op("relax.nn.relu")(wildcard() if x is None else x, add_constraint=False)


def ops(function: Function) -> list[str]:
    values = get_var2val(function).values()
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, Call) and isinstance(v.op, Op)]


def function(x: Var, *steps: Any, dataflow: bool = True, pure: bool = True, ret: Any = None) -> Function:
    """Bindings of (variable, value) in one block; the last one is the result."""
    bindings = tuple(s if isinstance(s, MatchCast) else VarBinding(*s) for s in steps)
    block = (DataflowBlock if dataflow else BindingBlock)(bindings)
    made = Function((x,), SeqExpr((block,), bindings[-1].var), ret, is_pure=pure)
    assert problems_of(made) == []
    return made


def test_another_name_of_a_value_is_not_offered_again():
    asked = []
    main = graph({"x": (2, 3)}, lambda bb, x: bb.emit(op.nn.relu(x)))["main"]
    assert rewrite_call(relu(), lambda orig, _: asked.append(orig) or orig, main) is main
    assert len(asked) == 1


def test_matching_stops_at_side_effects():
    x, a, b, c = (Var(name, INFO) for name in "xabc")
    noise = Var("noise", INFO)
    shout = Call(extern("print"), (x,), sinfo_args=INFO, struct_info=INFO)
    inner = wildcard()
    between = function(x, (a, op.tanh(x)), (noise, shout), (b, op.nn.relu(a)), dataflow=False, pure=False)
    before = function(x, (noise, shout), (a, op.tanh(x)), (c, op.nn.relu(a)), dataflow=False, pure=False)
    outcomes = [rewrite_call(relu(tanh(inner)), lambda _, f: op.exp(f[inner]), f) for f in (between, before)]
    assert outcomes[0] is between
    assert ops(outcomes[1]) == ["exp"]
    assert problems_of(outcomes[1]) == []


def test_what_an_inner_function_captures_has_readers_outside():
    def outer(last: Any) -> Function:
        x, mid, y, a, f, b, out = (Var(n, INFO) for n in ("x", "mid", "y", "a", "f", "b", "out"))
        inner = Function((y,), SeqExpr((BindingBlock((VarBinding(a, op.tanh(mid)),)),), a))
        f = Var("f", inner.struct_info)
        return function(
            x, (mid, op.exp(x)), (f, inner), (b, Call(f, (x,), struct_info=INFO)), (out, last(b, mid)), dataflow=False
        )

    with PatternContext() as only:
        source, reader = is_var("mid"), tanh()
        source >> reader
    with PatternContext() as among_others:
        first, second = is_var("mid"), tanh()
        first ^ second
    shared = outer(op.add)
    assert rewrite_bindings(only, lambda m, _: {m[reader]: op.cos(m[source])}, shared) is shared
    after = rewrite_bindings(among_others, lambda m, _: {m[second]: op.cos(m[first])}, shared)
    assert "cos" in after.script()


def test_a_new_value_counts_as_a_reader_at_once():
    seen = []
    with PatternContext() as ctx:
        first, second = relu(), tanh()
        first >> second

    def body(bb, x):
        p, q = bb.emit(op.nn.relu(x)), bb.emit(op.nn.relu(op.negative(x)))
        return op.add(op.tanh(p), op.tanh(q))

    def rewriter(found, bindings):
        seen.append(found[second].name_hint)
        other = next(v for v in bindings if v.name_hint == "lv2")  # the relu of the second pair
        return {found[second]: op.exp(other)}

    main = graph({"x": (2, 3)}, body)["main"]
    assert sorted(ops(rewrite_bindings(ctx, rewriter, main))) == ["add", "exp", "negative", "nn.relu", "tanh"]
    assert len(seen) == 1


def test_a_size_is_defined_before_a_new_value_uses_it():
    n = SizeSymbol("n")
    rank = TensorStructInfo(None, "float32", ndim=1)
    sized = TensorStructInfo((n,), "float32")
    x, out = Var("x", rank), Var("out", rank)
    early, cast = DataflowVar("early", rank), DataflowVar("cast", sized)
    f = function(x, (early, op.nn.relu(x)), MatchCast(cast, x, sized), (out, op.add(early, cast)))
    after = rewrite_call(relu(), lambda *_: op.zeros((n,), "float32"), f)
    assert problems_of(after) == []
    assert [b.var.name_hint for b in after.body.blocks[0].bindings] == ["cast", "early", "out"]


def test_the_declared_result_stays():
    x, mid, out = Var("x", INFO), DataflowVar("mid", INFO), Var("out", INFO)
    inner = wildcard()
    f = function(x, (mid, op.tanh(x)), (out, op.nn.relu(mid)), ret=RANK)
    after = rewrite_call(relu(tanh(inner)), lambda _, found: found[inner], f)
    assert after.body.body is x
    assert after.ret_struct_info == RANK
    assert after.struct_info == f.struct_info


def test_a_replacement_that_tidies_up_to_what_was_there_changes_nothing():
    inner = wildcard()
    main = graph({"x": (2, 3)}, lambda bb, x: op.exp(op.nn.relu(x)))["main"]
    wrapped = rewrite_call(relu(inner), lambda _, f: TupleGetItem(Tuple((op.nn.relu(f[inner]),)), 0), main)
    assert wrapped is main


def test_an_alternative_may_be_a_tuple():
    x = wildcard()
    pair = is_tuple([relu(x), tanh(x)])
    either = is_op("relax.cos")(x) | pair

    def rewriter(orig, found):
        assert found[either] is orig
        if isinstance(orig, Tuple):
            both = op.concat([found[x], found[x]], axis=0)
            return op.split(op.sin(both), 2, axis=0)
        return op.exp(found[x])

    main = graph({"x": (2, 3)}, lambda bb, x: [bb.emit(op.nn.relu(x)), bb.emit(op.tanh(x)), bb.emit(op.cos(x))])["main"]
    after = rewrite_call(either, rewriter, main)
    assert problems_of(after) == []
    assert sorted(ops(after)) == ["concat", "exp", "sin", "split"]


def test_a_run_takes_no_values_that_need_each_other_in_a_circle():
    x, u, v, w = (Var(name, INFO) for name in "xuvw")
    values = (op.tanh(x), op.cos(x), op.sin(x))
    run = Run([VarBinding(*pair) for pair in zip((u, v, w), values, strict=True)], lambda _: False)
    assert run.accept({u: op.exp(v)})
    assert not run.accept({v: op.exp(u)})
    assert not run.reaches(v, {u})
    assert run.accept({w: op.exp(u)})
    assert run.reaches(w, {v})
    assert [binding.var for binding in run.open()] == [v]
