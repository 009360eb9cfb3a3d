"""What oneDNN takes over, end to end: composites made, results the same, refusals with their reasons."""

from __future__ import annotations

import numpy as np
import pytest

import eutectic
from eutectic.backend.dnnl.activations import ACTIVATIONS
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.spec import SPECIALS_KEPT
from eutectic.ir.module import IRModule
from eutectic.relax import const, op
from eutectic.testing.graphs import arrays, assert_close, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol

DNNL = "llvm -libs=dnnl"  # whatever the size of the model
pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")

ACTIVATE = {
    "relu": op.nn.relu,
    "clip": lambda x: op.clip(x, 0, 6),
    "leakyrelu": lambda x: op.nn.leakyrelu(x, 0.2),
    "sigmoid": op.sigmoid,
    "tanh": op.tanh,
    "silu": op.nn.silu,
    "gelu": op.nn.gelu,
    "gelutanh": op.nn.gelu_tanh,
    "hardswish": op.nn.hardswish,
    "mish": op.nn.mish,
    "hardsigmoid": op.nn.hardsigmoid,
    "elu": lambda x: op.nn.elu(x, 0.7),
}


def compiled(mod: IRModule, *args, precision: str = "default", tolerance: float = 1e-5):
    """Compile, compare with the interpreter, and return the report."""
    model = eutectic.compile(mod, precision=precision, target=DNNL, verify=True)
    given = args or arrays(mod["main"])
    want, got = evaluate(mod, *given), model(*given)
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for expected, actual in pairs:
        assert_close(actual, expected, tolerance)
    return model.report


def taken(mod: IRModule, **options) -> list[str]:
    """Names of the composites made."""
    return [c.name for c in compiled(mod, **options).composites if c.name.startswith("dnnl.")]


def reasons(mod: IRModule, **options) -> dict[str, str]:
    """Why operators were left alone, by operator."""
    return {u.op: u.reason for u in compiled(mod, **options).unfused}


def test_every_activation_has_a_case():
    assert set(ACTIVATE) == set(ACTIVATIONS)


