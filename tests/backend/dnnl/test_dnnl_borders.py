"""Regions of oneDNN that are called in layouts of its own: which it asks for, and that the results are the same."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import eutectic
from eutectic.backend.dnnl.border_layout import BorderLayout, border_layout, name_of, text_of
from eutectic.backend.dnnl.borders import offers
from eutectic.backend.dnnl.engine import compile_region
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.spec import Binary, Convolution, Eltwise, PostEltwise, RegionSpec, TensorSpec
from eutectic.backend.outline import outlined_for
from eutectic.backend.registry import backend
from eutectic.driver.pipeline import Pipeline, pipeline
from eutectic.ir.prim_expr import Var
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.op import nn as relax_nn
from eutectic.relax.transform import AssignLayouts
from eutectic.support.errors import CallError, CodegenError, EutecticAdvice
from eutectic.testing.graphs import graph, weights

needs_onednn = pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")


# ---- texts


@pytest.mark.parametrize(
    ("text", "shape", "in_memory"),
    [
        ("abcd", (1, 2, 3, 4), (1, 2, 3, 4)),
        ("acdb", (1, 2, 3, 4), (1, 3, 4, 2)),
        ("aBcd16b", (1, 32, 3, 4), (1, 2, 3, 4, 16)),
        ("aBcd8b", (2, 8, 3, 4), (2, 1, 3, 4, 8)),
    ],
)
def test_shapes_in_memory(text: str, shape: tuple[int, ...], in_memory: tuple[int, ...]):
    there = border_layout(text)
    assert there is not None
    assert there.fits(shape)
    assert TensorSpec("x", shape, layout=text).shape_in_memory == there.shape_in_memory(shape) == in_memory
    assert text_of(name_of(text)) == (text if text != "abcd" else "")


@pytest.mark.parametrize("text", ["", "NHWC", "aBcd", "aBcd16c", "abcd16b", "a1b", "aBcd0b", "acdb*", "aBCd4b4c"])
def test_what_is_no_layout(text: str):
    assert border_layout(text) is None


def test_blocks_are_full_and_axes_are_all_there():
    assert not BorderLayout((0, 1, 2, 3), 1, 16).fits((1, 24, 3, 3))
    assert not BorderLayout((0, 2, 3, 1)).fits((1, 2, 3))
    assert not BorderLayout((0, 0, 1, 2)).fits((1, 2, 3, 4))


# ---- regions


def spec(read: str = "", written: str = "", channels: int = 16) -> RegionSpec:
    x = TensorSpec("x", (1, channels, 6, 5), layout=read)
    y = TensorSpec("y", (1, channels, 6, 5), layout=written)
    convolution = Convolution("x", "w", None, y, (1, 1), (1, 1), (1, 1), (1, 1), post_ops=(PostEltwise("relu"),))
    return RegionSpec("f", (x,), (TensorSpec("w", (channels, channels, 3, 3)),), (convolution,), ("y",))


LAYOUTS = ["", "acdb", "aBcd16b", "aBcd8b"]


@needs_onednn
@pytest.mark.parametrize("read", LAYOUTS)
@pytest.mark.parametrize("written", LAYOUTS)
def test_a_convolution_between_any_layouts(read: str, written: str):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    x = rng.standard_normal((1, 16, 6, 5)).astype(np.float32)
    want = F.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double(), padding=1).relu().numpy()
    described = RegionSpec.from_json(json.loads(json.dumps(spec(read, written).to_json())))
    assert described == spec(read, written)
    region = compile_region(described, {"w": w})
    y = np.empty(described.tensors()["y"].shape_in_memory, np.float32)
    region.run([_in_memory(x, read)], [y])
    np.testing.assert_allclose(y, _in_memory(want, written), rtol=0, atol=1e-5 * np.abs(want).max())


@needs_onednn
def test_elements_in_any_layout():
    x = TensorSpec("x", (2, 8, 3, 3), layout="acdb")
    y = TensorSpec("y", (2, 8, 3, 3), layout="aBcd8b")
    region = compile_region(RegionSpec("f", (x,), (), (Eltwise("x", y, PostEltwise("relu")),), ("y",)), {})
    value = np.random.default_rng(0).standard_normal((2, 8, 3, 3)).astype(np.float32)
    result = np.empty(y.shape_in_memory, np.float32)
    region.run([_in_memory(value, "acdb")], [result])
    np.testing.assert_array_equal(result, _in_memory(np.maximum(value, 0), "aBcd8b"))


@needs_onednn
@pytest.mark.parametrize("read", LAYOUTS)
@pytest.mark.parametrize("operand", [(32, 1, 1), (1, 32, 1, 1), (1, 1, 1, 1), (2, 32, 6, 5)])
@pytest.mark.parametrize("kind", ["mul", "add"])
def test_no_layout_leads_to_a_reference_implementation(read: str, operand: tuple[int, ...], kind: str):
    """One of oneDNN's takes a hundred times as long: another layout is worth its copy."""
    x, y = TensorSpec("x", (2, 32, 6, 5), layout=read), TensorSpec("y", (2, 32, 6, 5))
    step = Binary(kind, "x", "w", y, (PostEltwise("relu"),))
    rng = np.random.default_rng(0)
    value, w = (rng.standard_normal(shape).astype(np.float32) for shape in (x.shape, operand))
    region = compile_region(RegionSpec("f", (x,), (TensorSpec("w", operand),), (step,), ("y",)), {"w": w})
    result = np.empty(y.shape, np.float32)
    region.run([_in_memory(value, read)], [result])
    np.testing.assert_array_equal(result, np.maximum(value * w if kind == "mul" else value + w, 0))
    assert not [call for call in region.describe() if "ref" in call.impl], region.describe()


