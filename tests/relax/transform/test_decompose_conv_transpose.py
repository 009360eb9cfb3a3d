"""DecomposeConvTranspose: the same results by convolutions, for all options; what it leaves alone, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import eutectic
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call
from eutectic.relax.op import nn
from eutectic.relax.transform import DecomposeConvTranspose
from eutectic.relax.transform.conv_transpose.residues import Axis, plan_apart, plan_axis
from eutectic.testing.graphs import arrays, assert_same_results, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol

CONSTRUCTORS = {1: nn.conv1d_transpose, 2: nn.conv2d_transpose, 3: nn.conv3d_transpose}
FUNCTIONS = {
    1: torch.nn.functional.conv_transpose1d,
    2: torch.nn.functional.conv_transpose2d,
    3: torch.nn.functional.conv_transpose3d,
}


def ops(mod: IRModule) -> list[str]:
    calls = [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]
    return [call.op.name.removeprefix("relax.").removeprefix("nn.") for call in calls]


def transposed(weight: Any, x: tuple[Any, ...] = (2, 4, 5, 6), **options: Any) -> IRModule:
    return graph({"x": x}, lambda bb, x: nn.conv2d_transpose(x, weight, **options))


def decomposed(mod: IRModule) -> IRModule:
    after = DecomposeConvTranspose()(mod)
    assert problems_of(after) == []
    assert DecomposeConvTranspose()(after) is after
    return after


@st.composite
def layers(draw: Any) -> tuple[int, dict[str, Any], torch.Tensor, torch.Tensor]:
    """Number of axes, options as torch names them, data and weights in float64."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, stride, dilation, padding, sizes = each(1, 5), each(1, 4), each(1, 3), each(0, 4), each(1, 5)
    extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
    groups = draw(st.sampled_from([1, 1, 2]))
    lengths = zip(sizes, kernel, stride, dilation, padding, extra, strict=True)
    assume(all((n - 1) * s - 2 * p + d * (k - 1) + e + 1 > 0 for n, k, s, d, p, e in lengths))
    seed = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    data = torch.randn(2, 2 * groups, *sizes, generator=seed, dtype=torch.float64)
    weight = torch.randn(2 * groups, draw(st.integers(1, 3)), *kernel, generator=seed, dtype=torch.float64)
    options = {"stride": stride, "padding": padding, "output_padding": extra, "groups": groups, "dilation": dilation}
    return rank, options, data, weight


def as_graph(layer: tuple[int, dict[str, Any], torch.Tensor, torch.Tensor], varying: bool = False) -> IRModule:
    rank, options, data, weight = layer
    renamed = {{"stride": "strides"}.get(name, name): value for name, value in options.items()}
    if not varying:
        fixed = const(weight.numpy(), "float64")
        return graph({"x": (data.shape, "float64")}, lambda bb, x: CONSTRUCTORS[rank](x, fixed, **renamed))
    shapes = {"x": (data.shape, "float64"), "w": (weight.shape, "float64")}
    return graph(shapes, lambda bb, x, w: CONSTRUCTORS[rank](x, w, **renamed))


@given(layers())
@settings(deadline=None)
def test_constant_weights(layer: Any):
    rank, options, data, weight = layer
    want = FUNCTIONS[rank](data, weight, **options).numpy()
    after = decomposed(as_graph(layer))
    assert not any("transpose" in name for name in ops(after))
    np.testing.assert_allclose(evaluate(after, data.numpy()), want, rtol=1e-10, atol=1e-10)


@given(layers())
@settings(deadline=None)
def test_nan_and_infinity_stay_where_they_are_met(layer: Any):
    """Of a value that is not finite exactly those results are NaN or infinite that read it."""
    rank, options, data, weight = layer
    weight = weight.abs() + 0.1
    data.view(-1)[[0, -1]] = torch.tensor([float("inf"), float("nan")], dtype=data.dtype)
    want = FUNCTIONS[rank](data, weight, **options).numpy()
    got = evaluate(decomposed(as_graph((rank, options, data, weight))), data.numpy())
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@given(layers())
@settings(deadline=None)
def test_weights_that_vary(layer: Any):
    """They are cut at run time, unless zeros around the data would meet them."""
    rank, options, data, weight = layer
    want = FUNCTIONS[rank](data, weight, **options).numpy()
    mod = as_graph(layer, varying=True)
    assert DecomposeConvTranspose(varying=False)(mod) is mod
    after = decomposed(mod)
    np.testing.assert_allclose(evaluate(after, data.numpy(), weight.numpy()), want, rtol=1e-10, atol=1e-10)
    stays = any(name.endswith("_transpose") for name in ops(after))
    shortest = zip(options["stride"], weight.shape[2:], options["padding"], options["dilation"], strict=True)
    if all(s >= d * (k - 1) + 1 and p == 0 for s, k, p, d in shortest) and not any(options["output_padding"]):
        assert not stays