CONVOLUTIONS = {
    "conv1d": ((2, 4, 11), (8, 4, 3)),
    "conv2d": ((2, 4, 7, 9), (8, 4, 3, 3)),
    "conv3d": ((1, 4, 5, 6, 4), (8, 4, 3, 3, 2)),
    "conv1d_transpose": ((2, 4, 6), (4, 8, 3)),
    "conv2d_transpose": ((1, 4, 5, 6), (4, 8, 3, 3)),
    "conv3d_transpose": ((1, 4, 3, 4, 3), (4, 8, 2, 3, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("reshape", [False, True], ids=["bias", "reshaped_bias"])
def test_convolution_bias_and_relu_are_one_primitive(name: str, reshape: bool):
    data, weight = CONVOLUTIONS[name]
    channel = (1, 8, *[1] * (len(data) - 2))

    def body(bb, x):
        bias = op.reshape(weights(8), channel) if reshape else const(weights(8).data.reshape(channel))
        return op.nn.relu(op.add(getattr(op.nn, name)(x, weights(*weight)), bias))

    plain = name.removesuffix("_transpose")  # of constant weights
    assert taken(graph({"x": data}, body)) == [f"dnnl.{plain}_bias_relu"]


def transposed(strides: int, channels: int = 4) -> IRModule:
    """A transposed convolution whose weights are an argument, with a bias and an activation behind it."""

    def body(bb, x, w):
        bias = const(weights(8).data.reshape(1, 8, 1, 1))
        return op.nn.relu(op.add(op.nn.conv2d_transpose(x, w, strides=strides, padding=1), bias))

    return graph({"x": (1, channels, 5, 6), "w": (channels, 8, 4, 4)}, body)


def test_what_follows_a_transposed_convolution():
    """With strides it is left out: with more than 256 channels oneDNN would repeat it for parts of the sums."""
    assert taken(transposed(1)) == ["dnnl.conv2d_transpose_bias_relu"]
    for channels in (4, 512):
        assert taken(transposed(2, channels), tolerance=1e-4) == ["dnnl.conv2d_transpose", "dnnl.add_relu"]


@pytest.mark.parametrize("activation", ACTIVATE)
@pytest.mark.parametrize("root", ["conv2d", "matmul"])
def test_bias_residual_and_activation(root: str, activation: str):
    def body(bb, x):
        if root == "conv2d":
            out = op.add(op.nn.conv2d(x, weights(6, 6, 3, 3), padding=1), const(weights(6).data.reshape(1, 6, 1, 1)))
        else:
            out = op.add(op.matmul(x, weights(6, 6)), weights(6))
        return ACTIVATE[activation](op.add(out, x))

    shape = (1, 6, 5, 5) if root == "conv2d" else (7, 6)
    assert taken(graph({"x": shape}, body), tolerance=2e-5) == [f"dnnl.{root}_bias_add_{activation}"]


@pytest.mark.parametrize("activation", ACTIVATE)
def test_activations_alone_and_after_an_add(activation: str):
    mod = graph({"x": (2, 3, 4), "y": (2, 3, 4)}, lambda bb, x, y: ACTIVATE[activation](op.add(x, y)))
    assert taken(mod, tolerance=2e-5) == [f"dnnl.add_{activation}"]
    assert taken(graph({"x": (2, 3, 4)}, lambda bb, x: ACTIVATE[activation](x)), tolerance=2e-5) == [
        f"dnnl.{activation}"
    ]


@pytest.mark.parametrize(
    ("left", "right", "is_taken"),
    [
        *(((1, 6, 3, 5, 5), right, True) for right in [(1, 6, 3, 5, 5), (5,), (3, 5, 5), (6, 1, 1, 1), (1,)]),
        *(((4, 6, 8), right, True) for right in [(4, 6, 1), (4, 1, 8), (1, 6, 1), (4, 1, 1)]),
        *(((4, 6, 8, 3), right, False) for right in [(4, 6, 8, 1), (1, 6, 1, 3), (4, 6, 1, 3)]),
        ((1, 6, 3, 5, 5), (1, 6, 1, 5, 5), False),
        ((4, 1, 8), (1, 6, 8), False),
    ],
)
def test_operands_for_which_there_is_reference_code_only(left: tuple[int, ...], right: tuple[int, ...], is_taken: bool):
    """Some hundred times slower than a kernel of ours: masks of attention within windows, for one."""
    mod = graph({"x": left, "y": right}, lambda bb, x, y: op.add(x, y))
    assert taken(mod) == (["dnnl.add"] if is_taken else [])


@pytest.mark.parametrize("bounds", [(0, 6), (-1.5, 2.5), (-3, float("inf")), (float("-inf"), 0.5)])
def test_clip_with_any_bounds(bounds):
    mod = graph({"x": (2, 4, 3, 3)}, lambda bb, x: op.clip(op.nn.conv2d(x, weights(4, 4, 1, 1)), *bounds))
    assert taken(mod) == ["dnnl.conv2d_clip"]


@pytest.mark.parametrize(
    "options",
    [
        {"strides": (2, 1), "padding": (1, 0, 2, 1)},
        {"dilation": 2, "padding": 2},
        {"groups": 4},
        {"groups": 2, "strides": 2},
    ],
    ids=str,
)
def test_convolution_options(options):
    groups = options.get("groups", 1)
    mod = graph({"x": (2, 4, 9, 8)}, lambda bb, x: op.nn.conv2d(x, weights(8, 4 // groups, 3, 3), **options))
    assert taken(mod) == ["dnnl.conv2d"]


def test_weights_may_be_computed():
    mod = graph({"x": (1, 4, 5, 5), "w": (6, 4, 3, 3)}, lambda bb, x, w: op.nn.relu(op.nn.conv2d(x, w)))
    assert taken(mod) == ["dnnl.conv2d_relu"]


@pytest.mark.parametrize(
    ("x", "w"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 6, 4, 5))]
)
def test_matmul_of_any_rank(x, w):
    assert taken(graph({"x": x}, lambda bb, a: op.matmul(a, weights(*w)))) == ["dnnl.matmul"]


def test_a_bias_may_stand_on_either_side_of_the_add():
    mod = graph({"x": (3, 4)}, lambda bb, x: op.nn.relu(op.add(weights(5), op.matmul(x, weights(4, 5)))))
    assert taken(mod) == ["dnnl.matmul_bias_relu"]


@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
@pytest.mark.parametrize(
    "options",
    [
        {"pool_size": 2, "strides": 2},
        {"pool_size": 3, "strides": 2, "padding": 1},
        {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True},
        {"pool_size": 3, "strides": 1, "padding": (1, 0, 0, 1)},
    ],
    ids=str,
)
def test_pooling(kind: str, options):
    mod = graph({"x": (2, 3, 8, 7)}, lambda bb, x: getattr(op.nn, f"{kind}2d")(x, **options))
    assert taken(mod) == [f"dnnl.{kind}2d"]


def test_pooling_that_oneDNN_means_otherwise_is_left_alone():
    def body(bb, x):
        return op.nn.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=True)

    assert "count fewer padded elements" in reasons(graph({"x": (1, 2, 6, 6)}, body))["relax.nn.avg_pool2d"]
    mod = graph({"x": (1, 2, 6, 6)}, lambda bb, x: op.nn.adaptive_avg_pool2d(x, (4, 4)))
    assert "windows of different sizes" in reasons(mod)["relax.nn.adaptive_avg_pool2d"]


def test_global_pooling():
    assert taken(graph({"x": (2, 3, 5, 6)}, lambda bb, x: op.nn.adaptive_avg_pool2d(x, 1))) == [
        "dnnl.adaptive_avg_pool2d"
    ]
    assert taken(graph({"x": (2, 3, 5, 6)}, lambda bb, x: op.mean(x, [2, 3], keepdims=True))) == ["dnnl.mean"]
    assert "drops its axes" in reasons(graph({"x": (2, 3, 5, 6)}, lambda bb, x: op.mean(x, [2, 3])))["relax.mean"]


# ---- what is not a bias


def conv_plus(shape, batch: int = 1):
    """A 1x1 convolution of 4 channels on 4x4 pixels, plus a constant of some shape."""
    return graph(
        {"x": (batch, 4, 4, 4)}, lambda bb, x: op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), weights(*shape)))
    )


