"""Arithmetic, comparisons, activations: values, dtypes and NaN as in eager."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relax.frontend.torch_compare import check, rand, special, together
from torch.nn import functional as F

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, i32, i64, u8, bool_ = torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool

NAMES = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor frac isfinite isinf isnan log log10
    log1p log2 neg reciprocal relu round rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc logical_not positive
"""
UNARY: dict[str, Callable[..., Any]] = {name: getattr(torch, name) for name in NAMES.split()}
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.7, 1.3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "softplus": F.softplus,
    "softplus_options": lambda x: F.softplus(x, 2.0, 3.0),
    "log_sigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.5, -3.0),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp(min=0.25),
    "clamp_max": lambda x: x.clamp(max=0.25),
    "clamp_crossed": lambda x: x.clamp(2.0, 1.0),
    "nan_where": lambda x: torch.where(x > 0, x, float("nan")),
    "masked_fill": lambda x: x.masked_fill(x < 0, 9.0),
    "hardshrink_by_where": lambda x: torch.where(x.abs() > 0.5, x, 0.0),
    "dropout": lambda x: F.dropout(x, 0.5, training=False) + 1,
}


def test_functions():
    check(together(UNARY), special())
    check(together(UNARY), rand(3, 5, dtype=f64))


def test_functions_of_integers():
    names = ["sqrt", "exp", "sigmoid", "neg", "abs", "floor", "square", "sin", "rsqrt", "isnan", "log1p", "expm1"]
    check(together({name: UNARY[name] for name in names}), torch.arange(1, 7, dtype=i32))


@pytest.mark.parametrize("dtype", [f32, f64, bf16, f16])
def test_activations(dtype: torch.dtype):
    check(together(ACTIVATIONS), special(dtype))
    check(together(ACTIVATIONS), rand(2, 3, 4, dtype=dtype))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "copysign": torch.copysign,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "add_alpha": lambda a, b: torch.add(a, b, alpha=3),
    "sub_alpha": lambda a, b: torch.sub(a, b, alpha=2),
    "rsub": lambda a, b: torch.rsub(a, b),
    "where": lambda a, b: torch.where(a > b, a, b),
}
PAIRS = [(f32, f32), (f32, f64), (f16, f32), (bf16, f16), (i32, f32), (i64, f16), (i32, i64), (u8, i8), (i64, i64)]


@pytest.mark.parametrize("dtypes", PAIRS, ids=lambda pair: "-".join(str(d).removeprefix("torch.") for d in pair))
def test_binary_promotes(dtypes: tuple[torch.dtype, torch.dtype]):
    a, b = rand(3, 1, 4, dtype=dtypes[0]), rand(2, 4, dtype=dtypes[1], seed=5)
    b = torch.where(b == 0, torch.ones_like(b), b)
    check(together(BINARY), a, b)


def test_binary_beside_a_tensor_without_axes():
    check(together(BINARY), rand(3, dtype=f16), torch.tensor(2.5, dtype=f64))
    check(together(BINARY), rand(3, dtype=i32), torch.tensor(2.5))
    check(together(BINARY), rand(3, dtype=i32), torch.tensor(2, dtype=i64))


def test_binary_of_special_values():
    names = [
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "eq",
        "lt",
        "floor_divide",
        "remainder",
        "fmod",
        "copysign",
    ]
    check(together({name: BINARY[name] for name in names}), special().repeat(12), special().repeat_interleave(12))


@pytest.mark.parametrize("dtype", [f32, f64, bf16, f16])
def test_signs(dtype: torch.dtype):
    check(together({"signbit": torch.signbit, "copysign": lambda x: torch.copysign(x, -0.0)}), special(dtype))


def test_signs_of_literals():
    literals = {str(literal): literal for literal in (0.0, -0.0, 3, -3, float("inf"), -float("inf"))}
    signs = {"NaN": float("nan"), "negative NaN": -float("nan"), **literals}
    numbers = {name: lambda x, s=sign: torch.copysign(x, s) for name, sign in signs.items()}
    check(together(numbers), rand(3, 5))
    check(together(numbers), torch.arange(-3, 4, dtype=i32))


def test_signs_of_integers():
    check(together({"signbit": torch.signbit}), torch.arange(-3, 4, dtype=i32))
    check(together({"signbit": torch.signbit}), torch.tensor([True, False]))


NUMBERS: dict[str, Callable[..., Any]] = {
    "x + 0.1": lambda x: x + 0.1,
    "0.1 - x": lambda x: 0.1 - x,
    "x * 0.3": lambda x: x * 0.3,
    "x / 3": lambda x: x / 3,
    "1 / x": lambda x: 1 / x,
    "x // 2": lambda x: x // 2,
    "x % 2": lambda x: x % 2,
    "x**2": lambda x: x**2,
    "x**3": lambda x: x**3,
    "x**0.5": lambda x: x**0.5,
    "2**x": lambda x: 2**x,
    "x > 0.1": lambda x: x > 0.1,
    "x == 1": lambda x: x == 1,
    "x + True": lambda x: x + True,
    "x * 2": lambda x: x * 2,
    "where x": lambda x: torch.where(x > 0, x, 0.1),
    "where 1": lambda x: torch.where(x > 0, 1, x),
    "where numbers": lambda x: torch.where(x > 0, 1.0, 0.0),
    "add alpha": lambda x: torch.add(x, x, alpha=2),
    "sub alpha": lambda x: torch.sub(x, 3, alpha=2),
}