@needs_onednn
def test_arrays_of_the_graphs_shape_are_refused():
    region = compile_region(spec("acdb"), {"w": np.zeros((16, 16, 3, 3), np.float32)})
    with pytest.raises(CallError, match=r"expected float32\[1, 6, 5, 16\]"):
        region.run([np.zeros((1, 16, 6, 5), np.float32)], [np.zeros((1, 16, 6, 5), np.float32)])


@pytest.mark.parametrize("layout", ["NHWC", "acd", "aBcd16b"])
def test_layouts_that_do_not_fit_are_refused(layout: str):
    with pytest.raises(CodegenError, match=f"has no layout '{layout}'"):
        spec(layout, channels=24)


def _in_memory(value: np.ndarray, text: str) -> np.ndarray:
    there = border_layout(text)
    if there is None:
        return value
    if there.blocked is None:
        return np.ascontiguousarray(value.transpose(there.order))
    n, c, h, w = value.shape
    blocks = value.reshape(n, c // there.block, there.block, h, w)
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))


# ---- offers


def convolved(*, pooled: bool = False):
    def body(bb, x):
        y = bb.emit(relax_nn.relu(bb.emit(relax_nn.conv2d(x, weights(32, 32, 3, 3), padding=1))))
        return relax_nn.max_pool2d(y, 2, 2) if pooled else y

    mod = outlined_for(graph({"x": (1, 32, 8, 8)}, body), backend("dnnl"))
    (region,) = [function for function in mod.functions.values() if function.attr("Codegen")]
    return region


@needs_onednn
@pytest.mark.parametrize("pooled", [False, True])
def test_the_cheapest_offer_needs_no_reorder(pooled: bool):
    """What is offered is what kernels want on this processor: then there is nothing to reorder at the borders."""
    region = convolved(pooled=pooled)
    by_cost = sorted(offers(region), key=lambda offer: offer.cost)
    assert by_cost[-1].operands == by_cost[-1].results == ()
    kernel = backend("dnnl").lower(region, by_cost[0])
    described = RegionSpec.from_json(kernel.description["spec"])
    sources = [call.source for call in compile_region(described, dict(kernel.constants)).describe()]
    assert not [source for source in sources if source.startswith(("reorder of in", "output"))], sources


@needs_onednn
def test_sizes_that_vary_are_row_major():
    def body(bb, x):
        return relax_nn.conv2d(x, weights(32, 32, 3, 3), padding=1)

    mod = outlined_for(graph({"x": (Var("n", "int64"), 32, 8, 8)}, body), backend("dnnl"))
    (region,) = [function for function in mod.functions.values() if function.attr("Codegen")]
    assert [offer.operands for offer in offers(region)] == [()]


# ---- networks


