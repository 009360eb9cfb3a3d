"""ConvertConv2DToWinograd: what is converted, what is not, and how exact it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eutectic
from eutectic import relax
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.winograd import winograd_offers as llvm_offers
from eutectic.backend.outline import outlined_for
from eutectic.backend.registry import available, backend
from eutectic.driver.pipeline import pipeline
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import Var, const, op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call
from eutectic.relax.op import nn
from eutectic.relax.transform import ConvertConv2DToWinograd, ConvertWinogradToConv2D, LegalizeOps
from eutectic.relax.transform.winograd import choice, convert
from eutectic.relax.transform.winograd.accuracy import is_accurate
from eutectic.relax.transform.winograd.choice import WINOGRAD_OFFERS, ConvolutionSizes, WinogradOffer
from eutectic.support.errors import CallError, EutecticAdvice, SpecialValues
from eutectic.target import Target
from eutectic.testing.graphs import assert_same_results, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol
from eutectic.topi.nn.winograd_transforms import packed_weights, transformed_weights


@pytest.fixture(autouse=True)
def _offers(monkeypatch: pytest.MonkeyPatch):
    """Whatever the sizes are, both tiles are offered, the larger one first."""

    def offers(sizes: ConvolutionSizes, target: Target) -> Sequence[WinogradOffer]:
        return [WinogradOffer(tile, 2, 4, 1.0, 2.0) for tile in (4, 2)]

    monkeypatch.setitem(choice.WINOGRAD_OFFERS._providers, "llvm", offers)


def convolution(weight: Any = None, x: tuple[Any, ...] = (1, 4, 9, 10), **options: Any) -> IRModule:
    constant = const(weight) if weight is not None else weights(8, 4, 3, 3)
    return graph({"x": x}, lambda bb, x: nn.conv2d(x, constant, **{"padding": 1, **options}))


def accurate(weight: Any, tile: int) -> bool:
    return is_accurate(weight, transformed_weights(weight, tile).astype("float32"))


def calls(mod: IRModule) -> list[Any]:
    return [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]


def converted(mod: IRModule) -> IRModule:
    after = ConvertConv2DToWinograd("llvm")(mod)
    assert problems_of(after) == []
    return after


def test_a_convolution_is_converted():
    mod = convolution(padding=(1, 0, 2, 1))
    after = converted(mod)
    (call,) = calls(after)
    assert call.op.name == "relax.nn.conv2d_winograd"
    assert call.args[1].data.shape == (6, 6, 2, 2, 2, 4)
    assert call.attrs["padding"] == (1, 0, 2, 1)
    assert_same_results(mod, after, exact=False)
    assert ConvertConv2DToWinograd("llvm")(after) is after


@pytest.mark.parametrize(
    "body",
    [
        lambda x: nn.conv2d(x, weights(8, 4, 3, 3), strides=2),
        lambda x: nn.conv2d(x, weights(8, 2, 3, 3), groups=2),
        lambda x: nn.conv2d(x, weights(8, 4, 1, 1)),
        lambda x: nn.conv2d(x, weights(8, 4, 3, 5)),
        lambda x: nn.conv2d(x, weights(3, 3, 4, 8), kernel_layout="HWIO"),
        lambda x: nn.conv2d(x, weights(8, 4, 3, 3), out_dtype="float64"),
        lambda x: nn.conv2d_transpose(x, weights(4, 8, 3, 3)),
        lambda x: nn.conv2d(x, const(np.full((8, 4, 3, 3), np.inf, "float32"))),
    ],
)
def test_others_stay(body: Callable[[Var], Any]):
    mod = graph({"x": (1, 4, 9, 10)}, lambda bb, x: body(x))
    assert ConvertConv2DToWinograd("llvm")(mod) is mod


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_volumes_are_converted(window: int, batch: int):
    """Slices are transformed as images; windows of several are more terms of the products."""
    weight = weights(8, 4, window, 3, 3)
    mod = graph({"x": (batch, 4, 5, 9, 10)}, lambda bb, x: nn.conv3d(x, weight, padding=(1, 1, 1, 0, 2, 1)))
    after = converted(mod)
    (call,) = calls(after)
    assert call.op.name == "relax.nn.conv3d_winograd"
    assert call.args[1].data.shape == (6, 6, 2, window, 2, 2, 4)
    assert call.attrs["padding"] == (1, 1, 1, 0, 2, 1)
    assert_same_results(mod, after, exact=False)
    compiled, direct = eutectic.compile(after, target="llvm"), eutectic.compile(mod, target="llvm", precision="strict")
    x = np.random.default_rng(0).standard_normal((batch, 4, 5, 9, 10)).astype(np.float32)
    np.testing.assert_allclose(compiled(x), direct(x), rtol=1e-4, atol=1e-5)
    back = ConvertWinogradToConv2D()(after)
    assert [call.op.name for call in calls(back)] == ["relax.nn.conv3d"]
    np.testing.assert_allclose(calls(back)[0].args[1].data, weight.data, rtol=0, atol=4e-7 * np.abs(weight.data).max())


@pytest.mark.parametrize("vary", ["n", "d", "hw", "ndhw"])
def test_volumes_of_any_size(vary: str):
    n, *space = (
        SizeSymbol(name, "int64") if name in vary else size for name, size in zip("ndhw", (1, 4, 9, 10), strict=True)
    )
    mod = graph({"x": (n, 4, *space)}, lambda bb, x: nn.conv3d(x, weights(8, 4, 3, 3, 3), padding=1))
    after = converted(mod)
    assert [call.op.name for call in calls(after)] == ["relax.nn.conv3d_winograd"]
    compiled, direct = eutectic.compile(after, target="llvm"), eutectic.compile(mod, target="llvm", precision="strict")
    for size in (1, 3, 5, 18):
        shape = [size if name in vary else known for name, known in zip("ndhw", (1, 4, 9, 10), strict=True)]
        x = np.random.default_rng(size).standard_normal((shape[0], 4, *shape[1:])).astype(np.float32)
        np.testing.assert_allclose(compiled(x), direct(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"strides": (2, 1, 1)}, {"dilation": (2, 1, 1)}, {"dilation": (1, 2, 2)}])
def test_volumes_with_steps_or_points_between_taps_stay(options: dict[str, Any]):
    mod = graph({"x": (1, 4, 9, 9, 10)}, lambda bb, x: nn.conv3d(x, weights(8, 4, 3, 3, 3), **options))
    assert ConvertConv2DToWinograd("llvm")(mod) is mod


def test_estimates_of_volumes():
    """Slices of the window are more products, but nothing more is transformed."""
    machine = machine_of(Target("llvm -mcpu=x86-64-v4"))
    image, volume, deep = (
        ConvolutionSizes(1, 64, 64, 56, 56, slices=slices, window=window) for slices, window in ((1, 1), (8, 1), (8, 3))
    )
    (one,), (eight,), (windows,) = (
        [offer for offer in llvm_offers(sizes, machine) if offer.tile == 4] for sizes in (image, volume, deep)
    )
    assert 7 * one.cost < eight.cost < 8 * one.cost  # weights are read once
    assert eight.cost < windows.cost < 3 * eight.cost
    assert volume.workload(Target("llvm")) == "conv2d 1x64x8x56x56 to 64, 1x3x3"
    assert deep.workload(Target("llvm")) == "conv2d 1x64x8x56x56 to 64, 3x3x3"


@pytest.mark.parametrize(("dilation", "padding"), [(2, 2), (4, 4), ((1, 2), (1, 0)), ((3, 2), (3, 1, 0, 2)), (12, 12)])
@pytest.mark.parametrize("images", [1, 3])
def test_points_between_taps_are_images_of_their_own(dilation: Any, padding: Any, images: int):
    mod = convolution(x=(images, 4, 13, 18), dilation=dilation, padding=padding)
    after = converted(mod)
    split, call, joined = calls(after)
    names = ["relax.nn.space_to_batch", "relax.nn.conv2d_winograd", "relax.nn.batch_to_space"]
    assert [each.op.name for each in (split, call, joined)] == names
    sides = (dilation, dilation) if isinstance(dilation, int) else dilation
    assert split.attrs["block_shape"] == joined.attrs["block_shape"] == sides
    assert call.attrs["padding"] == (0, 0, 0, 0)
    assert all(int(size) % 4 == 0 for size in call.struct_info.dims[2:]), "whole tiles, so that nothing is padded twice"
    assert_same_results(mod, after, exact=False)
    compiled, direct = eutectic.compile(after, target="llvm"), eutectic.compile(mod, target="llvm", precision="strict")
    x = np.random.default_rng(0).standard_normal((images, 4, 13, 18)).astype(np.float32)
    np.testing.assert_allclose(compiled(x), direct(x), rtol=1e-4, atol=1e-5)


def test_points_between_taps_of_images_of_any_number():
    mod = convolution(x=(SizeSymbol("n", "int64"), 4, 9, 10), dilation=2, padding=2)
    after = converted(mod)
    compiled, direct = eutectic.compile(after, target="llvm"), eutectic.compile(mod, target="llvm", precision="strict")
    for images in (1, 5):
        x = np.random.default_rng(images).standard_normal((images, 4, 9, 10)).astype(np.float32)
        np.testing.assert_allclose(compiled(x), direct(x), rtol=1e-4, atol=1e-5)


def test_points_between_taps_of_images_of_any_size_stay():
    mod = convolution(x=(1, 4, SizeSymbol("h", "int64"), 10), dilation=2, padding=2)
    assert ConvertConv2DToWinograd("llvm")(mod) is mod


def test_not_finite_between_taps():
    """Of which other code makes what direct sums are."""
    mod = convolution(dilation=2, padding=2)
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 10)).astype(np.float32)
    x[0, 1, 4, 4] = np.inf
    with pytest.warns(EutecticAdvice):
        got = eutectic.compile(converted(mod), target="llvm")(x)
    np.testing.assert_allclose(got, eutectic.compile(mod, target="llvm", precision="strict")(x), rtol=1e-4, atol=1e-5)


def test_estimates_of_taps_apart():
    """Points between taps are as many products as without gaps, and cost what it takes to bring them together."""
    machine = machine_of(Target("llvm -mcpu=x86-64-v4"))
    plain, apart = (ConvolutionSizes(1, 64, 64, 32, 32, False, gaps) for gaps in ((1, 1), (2, 2)))
    pairs = list(zip(llvm_offers(plain, machine), llvm_offers(apart, machine), strict=True))
    assert all(a.cost > b.cost and a.direct < b.direct for b, a in pairs)
    assert plain.workload(Target("llvm")) == "conv2d 1x64x32x32 to 64, 3x3"
    assert apart.workload(Target("llvm")) == "conv2d 1x64x32x32 to 64, 3x3 2x2 apart"
    far = ConvolutionSizes(1, 64, 64, 28, 28, False, (12, 12))  # half of the taps see nothing but padding
    assert not any(offer.worthwhile for offer in llvm_offers(far, machine))


@pytest.mark.parametrize("vary", ["n", "h", "w", "nhw"])
def test_how_many_images_there_are_and_how_large_need_not_be_known(vary: str):
    names = dict(zip("nhw", (1, 9, 10), strict=True))
    n, height, width = (SizeSymbol(name, "int64") if name in vary else size for name, size in names.items())
    mod = convolution(x=(n, 4, height, width))
    after = converted(mod)
    assert [call.op.name for call in calls(after)] == ["relax.nn.conv2d_winograd"]
    compiled, direct = (eutectic.compile(each, target="llvm") for each in (after, mod))
    for size in (3, 5, 6, 7, 18, 29):
        shape = [size if name in vary else known for name, known in names.items()]
        x = np.random.default_rng(size).standard_normal((shape[0], 4, *shape[1:])).astype(np.float32)
        np.testing.assert_allclose(compiled(x), direct(x), rtol=1e-4, atol=1e-5)


def test_weights_and_channels_that_are_not_known_stay():
    as_input = graph({"x": (1, 4, 9, 10), "w": (8, 4, 3, 3)}, lambda bb, x, w: nn.conv2d(x, w))
    varying = convolution(weights(8, 32, 3, 3).data, x=(1, SizeSymbol("c", "int64"), 9, 10))
    for mod in (as_input, varying):
        assert ConvertConv2DToWinograd("llvm")(mod) is mod


@pytest.mark.parametrize("scale", [1e-43, 1e38])
def test_weights_with_which_it_would_lose_too_much_stay(scale: float):
    """Transformed weights that are denormal lose digits, sums of large ones overflow."""
    weight = np.random.default_rng(0).standard_normal((8, 4, 3, 3))
    assert accurate(weight.astype("float32"), 4)
    with np.errstate(all="ignore"):
        assert not accurate((weight * scale).astype("float32"), 4)
        mod = convolution((weight * scale).astype("float32"))
        assert ConvertConv2DToWinograd("llvm")(mod) is mod


def test_one_channel_that_loses_too_much_decides():
    weight = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype("float32")
    weight[3] *= np.float32(1e-43)
    assert not accurate(weight, 4)


def test_smaller_tiles_are_tried_when_large_ones_lose_too_much(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(convert, "is_accurate", lambda weight, factors: len(factors) == 4)
    (call,) = calls(converted(convolution()))
    assert call.args[1].data.shape == (4, 4, 2, 2, 2, 4)


@pytest.mark.parametrize("tile", [2, 4])
def test_what_is_accurate_is_within_the_bound(tile: int):
    rng = np.random.default_rng(tile)
    weight = (rng.standard_normal((16, 32, 3, 3)) * 0.1).astype("float32")
    assert accurate(weight, tile)
    mod = graph({"x": (1, 32, 12, 12)}, lambda bb, x: nn.conv2d(x, const(weight), padding=1))
    after = converted(mod)
    x = np.maximum(rng.standard_normal((1, 32, 12, 12)), 0).astype("float32")
    wide = const(weight.astype("float64"), "float64")
    direct = graph({"x": ((1, 32, 12, 12), "float64")}, lambda bb, x: nn.conv2d(x, wide, padding=1))
    exact = evaluate(direct, x.astype("float64"))
    compiled = eutectic.compile(after, target="llvm", threads=1)(x)
    assert np.linalg.norm(compiled - exact) < 3e-6 * np.linalg.norm(exact)


def test_strict_does_without():
    names = [[step.info.name for step in pipeline("llvm", precision)] for precision in ("default", "strict")]
    assert [("ConvertConv2DToWinograd" in listed) for listed in names] == [True, False]


def test_what_follows_is_left_to_our_kernels():
    """A library would take `add` and `relu` for themselves, and read and write the image once more."""

    def body(bb: Any, x: Var) -> Any:
        convolved = bb.emit(nn.conv2d(x, weights(8, 4, 3, 3), padding=1))
        biased = bb.emit(op.add(convolved, weights(1, 8, 1, 1)))
        return bb.emit(op.nn.max_pool2d(bb.emit(nn.relu(biased)), (2, 2)))

    mod = converted(graph({"x": (1, 4, 9, 10)}, body))
    after = outlined_for(mod, backend("dnnl"))
    assert [call.op.name for call in calls(after) if hasattr(call.op, "name")] == [
        "relax.nn.conv2d_winograd",
        "relax.add",
        "relax.nn.relu",
    ]


def test_offers_of_processors():
    machine = machine_of(Target("llvm -mcpu=x86-64-v3"))
    assert [offer.tile for offer in llvm_offers(ConvolutionSizes(1, 64, 64, 56, 56), machine)][:1] == [4]
    assert list(llvm_offers(ConvolutionSizes(1, 3, 64, 56, 56), machine)) == []
    assert not any(offer.worthwhile for offer in llvm_offers(ConvolutionSizes(1, 64, 64, 4, 4), machine))
    assert WINOGRAD_OFFERS.ask(ConvolutionSizes(1, 4, 8, 9, 9), Target("cuda")) == ()


@pytest.mark.parametrize("options", [{}, {"data_layout": "NHWC"}, {"padding": (1, 0, 2, 1)}])
def test_the_way_back(options: dict[str, Any]):
    shape = (1, 9, 10, 4) if options else (1, 4, 9, 10)
    shape = (1, 4, 9, 10) if "padding" in options else shape
    weight = np.random.default_rng(5).standard_normal((8, 4, 3, 3)).astype("float32")
    packed = const(packed_weights(weight, 4, 2, 4))
    mod = graph({"x": shape}, lambda bb, x: nn.conv2d_winograd(x, packed, **{"padding": 1, **options}))
    back = ConvertWinogradToConv2D()(mod)
    (call,) = calls(back)
    assert call.op.name == "relax.nn.conv2d"
    np.testing.assert_allclose(call.args[1].data, weight, rtol=0, atol=4e-7 * np.abs(weight).max())
    assert_same_results(mod, back, exact=False)
    assert ConvertWinogradToConv2D()(back) is back


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_programs_leave_special_values_to_other_code(value: float):
    """The reference of the operator, its tensor program in the interpreter, and compiled code without other code."""
    mod = converted(convolution())
    x = np.ones((1, 4, 9, 10), "float32")
    x[0, 2, 4, 5] = value
    with np.errstate(all="ignore"):
        with pytest.raises(SpecialValues, match="Winograd's method"):
            evaluate(mod, x)
        with pytest.raises(SpecialValues, match="Winograd's method"):
            evaluate(LegalizeOps()(mod), x)
    built = relax.VirtualMachine(relax.build(mod, "llvm"), eutectic.cpu())
    with pytest.raises((CallError, SpecialValues)), pytest.warns(EutecticAdvice, match="Winograd's method"):
        built["main"](x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("target", ["llvm", "llvm -libs=dnnl"])
def test_special_values_stay_where_direct_sums_have_them(target: str, value: float, tmp_path: Path):
    if "dnnl" in target and not available(backend("dnnl"), Target("llvm")).ok:
        pytest.skip("oneDNN is not there")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 1), torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.ReLU6(), torch.nn.MaxPool2d(2)
    ).eval()
    x = torch.randn(1, 3, 20, 22)
    fast = eutectic.compile(model, (x,), target=target, threads=1)
    assert "conv2d_winograd" in fast.script()
    fast.save(tmp_path / "m.eut")
    fast.save(tmp_path / "v.eut", targets=["x86-64-v3"])
    x[0, 1, 7, 9], x[0, 0, 0, 0] = value, -value
    with torch.no_grad():
        want = model(x)
    with pytest.warns(EutecticAdvice, match="run without .*Winograd's method"):
        torch.testing.assert_close(fast(x), want, rtol=1e-4, atol=1e-5, equal_nan=True)
    for name in ("m.eut", "v.eut"):
        with pytest.warns(EutecticAdvice, match="Winograd's method"):
            loaded = torch.as_tensor(eutectic.load(tmp_path / name)(x.numpy()))
        torch.testing.assert_close(loaded, want, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_validation_knows_that_such_calls_are_made_otherwise():
    mod = convolution()
    with PassContext(validate=True):
        assert calls(converted(mod))[0].op.name == "relax.nn.conv2d_winograd"