@pytest.mark.parametrize("dtype", [f32, f16, bf16, i32, f64])
def test_numbers_beside_tensors(dtype: torch.dtype):
    check(together(NUMBERS), torch.arange(1, 9).to(dtype))


def test_negative_powers():
    for dtype in (f32, f16, f64):
        check(lambda x: (x**-1, x**-0.5, x**-2), torch.arange(1, 9).to(dtype))


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_16_bits_beside_an_inexact_number_are_bit_equal(dtype: torch.dtype):
    functions: dict[str, Callable[..., Any]] = {
        "t * 0.7": lambda t: t * 0.7,
        "t / 0.7": lambda t: t / 0.7,
        "t + 0.7": lambda t: t + 0.7,
        "0.7 - t": lambda t: 0.7 - t,
        "0.7 / t": lambda t: 0.7 / t,
        "t % 0.7": lambda t: t % 0.7,
        "clamp": lambda t: t.clamp(min=0.7),
        "trunc": lambda t: torch.div(t, 0.7, rounding_mode="trunc"),
        "floor": lambda t: torch.div(t, 0.7, rounding_mode="floor"),
    }
    check(together(functions), rand(500, dtype=dtype), tolerance=0.0)


def test_int_division_is_true_division():
    check(lambda a, b: a / b, torch.tensor([7, -7, 1]), torch.tensor([2, 2, 3]))
    check(lambda a: a / 2, torch.tensor([7, -7, 1], dtype=u8))


def test_bits_and_logic():
    both = (operator.and_, operator.or_, operator.xor, torch.logical_and, torch.logical_or, torch.logical_xor)
    functions = together({function.__name__: function for function in both})
    check(functions, rand(8, dtype=bool_), rand(8, dtype=bool_, seed=3))
    check(functions, rand(8, dtype=i32), rand(8, dtype=i32, seed=3))


def test_bool_arithmetic():
    a, b = rand(8, dtype=bool_), rand(8, dtype=bool_, seed=3)
    check(lambda x, y: (x + y, x * y, ~x, x + 1, x * 2.0, x.sum(), x.to(f32).mean()), a, b)


def test_shifts():
    check(lambda a, b: (a << b, a >> b, a << 2), rand(8, dtype=i32), torch.arange(8, dtype=i32))


def test_clamp_by_tensors():
    x, low, high = rand(4, 5), rand(5), rand(4, 1) + 1
    check(lambda a, b, c: (a.clamp(b, c), torch.clamp(a, min=b), torch.clamp(a, max=c)), x, low, high)
    check(lambda a: a.clamp(0.5, 2.5), rand(6, dtype=i64))
    check(lambda a: a.clamp(-3, 2), rand(6, dtype=i64))


def test_fused_forms():
    a, b, c = rand(3, 4), rand(3, 4, seed=1), rand(4, seed=2) + 4
    check(lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z, value=2.0)), a, b, c)
    check(lambda x, y: (torch.fmax(x, y), torch.fmin(x, y), torch.logaddexp(x, y)), special(), special().flip(0))


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_operands_of_fused_forms_are_rounded_first(dtype: torch.dtype):
    """2051 is no number of either dtype, and 2 ** 31 - 1 is infinity in float16."""
    a, b = torch.tensor([2051, 2**31 - 1, -(2**31) + 1], dtype=i32), torch.tensor([1.0, 2.0, -0.5], dtype=dtype)
    check(lambda x, y: (torch.addcmul(x, x, y, value=-1), torch.addcdiv(x, x, y, value=2.0)), a, b)


def test_casts():
    dtypes = (f32, f16, bf16, i32, u8, bool_, f64, i64)
    for source in dtypes:
        check(lambda x: [x.to(target) + 0 for target in dtypes], rand(6, dtype=source))
    check(lambda x, y: x.type_as(y), rand(3), rand(3, dtype=f64))


def test_comparison_beyond_the_dtype_is_refused_or_right():
    x = torch.tensor([1, 2, 255], dtype=u8)
    check(lambda t: t < 200, x)


def test_prelu_and_glu():
    check(lambda x, w: F.prelu(x, w), rand(2, 3, 4), torch.tensor([0.1, 0.2, 0.3]))
    check(lambda x, w: F.prelu(x, w), rand(2, 3, 4), torch.tensor([0.25]))
    check(lambda x: F.glu(x, 1), rand(2, 4, 3))


@given(
    st.lists(st.integers(1, 4), min_size=0, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.sampled_from(["add", "mul", "sub", "div", "maximum", "lt"]),
)
@settings(max_examples=12)
def test_broadcasting(shape: list[int], ones: list[bool], name: str):
    other = [1 if flag else size for size, flag in zip(shape, ones, strict=False)]
    a, b = rand(*shape), rand(*other[len(other) // 2 :], seed=7) + 3
    check(BINARY[name], a, b)
