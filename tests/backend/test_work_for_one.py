"""Calls that one thread has done before others would have come use one, unless nobody knows how much they do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic import tir
from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.runtime.instructions import RunNative
from eutectic.testing.graphs import graph, weights
from eutectic.tir.analysis.flops import is_counted


def threads_of(model: eutectic.CompiledModel) -> list[int]:
    program = model.executable.complete()
    return [step.code.threads for step in program.instructions if isinstance(step, RunNative)]


def chain(*widths: int, rows: Any = 1) -> IRModule:
    def body(bb: Any, x: Any) -> Any:
        for before, after in itertools.pairwise(widths):
            x = bb.emit(op.nn.relu(op.matmul(x, weights(before, after))))
        return x

    return graph({"x": (rows, widths[0])}, body)


@pytest.mark.parametrize(
    ("mod", "threads"),
    [
        (chain(64, 128, 64), 1),
        (chain(256, 256), 1),
        (chain(512, 256), 2),  # half a megabyte of weights
        (chain(64, 64, 64, rows=64), 2),  # half a million products
        (chain(8, 8, rows=tir.Var("n", "int64")), 2),
    ],
    ids=["small", "weights that stay near", "weights", "rows", "rows that vary"],
)
def test_it_is_a_question_of_size(mod: IRModule, threads: int):
    model = eutectic.compile(mod, target="llvm", threads=2)
    assert threads_of(model) == [threads]
    x = np.random.default_rng(0).standard_normal((1, 1), "float32")
    rows, columns = (size.value if hasattr(size, "value") else 3 for size in mod["main"].params[0].struct_info.dims)
    x = np.broadcast_to(x, (rows, columns)).copy()
    np.testing.assert_array_equal(model(x), eutectic.compile(mod, target="llvm", threads=1)(x))


SOURCES = {
    "a loop that ends when data says so": """
        for i in T.parallel(64):
            B[i] = T.float32(0)
            for j in range(N[i]):
                B[i] = B[i] + A[i]
    """,
    "a while": """
        for i in T.parallel(64):
            B[i] = A[i]
            while B[i] < T.float32(100):
                B[i] = B[i] + T.float32(1)
    """,
    "a function from outside": """
        for i in T.parallel(64):
            B[i] = T.call_pure_extern("float32", "sqrtf", A[i])
    """,
    "nothing of that": """
        for i in T.parallel(64):
            B[i] = A[i] + T.float32(1)
    """,
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_nobody_can_count_is_for_all(name: str):
    lines = [line[4:] for line in SOURCES[name].strip("\n").splitlines()]
    source = "\n".join(
        [
            "@T.prim_func",
            'def f(A: T.Buffer((64,), "float32"), N: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):',
            *lines,
        ]
    )
    func = eutectic.script.from_source(source)
    assert is_counted(func) == (name == "nothing of that")
