"""The passes that make a graph simpler: each computes the same, does what it says, and leaves alone what it must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.transform.rewriting import ops

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import BlockBuilder, TensorStructInfo, Tuple, Var, const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call, Constant
from eutectic.relax.transform import (
    BatchnormToScaleShift,
    BindParams,
    CanonicalizeBindings,
    CombinePermuteDims,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldBatchnormToConv2D,
    FoldConstant,
    FoldPadIntoConv,
    Normalize,
    RemoveIdentityOps,
)
from eutectic.support.errors import BindError
from eutectic.testing.graphs import assert_same_results, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol


def run(step, mod: IRModule, *, exact: bool = True) -> IRModule:
    """Apply a pass; the input stays, the result is well formed and computes the same."""
    text = mod.script()
    after = step(mod)
    assert mod.script() == text
    assert problems_of(after) == []
    assert_same_results(mod, after, exact=exact)
    return after


def norm(channels: int, **options):
    """A function that applies an inference batch norm along axis 1."""
    rng = np.random.default_rng(7)
    gamma, beta, mean = (const(rng.standard_normal(channels).astype("float32")) for _ in range(3))
    var = const((rng.random(channels) + 0.1).astype("float32"))
    return lambda x: op.nn.batch_norm(x, gamma, beta, mean, var, axis=1, training=False, **options)[0]


# ---- dead code, aliases, common values


def test_dead_bindings_and_functions_go():
    def body(bb, x):
        bb.emit(op.exp(x))
        return op.nn.relu(x)

    mod = graph({"x": (2,)}, body)
    mod["helper"] = mod["main"].without_attr("global_symbol")
    after = run(DeadCodeElimination(), mod)
    assert ops(after) == ["nn.relu"]
    assert [gv.name_hint for gv in after.get_global_vars()] == ["main"]
    assert DeadCodeElimination()(after) is after


def test_aliases_and_fields_of_known_tuples_go():
    def body(bb, x):
        a = bb.emit(op.nn.relu(x))
        pair = bb.emit(Tuple((a, x)))
        return op.add(bb.emit(pair[0]), bb.emit(bb.emit(pair[1])))

    after = run(CanonicalizeBindings(), graph({"x": (2,)}, body))
    assert ops(after) == ["nn.relu", "add"]
    assert len(after["main"].body.blocks[0].bindings) == 2


def test_an_output_that_is_an_alias_takes_the_place_of_its_source():
    mod = graph({"x": (2,)}, lambda bb, x: bb.emit(op.nn.relu(x)))
    after = run(CanonicalizeBindings(), mod)
    (binding,) = after["main"].body.blocks[0].bindings
    assert binding.var.name_hint == "gv"


def test_two_outputs_of_one_value_stay_two():
    def body(bb, x):
        a = bb.emit(op.nn.relu(x))
        return [a, a]

    after = run(CanonicalizeBindings(), graph({"x": (2,)}, body))
    assert len(evaluate(after, np.ones(2, "float32"))) == 2


def test_an_output_that_is_a_parameter_is_kept():
    run(CanonicalizeBindings(), graph({"x": (2,)}, lambda bb, x: [x, op.nn.relu(x)]))


def test_equal_values_are_computed_once():
    def body(bb, x):
        return op.add(bb.emit(op.tanh(op.add(x, const(1.0)))), bb.emit(op.tanh(op.add(x, const(1.0)))))

    after = run(EliminateCommonSubexpr(), graph({"x": (2,)}, body))
    assert ops(after) == ["add", "tanh", "add"]


def test_values_with_other_options_are_not_equal():
    def body(bb, x):
        return op.add(op.nn.softmax(x, axis=0), op.nn.softmax(x, axis=1))

    assert len(ops(run(EliminateCommonSubexpr(), graph({"x": (2, 2)}, body)))) == 3


def test_values_of_other_symbols_are_not_equal():
    a, b = SizeSymbol("a", "int64"), SizeSymbol("b", "int64")

    def body(bb, x):
        made = [op.arange(a), op.arange(b), op.arange(a), op.zeros((a, b), "float32"), op.zeros((b, a), "float32")]
        return [op.negative(value) for value in map(bb.emit, made)]

    after = EliminateCommonSubexpr()(graph({"x": (a, b)}, body))
    assert ops(after) == ["arange", "arange", "zeros", "zeros", *["negative"] * 5]


def test_functions_put_together_by_hand_are_brought_into_normal_form():
    from eutectic.relax.expr import BindingBlock, Function, SeqExpr, VarBinding

    x, out = Var("x", TensorStructInfo((2,))), Var("out", TensorStructInfo((2,)))
    body = SeqExpr((BindingBlock((VarBinding(out, op.nn.relu(op.tanh(x))),)),), out)
    mod = IRModule({"main": Function([x], body, attrs={"global_symbol": "main"})})
    assert problems_of(mod) == ["main: an argument of out is a nested Call"]
    assert problems_of(Normalize()(mod)) == []


@pytest.mark.parametrize(
    "body",
    [
        lambda bb, x: op.nn.adaptive_avg_pool2d(x, (4, 4)),
        lambda bb, x: op.reshape(x, (2, 4, 4, 4)),
        lambda bb, x: op.permute_dims(x, [0, 1, 2, 3]),
        lambda bb, x: op.astype(x, "float32"),
        lambda bb, x: op.broadcast_to(x, (2, 4, 4, 4)),
        lambda bb, x: op.nn.pad(x, (0,) * 8),
    ],
)
def test_identities_go(body):
    after = run(RemoveIdentityOps(), graph({"x": (2, 4, 4, 4)}, lambda bb, x: op.nn.relu(body(bb, x))))
    assert ops(after) == ["nn.relu"]


@pytest.mark.parametrize(
    "body",
    [
        lambda bb, x: op.permute_dims(x, [0, 2, 1, 3]),
        lambda bb, x: op.permute_dims(x),
        lambda bb, x: op.nn.adaptive_avg_pool2d(x, (2, 2)),
        lambda bb, x: op.add(x, const(0.0)),
        lambda bb, x: op.multiply(x, const(1.0)),
        lambda bb, x: op.reshape(x, (4, 2, 4, 4)),
    ],
)
def test_what_only_looks_like_an_identity_stays(body):
    mod = graph({"x": (2, 4, 4, 4)}, body)
    assert run(RemoveIdentityOps(), mod) is mod


# ---- permutations


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=5), st.booleans())
def test_permutations_in_a_row_are_one_or_none(orders, negative: bool):
    def body(bb, x):
        for order in orders:
            axes = [axis - 4 for axis in order] if negative else order
            x = bb.emit(op.permute_dims(x, None if order == [3, 2, 1, 0] else axes))
        return op.nn.relu(x)

    mod = graph({"x": (2, 3, 4, 5)}, body)
    after = run(CombinePermuteDims(), mod)
    whole = np.arange(4)
    for order in orders:
        whole = whole[list(order)]
    if len(orders) == 1:
        assert after is mod
    else:
        assert ops(after) == (["nn.relu"] if list(whole) == [0, 1, 2, 3] else ["permute_dims", "nn.relu"])


def test_a_permutation_that_others_read_stays():
    def body(bb, x):
        first = bb.emit(op.permute_dims(x, [1, 0]))
        return op.add(bb.emit(op.permute_dims(first, [1, 0])), op.reshape(bb.emit(op.exp(first)), (2, 3)))

    after = run(CombinePermuteDims(), graph({"x": (2, 3)}, body))
    assert ops(after) == ["permute_dims", "exp", "reshape", "add"]


def test_permutations_between_other_operators_stay():
    mod = graph({"x": (2, 3)}, lambda bb, x: op.permute_dims(bb.emit(op.exp(bb.emit(op.permute_dims(x))))))
    assert run(CombinePermuteDims(), mod) is mod


# ---- constants


def test_what_depends_on_constants_only_is_folded():
    mod = graph({"x": (1, 4)}, lambda bb, x: op.matmul(x, op.permute_dims(weights(3, 4))))
    after = run(FoldConstant(), mod)
    assert ops(after) == ["matmul"]
    call = next(iter(get_var2val(after["main"]).values()))
    assert isinstance(call, Call)
    assert isinstance(call.args[1], Constant)


def test_folding_keeps_dtypes():
    mod = graph(
        {"x": ((2,), "bool")}, lambda bb, x: op.logical_and(x, op.greater(const([1.0, 2.0]), const([1.5, 1.5])))
    )
    assert run(FoldConstant(), mod)["main"].ret_struct_info == TensorStructInfo((2,), "bool")


def test_what_would_grow_too_much_is_not_folded():
    mod = graph({"x": (64, 64)}, lambda bb, x: op.add(x, op.broadcast_to(const(1.0), (64, 64))))
    with PassContext(config={"relax.FoldConstant.max_bytes": 1024}):
        assert ops(FoldConstant()(mod)) == ["broadcast_to", "add"]
    assert ops(run(FoldConstant(), mod)) == ["add"]


def test_folding_through_a_tuple():
    mod = graph({"x": (2,)}, lambda bb, x: op.add(x, bb.emit(op.split(const([1.0, 2.0, 3.0, 4.0]), 2))[1]))
    assert ops(run(FoldConstant(), mod)) == ["add"]


# ---- parameters


def test_bound_parameters_disappear_and_sizes_follow():
    n, m = SizeSymbol("n", "int64"), SizeSymbol("m", "int64")
    mod = graph({"x": (n, m), "w": (m, 3)}, lambda bb, x, w: op.matmul(x, w))
    bound = BindParams("main", {"w": weights(4, 3)})(mod)
    assert problems_of(bound) == []
    (param,) = bound["main"].params
    assert param.struct_info == TensorStructInfo((n, 4))
    assert bound["main"].ret_struct_info == TensorStructInfo((n, 3))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"w": np.zeros((5, 3), "int32")},
            r'parameter w is R.Tensor\(\(2, 3\), "float32"\), the value is R.Tensor\(\(5, 3\), "int32"\)',
        ),
        ({"w": np.zeros((2, 3, 1), "float32")}, "the value is"),
        ({"w": np.zeros((2, 4), "float32")}, "the value is"),
        ({"v": np.zeros((2, 3), "float32")}, r"no parameter 'v'; the function has: x, w"),
        ({"w": 3}, "cannot be bound to a int"),
    ],
    ids=["dtype", "rank", "size", "name", "kind"],
)
def test_values_that_do_not_fit_are_refused(params, message):
    mod = graph({"x": (1, 2), "w": (2, 3)}, lambda bb, x, w: op.matmul(x, w))
    with pytest.raises(BindError, match=message):
        BindParams("main", params)(mod)


def test_two_constants_that_disagree_on_a_size_are_refused():
    n = SizeSymbol("n", "int64")
    mod = graph({"a": (n,), "b": (n,)}, lambda bb, a, b: op.add(a, b))
    with pytest.raises(BindError, match="parameter b is"):
        BindParams("main", {"a": np.zeros(2, "float32"), "b": np.zeros(3, "float32")})(mod)


def test_an_unknown_function_is_refused():
    with pytest.raises(BindError, match=r"no function 'mian' to bind parameters of; the module has: main"):
        BindParams("mian", {})(graph({"x": (2,)}, lambda bb, x: op.nn.relu(x)))


def test_binding_by_variable_twice_is_refused():
    mod = graph({"x": (2,)}, lambda bb, x: op.nn.relu(x))
    x = mod["main"].params[0]
    with pytest.raises(BindError, match="bound twice"):
        mod["main"].bind_params({x: np.zeros(2, "float32"), "x": np.zeros(2, "float32")})
    with pytest.raises(BindError, match="no symbolic size 'k'"):
        mod["main"].bind_symbolic_vars({"k": 3})


# ---- batch norm


CONVS = {
    "conv1d": ((2, 4, 9), (6, 4, 3), {}),
    "conv2d": ((2, 4, 6, 7), (6, 4, 3, 3), {"padding": 1}),
    "conv2d_grouped": ((2, 4, 6, 7), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    "conv3d": ((1, 4, 4, 4, 4), (6, 4, 2, 2, 2), {}),
    "conv2d_transpose": ((2, 4, 5, 5), (4, 6, 3, 3), {"strides": 2}),
    "conv2d_transpose_grouped": ((2, 4, 5, 5), (4, 3, 3, 3), {"groups": 2}),
}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("case", CONVS)
def test_batch_norm_is_folded_into_convolutions(case: str, with_bias: bool):
    data, weight, options = CONVS[case]
    conv = getattr(op.nn, case.removesuffix("_grouped"))

    def body(bb, x):
        out = conv(x, weights(*weight), **options)
        if with_bias:
            out = op.add(out, op.reshape(weights(6), (1, 6, *[1] * (len(data) - 2))))
        return norm(6)(out)

    after = run(FoldBatchnormToConv2D(), graph({"x": data}, body), exact=False)
    assert ops(after) == [f"nn.{case.removesuffix('_grouped')}", "add"]


def keeps(body) -> None:
    """The pass leaves the batch norm alone."""
    mod = graph({"x": (2, 4, 4, 4)}, body)
    assert "nn.batch_norm" in ops(run(FoldBatchnormToConv2D(), mod))


def test_batch_norm_of_a_shared_convolution_stays():
    def body(bb, x):
        conv = bb.emit(op.nn.conv2d(x, weights(4, 4, 1, 1)))
        return [norm(4)(conv), op.nn.relu(conv)]

    keeps(body)


def test_batch_norm_after_an_activation_or_a_residual_stays():
    keeps(lambda bb, x: norm(4)(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 1, 1)))))
    keeps(lambda bb, x: norm(4)(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), x)))


def test_batch_norm_whose_statistics_are_read_stays():
    rng = np.random.default_rng(0)
    stats = [const(rng.random(4).astype("float32")) for _ in range(4)]

    def body(bb, x):
        conv = op.nn.conv2d(x, weights(4, 4, 1, 1))
        whole = bb.emit(op.nn.batch_norm(conv, *stats, axis=1, training=False))
        return [whole[0], whole[1]]

    keeps(body)


def test_batch_norm_along_another_axis_stays():
    rng = np.random.default_rng(0)
    stats = [const(rng.random(4).astype("float32")) for _ in range(4)]
    keeps(lambda bb, x: op.nn.batch_norm(op.nn.conv2d(x, weights(4, 4, 1, 1)), *stats, axis=2, training=False)[0])


def test_weights_shared_by_two_convolutions_are_scaled_for_one():
    shared = weights(4, 4, 1, 1)

    def body(bb, x):
        return op.add(norm(4)(op.nn.conv2d(x, shared)), op.nn.conv2d(x, shared))

    after = run(FoldBatchnormToConv2D(), graph({"x": (2, 4, 4, 4)}, body), exact=False)
    assert "nn.batch_norm" not in ops(after)


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.1}])
def test_batch_norm_elsewhere_becomes_scale_and_shift(options):
    mod = graph({"x": (2, 4, 3, 3)}, lambda bb, x: norm(4, **options)(op.nn.relu(x)))
    after = run(BatchnormToScaleShift(), mod, exact=False)
    assert ops(after) == ["nn.relu", "multiply", "add"]


def test_zero_variance_without_epsilon_is_left_alone():
    zeros, ones = const(np.zeros(4, "float32")), const(np.ones(4, "float32"))

    def body(bb, x):
        return op.nn.batch_norm(x, ones, zeros, zeros, zeros, axis=1, epsilon=0.0, training=False)[0]

    assert ops(BatchnormToScaleShift()(graph({"x": (2, 4)}, body))) == ["nn.batch_norm"]


# ---- padding


@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.integers(0, 2),
    st.sampled_from([0.0, -0.0, 1.0]),
)
def test_zero_padding_is_folded_into_convolutions(widths: list[int], padding: int, value: float):
    top, left, bottom, right = widths

    def body(bb, x):
        padded = op.nn.pad(x, (0, 0, 0, 0, top, bottom, left, right), pad_value=value)
        return op.nn.conv2d(padded, weights(2, 3, 3, 3), padding=padding)

    after = run(FoldPadIntoConv(), graph({"x": (1, 3, 5, 6)}, body), exact=False)
    assert ops(after) == (["nn.conv2d"] if value == 0 else ["nn.pad", "nn.conv2d"])


@pytest.mark.parametrize(
    ("widths", "mode"), [((0, 0, 1, 0, 0, 0, 0, 0), "constant"), ((0, 0, 0, 0, 1, 1, 1, 1), "reflect")]
)
def test_other_padding_stays(widths, mode):
    channels = 3 + sum(widths[2:4])

    def body(bb, x):
        return op.nn.conv2d(op.nn.pad(x, widths, pad_mode=mode), weights(2, channels, 3, 3))

    assert ops(run(FoldPadIntoConv(), graph({"x": (1, 3, 5, 6)}, body))) == ["nn.pad", "nn.conv2d"]


def test_other_readers_keep_the_padded_value():
    def body(bb, x):
        padded = bb.emit(op.nn.pad(x, (0, 0, 0, 0, 1, 1, 1, 1)))
        return [op.nn.conv2d(padded, weights(2, 3, 3, 3)), op.nn.relu(padded)]

    after = run(FoldPadIntoConv(), graph({"x": (1, 3, 5, 6)}, body), exact=False)
    assert sorted(ops(after)) == ["nn.conv2d", "nn.pad", "nn.relu"]


def test_impure_calls_are_never_dropped():
    from eutectic.relax.expr import ExternFunc

    bb, x = BlockBuilder(), Var("x", TensorStructInfo((2,)))
    with bb.function("main", [x], pure=False):
        bb.emit(Call(ExternFunc("log"), [x], None, [TensorStructInfo((2,))]))
        bb.emit_func_output(x)
    assert DeadCodeElimination()(bb.get()) is bb.get()