@pytest.mark.slow
@given(layers(), st.sampled_from(["llvm", None]))
@settings(deadline=None, max_examples=12)
def test_compiled(layer: Any, target: str | None):
    rank, options, data, weight = layer
    want = FUNCTIONS[rank](data, weight, **options).numpy()
    got = eutectic.compile(as_graph(layer), target=target)(data.numpy())
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@given(layers(), st.booleans())
@settings(deadline=None, max_examples=12)
def test_compiled_with_weights_that_vary(layer: Any, is_finite: bool):
    """What is not finite among the weights reaches the results that it is multiplied for, and no others."""
    rank, options, data, weight = layer
    if not is_finite:
        weight.view(-1)[0] = float("inf")
    want = FUNCTIONS[rank](data.abs() + 1, weight, **options).numpy()
    got = eutectic.compile(as_graph(layer, varying=True), target="llvm")((data.abs() + 1).numpy(), weight.numpy())
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


def test_products_of_varying_weights_have_a_schedule_of_their_own():
    """Conditions are asked of sums over channels; these are vectors."""
    shapes = {"x": (1, 16, 9, 9), "w": (16, 8, 4, 4)}
    mod = graph(shapes, lambda bb, x, w: nn.conv2d_transpose(x, w, strides=2, padding=1))
    (group,) = eutectic.compile(mod, target="llvm").report.plan.groups
    trace = "\n".join(group.trace)
    assert 'get_block(name="columns_local"' in trace
    assert "sch.vectorize" in trace


@given(
    st.builds(Axis, *(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4)), *[st.integers(0, 6)] * 3),
    st.integers(1, 6),
    st.sampled_from([plan_axis, plan_apart]),
)
def test_residues(axis: Axis, size: int, planned: Any):
    """Each product of an element and a tap goes to one point of one window, or is cut off."""
    plan = planned(axis)
    assume(plan is not None)
    length = (size - 1) * axis.stride + axis.dilation * (axis.taps - 1) + 1 + axis.extra - axis.before - axis.after
    assume(length > 0)
    assert min(plan.crops) >= 0
    assert (size + plan.longer) * axis.stride - sum(plan.crops) == length
    if planned is plan_apart:
        assert sum(plan.crops) < axis.stride
    pairs = []
    for residue, window in enumerate(plan.windows):
        assert min(window.padding) >= 0
        for at in range(size + plan.longer if window.taps else 0):
            sources = [at - window.padding[0] + k * window.dilation for k in range(len(window.taps))]
            place = at * axis.stride + residue - plan.crops[0]
            pairs += [(x, t, place) for x, t in zip(sources, window.taps, strict=True) if 0 <= x < size]
    wanted = [(x, t, x * axis.stride + t * axis.dilation - axis.before) for x in range(size) for t in range(axis.taps)]
    inside = range(length)
    assert sorted(p for p in pairs if p[2] in inside) == sorted(p for p in wanted if p[2] in inside)


@pytest.mark.parametrize(
    ("kernel", "options", "names"),
    [
        (3, {"padding": 1}, ["conv2d"]),
        (2, {"strides": 2}, ["conv2d", "depth_to_space"]),
        (4, {"strides": 2, "padding": 1}, ["conv2d", "depth_to_space"]),
        (3, {"strides": 2, "padding": 1, "output_padding": 1}, [*["conv2d"] * 4, "depth_to_space"]),
        (1, {"strides": 2}, ["conv2d", *["zeros"] * 3, "depth_to_space"]),
    ],
)
def test_how_many_convolutions(kernel: int, options: dict[str, Any], names: list[str]):
    mod = transposed(weights(4, 3, kernel, kernel), **options)
    after = decomposed(mod)
    assert ops(after) == names
    assert_same_results(mod, after, exact=False)


@pytest.mark.parametrize(
    ("size", "filters", "points"),
    [(4, 16, [(4, 4)] * 4), (40, 16, [(41, 41)]), (4, 8, [(5, 5)]), (SizeSymbol("h", "int64"), 16, None)],
    ids=["few points", "many points", "few channels", "unknown"],
)
def test_points_that_not_all_need(size: Any, filters: int, points: list[tuple[int, int]] | None):
    """Where they are many of all, each residue has a convolution, which computes what it needs."""
    options = {"strides": 2, "padding": 1, "output_padding": 0}
    mod = transposed(weights(4, filters, 4, 4), x=(1, 4, size, size), **options)
    after = decomposed(mod)
    calls = [value for value in get_var2val(after["main"]).values() if value.op.name == "relax.nn.conv2d"]
    if points is None:
        assert len(calls) == 1
    else:
        assert [call.struct_info.static_shape[2:] for call in calls] == points
        assert_same_results(mod, after, exact=False)


