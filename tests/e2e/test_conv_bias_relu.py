"""Convolutions as torch exports them, with the bias reshaped: pattern, composite, one oneDNN primitive."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.ir.op import Op
from eutectic.ir.transform import Sequential
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.dpl import make_fused_bias_activation_pattern
from eutectic.relax.expr import Call
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.relax.transform import FuseConv2dReshapeAddRelu, FuseOpsByPattern, MergeCompositeFunctions
from eutectic.testing.eager import Net, same_as_eager
from eutectic.testing.graphs import assert_close, evaluate

pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")

CASES = {
    "conv1d": (nn.Conv1d(4, 6, 3), (2, 4, 9)),
    "conv2d": (nn.Conv2d(4, 6, 3, padding=1), (2, 4, 7, 8)),
    "conv3d": (nn.Conv3d(4, 6, (3, 2, 3)), (1, 4, 5, 6, 5)),
}


def imported(name: str):
    """The model, its input, and its module with the convolution's bias still reshaped."""
    conv, shape = CASES[name]
    net = nn.Sequential(conv, nn.ReLU()).eval()
    x = torch.randn(shape)
    return net, x, from_exported_program(torch.export.export(net, (x,)))


def calls(function) -> list[str]:
    found = (v.op for v in get_var2val(function).values() if isinstance(v, Call))
    return [callee.name.removeprefix("relax.") for callee in found if isinstance(callee, Op)]


def primitives(model: eutectic.CompiledModel, *args) -> list[str]:
    """What oneDNN computes; changes of layout are left out."""
    (loaded,) = model.executable.libraries()
    (kernel,) = model.executable._kernels()
    region = (loaded.at(kernel.sizes_of(args)) if kernel.sizes else loaded).region
    kinds = [report.source.split()[0] for report in region.describe()]
    return [kind for kind in kinds if kind in ("convolution", "matmul", "pool", "binary", "eltwise")]


@pytest.mark.parametrize("name", CASES)
def test_the_import_is_conv_reshape_add_relu(name: str):
    _, _, mod = imported(name)
    assert calls(mod["main"]) == [f"nn.{name}", "reshape", "add", "nn.relu"]


@pytest.mark.parametrize("name", CASES)
def test_with_reshape_everything_is_one_composite_and_one_primitive(name: str):
    net, x, mod = imported(name)
    pattern = make_fused_bias_activation_pattern(f"relax.nn.{name}", True, "relax.nn.relu", allow_reshape=True)
    fused = FuseOpsByPattern([(f"dnnl.{name}_bias_relu", pattern)], annotate_codegen=True)(mod)
    assert problems_of(fused) == []
    assert calls(fused["main"]) == []
    (region,) = [f for f in fused.functions.values() if f.attr("Codegen")]
    local = region.body.blocks[0].bindings[0].value
    assert calls(local) == [f"nn.{name}", "reshape", "add", "nn.relu"]

    model = eutectic.compile(fused)
    assert primitives(model, x.numpy()) == ["convolution"]
    with torch.no_grad():
        assert_close(model(x.numpy())[0], net(x).numpy(), 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_without_reshape_the_reshape_stays_outside(name: str):
    net, x, mod = imported(name)
    pattern = make_fused_bias_activation_pattern(f"relax.nn.{name}", True, "relax.nn.relu", allow_reshape=False)
    fused = FuseOpsByPattern([(f"dnnl.{name}_bias_relu", pattern)], annotate_codegen=True)(mod)
    assert problems_of(fused) == []
    assert calls(fused["main"]) == ["reshape"]
    with torch.no_grad():
        assert_close(evaluate(fused, x.numpy())[0], net(x).numpy(), 1e-5)
        assert_close(eutectic.compile(fused)(x.numpy())[0], net(x).numpy(), 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_compile_makes_the_same_of_it(name: str):
    net, x, _ = imported(name)
    model = eutectic.compile(net, (x,), target="llvm -libs=dnnl")
    assert [c.name for c in model.report.composites] == [f"dnnl.{name}_bias_relu"]
    assert model.report.unfused == ()
    assert primitives(model, x.numpy()) == ["convolution"]
    with torch.no_grad():
        assert_close(model(x).numpy(), net(x).numpy(), 1e-5)


def test_the_bias_is_not_lost_by_the_pass_of_our_own():
    """The composite's name does not say bias, and its parameters may come in any order."""
    net, x, mod = imported("conv2d")
    final = Sequential([FuseConv2dReshapeAddRelu(), MergeCompositeFunctions()])(mod)
    (region,) = [f for f in final.functions.values() if f.attr("Codegen")]
    assert region.attr("Codegen") == "dnnl"
    local = region.body.blocks[0].bindings[0].value
    assert local.attr("Composite") == "dnnl.conv2d_reshape_add_relu"
    model = eutectic.compile(final)
    assert sum(len(c.ops) for c in model.report.composites) == 4
    with torch.no_grad():
        assert_close(model(x.numpy())[0], net(x).numpy(), 1e-5)


def test_what_is_not_a_plain_conv_bias_relu_is_computed_right():
    """Two readers, the wrong axis, an activation in place of a bias, a shared convolution."""
    shared = nn.Conv2d(4, 4, 1)
    vector = torch.randn(4)
    programs = [
        lambda s, x: (torch.relu(s.conv(x)), s.conv(x) * 2),
        lambda s, x: torch.relu(s.plain(x) + vector.reshape(1, 1, 4, 1)),
        lambda s, x: torch.relu(s.plain(x) + vector.reshape(1, 1, 1, 4)),
        lambda s, x: torch.relu(s.plain(x) + torch.sigmoid(x)),
        lambda s, x: torch.relu(s.conv(x)) + torch.relu(s.conv(x + 1)),
        lambda s, x: torch.relu(s.conv(s.conv(x))),
    ]
    for program in programs:
        net = Net(program, conv=shared, plain=nn.Conv2d(4, 4, 1, bias=False)).eval()
        x = torch.randn(1, 4, 4, 4)
        same_as_eager(net, eutectic.compile(net, (x,), verify=True), (x,))