def block(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Skips(nn.Module):
    """Down and up again, with values that jump over the middle: what joins them is no oneDNN operator."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = block(3, 32), block(32, 64, 2), block(64, 64)
        self.d, self.e = block(96, 32), nn.Conv2d(32, 5, 1)

    def forward(self, x):
        a = self.a(x)
        up = F.interpolate(torch.erf(self.c(self.b(a))), scale_factor=2)
        return self.e(self.d(torch.cat([up, a], 1)))


class Shuffled(nn.Module):
    """Channels change places between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = block(3, 32), block(16, 16)

    def forward(self, x):
        first, second = self.a(x).chunk(2, 1)
        y = torch.cat([first, self.b(second)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w), torch.erf(first)


class Elements(nn.Module):
    """Broadcasts of all kinds between two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = block(3, 32), block(32, 16)
        self.scale = nn.Parameter(torch.randn(32, 1, 1))

    def forward(self, x):
        y = self.a(x)
        y = torch.erf(y) * self.scale + y.mean((2, 3), keepdim=True) - torch.arange(x.shape[-1])
        return self.b(F.avg_pool2d(y, 2))


@pytest.mark.slow
@needs_onednn
@pytest.mark.parametrize("network", [Skips, Shuffled, Elements])
@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.filterwarnings("ignore:pass RunCodegen could not be validated")  # kernels run after linking only
def test_networks_compute_the_same(network: type[nn.Module], validate: bool):
    torch.manual_seed(0)
    model, x = network().eval(), torch.randn(1, 3, 16, 16)
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl", validate=validate)
    with torch.no_grad():
        want, exact = model(x), deepcopy(model).double()(x.double())
    results = fast(x)
    for ours, eager, truth in zip(*map(_listed, (results, want, exact)), strict=True):
        bound = 4 * (eager.double() - truth).abs().max() + 1e-6 * truth.abs().max()
        assert (ours.double() - truth).abs().max() <= bound


@needs_onednn
def test_between_regions_nothing_is_row_major():
    torch.manual_seed(0)
    model, x = Skips().eval(), torch.randn(1, 3, 16, 16)
    plain = eutectic.compile(model, (x,), target="llvm -libs=dnnl", pipeline=_row_major_pipeline())
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
    assert "layout_transform" in fast.script()
    assert "layout_transform" not in plain.script()
    torch.testing.assert_close(fast(x), plain(x), rtol=1e-5, atol=1e-6)


@needs_onednn
def test_special_values_take_the_same_way_round():
    """A region that loses NaN is computed by our kernels for such inputs, its layouts included."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = block(3, 32), block(32, 32)

        def forward(self, x):
            y = torch.erf(self.a(x))
            return F.max_pool2d(self.b(y), 2)

    torch.manual_seed(0)
    model, x = Pooled().eval(), torch.randn(1, 3, 16, 16)
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
    x[0, 1, 3, 4] = torch.nan
    with torch.no_grad(), pytest.warns(EutecticAdvice, match="such calls run without dnnl"):
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5, equal_nan=True)


@needs_onednn
def test_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    model, x = Skips().eval(), torch.randn(1, 3, 16, 16)
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
    fast.save(tmp_path / "m.eut")
    np.testing.assert_array_equal(eutectic.load(tmp_path / "m.eut")(x.numpy()), fast(x).numpy())


@pytest.mark.slow
@needs_onednn
def test_saved_for_several_processors(tmp_path):
    """A variant is made of the graph that has its layouts already."""
    torch.manual_seed(0)
    model, x = Skips().eval(), torch.randn(1, 3, 16, 16)
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
    fast.save(tmp_path / "m.eut", targets=["x86-64-v3", "x86-64-v4"])
    np.testing.assert_allclose(eutectic.load(tmp_path / "m.eut")(x.numpy()), fast(x).numpy(), rtol=0, atol=1e-6)


@needs_onednn
def test_copies_and_text():
    torch.manual_seed(0)
    model, x = Skips().eval(), torch.randn(1, 3, 16, 16)
    fast = eutectic.compile(model, (x,), target="llvm -libs=dnnl")
    torch.testing.assert_close(deepcopy(fast)(x), fast(x), rtol=0, atol=0)


@needs_onednn
@pytest.mark.parametrize("names", [("first",), ("first", "second")])
def test_a_region_of_two_callers_stays_row_major(names: tuple[str, ...]):
    """Whoever calls it must agree, and each function is looked at alone."""

    def body(bb, x):
        y = bb.emit(relax_nn.conv2d(x, weights(32, 32, 3, 3), padding=1))
        return relax_nn.conv2d(bb.emit(op.erf(y)), weights(32, 32, 3, 3, seed=1), padding=1)

    mod = outlined_for(graph({"x": (1, 32, 8, 8)}, body), backend("dnnl")).clone()
    for name in names:
        mod[name] = copy_with_new_vars(mod["main"]).with_attr("global_symbol", name)
    del mod["main"]
    assert structural_equal(AssignLayouts("llvm")(mod), mod) == (len(names) == 2)


def _row_major_pipeline() -> Pipeline:
    passes = pipeline("llvm -libs=dnnl").passes
    return Pipeline(tuple(step for step in passes if not isinstance(step, AssignLayouts)))


def _listed(values):
    return list(values) if isinstance(values, (tuple, list)) else [values]
