"""Default schedules of programs whose sizes are not known: nothing is refused, and sums are kept in registers."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import evaluate
from eutectic.target import Target
from eutectic.tir.analysis.index_facts import statements
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.stmt import Allocate
from eutectic.tir.transform.lower_tir import lowered
from eutectic.topi.nn.dense_pack import packed_panels

N, M = tir.Var("n", "int64"), tir.Var("m", "int64")
NATIVE = Target("llvm")
COUNTS = (0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 27, 28, 29, 64)
Shape = tuple[Any, ...]


def panels(data: Shape, columns: int = 48, panel: int = 16) -> tir.PrimFunc:
    """A product with weights in panels, and what is done to it."""
    x = te.placeholder(data, "float32", "data")
    w = te.placeholder((-(-columns // panel), data[-1], panel), "float32", "weight")
    product = topi.nn.dense_pack(x, w, columns)
    return te.create_prim_func([x, w, topi.nn.relu(product)])


def product(a: Shape, b: Shape) -> tir.PrimFunc:
    x, y = te.placeholder(a, "float32", "x"), te.placeholder(b, "float32", "y")
    out = topi.matmul(x, y)
    return te.create_prim_func([x, y, te.compute(out.shape, lambda *at: out(*at) * te.const(0.5, "float32"), "half")])


def of_one(function: Callable[[Any], Any], shape: Shape) -> tir.PrimFunc:
    """A function of a tensor, which another one gives its sizes."""
    x, n = te.placeholder(shape, "float32", "x"), te.placeholder((N,), "float32", "n")
    return te.create_prim_func([n, x, function(x)])


def turned(shape: Shape) -> tir.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    return te.create_prim_func([x, topi.transpose(x)])


def softmax(shape: Shape) -> tir.PrimFunc:
    return of_one(lambda x: topi.nn.softmax(x, -1), shape)


def scheduled(func: tir.PrimFunc, processor: Any) -> tir.PrimFunc:
    done = schedule_for_cpu(func, processor)
    assert [line for line in done.attrs["tir.chosen"] if "refused" in line] == []
    return done


def sizes_of(func: tir.PrimFunc) -> list[Any]:
    """Sizes of all memory within a scheduled function, when it is lowered."""
    found = [stmt for stmt in statements(lowered(func).body) if isinstance(stmt, Allocate)]
    return [size for stmt in found for size in stmt.extents]


PROGRAMS = {
    "panels": lambda: panels((N, 24)),
    "panels of a batch": lambda: panels((N, 3, 24)),
    "panels of sequences": lambda: panels((3, N, 24)),
    "rows": lambda: product((N, 24), (24, 40)),
    "columns": lambda: product((5, 24), (24, N)),
    "columns for many rows": lambda: product((40, 24), (24, N)),
    "rows and columns": lambda: product((2, 3, N, 24), (2, 3, 24, N)),
    "rows and other columns": lambda: product((2, N, 24), (2, 24, M)),
    "terms": lambda: product((5, N), (N, 40)),
    "softmax": lambda: softmax((2, 3, N, N)),
    "softmax of one more": lambda: softmax((6, N + 1)),
    "sums": lambda: of_one(lambda x: topi.sum(x, -1), (6, N)),
    "columns of tiles": lambda: turned((N, 64)),
    "rows of tiles": lambda: turned((64, N)),
    "a remainder both ways": lambda: turned((N, 37)),
}


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_rule_goes_through(name: str, registers: int):
    scheduled(PROGRAMS[name](), Vectors(bits=16 * registers, registers=registers))


@pytest.mark.parametrize("name", ["panels", "panels of sequences", "softmax", "softmax of one more", "sums"])
def test_what_is_summed_is_kept_in_memory_of_a_known_size(name: str):
    """A row of a softmax is as long as it is; all else is a few vectors, and lies in registers."""
    sizes = sizes_of(scheduled(PROGRAMS[name](), Vectors(bits=256, registers=16)))
    unknown = [size for size in sizes if not isinstance(size, tir.IntImm)]
    assert len(unknown) == (1 if "softmax" in name else 0)
    assert all(size.value <= 16 * 12 for size in sizes if isinstance(size, tir.IntImm))


@pytest.mark.parametrize(
    "name",
    [
        "panels",
        "rows and columns",
        "columns for many rows",
        "softmax",
        "columns of tiles",
        "rows of tiles",
        "a remainder both ways",
    ],
)
@pytest.mark.parametrize("registers", [16, 32])
def test_the_schedule_computes_what_the_program_says(name: str, registers: int):
    func = PROGRAMS[name]()
    done = scheduled(func, Vectors(bits=128, registers=registers))
    for count in (0, 1, 5, 9):
        shapes = [[evaluate(size, {N: count, M: 3}) for size in buffer.shape] for buffer in func.buffer_map.values()]
        rng = np.random.default_rng(count)
        given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        want, got = ([array.copy() for array in given] for _ in range(2))
        run(func, *want)
        run(done, *got)
        np.testing.assert_allclose(got[-1], want[-1], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it is compiled for x86-64")
@pytest.mark.parametrize("data", [(N, 24), (N, 3, 24), (3, N, 24)], ids=str)
@pytest.mark.parametrize(("columns", "panel"), [(48, 16), (37, 16), (32, 32)])
def test_panels_with_any_number_of_rows(data: Shape, columns: int, panel: int):
    func = schedule_for_cpu(panels(data, columns, panel), machine_of(NATIVE))
    native = NativePrimFunc(func, NATIVE, 2)
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((24, columns)).astype(np.float32)
    for count in COUNTS:
        x = rng.standard_normal([count if size is N else size for size in data]).astype(np.float32)
        want = np.maximum(x.astype(np.float64) @ weight.astype(np.float64), 0)
        out = np.full(want.shape, np.nan, np.float32)
        native(x, packed_panels(weight, panel), out)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it is compiled for x86-64")
@pytest.mark.parametrize("pair", [((2, N, 24), (2, 24, M)), ((N, M), (M, 24)), ((5, 7), (7, N))], ids=str)
def test_products_of_any_size(pair: Sequence[Shape]):
    native = NativePrimFunc(schedule_for_cpu(product(*pair), machine_of(NATIVE)), NATIVE, 2)
    rng = np.random.default_rng(1)
    for n, m in ((0, 3), (3, 1), (5, 8), (7, 31), (13, 17), (64, 48), (65, 49)):
        arrays = [
            rng.standard_normal([{N: n, M: m}.get(size, size) for size in shape]).astype(np.float32) for shape in pair
        ]
        want = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64) * 0.5
        out = np.full(want.shape, np.nan, np.float32)
        native(*arrays, out)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
