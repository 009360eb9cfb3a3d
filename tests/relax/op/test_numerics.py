"""Corners of the references: accuracy of erf, wrap-around, division, powers, shifts, large and mixed operands."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.op.oracle import FLOATS, as_torch, close, evaluate, symbolic, values

import eutectic
from eutectic.relax import op
from eutectic.relax.expr import PrimValue
from eutectic.relax.op import nn
from eutectic.relax.op.nn.conv_reference import convolve
from eutectic.relax.op.numerics import erf
from eutectic.relax.op.registry import all_ops, op_def
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.testing.graphs import graph
from eutectic.testing.truth import in_double
from eutectic.tir.interpret.scalar import casting


def apply(constructor: Any, *arrays: np.ndarray) -> Any:
    """The reference of an element-wise operator on arrays."""
    variables = [symbolic(*array.shape, dtype=str(array.dtype), name=f"x{i}") for i, array in enumerate(arrays)]
    return evaluate(constructor(*variables), dict(zip(variables, arrays, strict=True)))


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=50))
def test_erf_is_accurate_in_double_precision(points: list[float]):
    got = erf(np.array(points))
    want = np.array([math.erf(x) for x in points])
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=2e-16)


def test_erf_at_the_edges():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 6.0, 1e-300, -1e-20])
    np.testing.assert_array_equal(erf(x), [math.erf(v) for v in x])
    assert np.signbit(erf(x)[4])
    assert erf(np.zeros((0, 3))).shape == (0, 3)


def test_integers_wrap_around():
    top = np.array([127], np.int8)
    assert apply(op.add, top, top)[0] == -2
    assert apply(op.multiply, top, top)[0] == 1
    assert apply(op.negative, np.array([-128], np.int8))[0] == -128
    assert apply(op.square, np.array([16], np.uint8))[0] == 0
    assert apply(op.floor_divide, np.array([-128], np.int8), np.array([-1], np.int8))[0] == -128
    x = symbolic(3, dtype="int8")
    assert evaluate(op.sum(x), {x: np.array([100, 100, 100], np.int8)}) == np.int8(44)


def test_integer_powers_with_negative_exponents_truncate():
    base = np.array([2, 1, -1, -1, 0, 3], np.int32)
    exponent = np.array([-1, -5, -3, -2, -1, 2], np.int32)
    np.testing.assert_array_equal(apply(op.power, base, exponent), [0, 1, -1, 1, 0, 9])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_one_half_follow_ieee(dtype: str):
    base = np.array([-np.inf, -0.0, 0.0, np.inf, 4.0, -1.0, np.nan], dtype)
    got = apply(op.power, base, np.full(7, 0.5, dtype))
    np.testing.assert_array_equal(got, [np.inf, 0, 0, np.inf, 2, np.nan, np.nan])
    assert not np.signbit(got[1])


def test_shifts_by_the_width_and_more():
    x = np.array([1, -1, 5], np.int32)
    np.testing.assert_array_equal(apply(op.left_shift, x, np.full(3, 32, np.int32)), [0, 0, 0])
    np.testing.assert_array_equal(apply(op.right_shift, x, np.full(3, 40, np.int32)), [0, -1, 0])


ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -7.0, 3.5, 1e-3]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("constructor", "function"),
    [
        (op.floor_divide, lambda a, b: torch.div(a, b, rounding_mode="floor")),
        (op.floor_mod, torch.remainder),
        (op.mod, torch.fmod),
        (op.maximum, torch.maximum),
        (op.minimum, torch.minimum),
        (op.divide, torch.div),
    ],
    ids=["floor_divide", "floor_mod", "mod", "maximum", "minimum", "divide"],
)
def test_every_pair_of_odd_numbers(dtype: str, constructor: Any, function: Any):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    a, b = (np.ascontiguousarray(x).astype(kind) for x in np.meshgrid(ODD, ODD))
    got = apply(constructor, a, b)
    want = function(as_torch(a), as_torch(b))
    np.testing.assert_allclose(got.astype(np.float64), want.double().numpy(), rtol=1e-2 if "16" in dtype else 1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_pass_through_activations(dtype: str):
    for constructor, function in [
        (nn.relu, torch.relu),
        (nn.gelu, in_double(torch.nn.functional.gelu)),
        (nn.silu, torch.nn.functional.silu),
        (nn.relu6, torch.nn.functional.relu6),
        (op.sign, torch.sign),
    ]:
        x = values(np.random.default_rng(0), (0,), dtype)
        x = np.array(ODD).astype(x.dtype)
        got, want = apply(constructor, x), function(as_torch(x)).double().numpy()
        np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(got.astype(np.float64)), np.isinf(want))


def test_integers_are_exact_beyond_double_precision():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**31), 2**31, (3, 50, 50)) for _ in range(2))
    np.testing.assert_array_equal(apply(op.matmul, a, b), np.matmul(a, b))
    x, w = rng.integers(-(2**31), 2**31, (1, 3, 6, 6)), rng.integers(-(2**31), 2**31, (2, 3, 3, 3))
    got = convolve(x, w, (1, 1), (0,) * 4, (1, 1), 1)
    np.testing.assert_array_equal(got[0, 1, 2, 3], (x[0, :, 2:5, 3:6] * w[1]).sum())


def test_mixed_operands_with_a_stated_result():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)
    x, y = symbolic(2, 3), symbolic(3, 2, dtype="int32")
    got = evaluate(op.matmul(x, y, "float64"), {x: a, y: b})
    close(got, np.matmul(a.astype(np.float64), b))


def test_large_matrices_are_transposed_by_blocks():
    a = np.arange(700 * 300, dtype=np.int32).reshape(700, 300)
    x = symbolic(700, 300, dtype="int32")
    np.testing.assert_array_equal(evaluate(op.permute_dims(x), {x: a}), a.T)


def test_large_convolutions_are_computed_in_pieces():
    rng = np.random.default_rng(0)
    x, w = (values(rng, shape, "float32") for shape in ((2, 16, 96, 200), (8, 16, 3, 3)))
    got = convolve(x, w, (2, 1), (1, 1, 1, 1), (1, 1), 1)
    want = torch.nn.functional.conv2d(as_torch(x).double(), as_torch(w).double(), stride=(2, 1), padding=1)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-3)


def test_scalars_stand_for_tensors_without_axes():
    x = symbolic(2, dtype="int64")
    definition = op_def("relax.add")
    assert definition is not None
    made = op.add(PrimValue(3), x)
    assert isinstance(made.struct_info, TensorStructInfo)
    assert made.struct_info.dtype == "int64"
    np.testing.assert_array_equal(evaluate(made, {x: np.array([1, 2])}), [4, 5])


def test_windows_limit_attention():
    q = symbolic(1, 4, 1, 2)
    x = values(np.random.default_rng(0), (1, 4, 1, 2), "float32")
    got = evaluate(nn.attention(q, q, q, causal_mask="BottomRight", window_size=1), {q: x})
    np.testing.assert_allclose(got, x, rtol=1e-6)


def test_reshape_of_empty_tensors_takes_zero_as_a_size():
    x = symbolic(0, 6)
    info = op.reshape(x, (3, 0, 2)).struct_info
    assert isinstance(info, TensorStructInfo)
    assert info.static_shape == (3, 0, 2)


def test_warnings_are_silent_and_results_own_their_memory():
    x = symbolic(2, 2)
    array = np.array([[-1.0, 0.0], [np.inf, np.nan]], np.float32)
    for made in (op.log(x), op.divide(x, x), op.permute_dims(x), op.reshape(x, (4,)), op.flip(x, 0), nn.dropout(x)):
        result = evaluate(made, {x: array})
        for part in result if isinstance(result, tuple) else (result,):
            assert not np.may_share_memory(part, array)


def test_every_operator_has_a_fusion_kind():
    kinds = {definition.fusion for definition in all_ops().values()}
    assert kinds == {"elementwise", "broadcast", "injective", "reduction", "out_fusible", "opaque"}
    assert all(definition.legalize_fn is None or callable(definition.legalize_fn) for definition in all_ops().values())


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_wrap_around_in_narrow_integers(source: str, target: str):
    """The reference, the interpreter of tensor programs, and code; whole numbers of NumPy are the definition."""
    numbers = [-1.0, -2.5, -127.0, -129.5, 255.9, 300.0, 32768.0, -40000.0, 65504.0, 12.7, -0.9, 0.0]
    x = np.array([*numbers, np.nan], source)
    want = np.array([*(int(number) for number in x[:-1]), 0]).astype(target)
    program = graph({"x": (x.shape, source)}, lambda bb, x: op.astype(x, target))
    np.testing.assert_array_equal(apply(lambda x: op.astype(x, target), x), want)
    np.testing.assert_array_equal(eutectic.compile(program)(x), want)
    assert [casting(source, target)(number) for number in x.tolist()] == want.tolist()
