"""quantize, dequantize, attention_var_len, alloc_tensor: edges of their meaning, and wrong calls."""

from __future__ import annotations

import numpy as np
import pytest
from tests.relax.op.oracle import evaluate, symbolic, unknown

from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.structural import structural_equal
from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Constant, DataTypeImm, Var
from eutectic.relax.op import builtin, dequantize, nn, quantize
from eutectic.relax.op.registry import infer_call, op_def
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import CallError, TypeInferenceError


def t(*shape, dtype="float32"):
    return symbolic(*shape, dtype=dtype)


def i(*shape, dtype="int32"):
    return symbolic(*shape, dtype=dtype)


Q = (1, 6, 4, 8)

REFUSED = {
    "quantize integers": (lambda: quantize(i(2), t(), i()), "quantize of int32"),
    "scale of integers": (lambda: quantize(t(2), i(), i()), "quantize with a scale of int32"),
    "zero point of floats": (lambda: quantize(t(2), t(), t()), "quantize with a zero point of float32"),
    "result of floats": (lambda: quantize(t(2), t(), i(), out_dtype="float32"), "no result of dtype 'float32' here"),
    "result of integers": (lambda: dequantize(i(2), t(), i(), out_dtype="int8"), "no result of dtype 'int8' here"),
    "dequantize bool": (lambda: dequantize(t(2, dtype="bool"), t(), i()), "dequantize of bool"),
    "two axes": (lambda: dequantize(i(2, 3), t(2, 3), i()), "the scale has 2 axes"),
    "scales of another axis": (
        lambda: dequantize(i(2, 3), t(2), i(), axis=1), "dequantize of (2, 3) along axis 1 with a scale of (2,)"
    ),
    "zero points of another axis": (lambda: quantize(t(2, 3), t(), i(3), axis=0), "with a zero point of (3,)"),
    "no such axis": (lambda: quantize(t(2, 3), t(), i(), axis=2), "axis 2"),
    "batch of sequences": (
        lambda: nn.attention_var_len(t(2, 6, 4, 8), t(2, 6, 4, 8), t(2, 6, 4, 8), i(3), 6), "the first axis must be 1"
    ),
    "three axes": (lambda: nn.attention_var_len(t(6, 4, 8), t(*Q), t(*Q), i(3), 6), "needs four axes everywhere"),
    "integers": (lambda: nn.attention_var_len(i(*Q), i(*Q), i(*Q), i(3), 6), "float dtype"),
    "two dtypes": (lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q, dtype="float16"), i(3), 6), "float16 and float32"),
    "features": (lambda: nn.attention_var_len(t(*Q), t(1, 6, 4, 7), t(*Q), i(3), 6), "sizes disagree"),
    "starts": (lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), t(3), 6), "starts of sequences are integers"),
    "numbers of sequences": (
        lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), i(3), 6, i(4)), "different numbers of sequences"
    ),
    "longest": (lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), i(3), 6.5), "the longest length is one integer"),
    "many longest": (lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), i(3), i(2)), "longest length is one integer"),
    "mask": (
        lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), i(3), 6, causal_mask="Middle"), "no causal mask 'Middle'"
    ),
    "window": (lambda: nn.attention_var_len(t(*Q), t(*Q), t(*Q), i(3), 6, window_size=2), "needs the causal mask"),
    "unknown dtype": (lambda: builtin.alloc_tensor((2,), "float31"), "unknown dtype 'float31'"),
    "no dtype": (lambda: builtin.alloc_tensor((2,), "void"), "alloc_tensor needs a dtype"),
    "shape of a tensor": (lambda: builtin.alloc_tensor(t(2), "uint8"), "needs a shape literal and a dtype"),
    "device by name": (lambda: builtin.alloc_tensor((2,), "uint8", "gpu"), "the number of a device"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_calls_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(TypeInferenceError) as caught:
        make()
    assert message in str(caught.value)


def run(call):
    return evaluate(call, {})


def const(values, dtype):
    return Constant(np.asarray(values, dtype))


def test_quantize_saturates_rounds_to_even_and_gives_nan_the_zero_point():
    x = const([0.5, 1.5, 2.5, -1e9, 1e9, np.inf, -np.inf, np.nan], "float32")
    got = run(quantize(x, const(1, "float32"), const(3, "int8")))
    np.testing.assert_array_equal(got, np.array([3, 5, 5, -128, 127, 127, -128, 3], np.int8))


def test_quantizing_to_8_bit_floats_stays_finite():
    got = run(quantize(const([1e9, -1e9, 1.0], "float32"), const(2, "float32"), const(0, "int32"), -1, "float8_e4m3fn"))
    np.testing.assert_array_equal(got.astype(np.float32), [448.0, -448.0, 0.5])


def test_dequantize_does_not_wrap_around():
    got = run(dequantize(const([-128, 127], "int8"), const(0.5, "float32"), const(127, "int8")))
    np.testing.assert_array_equal(got, np.array([-127.5, 0.0], np.float32))


def test_quantize_then_dequantize_is_within_half_a_step():
    x = np.linspace(-3, 3, 41, dtype=np.float32).reshape(41, 1)
    scale, zero = const([0.05], "float32"), const([7], "int8")
    back = run(dequantize(quantize(Constant(x), scale, zero), scale, zero))
    assert np.abs(back - x).max() <= 0.025 + 1e-6


def test_shapes_that_are_not_known_stay_so():
    assert quantize(unknown(), t(), i()).struct_info == TensorStructInfo(None, "int8")
    info = nn.attention_var_len(unknown(4), t(*Q), t(*Q), i(3), 6).struct_info
    assert (info.shape, info.ndim, info.dtype) == (None, 4, "float32")


@pytest.mark.parametrize(
    ("starts", "longest", "message"),
    [
        ([0, 4], 6, "do not divide an axis of size 6"),
        ([1, 6], 6, "do not divide an axis of size 6"),
        ([0, 4, 2, 6], 6, "do not divide an axis of size 6"),
        ([0, 6], 5, "a sequence of queries has length 6, which is more than 5"),
    ],
    ids=["too short", "late", "falling", "too long"],
)
def test_starts_that_do_not_fit_are_refused_at_run_time(starts, longest, message):
    q = const(np.ones(Q), "float32")
    with pytest.raises(CallError, match=message):
        run(nn.attention_var_len(q, q, q, const(starts, "int32"), longest))


def test_attention_with_a_bias_has_a_constructor_of_its_own():
    q, bias = symbolic(*Q, name="q"), symbolic(1, 4, 6, 6, name="b")
    made = nn.attention_bias(q, q, q, bias, 0.5, "TopLeft")
    assert structural_equal(made, nn.attention(q, q, q, bias, 0.5, "TopLeft"))
    assert made.op.name == "relax.nn.attention_bias"


def test_sequences_do_not_see_each_other():
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal(Q).astype(np.float32) for _ in range(2))
    v, other = rng.standard_normal(Q).astype(np.float32), rng.standard_normal(Q).astype(np.float32)
    other[:, :2] = v[:, :2]
    starts = const([0, 2, 2, 6], "int32")  # the second one is empty
    first, second = (
        run(nn.attention_var_len(Constant(q), Constant(k), Constant(values), starts, 4)) for values in (v, other)
    )
    np.testing.assert_array_equal(first[:, :2], second[:, :2])
    assert not np.array_equal(first[:, 2:], second[:, 2:])


def test_an_allocation_takes_its_dtype_as_a_node_too():
    call = builtin.alloc_tensor(ShapeExpr((2, 3)), DataTypeImm("float16"))
    assert call.struct_info == TensorStructInfo((2, 3), "float16")
    assert infer_call(call).struct_info == call.struct_info
    assert op_def("relax.builtin.alloc_tensor") is not None


def test_the_number_of_scales_may_be_symbolic():
    n = ScalarVar("n", "int64")
    call = dequantize(Var("x", TensorStructInfo((2, n), "int8")), t(n), i(n))
    assert call.struct_info == TensorStructInfo((2, n), "float32")
