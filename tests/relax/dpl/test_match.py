"""The pattern language: what each pattern matches, and what a match gives back."""

from __future__ import annotations

import pytest

from eutectic.relax import const, op
from eutectic.relax.analysis import get_var2val
from eutectic.relax.dpl import (
    PatternContext,
    is_const,
    is_dfv,
    is_expr,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    wildcard,
)
from eutectic.relax.dpl.match import required_ops
from eutectic.relax.expr import Call, DataflowVar, Tuple, TupleGetItem, Var
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import PatternError
from eutectic.testing.graphs import graph, weights

X, Y = Var("x", TensorStructInfo((2, 3))), Var("y", TensorStructInfo((2, 3)))


def test_a_call_matches_operator_and_operands():
    assert is_op("relax.nn.relu")(wildcard()).match(op.nn.relu(X))
    assert not is_op("relax.nn.relu")(wildcard()).match(op.tanh(X))
    assert not is_op("relax.nn.relu")(is_const()).match(op.nn.relu(X))


def test_the_number_of_operands_is_exact_unless_the_rest_is_wild():
    clip = op.clip(X, 0, 6)
    assert not is_op("relax.clip")(wildcard()).match(clip)
    assert is_op("relax.clip")(wildcard(), varg_default_wildcard=True).match(clip)
    assert is_op("relax.clip")(wildcard(), wildcard(), wildcard()).match(clip)


@pytest.mark.parametrize(
    ("name", "commutes"), [("add", True), ("multiply", True), ("subtract", False), ("divide", False)]
)
def test_only_add_and_multiply_commute(name: str, commutes: bool):
    pattern = is_op(f"relax.{name}")(is_const(), wildcard())
    assert pattern.match(getattr(op, name)(X, const(1.0))) is commutes


def test_multiply_and_divide_are_not_reassociated():
    a, b, c = wildcard(), wildcard(), wildcard()
    pattern = is_op("relax.divide")(is_op("relax.multiply")(a, b), c)
    assert pattern.match(op.divide(op.multiply(X, Y), X))
    assert not pattern.match(op.multiply(X, op.divide(Y, X)))


def test_one_pattern_used_twice_means_the_same_object():
    x = wildcard()
    double = is_op("relax.add")(x, x)
    assert double.match(op.add(X, X))
    assert not double.match(op.add(X, Y))


def test_variables_are_looked_through_and_values_are_given_back():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.tanh(x)))
    values = get_var2val(mod["main"])
    root = next(v for v in values.values() if isinstance(v, Call) and v.op.name == "relax.nn.relu")
    inner, source = is_op("relax.tanh"), wildcard()
    call = inner(source)
    found = is_op("relax.nn.relu")(call).extract_matched_expr(root, values)
    assert found is not None
    assert isinstance(found[call], Call)
    assert found[source] is mod["main"].params[0]
    assert not is_op("relax.nn.relu")(call).match(root)  # without the values a variable is itself


def test_var_patterns_do_not_look_through():
    lv = DataflowVar("lv", TensorStructInfo((2, 3)))
    values = {lv: op.tanh(X)}
    assert is_var("lv").match(lv, values)
    assert is_dfv().match(lv, values)
    assert not is_dfv().match(X)
    assert is_op("relax.tanh")(wildcard()).match(lv, values)


def test_alternatives_negation_and_conjunction():
    relu, tanh = is_op("relax.nn.relu")(wildcard()), is_op("relax.tanh")(wildcard())
    either = relu | tanh
    assert either.match(op.nn.relu(X))
    assert either.match(op.tanh(X))
    assert not either.match(op.exp(X))
    assert (~relu).match(op.tanh(X))
    assert not (~relu).match(op.nn.relu(X))
    assert (wildcard() & relu).match(op.nn.relu(X))
    assert not (tanh & relu).match(op.nn.relu(X))


def test_a_failed_alternative_leaves_nothing_behind():
    shared = wildcard()
    left = is_op("relax.add")(shared, is_const())
    right = is_op("relax.add")(wildcard(), shared)
    found = (left | right).extract_matched_expr(op.add(X, Y))
    assert found is not None
    assert found[shared] is X or found[shared] is Y
    assert left not in found


def test_a_later_failure_tries_the_other_alternative():
    a, b = wildcard(), wildcard()
    # The first order of the inner add fits on its own, but only the second agrees with the outer operand.
    pattern = is_op("relax.add")(is_op("relax.multiply")(a, b), b)
    assert pattern.match(op.add(op.multiply(Y, X), Y))


def test_properties_of_values():
    p = wildcard()
    assert p.has_dtype("float32").match(X)
    assert not p.has_dtype("float16").match(X)
    assert p.has_shape((2, 3)).match(X)
    assert not p.has_shape((3, 2)).match(X)
    assert p.has_struct_info(TensorStructInfo(None, "float32", ndim=2)).match(X)
    assert not p.has_struct_info(TensorStructInfo((2, 4))).match(X)
    assert is_expr(const(1.0)).match(const(1.0))
    assert not is_expr(const(1.0)).match(const(2.0))


