"""Matrix products, pools, binary and element-wise steps agree with numpy and torch in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.backend.dnnl.dnnl_regions import assert_close, compute, normal, region_of

from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.spec import (
    PARAMETERS,
    SPECIALS_AS_TORCH,
    SPECIALS_KEPT,
    Binary,
    Convolution,
    Eltwise,
    Matmul,
    Pool,
    PostBinary,
    PostEltwise,
    TensorSpec,
)

torch = pytest.importorskip("torch")
in_double = pytest.importorskip("eutectic.testing.truth").in_double
pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")

MATMULS = [
    ((5, 7), (7, 3)),
    ((1, 7), (7, 64)),
    ((64, 128), (128, 96)),
    ((2, 5, 7), (7, 3)),
    ((2, 3, 5, 7), (7, 3)),
    ((2, 5, 7), (2, 7, 3)),
    ((2, 5, 7), (1, 7, 3)),
    ((1, 5, 7), (4, 7, 3)),
    ((5, 7), (4, 7, 3)),
    ((2, 1, 5, 7), (1, 3, 7, 4)),
    ((5, 1), (1, 3)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("src", "weight"), MATMULS)
def test_matmul(src: tuple[int, ...], weight: tuple[int, ...], transpose: bool, constant: bool):
    x, w, b = normal(*src), normal(*weight, seed=1), normal(weight[-1], seed=2)
    given_w = np.ascontiguousarray(w.swapaxes(-1, -2)) if transpose else w
    want = np.maximum(x.astype(np.float64) @ w + b, -0.5)
    step = Matmul("x", "w", "b", TensorSpec("y", want.shape), transpose, (PostEltwise("clip", -0.5, np.inf),))
    inputs, constants = ({"x": x}, {"w": given_w}) if constant else ({"x": x, "w": given_w}, {})
    region = region_of(inputs, constants | {"b": b}, [step], ["y"])
    out = np.empty(want.shape, np.float32)
    region.run(list(inputs.values()), [out])
    assert_close(out, want)
    assert not [r for r in region.describe() if r.impl.startswith("ref")] or len({*src[:-2], *weight[:-2]}) > 1


@pytest.mark.parametrize("operand", [(2, 4, 5, 6), (6,), (1, 1, 1, 6), (5, 6), (4, 1, 1), (2, 1, 1, 1), (5, 1), ()])
def test_matmul_post_operand_broadcasts_as_in_numpy(operand: tuple[int, ...]):
    x, w, r = normal(2, 4, 5, 7), normal(7, 6, seed=1), np.asarray(normal(*operand, seed=2), np.float32)
    want = np.maximum(x.astype(np.float64) @ w * r, 0)
    post = (PostBinary("mul", "r"), PostEltwise("relu"))
    step = Matmul("x", "w", None, TensorSpec("y", want.shape), False, post)
    assert_close(compute({"x": x, "r": r}, {"w": w}, [step], ["y"])[0], want)


def test_product_of_a_tensor_with_itself():
    x = normal(2, 6, 6)
    step = Matmul("x", "x", None, TensorSpec("y", (2, 6, 6)), True)
    assert_close(compute({"x": x}, {}, [step], ["y"])[0], x.astype(np.float64) @ x.swapaxes(1, 2))


def pool(kind: str, shape: tuple[int, ...], k: int, s: int, begin: int, end: int, dilation: int = 1) -> Pool:
    rank = len(shape) - 2
    out = [(d + begin + end - (k - 1) * dilation - 1) // s + 1 for d in shape[2:]]
    dst = TensorSpec("y", (*shape[:2], *out))
    return Pool(kind, "x", dst, (k,) * rank, (s,) * rank, (begin,) * rank, (end,) * rank, (dilation,) * rank)


def pool_reference(step: Pool, x: np.ndarray) -> np.ndarray:
    fill = -np.inf if step.kind == "max" else 0.0
    pads = [(0, 0), (0, 0), *zip(step.padding_begin, step.padding_end, strict=True)]
    padded = np.pad(x.astype(np.float64), pads, constant_values=fill)
    count = np.pad(np.ones_like(x, np.float64), pads)
    out = np.empty(step.dst.shape)
    for at in np.ndindex(*step.dst.shape[2:]):
        window = tuple(
            slice(i * s, i * s + (k - 1) * d + 1, d)
            for i, s, k, d in zip(at, step.strides, step.kernel, step.dilation, strict=True)
        )
        axes = tuple(range(2, x.ndim))
        part = padded[(..., *window)]
        if step.kind == "max":
            out[(..., *at)] = part.max(axes)
        else:
            taps = count[(..., *window)].sum(axes) if step.kind == "avg_exclude_pad" else np.prod(step.kernel)
            out[(..., *at)] = part.sum(axes) / taps
    return out


@pytest.mark.parametrize("kind", ["max", "avg_include_pad", "avg_exclude_pad"])
@pytest.mark.parametrize("shape", [(2, 3, 11), (1, 16, 9, 9), (2, 5, 8, 7), (1, 8, 5, 6, 7)])
@pytest.mark.parametrize("window", [(2, 2, 0, 0), (3, 2, 1, 1), (3, 2, 0, 1), (3, 1, 1, 1), (2, 2, 0, 1), (5, 3, 2, 2)])
def test_pool(kind: str, shape: tuple[int, ...], window: tuple[int, int, int, int]):
    step, x = pool(kind, shape, *window), normal(*shape)
    assert_close(compute({"x": x}, {}, [step], ["y"])[0], pool_reference(step, x))


def test_dilated_max_pool():
    step, x = pool("max", (1, 8, 11, 11), 3, 2, 1, 1, dilation=2), normal(1, 8, 11, 11)
    assert_close(compute({"x": x}, {}, [step], ["y"])[0], pool_reference(step, x))


@pytest.mark.parametrize(("ceil_mode", "end"), [(False, 1), (True, 2)])
def test_pool_of_torch_with_ceil_mode_is_padding_at_the_end(ceil_mode: bool, end: int):
    x = normal(1, 4, 8, 8)
    pooling = torch.nn.functional.max_pool2d(torch.tensor(x), 3, 2, 1, ceil_mode=ceil_mode)
    assert_close(compute({"x": x}, {}, [pool("max", x.shape, 3, 2, 1, end)], ["y"])[0], pooling.numpy())
    step = pool("avg_exclude_pad", x.shape, 3, 2, 1, end)
    pooling = torch.nn.functional.avg_pool2d(torch.tensor(x), 3, 2, 1, ceil_mode=ceil_mode, count_include_pad=False)
    assert_close(compute({"x": x}, {}, [step], ["y"])[0], pooling.numpy())


OPS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
PAIRS = [
    ((2, 16, 5, 7), (2, 16, 5, 7)),
    ((2, 16, 5, 7), (1, 16, 1, 1)),
    ((2, 16, 5, 7), (16, 1, 1)),
    ((2, 16, 5, 7), (2, 16, 1, 1)),
    ((2, 16, 5, 7), ()),
    ((2, 16, 5, 7), (7,)),
    ((2, 16, 5, 7), (5, 1)),
    ((2, 16, 5, 7), (2, 1, 1, 1)),
    ((), (2, 16, 5, 7)),
    ((16, 1, 1), (2, 16, 5, 7)),
    ((2, 1, 5, 1), (1, 16, 1, 7)),
    ((3, 1), (4,)),
    ((6,), (6,)),
    ((), ()),
]


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("constant", [False, True])
def test_binary_broadcasts_as_in_numpy(kind: str, left: tuple[int, ...], right: tuple[int, ...], constant: bool):
    a = np.asarray(normal(*left), np.float32)
    b = np.asarray(normal(*right, seed=1) + np.float32(4), np.float32)
    want = OPS[kind](a.astype(np.float64), b)
    step = Binary(kind, "a", "b", TensorSpec("y", want.shape), (PostEltwise("linear", 2, 1),))
    inputs, constants = ({"a": a}, {"b": b}) if constant else ({"a": a, "b": b}, {})
    assert_close(compute(inputs, constants, [step], ["y"])[0], want * 2 + 1)


F = torch.nn.functional
# Post-operation and definition.
ELTWISE = {
    "relu": (PostEltwise("relu"), F.relu),
    "relu with slope": (PostEltwise("relu", 0.1), lambda x: F.leaky_relu(x, 0.1)),
    "clip": (PostEltwise("clip", -1, 6), lambda x: x.clamp(-1, 6)),
    "clip to one side": (PostEltwise("clip", -np.inf, 6), lambda x: x.clamp(max=6)),
    "linear": (PostEltwise("linear", 2, 3), lambda x: 2 * x + 3),
    "elu": (PostEltwise("elu", 1.5), lambda x: F.elu(x, 1.5)),
    "sigmoid": (PostEltwise("sigmoid"), torch.sigmoid),
    "tanh": (PostEltwise("tanh"), torch.tanh),
    "silu": (PostEltwise("silu"), F.silu),
    "gelu_erf": (PostEltwise("gelu_erf"), F.gelu),
    "gelu_tanh": (PostEltwise("gelu_tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "hardswish": (PostEltwise("hardswish"), F.hardswish),
    "hardsigmoid": (PostEltwise("hardsigmoid"), F.hardsigmoid),
    "softplus": (PostEltwise("softplus"), F.softplus),
    "mish": (PostEltwise("mish"), F.mish),
    "abs": (PostEltwise("abs"), torch.abs),
    "square": (PostEltwise("square"), torch.square),
    "exp": (PostEltwise("exp"), torch.exp),
    "log": (PostEltwise("log"), lambda x: torch.log(x)),
    "sqrt": (PostEltwise("sqrt"), torch.sqrt),
}


def test_every_algorithm_is_listed():
    assert {post.algorithm for post, _ in ELTWISE.values()} == set(PARAMETERS)


def eltwise(post: PostEltwise, x: np.ndarray) -> np.ndarray:
    return compute({"x": x}, {}, [Eltwise("x", TensorSpec("y", x.shape), post)], ["y"])[0]


# Largest absolute error over [-20, 20] (log, sqrt: (0, 20]) relative to max(1, |value|); measured, rounded up.
ACCURACY = dict.fromkeys(ELTWISE, 2e-7) | {
    "gelu_erf": 1.2e-6,
    "gelu_tanh": 4e-7,
    "silu": 4e-7,
    "exp": 4e-7,
    "mish": 1e-6,
    "softplus": 3e-6,
    "log": 4e-6,
}


@pytest.mark.parametrize("name", ELTWISE)
def test_accuracy_of_algorithms(name: str):
    post, reference = ELTWISE[name]
    x = np.linspace(-20, 20, 40001).astype(np.float32)
    x = np.abs(x) + np.float32(1e-4) if name in ("log", "sqrt") else x
    want = reference(torch.tensor(x).double()).numpy()
    error = np.abs(eltwise(post, x) - want) / np.maximum(1, np.abs(want))
    assert error.max() <= ACCURACY[name]


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38], np.float32)


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    exact = (got == want) & (np.signbit(got) == np.signbit(want))
    finite = np.isfinite(want) & (want != 0)
    close = finite & (np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)) <= 1e-5 * np.abs(want))
    return (np.isnan(got) & np.isnan(want)) | exact | close


@pytest.mark.parametrize("name", ELTWISE)
@pytest.mark.parametrize("after", ["alone", "matmul", "convolution", "binary"])
def test_special_values_of_algorithms(name: str, after: str):
    post, reference = ELTWISE[name]
    want = in_double(reference)(torch.tensor(SPECIAL)).numpy()
    shape = {"matmul": (9, 1), "convolution": (1, 8, 9, 9), "binary": (9,), "alone": (9,)}[after]
    x = np.ascontiguousarray(np.broadcast_to(SPECIAL, shape) if after != "matmul" else SPECIAL[:, None])
    dst = TensorSpec("y", x.shape)
    one, zero = (1, 1), (0, 0)
    step, constants = {
        "alone": (Eltwise("x", dst, post), {}),
        "binary": (Binary("mul", "x", "c", dst, (post,)), {"c": np.ones((), np.float32)}),
        "matmul": (Matmul("x", "c", None, dst, False, (post,)), {"c": np.ones((1, 1), np.float32)}),
        "convolution": (
            Convolution("x", "c", None, dst, one, zero, zero, one, 8, False, (post,)),
            {"c": np.ones((8, 1, 1, 1), np.float32)},
        ),
    }[after]
    (got,) = compute({"x": x}, constants, [step], ["y"])
    row = got[:, 0] if after == "matmul" else got.reshape(-1, 9)[0]
    good = same(row, want)
    # Sums start at +0, so a negative zero reaches no post-operation of a matmul or convolution.
    good[4] |= after in ("matmul", "convolution")
    # The slope makes relu keep NaN; without one it does not.
    keeps = post.algorithm in SPECIALS_KEPT or name == "relu with slope"
    assert good[0] == (keeps or name == "gelu_erf")
    if post.algorithm in SPECIALS_AS_TORCH:
        assert good.all()


DEVIATIONS = {
    # (algorithm, input): what oneDNN gives where torch gives something else.
    ("relu", np.nan): 0.0,
    ("relu", -0.0): 0.0,
    ("clip", np.nan): -1.0,
    ("hardsigmoid", np.nan): 1.0,
    ("exp", np.nan): np.inf,
    ("elu", -0.0): 0.0,
    ("hardswish", 3e38): np.float32(3e38),
}


@pytest.mark.parametrize(("name", "value"), DEVIATIONS)
def test_deviations_from_torch_are_the_documented_ones(name: str, value: float):
    (got,) = eltwise(ELTWISE[name][0], np.array([value], np.float32))
    assert same(got, np.float32(DEVIATIONS[name, value]))


def test_binary_max_and_min_lose_a_nan_on_the_left():
    a, b = np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)
    for kind in ("max", "min"):
        (got,) = compute({"a": a, "b": b}, {}, [Binary(kind, "a", "b", TensorSpec("y", (2,)))], ["y"])
        assert got[0] == 1
        assert np.isnan(got[1])


@pytest.mark.parametrize("channels", [3, 8])
def test_pools_and_special_values(channels: int):
    for kind, value in (("max", np.nan), ("avg_include_pad", np.nan), ("avg_exclude_pad", np.nan)):
        for at in range(4):
            x = np.ones((1, channels, 2, 2), np.float32)
            x.reshape(channels, 4)[:, at] = value
            (got,) = compute({"x": x}, {}, [pool(kind, x.shape, 2, 2, 0, 0)], ["y"])
            assert np.isnan(got).all() == (kind != "max")
    x = np.full((1, channels, 2, 2), -np.inf, np.float32)
    (got,) = compute({"x": x}, {}, [pool("max", x.shape, 2, 2, 0, 0)], ["y"])
    np.testing.assert_array_equal(got, np.finfo(np.float32).min)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_random_pools(data: st.DataObject):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=3, max_size=5)))
    k, s, begin, end = (data.draw(st.integers(*r)) for r in ((1, 3), (1, 3), (0, 2), (0, 2)))
    kind = data.draw(st.sampled_from(["max", "avg_include_pad", "avg_exclude_pad"]))
    assume(begin < k and all(d + begin + end >= k for d in shape[2:]))
    step = pool(kind, shape, k, s, begin, end)
    assume(all((o - 1) * s - begin < d for o, d in zip(step.dst.shape[2:], shape[2:], strict=True)))
    x = normal(*shape)
    assert_close(compute({"x": x}, {}, [step], ["y"])[0], pool_reference(step, x))
