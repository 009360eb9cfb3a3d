"""What passes ask of packages above them comes from their context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eutectic import topi
from eutectic.ir.module import IRModule
from eutectic.ir.services import Services, Validator
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext, module_pass
from eutectic.relax import op
from eutectic.relax.expr import Constant, const
from eutectic.relax.transform import DeadCodeElimination, FoldConstant, RunCodegen
from eutectic.script.store import load
from eutectic.support.errors import CodegenError
from eutectic.testing.graphs import graph


class Recording(Services):
    """Answers that say who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def program_runner(self, scheduled: bool = True) -> Callable[..., Any]:
        """Gives results that no program has."""
        self.asked.append(f"runner scheduled={scheduled}")
        return lambda program, *arrays: np.copyto(arrays[-1], 7)

    def codegen(self, target: str) -> Callable[..., Any] | None:
        """Knows no library."""
        self.asked.append(f"codegen {target}")
        return None

    def validators(self) -> Sequence[Validator]:
        """One that tells what it compares."""
        return [lambda before, after, name: self.asked.append(f"validator {name}")]


def of_program() -> IRModule:
    """A function that adds what a tensor program makes of a constant."""
    return graph(
        {"x": (2,)}, lambda bb, x: op.add(x, bb.emit_te(topi.nn.relu, const(np.array([-1.0, 2.0], "float32"))))
    )


def constants(mod: IRModule) -> list[list[float]]:
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [arg.data.tolist() for value in values for arg in value.args if isinstance(arg, Constant)]


def test_folding_runs_programs_by_the_services_of_its_context():
    assert constants(FoldConstant()(of_program())) == [[0.0, 2.0]]
    services = Recording()
    with PassContext(services=services):
        assert constants(FoldConstant()(of_program())) == [[7.0, 7.0]]
    assert services.asked == ["runner scheduled=True"]


def test_libraries_are_those_of_the_services():
    mod = graph({"x": (2,)}, lambda bb, x: op.nn.relu(x))
    function = mod["main"].with_attr({"Codegen": "dnnl", "global_symbol": "main"})
    assert Services().codegen("dnnl") is not None
    assert Services().codegen("nobody") is None
    services = Recording()
    with PassContext(services=services), pytest.raises(CodegenError, match="Codegen is not found"):
        RunCodegen()(IRModule({"main": function}))
    assert services.asked == ["codegen dnnl"]


def test_validators_are_those_of_the_services():
    @module_pass(opt_level=0, name="Mark")
    def mark(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_attr("marked", 1)

    services = Recording()
    with PassContext(validate=True, services=services):
        DeadCodeElimination()(mark(of_program()))  # which changes nothing
    assert services.asked == ["validator Mark"]
    assert len(Services().validators()) == 2  # graphs, and tensor programs


def test_modules_are_written_so_that_they_are_read_back(tmp_path: Path):
    mod = of_program()
    Services().write_module(mod, tmp_path / "before.py")
    assert structural_equal(load(tmp_path / "before.py"), mod)
