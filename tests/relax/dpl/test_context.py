"""PatternContext.match_dfb: which variables take which pattern, and when there is no match."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic.ir.module import IRModule
from eutectic.relax import const, op
from eutectic.relax.dpl import (
    PatternContext,
    is_call_dps_packed,
    is_const,
    is_op,
    is_tuple,
    is_var,
    wildcard,
)
from eutectic.relax.expr import BindingBlock, Call, DataflowBlock, DataflowVar, Var, VarBinding
from eutectic.relax.struct_info import FuncStructInfo, TensorStructInfo
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import graph


def block(mod: IRModule) -> Any:
    return mod["main"].body.blocks[0]


def names(found: Any, *patterns: Any) -> list[str]:
    return [found[p].name_hint for p in patterns]


def relu():
    return is_op("relax.nn.relu")(wildcard(), add_constraint=False)


def tanh():
    return is_op("relax.tanh")(wildcard(), add_constraint=False)


def add():
    return is_op("relax.add")(wildcard(), wildcard(), add_constraint=False)


def chain(bb, x):
    """lv = relu(x); lv1 = tanh(lv); lv2 = relu(lv1); lv3 = tanh(lv2)"""
    for step in (op.nn.relu, op.tanh, op.nn.relu, op.tanh):
        x = bb.emit(step(x))
    return x


def diamond(bb, x):
    """lv = exp(x); lv1 = relu(lv); lv2 = tanh(lv); lv3 = add(lv1, lv2)"""
    top = bb.emit(op.exp(x))
    left, right = bb.emit(op.nn.relu(top)), bb.emit(op.tanh(top))
    return bb.emit(op.add(left, right))


def test_the_first_match_in_program_order_is_found():
    with PatternContext() as ctx:
        a, b = relu(), tanh()
        a >> b
    found = ctx.match_dfb(block(graph({"x": (2, 3)}, chain)))
    assert names(found, a, b) == ["lv", "lv1"]
    assert list(found) == [a, b]


def test_a_place_that_does_not_fit_further_on_is_given_up():
    with PatternContext() as ctx:
        a, b = tanh(), relu()
        c = tanh()
        b >> c
        a >> b  # `b` is tried at lv first, which no tanh precedes
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, chain))), a, b, c) == ["lv1", "lv2", "lv3"]


def test_a_diamond():
    with PatternContext() as ctx:
        top, left, right, join = is_op("relax.exp")(wildcard(), add_constraint=False), relu(), tanh(), add()
        top.fork_to(left, right)
        left >> join
        right >> join
    found = ctx.match_dfb(block(graph({"x": (2, 3)}, diamond)))
    assert names(found, top, left, right, join) == ["lv", "lv1", "lv2", "lv3"]


def test_only_used_by_means_one_reader():
    top = is_op("relax.exp")(wildcard())
    for relate, matches in ((top.used_by, True), (top.only_used_by, False)):
        with PatternContext() as ctx:
            relate(relu())
        assert (ctx.match_dfb(block(graph({"x": (2, 3)}, diamond))) is not None) is matches


def test_an_output_is_read_outside_of_the_block():
    def body(bb, x):
        mid = bb.emit_output(op.nn.relu(x))
        return [bb.emit(op.tanh(mid)), mid]

    with PatternContext() as only:
        relu() >> tanh()
    with PatternContext() as among_others:
        relu() ^ tanh()
    dfb = block(graph({"x": (2, 3)}, body))
    assert only.match_dfb(dfb) is None
    assert among_others.match_dfb(dfb) is not None


def test_every_pattern_has_a_variable_of_its_own():
    with PatternContext() as ctx:
        join = add()
        left, right = relu(), relu()
        left ^ join
        right ^ join
    twice = graph({"x": (2, 3)}, lambda bb, x: op.add(v := bb.emit(op.nn.relu(x)), v))
    two = graph({"x": (2, 3), "y": (2, 3)}, lambda bb, x, y: op.add(op.nn.relu(x), op.nn.relu(y)))
    assert ctx.match_dfb(block(twice)) is None
    assert names(ctx.match_dfb(block(two)), left, right, join) == ["lv", "lv1", "gv"]


def test_other_names_of_a_variable_are_not_variables_of_their_own():
    with PatternContext() as ctx:
        relu() ^ add()
        relu() ^ add()
    # `gv = lv1` is how the builder binds an output that has a variable already.
    dfb = block(graph({"x": (2, 3)}, lambda bb, x: bb.emit(op.nn.relu(x))))
    assert isinstance(dfb.bindings[-1].value, Var)
    assert ctx.match_dfb(dfb) is None


@pytest.mark.parametrize("index", [0, 1])
def test_an_index_fixes_the_position(index: int):
    with PatternContext() as ctx:
        join = is_op("relax.subtract")(wildcard(), wildcard(), add_constraint=False)
        relu().used_by(join, index)
    left = graph({"x": (2, 3), "y": (2, 3)}, lambda bb, x, y: op.subtract(op.nn.relu(x), y))
    right = graph({"x": (2, 3), "y": (2, 3)}, lambda bb, x, y: op.subtract(y, op.nn.relu(x)))
    assert [ctx.match_dfb(block(mod)) is not None for mod in (left, right)] == [index == 0, index == 1]


def test_positions_of_external_calls_count_the_fields_of_their_argument_tuple():
    def body(bb, x, y):
        first, second = bb.emit(op.exp(x)), bb.emit(op.tanh(y))
        return op.call_dps_packed("f", (first, second), TensorStructInfo((2, 3), "float32"))

    dfb = block(graph({"x": (2, 3), "y": (2, 3)}, body))
    for index, matches in ((0, False), (1, True), (2, False)):
        with PatternContext() as ctx:
            tanh().used_by(is_call_dps_packed("f"), index)
        assert (ctx.match_dfb(dfb) is not None) is matches


def test_calls_built_inside_relate_their_arguments():
    with PatternContext() as ctx:
        x, y = wildcard(), wildcard()
        q, k = is_op("relax.matmul")(x, y), is_op("relax.matmul")(x, wildcard())
        join = is_op("relax.add")(q, k)

    def shared(bb, a, b, c):
        return op.add(op.matmul(a, b), op.matmul(a, c))

    def apart(bb, a, b, c):
        return op.add(op.matmul(a, b), op.matmul(b, c))

    params = {"a": (2, 2), "b": (2, 2), "c": (2, 2)}
    assert names(ctx.match_dfb(block(graph(params, shared))), x, y, q, k, join) == ["a", "b", "lv", "lv1", "gv"]
    assert ctx.match_dfb(block(graph(params, apart))) is None


def test_a_pattern_shared_below_others_is_one_value():
    w = wildcard()
    with PatternContext() as ctx:
        left = is_op("relax.matmul")(wildcard(), w, add_constraint=False)
        right = is_op("relax.matmul")(wildcard(), w, add_constraint=False)
        join = add()
        left ^ join
        right ^ join

    params = {"a": (2, 2), "b": (2, 2), "c": (2, 2)}
    same = graph(params, lambda bb, a, b, c: op.add(op.matmul(a, c), op.matmul(b, c)))
    other = graph(params, lambda bb, a, b, c: op.add(op.matmul(a, c), op.matmul(b, a)))
    assert ctx.match_dfb(block(same)) is not None
    assert ctx.match_dfb(block(other)) is None


def test_parameters_take_part():
    with PatternContext() as ctx:
        x, first, second = is_var("x"), relu(), tanh()
        x.fork_to(first, second)
    params = {"x": (2, 3), "y": (2, 3)}
    assert ctx.match_dfb(block(graph(params, lambda bb, x, y: op.add(op.nn.relu(x), op.tanh(y))))) is None
    found = ctx.match_dfb(block(graph(params, lambda bb, x, y: op.add(op.nn.relu(x), op.tanh(x)))))
    assert names(found, x) == ["x"]


def test_a_constant_operand_comes_as_it_is():
    weight = const(np.ones((3, 3), "float32"))
    with PatternContext() as ctx:
        w = is_const()
        product = is_op("relax.matmul")(wildcard(), w)
        product >> relu()
    found = ctx.match_dfb(block(graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.matmul(x, weight)))))
    assert found[w] is weight
    assert ctx.match_dfb(block(graph({"x": (2, 3), "y": (3, 3)}, lambda bb, x, y: op.nn.relu(op.matmul(x, y))))) is None


def test_conditions_on_a_pattern_share_its_variable():
    with PatternContext() as ctx:
        x = wildcard()
        first = is_op("relax.nn.relu")(x).has_dtype("float32").has_attr({})
        first >> tanh()
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, chain))), x, first) == ["x", "lv"]
    assert ctx.match_dfb(block(graph({"x": ((2, 3), "float16")}, chain))) is None


def test_one_side_of_an_alternative_is_enough():
    with PatternContext() as ctx:
        either = is_op("relax.exp")(wildcard()) | is_op("relax.tanh")(wildcard())
        either >> relu()
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, chain))), either) == ["lv1"]
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.exp(x))))), either) == ["lv"]


def test_shapes_of_several_patterns_agree():
    params = {"x": (2, 3), "y": (1, 3), "z": (2, 3)}
    with PatternContext() as ctx:
        a, b, join = is_var(), is_var(), add()
        a.used_by(join, 0)
        b.used_by(join, 1)
        a.same_shape_as(b)
    assert ctx.match_dfb(block(graph(params, lambda bb, x, y, z: op.add(x, y)))) is None
    found = ctx.match_dfb(block(graph(params, lambda bb, x, y, z: op.multiply(op.add(x, y), op.add(x, z)))))
    assert names(found, a, b, join) == ["x", "z", "lv1"]


def test_a_variable_that_nobody_reads_only_matches_as_a_reader():
    with PatternContext() as ctx:
        alone, other = relu(), tanh()
        alone.same_shape_as(other)
    both = graph({"x": (2, 3)}, lambda bb, x: op.add(op.nn.relu(x), op.tanh(x)))
    assert names(ctx.match_dfb(block(both)), alone, other) == ["lv", "lv1"]

    def unread(bb, x):
        bb.emit(op.nn.relu(x))
        return op.exp(op.tanh(x))

    assert ctx.match_dfb(block(graph({"x": (2, 3)}, unread))) is None


def test_fields_and_tuples():
    with PatternContext() as ctx:
        pair, item = is_tuple([wildcard(), wildcard()]), wildcard()
        pair.used_by(item)
        item >> relu()
    dfb = block(graph({"x": (2, 4)}, lambda bb, x: op.nn.relu(bb.emit(bb.emit(op.split(x, 2, axis=1))[0]))))
    assert ctx.match_dfb(dfb) is None  # the tuple is a call here
    with PatternContext() as ctx:
        split, item = is_op("relax.split")(wildcard()), wildcard()
        split.used_by(item, 0)
        item >> relu()
    assert ctx.match_dfb(dfb) is not None


def test_hints_prefer_and_demand():
    dfb = block(graph({"x": (2, 3)}, chain))
    with PatternContext() as ctx:
        a, b = relu(), tanh()
        a >> b
    late, early = dfb.bindings[3].var, dfb.bindings[0].var
    x = dfb.bindings[0].value.args[0]
    assert names(ctx.match_dfb(dfb, late), a, b) == ["lv2", "lv3"]
    assert names(ctx.match_dfb(dfb, early, must_include_hint=True), a, b) == ["lv", "lv1"]
    assert names(ctx.match_dfb(dfb, x), a, b) == ["lv", "lv1"]
    assert ctx.match_dfb(dfb, x, must_include_hint=True) is None


def test_an_incremental_context_has_the_outer_edges_too():
    with PatternContext() as outer:
        a, b = relu(), tanh()
        a >> b
        with PatternContext(incremental=True) as inner:
            b >> is_op("relax.exp")(wildcard(), add_constraint=False)
    dfb = block(graph({"x": (2, 3)}, chain))
    assert outer.match_dfb(dfb) is not None
    assert inner.match_dfb(dfb) is None


def test_nothing_to_look_for_is_not_found():
    assert PatternContext().match_dfb(block(graph({"x": (2, 3)}, chain))) is None


def test_wrong_arguments_are_refused():
    with PatternContext() as ctx:
        relu() >> tanh()
    dfb = block(graph({"x": (2, 3)}, chain))
    with pytest.raises(TypeError, match="match_dfb takes a DataflowBlock, got BindingBlock"):
        ctx.match_dfb(BindingBlock(dfb.bindings))
    with pytest.raises(TypeError, match="start_hint must be a variable, got str"):
        ctx.match_dfb(dfb, "lv")
    with pytest.raises(PatternError, match="must_include_hint needs a start_hint"):
        ctx.match_dfb(dfb, must_include_hint=True)


def by_hand(*steps: tuple[Var, Any]) -> DataflowBlock:
    return DataflowBlock(tuple(VarBinding(var, value) for var, value in steps))


def test_another_name_of_a_value_is_that_value():
    info = TensorStructInfo((2, 3), "float32")
    x, out = Var("x", info), Var("out", info)
    a, b, c, d = (DataflowVar(name, info) for name in "abcd")
    with PatternContext() as ctx:
        first, second = relu(), tanh()
        first >> second
    dfb = by_hand((a, op.nn.relu(x)), (b, a), (c, b), (d, op.tanh(c)), (out, op.exp(d)))
    assert names(ctx.match_dfb(dfb), first, second) == ["a", "d"]
    # The same, but one of the names is an output.
    assert ctx.match_dfb(by_hand((a, op.nn.relu(x)), (out, a), (d, op.tanh(out)))) is None


def test_shapes_of_parts_that_have_no_variable_agree_too():
    with PatternContext() as ctx:
        a, b = wildcard(), wildcard()
        join = is_op("relax.add")(a, b, add_constraint=False)
        join >> tanh()
        a.same_shape_as(b)
    params = {"x": (2, 3), "y": (1, 3), "z": (2, 3)}
    sums = [graph(params, lambda bb, x, y, z, i=i: op.tanh(op.add(x, (y, z)[i]))) for i in (0, 1)]
    with PatternContext() as free:
        is_op("relax.add")(a, b, add_constraint=False) >> tanh()
    assert free.match_dfb(block(sums[0])) is not None
    assert [ctx.match_dfb(block(mod)) is not None for mod in sums] == [False, True]
    with PatternContext() as last:
        is_var("x") ^ is_op("relax.add")(a, b, add_constraint=False)
        a.same_shape_as(b)
    assert [last.match_dfb(block(mod)) is not None for mod in sums] == [False, True]


def test_a_search_without_operators_starts_at_a_reader():
    with PatternContext() as ctx:
        number, reader = is_const(), wildcard()
        number ^ reader
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, lambda bb, x: op.add(x, const(1.0))))), reader) == ["gv"]
    assert ctx.match_dfb(block(graph({"x": (2, 3)}, chain))) is None


def test_several_conditions_on_one_pattern_are_related_to_others():
    with PatternContext() as ctx:
        typed = relu().has_dtype("float32")
        both = typed.has_attr({})
        after = tanh()
        typed ^ after
        both ^ after
    assert names(ctx.match_dfb(block(graph({"x": (2, 3)}, chain))), typed, both, after) == ["lv", "lv", "lv1"]


def test_a_callee_is_read_too():
    info = TensorStructInfo((2, 3), "float32")
    f, x, out = Var("f", FuncStructInfo((info,), info)), Var("x", info), Var("out", info)
    with PatternContext() as ctx:
        callee, result = is_var("f"), wildcard()
        callee ^ result
    assert names(ctx.match_dfb(by_hand((out, Call(f, (x,), struct_info=info)))), result) == ["out"]


# ---- against a search that tries everything

UNARY = {"relax.nn.relu": op.nn.relu, "relax.tanh": op.tanh}


@st.composite
def programs(draw: st.DrawFn) -> IRModule:
    steps = draw(st.lists(st.tuples(st.sampled_from([*UNARY, "relax.add"]), st.integers(0, 9), st.integers(0, 9))))

    def body(bb, x):
        values = [x]
        for name, i, j in steps[:6]:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(bb.emit(op.add(a, b) if name == "relax.add" else UNARY[name](a)))
        return bb.emit(op.exp(values[-1]))

    return graph({"x": (2,)}, body)


@given(
    programs(),
    st.lists(st.sampled_from([*UNARY, "relax.add"]), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1, 0, 1]), st.booleans()), max_size=3),
)
def test_the_search_finds_a_match_exactly_when_there_is_one(mod: IRModule, ops: list[str], links: list[Any]):
    count = len(ops)
    links = [(0, 1, -1, False), *((p % count, c % count, i, only) for p, c, i, only in links if p % count != c % count)]
    if len({end for link in links for end in link[:2]}) < count:
        links.append((1, 2, -1, False))
    with PatternContext() as ctx:
        patterns = [is_op(name)(varg_default_wildcard=True) for name in ops]
        for producer, consumer, index, only in links:
            relate = patterns[producer].only_used_by if only else patterns[producer].used_by
            relate(patterns[consumer], index)
    dfb = block(mod)
    calls = {b.var: b.value for b in dfb.bindings if isinstance(b.value, Call)}
    readers = {v: [r for r, c in calls.items() if any(a is v for a in c.args)] for v in calls}
    final = dfb.bindings[-1].value

    def holds(chosen: tuple[Var, ...]) -> bool:
        return all(calls[v].op.name == name for v, name in zip(chosen, ops, strict=True)) and all(
            any(a is chosen[p] and i in (-1, k) for k, a in enumerate(calls[chosen[c]].args))
            and (not only or (len(readers[chosen[p]]) == 1 and chosen[p] is not final))
            for p, c, i, only in links
        )

    found = ctx.match_dfb(dfb)
    assert (found is not None) is any(map(holds, permutations(calls, count)))
    if found is not None:
        assert holds(tuple(found[p] for p in patterns))
