"""Kernels that are compiled two at a time: the same as one after the other, and the first error is raised."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.backend.llvm import kernels
from eutectic.backend.llvm.machine import Machine
from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.support.errors import CodegenError
from eutectic.testing.graphs import graph, weights

X = np.random.default_rng(0).standard_normal((9, 8), "float32")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")


def chain() -> IRModule:
    def body(bb: Any, x: Any) -> Any:
        for columns in (5, 7, 3, 6):
            x = bb.emit(op.matmul(x, weights(x.struct_info.dims[1].value, columns)))
        return bb.emit(op.nn.softmax(x))

    return graph({"x": X.shape}, body)


def test_kernels_are_those_of_one_after_the_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EUTECTIC_THREADS", "2")
    two = eutectic.compile(chain(), target="llvm")
    monkeypatch.setenv("EUTECTIC_THREADS", "1")
    one = eutectic.compile(chain(), target="llvm", threads=2)
    np.testing.assert_array_equal(one(X), two(X))
    assert [group.trace for group in one.report.plan.groups] == [group.trace for group in two.report.plan.groups]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_first_error_is_raised(monkeypatch: pytest.MonkeyPatch, threads: str):
    monkeypatch.setenv("EUTECTIC_THREADS", threads)
    compiled, names = kernels.object_code, []

    def object_code(text: str, machine: Machine) -> bytes:
        names.append(threading.current_thread().name)
        if len(names) > 1:
            raise CodegenError(f"refused by {threading.current_thread().name}")
        return compiled(text, machine)

    monkeypatch.setattr(kernels, "object_code", object_code)
    with pytest.raises(CodegenError, match="refused by " + ("MainThread" if threads == "1" else "eutectic-compile")):
        eutectic.compile(chain(), target="llvm")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("eutectic-compile")]
