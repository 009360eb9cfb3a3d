"""One `build` for graph functions, tensor programs, and modules of both."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic import compat, relax, te
from eutectic.driver.build import VMExecutable
from eutectic.driver.build_prim_func import NativeFunctions
from eutectic.ir.module import IRModule
from eutectic.relax import BlockBuilder, TensorStructInfo, Var, op
from eutectic.support.errors import CodegenError
from eutectic.tir import PrimFunc


def doubled() -> PrimFunc:
    a = te.placeholder((4,), "float32", "a")
    return te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 2.0, "b")]).with_attr("global_symbol", "doubled")


def graph() -> IRModule:
    bb, x = BlockBuilder(), Var("x", TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(x, x)))
    return bb.get()


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    compat.install_as_tvm(replace=True)
    tvm = importlib.import_module("tvm")
    yield {
        "eutectic": eutectic.build,
        "relax": relax.build,
        "tvm": tvm.build,
        "tvm.compile": tvm.compile,
        "tvm.tir": tvm.tir.build,
        "tvm.relax": tvm.relax.build,
    }
    compat.uninstall()


X = np.arange(4, dtype="float32")


@pytest.mark.parametrize("bounds", ["checked", "trusted"])
@pytest.mark.parametrize("name", ["eutectic", "relax", "tvm", "tvm.compile", "tvm.tir", "tvm.relax"])
def test_every_name_builds_every_kind(names: dict[str, Any], name: str, bounds: str):
    build, out = names[name], np.zeros(4, "float32")
    made = build(doubled(), "llvm", bounds=bounds)
    assert isinstance(made, NativeFunctions)
    made(X, out)
    np.testing.assert_array_equal(out, 2 * X)
    made = build(graph(), "llvm", bounds=bounds)
    assert isinstance(made, VMExecutable)
    np.testing.assert_array_equal(made(X).numpy(), 2 * X)


def test_a_mixed_module_has_both():
    mod = graph()
    mod["doubled"] = doubled()
    made, out = eutectic.build(mod), np.zeros(4, "float32")
    assert made.function_names() == ["main", "doubled"]
    np.testing.assert_array_equal(made["main"](X).numpy(), 2 * X)
    assert made["doubled"](X, out) is None
    np.testing.assert_array_equal(out, 2 * X)
    eutectic.VirtualMachine(made)["doubled"](out, out)
    np.testing.assert_array_equal(out, 4 * X)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (IRModule({}), "neither graph functions nor tensor programs: there is nothing to build"),
        (None, "takes an IRModule, a relax.Function or a tir.PrimFunc, got None"),
        (IRModule, "got the class IRModule"),
    ],
)
def test_what_cannot_be_built(given: Any, message: str):
    with pytest.raises(CodegenError, match=message):
        eutectic.build(given)


def test_options_of_graphs_for_programs():
    with pytest.raises(CodegenError, match="tensor programs are built without params"):
        eutectic.build(doubled(), params={"x": X})
    with pytest.raises(eutectic.EutecticError, match="did you mean bounds"):
        eutectic.build(doubled(), bound="trusted")
    with pytest.raises(CodegenError, match="did you mean interpreted"):
        eutectic.build(graph(), exec_mode="interpreter")


def test_the_module_is_the_command():
    env = {**os.environ, "PYTHONPATH": str(Path(eutectic.__file__).parents[1])}
    found = subprocess.run(
        [sys.executable, "-m", "eutectic", "--version"], env=env, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0
    assert found.stdout.startswith("eutectic ")
