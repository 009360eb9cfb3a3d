"""The text of whole networks, imported and partitioned, parses back to the same program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import eutectic
from eutectic.ir.structural import assert_structural_equal
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.script import load, save
from eutectic.testing.models import MODELS
from eutectic.testing.round_trip import check_round_trip

NAMES = ["mobilenet_v2", "efficientnet_lite0", "resnet18", "resnet50", "mlp"]


@pytest.mark.parametrize("name", NAMES)
def test_imported_networks(name: str):
    model, inputs = MODELS[name].build()
    check_round_trip(from_exported_program(torch.export.export(model, inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "mlp"])
def test_partitioned_networks(name: str, tmp_path: Path):
    model, inputs = MODELS[name].build()
    module = eutectic.compile(model, inputs).module
    check_round_trip(module)
    assert_structural_equal(load(save(module, tmp_path / "net.py")), module)
