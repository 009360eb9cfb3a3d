"""A constant factor of each channel goes into the weights before it, and stays where that would change results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.transform.rewriting import assert_stays, ops, ops_after

from eutectic.relax import const, op
from eutectic.relax.expr import Constant
from eutectic.relax.transform import FoldScaleIntoWeights
from eutectic.testing.graphs import assert_same_results, graph, weights


def folded(shape, body) -> list[str]:
    """Names of the operators after the pass, which computes the same and leaves its input as it was."""
    mod = graph({"x": shape}, body)
    return ops_after(FoldScaleIntoWeights(), mod)


def stays(shape, body) -> None:
    """The pass finds nothing to do, and returns what it was given."""
    mod = graph({"x": shape}, body)
    assert_stays(FoldScaleIntoWeights(), mod)


def factors(*shape: int) -> Constant:
    return const(np.random.default_rng(3).uniform(0.5, 2.0, shape).astype("float32"))


ROOTS = {
    "matmul": ((2, 5, 4), (4, 6), op.matmul, {}, (6,)),
    "matmul_batched": ((2, 5, 4), (2, 4, 6), op.matmul, {}, (1, 1, 6)),
    "conv1d": ((2, 4, 9), (6, 4, 3), op.nn.conv1d, {}, (6, 1)),
    "conv2d": ((2, 4, 6, 7), (6, 4, 3, 3), op.nn.conv2d, {"padding": 1}, (1, 6, 1, 1)),
    "conv2d_grouped": ((2, 4, 6, 7), (6, 2, 3, 3), op.nn.conv2d, {"groups": 2}, (6, 1, 1)),
    "conv2d_nhwc": (
        (2, 6, 7, 4),
        (3, 3, 4, 6),
        op.nn.conv2d,
        {"data_layout": "NHWC", "kernel_layout": "HWIO"},
        (6,),
    ),
    "conv2d_transpose": ((2, 4, 5, 5), (4, 6, 3, 3), op.nn.conv2d_transpose, {"strides": 2}, (6, 1, 1)),
    "conv2d_transpose_grouped": ((2, 4, 5, 5), (4, 3, 3, 3), op.nn.conv2d_transpose, {"groups": 2}, (6, 1, 1)),
}


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("case", ROOTS)
def test_a_factor_of_each_channel_goes_into_weights_and_bias(case: str, with_bias: bool, scalar: bool):
    data, weight, root, options, channels = ROOTS[case]

    def body(bb, x):
        out = root(x, weights(*weight), **options)
        if with_bias:
            out = op.add(weights(*channels, seed=1), out)
        return op.multiply(out, const(np.float32(0.125)) if scalar else factors(*channels))

    name = case if case.startswith("conv2d_transpose") else case.split("_")[0]
    expected = name.removesuffix("_grouped") if name.startswith("conv") else "matmul"
    expected = expected if expected == "matmul" else f"nn.{expected}"
    assert folded(data, body) == [expected, *["add"] * with_bias]


@given(st.permutations(range(4)), st.permutations(range(4)), st.booleans())
def test_permuted_axes_are_followed(first, second, twice):
    where = list(first).index(3)
    if twice:
        where = list(second).index(where)

    def body(bb, x):
        out = op.permute_dims(op.add(op.matmul(x, weights(4, 5)), weights(5)), first)
        out = op.permute_dims(out, second) if twice else out
        return op.multiply(factors(*(5 if axis == where else 1 for axis in range(4))), out)

    names = folded((2, 3, 3, 4), body)
    assert names == ["matmul", "add", "permute_dims", *["permute_dims"] * twice]


def test_axes_in_reverse_order_are_followed():
    def body(bb, x):
        return op.multiply(op.permute_dims(op.matmul(x, weights(4, 5))), factors(5, 1))

    assert folded((3, 4), body) == ["matmul", "permute_dims"]


def test_a_size_that_varies_is_no_obstacle():
    from eutectic.tir import Var as SizeSymbol

    rows = SizeSymbol("n", "int64")
    mod = graph({"x": (rows, 4)}, lambda bb, x: op.multiply(op.matmul(x, weights(4, 5)), factors(5)))
    assert ops(FoldScaleIntoWeights()(mod)) == ["matmul"]


def test_weights_shared_by_two_are_scaled_for_one():
    shared = weights(4, 4)

    def body(bb, x):
        return op.add(op.multiply(op.matmul(x, shared), factors(4)), op.matmul(op.nn.relu(x), shared))

    assert folded((3, 4), body) == ["matmul", "nn.relu", "matmul", "add"]


def test_a_value_with_other_readers_keeps_its_factor():
    def product(bb, x):
        out = bb.emit(op.matmul(x, weights(4, 5)))
        return [op.multiply(out, factors(5)), op.nn.relu(out)]

    def biased(bb, x):
        out = bb.emit(op.matmul(x, weights(4, 5)))
        return [op.multiply(op.add(out, weights(5)), factors(5)), op.nn.relu(out)]

    def result(bb, x):
        out = bb.emit(op.matmul(x, weights(4, 5)))
        return [op.multiply(out, factors(5)), out]

    for body in (product, biased, result):
        stays((3, 4), body)


@pytest.mark.parametrize("shape", [(3, 1), (3, 5), (2, 1, 5)])
def test_factors_that_are_not_of_channels_stay(shape):
    stays((3, 4), lambda bb, x: op.multiply(op.matmul(x, weights(4, 5)), factors(*shape)))


def test_factors_that_enlarge_the_output_stay():
    stays((3, 4), lambda bb, x: op.multiply(op.matmul(x, weights(4, 1)), factors(5)))


def test_a_residual_or_an_activation_between_stays():
    stays((4, 4), lambda bb, x: op.multiply(op.add(op.matmul(x, weights(4, 4)), x), factors(4)))
    stays((4, 4), lambda bb, x: op.multiply(op.nn.relu(op.matmul(x, weights(4, 4))), factors(4)))
    stays((4, 4), lambda bb, x: op.multiply(op.add(op.matmul(x, weights(4, 4)), weights(4, 4)), factors(4)))


def test_weights_that_are_not_known_stay():
    stays((4, 4), lambda bb, x: op.multiply(op.matmul(x, op.nn.relu(x)), factors(4)))
    stays((4, 4), lambda bb, x: op.multiply(op.matmul(weights(4, 4), x), factors(4)))


@pytest.mark.parametrize("factor", [np.inf, np.nan, 1e38, 1e-38, 0.0])
@pytest.mark.parametrize("of_bias", [False, True])
def test_scaled_numbers_that_lose_digits_are_not_made(factor: float, of_bias: bool):
    big, plain = const(np.full((4, 4), 64.0, "float32")), const(np.full((4, 4), 1e-3, "float32"))
    bias = const(np.full(4, {1e38: 64.0}.get(factor, 0.5), "float32"))
    weight = big if factor == 1e38 and not of_bias else plain

    def body(bb, x):
        out = op.matmul(x, weight)
        return op.multiply(op.add(out, bias) if of_bias else out, const(np.full(4, factor, "float32")))

    stays((2, 4), body)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_other_dtypes_stay(dtype: str):
    weight, scale = np.ones((4, 4), dtype), const(np.full(4, 2, dtype))
    mod = graph({"x": (2, 4)}, lambda bb, x: op.multiply(op.matmul(op.astype(x, dtype), const(weight)), scale))
    assert FoldScaleIntoWeights()(mod) is mod


def test_weights_in_float64_are_folded():
    mod = graph(
        {"x": (2, 4)},
        lambda bb, x: op.multiply(
            op.matmul(op.astype(x, "float64"), const(np.eye(4), "float64")), const(np.full(4, 3.0), "float64")
        ),
    )
    after = FoldScaleIntoWeights()(mod)
    assert ops(after) == ["astype", "matmul"]
    assert_same_results(mod, after)
