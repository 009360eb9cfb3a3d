"""Every fused kernel of the networks against the same tensor programs run one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eutectic
from eutectic.driver.link import link
from eutectic.driver.native import NativeBuilder
from eutectic.driver.pipeline import kernels as to_kernels
from eutectic.driver.pipeline import pipeline
from eutectic.ir.module import IRModule
from eutectic.relax.expr import Function
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.target import Target
from eutectic.testing.models import MODELS
from eutectic.tir import PrimFunc

SMALL = ["mlp", "digits", "crepe_tiny"]
LARGE = ["mobilenet_v2", "efficientnet_lite0", "resnet18", "resnet50", "vgg16_bn"]


def groups_of(name: str) -> IRModule:
    if not MODELS[name].available:
        pytest.skip(MODELS[name].missing() or "")
    model, inputs = MODELS[name].build()
    mod = from_exported_program(torch.export.export(model, inputs))
    return pipeline("llvm").split("FuseTIR")[0](mod)


def alone(groups: IRModule, function: Function) -> IRModule:
    """A module whose `main` is one group, and the tensor programs."""
    programs = {gv.name_hint: f for gv, f in groups.functions_items() if isinstance(f, PrimFunc)}
    return IRModule({**programs, "main": function})


def random_arguments(function: Function) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    out = []
    for param in function.params:
        info = param.struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.static_shape is not None
        out.append(rng.standard_normal(info.static_shape).astype(info.dtype))
    return out


def fused(groups: IRModule, function: Function) -> IRModule:
    """A module whose `main` calls one group as one kernel."""
    builder = eutectic.relax.BlockBuilder(alone(groups, function))
    params = [eutectic.relax.Var(param.name_hint, param.struct_info) for param in function.params]
    with builder.function("call_it", params), builder.dataflow():
        gv = builder.get().get_global_var("main")
        builder.emit_func_output(builder.emit_output(eutectic.relax.Call(gv, tuple(params))))
    return to_kernels().split("FuseTIR")[1](builder.get())


def check_kernels(name: str) -> int:
    """Compare them all; how many there are."""
    groups = groups_of(name)
    count = 0
    for _, function in groups.functions_items():
        if not isinstance(function, Function) or not function.attr("Primitive"):
            continue
        args = random_arguments(function)
        plain = function.without_attr("Primitive").with_attr("global_symbol", "main")
        apart = link(alone(groups, plain), None, "main", NativeBuilder(Target("llvm"), 2))
        native = NativeBuilder(Target("llvm"), 2)
        together = link(fused(groups, function), None, "call_it", native)
        kernels = [step for plan in native.plans for step in plan.steps]
        assert len(kernels) == 1
        for got, want in zip(together.run(args), apart.run(args), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * max(1.0, float(np.abs(want).max())))
        count += 1
    return count


@pytest.mark.parametrize("name", SMALL)
def test_fused_kernels_of_small_networks(name: str):
    assert check_kernels(name) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_fused_kernels_of_image_networks(name: str):
    assert check_kernels(name) >= 10


def compare(name: str) -> None:
    if not MODELS[name].available:
        pytest.skip(MODELS[name].missing() or "")
    model, inputs = MODELS[name].build()
    compiled = eutectic.compile(model, inputs, target="llvm")
    assert {region.codegen for region in compiled.report.regions} == {"llvm"}
    with torch.no_grad():
        got, want = compiled(*inputs), model(*inputs)
    scale = float(want.abs().max())
    assert float((got - want).abs().max()) <= 1e-4 * scale


@pytest.mark.parametrize("name", [*SMALL, "mobilenet_v2"])
def test_networks_compiled_by_llvm_alone(name: str):
    compare(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LARGE if name != "mobilenet_v2"])
def test_large_networks_compiled_by_llvm_alone(name: str):
    compare(name)
