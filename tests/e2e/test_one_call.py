"""An inference is one call from Python: nothing of a network of the benchmark is done between native calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.runtime.native import NativeFunction
from eutectic.testing.models import MODELS

TARGETS = ("llvm", "llvm -libs=dnnl")
QUICK = ("mlp", "crepe_tiny")


def made(name: str, target: str, dynamic: bool) -> tuple[eutectic.CompiledModel, Any]:
    if "dnnl" in target and not availability().ok:
        pytest.skip(f"oneDNN: {availability().reason}")
    if (reason := MODELS[name].missing()) is not None:
        pytest.skip(reason)
    model, inputs = MODELS[name].build()
    if not dynamic:
        return eutectic.compile(model, inputs, target=target), inputs
    sizes = ({0: Dim("batch", max=64)},) * len(inputs)
    two, three = (tuple(torch.cat([x] * batch) for x in inputs) for batch in (2, 3))
    return eutectic.compile(model, two, dynamic_shapes=sizes, target=target), three


@pytest.mark.models
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_an_inference_is_one_call(name: str, target: str, dynamic: bool, monkeypatch: pytest.MonkeyPatch):
    compiled, inputs = made(name, target, dynamic)
    calls: list[str] = []
    executable = compiled.executable
    if compiled._quick is not None:
        monkeypatch.setattr(compiled, "_quick", None)  # it calls the same function, past what is counted here
    assert [host.op for host in compiled.report.host_operators] == []
    steps = [counted(step, calls, instruction.name) for step, instruction in zip_steps(executable)]
    monkeypatch.setattr(executable, "_steps", tuple(steps))
    function = NativeFunction.__call__

    def native(self: NativeFunction, *args: Any) -> None:
        calls.append("native")
        function(self, *args)

    monkeypatch.setattr(NativeFunction, "__call__", native)
    for _ in range(2):
        calls.clear()
        compiled(*inputs)
        assert calls == [executable.instructions[0].name, "native"]


def zip_steps(executable: Any) -> Any:
    return zip(executable._steps, executable.instructions, strict=True)


def counted(step: Any, calls: list[str], name: str) -> Any:
    def run(*args: Any) -> None:
        calls.append(name)
        step(*args)

    return run
