"""Element-wise operators of one and two tensors agree with the graph dialect, NaN and infinity included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference

from eutectic import te, topi
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.relax.op.nn.activation import EluAttrs, LeakyReluAttrs, PReluAttrs, SoftplusAttrs

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 1e-6, 7.0, 30.0]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
OF_FLOATS = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "rsqrt", "sigmoid",
    "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
OF_NUMBERS = ["abs", "ceil", "floor", "negative", "round", "sign", "square", "trunc"]
OF_ANYTHING = ["isfinite", "isinf", "isnan", "logical_not"]
ACTIVATIONS = ["gelu", "gelu_tanh", "silu", "selu", "hardswish", "hardsigmoid"]
ARITHMETIC = ["add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "maximum", "minimum"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]


def special(dtype: str) -> np.ndarray:
    return np.array(SPECIAL, "float64").astype(to_numpy(dtype))


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x = special(dtype) if is_float(dtype) else np.array([-7, -3, -1, 1, 2, 5, 100], to_numpy(dtype))
    return x[:, None], x[None, :]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*OF_FLOATS, *OF_NUMBERS, *OF_ANYTHING])
def test_unary_of_special_values(name: str, dtype: str):
    x = special(dtype)
    with np.errstate(all="ignore"):
        close(evaluate(getattr(topi, name), x), reference(name, None, x))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
@pytest.mark.parametrize("name", [*OF_NUMBERS, *OF_ANYTHING, "bitwise_not"])
def test_unary_of_integers(name: str, dtype: str):
    x = np.array([0, 1, 2, 5, 100], dtype)
    x = x if dtype.startswith("u") else np.concatenate([x, -x])
    close(evaluate(getattr(topi, name), x), reference(name, None, x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_special_values(name: str, dtype: str):
    x = special(dtype)
    close(evaluate(getattr(topi.nn, name), x), reference(f"nn.{name}", None, x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_with_options(dtype: str):
    x = special(dtype)
    close(evaluate(lambda t: topi.nn.leaky_relu(t, 0.2), x), reference("nn.leakyrelu", LeakyReluAttrs(0.2), x))
    close(evaluate(lambda t: topi.nn.elu(t, 0.7), x), reference("nn.elu", EluAttrs(0.7), x))
    close(evaluate(lambda t: topi.nn.softplus(t, 2.0, 5.0), x), reference("nn.softplus", SoftplusAttrs(2.0, 5.0), x))
    close(evaluate(lambda t: topi.clip(t, -0.5, 2), x), reference("clip", None, x, -0.5, 2))
    y, slope = x.reshape(2, 7), np.array([0.25, -2.0]).astype(x.dtype)
    close(evaluate(lambda t, s: topi.nn.prelu(t, s, 0), y, slope), reference("nn.prelu", PReluAttrs(0), y, slope))
    close(evaluate(lambda t, s: topi.nn.prelu(t, s), y, slope[:1]), reference("nn.prelu", PReluAttrs(1), y, slope[:1]))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int8", "uint8"])
def test_relu_keeps_nan(dtype: str):
    x = special(dtype) if is_float(dtype) else np.arange(-5 if dtype != "uint8" else 0, 9).astype(dtype)
    close(evaluate(topi.nn.relu, x), reference("nn.relu", None, x))


def test_clip_of_integers_limits_the_bounds():
    x = np.arange(-128, 128, 17).astype("int8")
    for low, high in ((-1000, 1000), (-3.7, 9.9), (5, 200)):
        close(evaluate(lambda t, a=low, b=high: topi.clip(t, a, b), x), reference("clip", None, x, low, high))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int8", "int64"])
@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS, *LOGIC])
def test_binary_of_special_values(name: str, dtype: str):
    a, b = pairs(dtype)
    close(evaluate(getattr(topi, name), a, b), reference(name, None, a, b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["power", "log_add_exp"])
def test_binary_of_floats_only(name: str, dtype: str):
    a, b = pairs(dtype)
    if name == "power":  # the interpreter has NumPy's square root of -inf
        b = b[:, b[0] != 0.5]
    close(evaluate(getattr(topi, name), a, b), reference(name, None, a, b))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
@pytest.mark.parametrize("name", ["left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name: str, dtype: str):
    a = np.array([0, 1, 3, 100, 127] + ([] if dtype == "uint8" else [-1, -77]), dtype)[:, None]
    b = np.array([0, 1, 7, 8, 31, 63, 64], dtype)
    close(evaluate(getattr(topi, name), a, b), reference(name, None, a, b))


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "minimum", *COMPARISONS, *LOGIC, "bitwise_and", "bitwise_xor"]
)
def test_binary_of_bool(name: str):
    a, b = np.array([[False], [True]]), np.array([False, True])
    close(evaluate(getattr(topi, name), a, b), reference(name, None, a, b))


@st.composite
def broadcasting(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    full = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=3))
    shapes = []
    for _ in range(2):
        shape = [draw(st.sampled_from([n, 1])) for n in full]
        shapes.append(tuple(shape[draw(st.integers(0, len(full))) :]))
    return shapes[0], shapes[1]


@given(broadcasting(), st.integers(0, 2**31), st.sampled_from(["int32", "int64"]))
@settings(max_examples=40)
def test_broadcasting(shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int, index: str):
    rng = np.random.default_rng(seed)
    a, b = (np.asarray(rng.standard_normal(shape), "float32") for shape in shapes)
    close(evaluate(topi.add, a, b, index=index, text=True), np.asarray(a + b))
    mask = np.asarray(a > 0)
    close(evaluate(topi.where, mask, a, b, index=index), np.where(mask, a, b))
    whole = np.broadcast_shapes(*shapes)
    close(evaluate(lambda t: topi.broadcast_to(t, whole), a, index=index), np.array(np.broadcast_to(a, whole)))


def test_scalars_and_python_operators():
    x = np.array([1.0, -2.0], "float32")
    close(evaluate(lambda t: 1 - (t + 2.0) * 3 / 2, x), 1 - (x + 2) * 3 / 2)
    close(evaluate(lambda t: -t, x), -x)
    close(evaluate(lambda t: t.astype("int32"), x), x.astype("int32"))
    assert int(topi.add(2, 3)) == 5


def test_cast():
    x = special("float32")[3:]
    for dtype in ("bool", "float16", "int8", "float64"):
        close(evaluate(lambda t, d=dtype: topi.cast(t, d), x), x.astype(to_numpy(dtype)))


def test_refusals():
    x, y = te.placeholder((3,), "float32"), te.placeholder((4,), "float32")
    with pytest.raises(ValueError, match="do not broadcast"):
        topi.add(x, y)
    with pytest.raises(TypeError, match="cast one side"):
        topi.add(x, te.placeholder((3,), "int32"))
    with pytest.raises(TypeError, match="needs a float dtype"):
        topi.exp(te.placeholder((3,), "int32"))
    with pytest.raises(TypeError, match="not for bool"):
        topi.subtract(te.placeholder((3,), "bool"), te.placeholder((3,), "bool"))
    with pytest.raises(ValueError, match="does not broadcast"):
        topi.broadcast_to(x, (1,))
