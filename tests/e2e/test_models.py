"""Whole networks: every convolution fused, results equal to eager, the photos named alike, the demo's JSON."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.cli.main import app
from eutectic.driver.pipeline import pipeline
from eutectic.driver.pipeline_text import Pipeline
from eutectic.driver.report import CompileReport
from eutectic.testing.models import MODELS

CONVOLUTIONS = {
    "mobilenet_v2": 52,
    "efficientnet_lite0": 49,
    "resnet18": 20,
    "resnet50": 53,
    "vgg16_bn": 13,
    "mlp": 0,
    "crepe_tiny": 6,
}
OUTSIDE = {f"relax.{name}" for name in ("reshape", "permute_dims", "nn.pad", "expand_dims", "layout_transform")}
LARGE = {"vgg16_bn", "resnet50", "resnet18", "efficientnet_lite0", "mobilenet_v2"}

needs_dnnl = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")


def built(name: str):
    if (reason := MODELS[name].missing()) is not None:
        pytest.skip(reason)
    return MODELS[name].build()


@needs_dnnl
@pytest.mark.models
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in CONVOLUTIONS])
def test_every_convolution_is_fused_and_results_are_eagers(name: str):
    model, inputs = built(name)
    compiled = eutectic.compile(model, inputs, verify=True)
    report = compiled.report
    assert report.convolutions == report.convolutions_fused == CONVOLUTIONS[name] - joined(report)
    assert {u.op for u in report.unfused} <= OUTSIDE
    with torch.no_grad():
        want = model(*inputs)
    got = compiled(*inputs)
    scale = want.abs().max()
    limit = 1e-5 if MODELS[name].weights == "trained" else 1e-4  # random weights cancel: eager is off by 1.3e-5 itself
    assert (got - want).abs().max() / scale < limit
    again = tuple(x.flip(-1) for x in inputs)
    with torch.no_grad():
        assert (compiled(*again) - model(*again)).abs().max() / scale < limit


@pytest.mark.parametrize("target", ["llvm", pytest.param("llvm -libs=dnnl", marks=needs_dnnl)])
@pytest.mark.parametrize(
    "name", ["bert_layer", "gpt2_block", *(pytest.param(n, marks=pytest.mark.slow) for n in ("unet_block", "vgg11_bn"))]
)
def test_blocks_and_plain_convolutions_are_eagers(name: str, target: str):
    model, inputs = built(name)
    compiled = eutectic.compile(model, inputs, target=target)
    for values in (inputs, tuple(x.flip(-1) for x in inputs)):
        with torch.no_grad():
            want = model(*values)
        assert (compiled(*values) - want).abs().max() / want.abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18"])
def test_batches_are_eagers(name: str):
    """Large ones are computed for a piece of the batch at a time at the beginning."""
    model, (image,) = built(name)
    images = torch.cat([image, image.flip(-1), image.flip(-2), image.roll(9, -1)] * 2) * torch.rand(8, 1, 1, 1)
    compiled = eutectic.compile(model, (images,), target="llvm", threads=2)
    assert {group.times for group in compiled.report.plan.groups} > {1}
    with torch.no_grad():
        want = model(images)
    assert (compiled(images) - want).abs().max() / want.abs().max() < 1e-4


def joined(report: CompileReport) -> int:
    """Convolutions that are a part of another operator; with six operands it has three, else two."""
    operators = [operator for group in report.plan.groups for operator in group.operators]
    return sum(1 + (len(o.reads) > 4) for o in operators if o.op == "relax.nn.inverted_residual")


@needs_dnnl
@pytest.mark.models
def test_bias_and_relu6_are_inside_the_composites():
    model, inputs = built("mobilenet_v2")
    target = "llvm -libs=dnnl"
    separate = Pipeline(tuple(step for step in pipeline(target) if step.info.name != "FuseInvertedResidual"))
    report = eutectic.compile(model, inputs, target=target, pipeline=separate).report
    counts = {name: found.count for name, found in report.by_composite().items()}
    assert counts["dnnl.conv2d_bias_clip"] == 35
    assert counts["dnnl.conv2d_bias_add"] == 10
    assert counts["dnnl.conv2d_bias"] == 7
    first = report.composites[0]
    assert first.ops == ("relax.nn.conv2d", "relax.add", "relax.clip")
    assert first.modules[0].startswith("features.0")
    assert any("mobilenet_v2.py:" in source for source in first.sources)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2"])
def test_one_dynamic_batch_serves_several_sizes(name: str):
    model, inputs = built(name)
    batch = torch.export.Dim("batch", min=1, max=8)
    example = torch.cat([inputs[0], inputs[0].flip(-1)])
    compiled = eutectic.compile(model, (example,), dynamic_shapes=({0: batch},))
    for size in (1, 3):
        x = torch.randn(size, *inputs[0].shape[1:])
        with torch.no_grad():
            want = model(x)
        assert (compiled(x) - want).abs().max() / want.abs().max() < 1e-5


@needs_dnnl
@pytest.mark.models
@pytest.mark.slow
def test_the_demo_prints_one_json_document():
    result = CliRunner().invoke(app, ["demo", "--json"])
    assert result.exit_code == 0, result.output
    models = json.loads(result.stdout)["models"]
    for model in models:
        assert model["convolutions_fused"] == model["convolutions"]
        assert model["relative_error"] < 1e-4
        assert all(photo["label"] == photo["eager_label"] for photo in model["photos"])
        assert model["latency_ms"] > 0
        assert model["eager_latency_ms"] > 0
    assert {m["name"] for m in models} <= {"mobilenet_v2", "efficientnet_lite0", "digits"}
