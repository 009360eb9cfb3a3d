"""Every network of the registry: imported, executed by the interpreter, equal to eager."""

from __future__ import annotations

import pytest
import torch
from tests.relax.frontend.torch_compare import Imported, export_model

from eutectic.relax.analysis.well_formed import well_formed
from eutectic.testing.models import MODELS

SLOW = {"vgg11_bn", "vgg16_bn", "resnet50"}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]


@pytest.mark.parametrize("name", NAMES)
def test_as_in_eager(name: str):
    entry = MODELS[name]
    if not entry.available:
        pytest.skip(str(entry.missing()))
    model, args = entry.build()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = Imported(export_model(model, args))
    assert well_formed(found.module)
    with torch.no_grad():
        want = model(*args)
        got = found(*args)
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()
    assert not model.training
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    named = [b.var.span.module for b in found.bindings if b.var.span is not None and b.var.span.module]
    assert len(named) >= len([op for op in found.operators if op.startswith("nn.conv")])


@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_lite0"])
def test_activations_are_clips(name: str):
    entry = MODELS[name]
    if not entry.available:
        pytest.skip(str(entry.missing()))
    operators = Imported(export_model(*entry.build())).operators
    assert operators.count("nn.conv2d") == operators.count("nn.batch_norm")
    assert operators.count("clip") == 35 if name == "mobilenet_v2" else operators.count("clip") > 30
