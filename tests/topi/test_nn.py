"""Products, convolutions, pools, softmax and normalisations agree with the graph dialect's references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference

from eutectic import te, tir, topi
from eutectic.ir.dtype import to_numpy
from eutectic.relax.op.layout import arrange
from eutectic.relax.op.matmul import MatmulAttrs
from eutectic.relax.op.nn.activation import SoftmaxAttrs
from eutectic.relax.op.nn.adaptive_pool import AdaptivePoolAttrs
from eutectic.relax.op.nn.channel_norm import GroupNormAttrs
from eutectic.relax.op.nn.conv import ConvAttrs
from eutectic.relax.op.nn.conv_transpose import ConvTransposeAttrs
from eutectic.relax.op.nn.norm import BatchNormAttrs, LayerNormAttrs
from eutectic.relax.op.nn.pool import PoolAttrs
from eutectic.tir.interpret import run

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def noise(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(to_numpy(dtype))


@given(
    st.sampled_from([((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((1, 5), (5, 3)), ((2, 0), (0, 3)),
                     ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 2, 3), (3,)), ((0, 2), (2, 3))]),
    st.sampled_from(["float32", "float64", "float16", "bfloat16", "int32", "int8"]),
    st.sampled_from(["int32", "int64"]),
)  # fmt: skip
@settings(max_examples=60)
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, index: str):
    a, b = (noise(i, *shape, dtype="float32") * 3 for i, shape in enumerate(shapes))
    a, b = a.astype(to_numpy(dtype)), b.astype(to_numpy(dtype))
    close(evaluate(topi.matmul, a, b, index=index, text=True), reference("matmul", MatmulAttrs(), a, b))


def test_transposed_products():
    a, b, bias = noise(0, 2, 3, 4), noise(1, 2, 5, 4), noise(2, 5)
    close(evaluate(topi.nn.batch_matmul, a, b), a @ b.transpose(0, 2, 1))
    swapped = np.ascontiguousarray(a.transpose(0, 2, 1))
    close(evaluate(lambda x, y: topi.nn.batch_matmul(x, y, transpose_a=True), swapped, b), a @ b.transpose(0, 2, 1))
    close(evaluate(topi.nn.dense, a, b[0], bias), a @ b[0].T + bias)
    with pytest.raises(ValueError, match="contracts 4 with 5"):
        topi.matmul(te.placeholder((3, 4)), te.placeholder((5, 6)))


@given(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3), st.integers(-1, 0), st.integers(0, 99))
@settings(max_examples=20)
def test_softmax(shape: list[int], axis: int, seed: int):
    for dtype in ("float32", "float16"):
        x = noise(seed, *shape, dtype=dtype)
        for name in ("softmax", "log_softmax"):
            got = evaluate(lambda t, n=name: getattr(topi.nn, n)(t, axis), x)
            close(got, reference(f"nn.{name}", SoftmaxAttrs(axis), x))


def test_softmax_of_special_values():
    x = np.array([[np.inf, 1, 2], [np.nan, 1, 2], [-np.inf, 0, 1], [1000, 999, -1000]], "float32")
    for name in ("softmax", "log_softmax"):
        close(evaluate(getattr(topi.nn, name), x), reference(f"nn.{name}", SoftmaxAttrs(-1), x))


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 2]))
    per_axis = st.tuples(*[st.integers(1, 2)] * rank)
    kernel, stride, dilation = draw(per_axis), draw(per_axis), draw(per_axis)
    size = [d * (k - 1) + 1 + draw(st.integers(0, 2)) for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, 1)) for _ in range(2 * rank))
    return {
        "rank": rank, "groups": groups, "kernel": kernel, "stride": stride, "dilation": dilation,
        "size": size, "padding": padding, "batch": draw(st.integers(0, 2)), "seed": draw(st.integers(0, 99)),
    }  # fmt: skip


@given(
    convolutions(), st.sampled_from(["float32", "int32", "float16"]), st.booleans(), st.sampled_from(["int32", "int64"])
)
@settings(max_examples=40)
def test_conv(case: dict[str, Any], dtype: str, channels_last: bool, index: str):
    rank, groups, kernel = case["rank"], case["groups"], case["kernel"]
    axes = SPATIAL[rank]
    layout, kernel_layout = ("N" + axes + "C", axes + "IO") if channels_last else ("NC" + axes, "OI" + axes)
    x = noise(case["seed"], case["batch"], 2 * groups, *case["size"]) * 3
    w = noise(case["seed"] + 1, 3 * groups, 2, *kernel) * 3
    x, w = (
        t.astype(to_numpy(dtype)) for t in (arrange(x, "NC" + axes, layout), arrange(w, "OI" + axes, kernel_layout))
    )
    options = (case["stride"], case["padding"], case["dilation"], groups, layout, kernel_layout)
    got = evaluate(lambda a, b: getattr(topi.nn, f"conv{rank}d")(a, b, *options), x, w, index=index, text=True)
    close(got, reference(f"nn.conv{rank}d", ConvAttrs(*options, layout, "void"), x, w), 4)


@given(convolutions(), st.integers(0, 1))
@settings(max_examples=30)
def test_conv_transpose(case: dict[str, Any], extra: int):
    rank, groups, kernel = case["rank"], case["groups"], case["kernel"]
    if rank == 3:
        return
    axes = SPATIAL[rank]
    x = noise(case["seed"], case["batch"], 2 * groups, *[n + 1 for n in case["size"]])
    w = noise(case["seed"] + 1, 2 * groups, 3, *kernel)
    added = tuple(min(extra, s - 1) for s in case["stride"])
    options = (case["stride"], case["padding"], added, case["dilation"], groups)
    got = evaluate(lambda a, b: getattr(topi.nn, f"conv{rank}d_transpose")(a, b, *options), x, w, text=True)
    attrs = ConvTransposeAttrs(*options, "NC" + axes, "IO" + axes, "NC" + axes, "void")
    close(got, reference(f"nn.conv{rank}d_transpose", attrs, x, w), 4)


@given(
    convolutions(), st.booleans(), st.booleans(), st.sampled_from(["max", "avg"]), st.sampled_from(["int32", "int64"])
)
@settings(max_examples=60)
def test_pool(case: dict[str, Any], ceil_mode: bool, count_include_pad: bool, kind: str, index: str):
    rank = case["rank"]
    kernel = tuple(k + 1 for k in case["kernel"])
    size = [d * k + 1 + n % 3 for d, k, n in zip(case["dilation"], case["kernel"], case["size"], strict=True)]
    x = noise(case["seed"], case["batch"], 2, *size)
    x.flat[: min(1, x.size)] = np.nan
    layout = "NC" + SPATIAL[rank]
    got = evaluate(
        lambda t: getattr(topi.nn, f"pool{rank}d")(
            t, kernel, case["stride"], case["dilation"], case["padding"], kind, ceil_mode, layout, count_include_pad
        ),
        x, index=index, text=True,
    )  # fmt: skip
    attrs = PoolAttrs(
        kernel, case["stride"], case["padding"], case["dilation"], ceil_mode, count_include_pad, layout, layout
    )
    close(got, reference(f"nn.{kind}_pool{rank}d", attrs, x))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=2), st.integers(1, 4), st.sampled_from(["max", "avg"]))
@settings(max_examples=40)
def test_adaptive_pool(size: list[int], count: int, kind: str):
    rank = len(size)
    x, layout = noise(3, 2, 2, *size), "NC" + SPATIAL[rank]
    got = evaluate(lambda t: topi.nn.adaptive_pool(t, count, kind, layout), x, text=True)
    attrs = AdaptivePoolAttrs((count,) * rank, layout, layout)
    close(got, reference(f"nn.adaptive_{kind}_pool{rank}d", attrs, x))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_normalisations(dtype: str):
    x, gamma, beta = noise(0, 2, 4, 3, 5, dtype=dtype), noise(1, 3, 5, dtype=dtype), noise(2, 3, 5, dtype=dtype)
    got = evaluate(lambda t, g, b: topi.nn.layer_norm(t, g, b, (-2, -1)), x, gamma, beta, text=True)
    close(got, reference("nn.layer_norm", LayerNormAttrs((-2, -1), 1e-5, True, True), x, gamma, beta), 4)
    gamma, beta, mean = (noise(i, 4, dtype=dtype) for i in (1, 2, 3))
    variance = np.abs(noise(4, 4, dtype=dtype)) + np.asarray(0.5, x.dtype)
    got = evaluate(lambda t, g, b: topi.nn.group_norm(t, g, b, 2, 1, (2, 3)), x, gamma, beta, text=True)
    close(got, reference("nn.group_norm", GroupNormAttrs(2, 1, (2, 3), 1e-5, True, True), x, gamma, beta), 4)
    got = evaluate(topi.nn.batch_norm_inference, x, gamma, beta, mean, variance)
    attrs = BatchNormAttrs(1, 1e-5, True, True, 0.1, False)
    close(got, reference("nn.batch_norm", attrs, x, gamma, beta, mean, variance)[0], 4)


def test_pad():
    x = noise(0, 2, 3)
    close(evaluate(lambda t: topi.nn.pad(t, (1, 0), (0, 2), 7.0), x), np.pad(x, ((1, 0), (0, 2)), constant_values=7))
    close(evaluate(lambda t: topi.nn.pad(t, (-1, 1), (0, -2)), x), np.pad(x[1:], ((0, 0), (1, 0)))[:, :2])


def test_pad_up_to_a_multiple_of_a_size_that_is_not_known():
    n = tir.Var("n", "int64")
    t = te.placeholder((n, 2), "float32", "t")
    func = te.create_prim_func([t, topi.nn.pad(t, (0, 0), ((n + 3) // 4 * 4 - n, 0))])
    for size in (0, 3, 4, 6):
        x = np.arange(2.0 * size, dtype="float32").reshape(size, 2)
        out = np.full((-(-size // 4) * 4, 2), np.nan, "float32")
        run(func, x, out)
        np.testing.assert_array_equal(out, np.pad(x, ((0, -size % 4), (0, 0))))


def test_golden_conv2d(golden):
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((6, 2, 3, 3), name="w")
    golden(te.create_prim_func([x, w, topi.nn.conv2d(x, w, 2, 1, 1, 2)]).script(), "groups")
    x, w = te.placeholder((1, 8, 8, 3), name="x"), te.placeholder((3, 3, 3, 4), name="w")
    made = topi.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO")
    golden(te.create_prim_func([x, w, topi.nn.relu(made)]).script(), "nhwc_relu")


def test_golden_softmax_and_add(golden):
    n = te.var("n", "int64")
    x, b = te.placeholder((n, 16), name="x"), te.placeholder((16,), name="b")
    golden(te.create_prim_func([x, topi.nn.softmax(x)]).script(), "softmax")
    golden(te.create_prim_func([x, b, topi.add(x, b)]).script(), "add")