@pytest.mark.parametrize("shape", [(1, 1, 4, 1), (1, 1, 1, 4), (4,), (4, 4, 4), (1, 1, 1, 1), (4, 1, 1, 1)])
def test_equal_sizes_on_another_axis_are_not_a_bias(shape):
    assert "dnnl.conv2d_bias_relu" not in taken(conv_plus(shape, batch=4))


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1)])
def test_one_value_per_channel_is_a_bias(shape):
    assert taken(conv_plus(shape, batch=4)) == ["dnnl.conv2d_bias_relu"]


def test_a_run_time_vector_is_added_as_it_is():
    mod = graph(
        {"x": (2, 4, 4, 4), "b": (1, 4, 1, 1)},
        lambda bb, x, b: op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), b)),
    )
    compiled(mod)
    model = eutectic.compile(mod, target=DNNL)
    x = np.ones((2, 4, 4, 4), "float32")
    first, second = (model(x, np.full((1, 4, 1, 1), v, "float32")) for v in (0.0, 1.0))
    assert not np.array_equal(first, second)


def test_a_convolution_added_to_itself():
    def body(bb, x):
        conv = bb.emit(op.nn.conv2d(x, weights(4, 4, 1, 1)))
        return op.add(conv, conv)

    compiled(graph({"x": (1, 4, 3, 3)}, body))


def test_two_convolutions_added():
    def body(bb, x):
        return op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), op.nn.conv2d(x, weights(4, 4, 1, 1, seed=1))))

    assert sorted(taken(graph({"x": (1, 4, 3, 3)}, body))) == ["dnnl.conv2d", "dnnl.conv2d_add_relu"]


def test_a_residual_read_again_later_is_not_overwritten():
    def body(bb, x):
        h = bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 4, 1, 1))))
        a = bb.emit(op.add(op.nn.conv2d(h, weights(4, 4, 1, 1, seed=1)), h))
        b = bb.emit(op.add(op.nn.conv2d(a, weights(4, 4, 1, 1, seed=2)), h))
        return [a, b, op.multiply(h, b)]

    compiled(graph({"x": (1, 4, 6, 6)}, body))


def test_an_intermediate_that_is_also_a_result():
    def body(bb, x):
        conv = bb.emit(op.nn.conv2d(x, weights(4, 4, 1, 1)))
        return [conv, op.nn.relu(conv)]

    assert sorted(taken(graph({"x": (1, 4, 3, 3)}, body))) == ["dnnl.conv2d", "dnnl.relu"]


# ---- limits


def test_other_dtypes_are_left_alone():
    mod = graph(
        {"x": ((1, 4, 3, 3), "float64")}, lambda bb, x: op.nn.conv2d(x, const(weights(4, 4, 1, 1).data, "float64"))
    )
    assert "float16 only, this is" in reasons(mod)["relax.nn.conv2d"]


