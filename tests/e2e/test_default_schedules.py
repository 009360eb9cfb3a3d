"""Default schedules of networks: programs of primitives, whose traces make the same programs again."""

from __future__ import annotations

import pytest
import torch

from eutectic.driver.pipeline import pipeline
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_equal
from eutectic.relax.frontend.torch import from_exported_program
from eutectic.testing.models import MODELS
from eutectic.tir import PrimFunc, Schedule
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.transform import ScheduleForTarget


def kernels_of(name: str) -> IRModule:
    if not MODELS[name].available:
        pytest.skip(MODELS[name].missing() or "")
    model, inputs = MODELS[name].build()
    mod = from_exported_program(torch.export.export(model, inputs))
    return pipeline("llvm").split("ScheduleForTarget")[0](mod)


def check(name: str) -> None:
    before = kernels_of(name)
    after = ScheduleForTarget(target="llvm")(before)
    programs = {gv: func for gv, func in before.functions_items() if isinstance(func, PrimFunc)}
    assert programs
    for gv, func in programs.items():
        made = after[gv]
        again = Schedule(func, enable_check=False)
        trace_from_python(made.attrs["tir.schedule_trace"]).apply_to_schedule(again)
        assert structural_equal(again.func.body, made.body), gv.name_hint


@pytest.mark.parametrize("name", ["mlp", "digits", "crepe_tiny"])
def test_small_networks(name: str):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_lite0", "resnet18", "resnet50", "vgg16_bn"])
def test_networks_of_the_benchmark(name: str):
    check(name)