def test_no_more_products_than_the_definition_has():
    """Beside the points that are cut off."""
    after = decomposed(transposed(weights(4, 3, 3, 3), strides=2))
    windows = [value.args[1].data.shape for value in get_var2val(after["main"]).values() if len(value.args) == 2]
    assert sum(int(np.prod(shape)) for shape in windows) == 4 * 3 * 3 * 3


def test_layouts_and_dtypes():
    mod = graph(
        {"x": ((1, 5, 6, 4), "float16")},
        lambda bb, x: nn.conv2d_transpose(
            x, const(weights(3, 3, 8, 4).data.astype("float16"), "float16"), 2, 1, data_layout="NHWC",
            kernel_layout="HWOI", out_layout="NCHW", out_dtype="float32",
        ),
    )  # fmt: skip
    after = decomposed(mod)
    assert "conv2d_transpose" not in ops(after)
    (x,) = arrays(mod["main"])
    np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=1e-3, atol=1e-2)


def test_sizes_of_images_may_vary():
    height = SizeSymbol("h", "int64")
    mod = transposed(weights(4, 3, 3, 3), (1, 4, height, 6), strides=2, padding=1, output_padding=1)
    after = decomposed(mod)
    assert "conv2d_transpose" not in ops(after)
    for size in (1, 2, 7):
        x = np.random.default_rng(size).standard_normal((1, 4, size, 6)).astype("float32")
        np.testing.assert_allclose(evaluate(after, x), evaluate(mod, x), rtol=1e-5, atol=1e-5)
        got = eutectic.compile(mod, target="llvm")(x)
        np.testing.assert_allclose(got, evaluate(mod, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_are_not_finite_stay_where_zeros_would_meet_them(value: float):
    weight = weights(4, 3, 4, 4).data.copy()
    weight[0, 0, 0, 0] = value
    mod = transposed(const(weight), strides=2)
    assert DecomposeConvTranspose()(mod) is mod
    pointwise = transposed(const(weight[:, :, :2, :2].copy()), strides=2)
    after = decomposed(pointwise)
    assert ops(after) == ["conv2d", "depth_to_space"]
    (x,) = arrays(mod["main"])
    np.testing.assert_allclose(evaluate(after, x), evaluate(pointwise, x), rtol=1e-5, atol=1e-5)


def test_regions_of_libraries_keep_theirs():
    mod = transposed(weights(4, 3, 2, 2), strides=2)
    gv, function = next(iter(mod.functions_items()))
    region = IRModule({gv: function.with_attr("Codegen", "dnnl")})
    assert DecomposeConvTranspose()(region) is region


def test_it_is_validated():
    mod = transposed(weights(4, 3, 4, 4), strides=2, padding=1)
    with PassContext(validate=True, verify=True):
        assert ops(DecomposeConvTranspose()(mod)) == ["conv2d", "depth_to_space"]


@pytest.mark.parametrize("target", ["llvm", None])
def test_a_layer_of_many_channels_with_a_bias_and_an_activation(target: str | None):
    """More than 256 channels, whose partial sums oneDNN would activate one by one."""
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.ConvTranspose2d(288, 32, 4, 2, 1), torch.nn.ReLU()).eval()
    x = torch.randn(1, 288, 4, 4)
    model = eutectic.compile(layer, (x,), target=target)
    with torch.no_grad():
        want = layer.double()(x.double())
    torch.testing.assert_close(model(x).double(), want, rtol=1e-4, atol=1e-5)
    operators = [record.op for group in model.report.plan.groups for record in group.operators]
    assert "relax.nn.conv2d_transpose" not in operators


def test_what_follows_is_fused_into_the_rearrangement():
    def body(bb, x):
        y = nn.conv2d_transpose(x, weights(4, 32, 2, 2), strides=2)
        return op.nn.relu(op.add(y, weights(1, 32, 1, 1)))

    model = eutectic.compile(graph({"x": (1, 4, 8, 8)}, body), target="llvm")
    groups = [[record.op.removeprefix("relax.") for record in group.operators] for group in model.report.plan.groups]
    assert groups[-1][:3] == ["nn.depth_to_space", "add", "nn.relu"]


def test_blocks_of_channels_are_kept():
    """Beside convolutions in blocks of channels no copy is needed in between."""

    def body(bb, x):
        y = nn.relu(nn.conv2d(x, weights(64, 64, 1, 1)))
        y = nn.relu(nn.conv2d_transpose(y, weights(64, 64, 2, 2), strides=2))
        return op.mean(nn.conv2d(y, weights(64, 64, 1, 1)), [2, 3])

    model = eutectic.compile(graph({"x": (1, 64, 14, 14)}, body), target="llvm")
    groups = [[record.op for record in group.operators] for group in model.report.plan.groups]
    (moving,) = [group for group in groups if "relax.nn.depth_to_space" in group]
    assert "relax.layout_transform" not in moving