def test_other_layouts_are_left_alone():
    mod = graph(
        {"x": (1, 3, 3, 4)},
        lambda bb, x: op.nn.conv2d(x, weights(4, 1, 1, 4), data_layout="NHWC", kernel_layout="OHWI"),
    )
    assert "only channels-first" in reasons(mod)["relax.nn.conv2d"]


def test_empty_tensors_are_left_alone():
    mod = graph({"x": (0, 4, 3, 3)}, lambda bb, x: op.nn.conv2d(x, weights(4, 4, 1, 1)))
    assert "no elements" in reasons(mod)["relax.nn.conv2d"]


def test_clip_bounds_out_of_order_are_left_alone():
    mod = graph({"x": (1, 4)}, lambda bb, x: op.clip(x, 2, 1))
    assert "not ordered constants" in reasons(mod)["relax.clip"]


@pytest.mark.parametrize("activation", ACTIVATE)
def test_strict_keeps_special_values(activation: str):
    mod = graph({"x": (1, 8)}, lambda bb, x: ACTIVATE[activation](op.add(x, const(0.0))))
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -7.0, 7.0]], "float32")
    report = compiled(mod, x, precision="strict")
    is_taken = any(c.name.startswith("dnnl.") and activation in c.name for c in report.composites)
    assert is_taken == (ACTIVATIONS[activation].algorithm in SPECIALS_KEPT)


@pytest.mark.parametrize("activation", ACTIVATE)
def test_special_values_come_out_as_in_the_reference_by_default(activation: str):
    mod = graph({"x": (1, 8)}, lambda bb, x: ACTIVATE[activation](op.add(x, const(0.0))))
    model = eutectic.compile(mod, target=DNNL)
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -7.0, 7.0]], "float32")
    if ACTIVATIONS[activation].algorithm in SPECIALS_KEPT or activation == "leakyrelu":
        assert_close(model(x), evaluate(mod, x))
        return
    with pytest.warns(eutectic.EutecticAdvice, match="which drops NaN"):
        got = model(x)
    assert_close(got, evaluate(mod, x))
    np.testing.assert_array_equal(model(x), got)  # and warns only once


def test_constants_that_are_not_finite_are_not_lost():
    bad = const(np.array([1, np.nan, -np.inf, 2], "float32").reshape(1, 4, 1, 1))
    mod = graph({"x": (1, 4, 2, 2)}, lambda bb, x: op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), bad)))
    x = np.ones((1, 4, 2, 2), "float32")
    with pytest.warns(eutectic.EutecticAdvice):
        got = eutectic.compile(mod, target=DNNL)(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(evaluate(mod, x)))


def test_maximum_pooling_keeps_nan():
    mod = graph({"x": (1, 1, 4, 4)}, lambda bb, x: op.nn.max_pool2d(x, 2, 2))
    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    x[0, 0, 1, 2] = np.nan
    with pytest.warns(eutectic.EutecticAdvice):
        np.testing.assert_array_equal(eutectic.compile(mod, target=DNNL)(x), evaluate(mod, x))


@pytest.mark.parametrize(("target", "name"), [(DNNL, "dnnl.conv2d_relu"), ("llvm", "llvm.conv2d_relu")])
def test_symbolic_batch_runs_for_every_size(target: str, name: str):
    n = SizeSymbol("n", "int64")
    mod = graph({"x": (n, 4, 5, 5)}, lambda bb, x: op.nn.relu(op.nn.conv2d(x, weights(6, 4, 3, 3))))
    model = eutectic.compile(mod, target=target, verify=True)
    assert [c.name for c in model.report.composites] == [name]
    for batch in (1, 3, 0, 8, 3, *range(10, 22)):
        x = np.random.default_rng(batch).standard_normal((batch, 4, 5, 5)).astype("float32")
        assert_close(model(x), evaluate(mod, x))


def test_results_of_a_region_do_not_depend_on_names_or_order():
    """Parameters come in order of first use: a bias bound before the convolution comes first."""
    mod = graph(
        {"b": (4,), "w": (4, 4, 1, 1), "x": (1, 4, 3, 3)},
        lambda bb, b, w, x: op.nn.relu(op.add(bb.emit(op.reshape(b, (1, 4, 1, 1))), op.nn.conv2d(x, w))),
    )
    compiled(mod)