def test_attributes_of_calls():
    conv = op.nn.conv2d(Var("d", TensorStructInfo((1, 3, 8, 8))), weights(4, 3, 3, 3), strides=(2, 2))
    base = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    assert base.has_attr({"strides": [2, 2], "data_layout": "NCHW"}).match(conv)
    assert not base.has_attr({"strides": [1, 1]}).match(conv)
    assert not base.has_attr({"nothing": 1}).match(conv)


def test_tuples_and_fields():
    pair = Tuple((op.tanh(X), op.exp(X)))
    tanh, exp = is_op("relax.tanh")(wildcard()), is_op("relax.exp")(wildcard())
    assert is_tuple([tanh, exp]).match(pair)
    assert not is_tuple([exp, tanh]).match(pair)
    assert is_tuple([exp, tanh], unordered=True).match(pair)
    assert not is_tuple([exp, exp], unordered=True).match(pair)
    item = TupleGetItem(pair, 1)
    assert is_tuple_get_item(wildcard(), 1).match(item)
    assert is_tuple_get_item(wildcard()).match(item)
    assert not is_tuple_get_item(wildcard(), 0).match(item)


def test_shape_literals():
    reshape = op.reshape(X, (3, 2))
    assert is_op("relax.reshape")(wildcard(), is_shape((3, 2))).match(reshape)
    assert not is_op("relax.reshape")(wildcard(), is_shape((6,))).match(reshape)


def test_operators_a_match_must_contain():
    relu, tanh = is_op("relax.nn.relu")(wildcard()), is_op("relax.tanh")(wildcard())
    assert required_ops(is_op("relax.add")(relu, tanh)) == {"relax.add", "relax.nn.relu", "relax.tanh"}
    assert required_ops(relu | tanh) == frozenset()
    assert required_ops(wildcard()) == frozenset()


def test_use_constraints_are_recorded_in_a_context():
    with PatternContext() as context:
        a, b = wildcard(), is_op("relax.nn.relu")(wildcard())
        a >> b
    assert [(only, index) for _, _, index, only in context.edges] == [(False, 0), (True, -1)]
    with pytest.raises(PatternError, match="same_shape_as needs a PatternContext"):
        wildcard().same_shape_as(wildcard())


# ---- bias patterns


def conv(bias_shape: tuple[int, ...], channels: int = 8):
    """A convolution to 8x8 pixels whose result is added to a reshaped vector."""
    data = Var("d", TensorStructInfo((1, 3, 8, 8)))
    vector = Var("b", TensorStructInfo((channels,)))
    return op.nn.relu(op.add(op.nn.conv2d(data, weights(channels, 3, 1, 1)), op.reshape(vector, bias_shape)))


@pytest.mark.parametrize(
    ("shape", "is_bias"),
    [((1, 8, 1, 1), True), ((8, 1, 1), True), ((1, 1, 8, 1), False), ((1, 1, 1, 8), False), ((8,), False)],
)
def test_a_reshape_is_a_bias_only_on_the_channel_axis(shape: tuple[int, ...], is_bias: bool):
    pattern = make_fused_bias_activation_pattern("relax.nn.conv2d", True, "relax.nn.relu", allow_reshape=True)
    assert pattern.match(conv(shape)) is is_bias


def test_a_value_per_sample_is_not_a_bias():
    data = Var("d", TensorStructInfo((8, 3, 8, 8)))
    added = op.add(op.nn.conv2d(data, weights(8, 3, 1, 1)), Var("b", TensorStructInfo((8, 1, 1, 1))))
    assert not make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True).match(added)


def test_a_residual_is_not_a_bias():
    data = Var("d", TensorStructInfo((1, 8, 4, 4)))
    added = op.add(op.nn.conv2d(data, weights(8, 8, 1, 1)), data)
    assert not make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True).match(added)


def test_allow_reshape_demands_the_reshape():
    pattern = make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True, allow_reshape=True)
    plain = make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True)
    data, vector = Var("d", TensorStructInfo((1, 3, 8, 8))), Var("b", TensorStructInfo((1, 8, 1, 1)))
    direct = op.add(op.nn.conv2d(data, weights(8, 3, 1, 1)), vector)
    assert plain.match(direct)
    assert not pattern.match(direct)


def test_matmul_has_its_channels_last():
    pattern = make_fused_bias_activation_pattern("relax.matmul", with_bias=True)
    x = Var("x", TensorStructInfo((4, 4)))
    assert pattern.match(op.add(op.matmul(x, weights(4, 4)), Var("b", TensorStructInfo((4,)))))
    assert not pattern.match(op.add(op.matmul(x, weights(4, 4)), Var("b", TensorStructInfo((4, 1)))))
