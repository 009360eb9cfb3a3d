"""Stores that read a part of a matrix across: its rows are loaded whole, and exchanged in registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.backend.llvm.batch import Case, check, noise
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.driver.inspect import kernel_source
from eutectic.ir.dtype import from_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import PrimExpr, Ramp, Var
from eutectic.ir.visit import post_order
from eutectic.testing.native import run_native
from eutectic.tir import Buffer, BufferLoad, BufferStore, PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.stmt import For, ForKind, seq

SIZE = 1024
DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "float16"]


def program(
    columns: list[int], stride: PrimExpr | int, lanes: int, dtype: str = "float32", *arguments: Any, source: str = "x"
) -> PrimFunc:
    """`y[lanes * k + lane] = source[columns[k] + stride * lane] + 1` for all of the columns."""
    buffers = {name: Buffer(name, (SIZE,), dtype) for name in "xy"}
    one = tir.Broadcast(tir.const(1, dtype), lanes)
    stores = [
        BufferStore(
            buffers["y"], BufferLoad(buffers[source], (Ramp(at, stride, lanes),)) + one, (Ramp(lanes * k, 1, lanes),)
        )
        for k, at in enumerate(columns)
    ]
    return PrimFunc((*buffers.values(), *arguments), seq(*stores)).with_attr("tir.noalias", True)


def text(func: PrimFunc, cpu: str = "x86-64-v3") -> str:
    scheduled = func.with_attr("tir.is_scheduled", True)
    return kernel_source(IRModule({"main": scheduled}), f"llvm -mcpu={cpu}", "llvm")


def single_loads(source: str) -> int:
    """Loads of one element."""
    return len(re.findall(r"= load float,", source))


@given(
    st.lists(st.tuples(st.integers(0, 64), st.sampled_from([1, 1, 2, 4, 5, 8, 16, 19])), min_size=1, max_size=3),
    st.sampled_from([4, 6, 8, 12, 16, 32]),
    st.sampled_from([5, 8, 16, 17, -7]),
    st.sampled_from(DTYPES),
)
def test_values_are_those_of_lanes_one_by_one(runs: list[tuple[int, int]], lanes: int, stride: int, dtype: str):
    columns = [start + 256 + k for start, count in runs for k in range(count)][: SIZE // lanes]
    x = np.arange(SIZE).astype(dtype) if dtype != "float16" else (np.arange(SIZE) % 500).astype(dtype)
    y = np.zeros(SIZE, dtype)
    run_native(program(columns, stride, lanes, dtype), x, y, schedule=False)
    want = np.concatenate([x[at + stride * np.arange(lanes)] + x.dtype.type(1) for at in columns])
    np.testing.assert_array_equal(y[: len(want)], want)


@pytest.mark.parametrize(("lanes", "count"), [(8, 8), (8, 16), (8, 4), (16, 16), (16, 8), (12, 4)])
def test_no_element_is_loaded_alone(lanes: int, count: int):
    assert single_loads(text(program(list(range(3, 3 + count)), 20, lanes), "x86-64-v4")) == 0


def test_a_stride_may_be_unknown():
    n = Var("n", "int64")
    func = program(list(range(8)), n, 8, "float32", n)
    assert single_loads(text(func)) == 0
    x, y = np.arange(SIZE, dtype="float32"), np.zeros(SIZE, "float32")
    run_native(func, x, y, 100, schedule=False)
    np.testing.assert_array_equal(y[:64].reshape(8, 8), x[:800].reshape(8, 100)[:, :8].T + 1)


@pytest.mark.parametrize(
    ("columns", "lanes"),
    [
        ([0, 1, 2, 4, 5, 6, 8, 9], 8),  # not one after the other
        ([7, 6, 5, 4, 3, 2, 1, 0], 8),
        ([0, 1], 8),  # too few
        (list(range(8)), 7),  # no registers of so many lanes
    ],
)
def test_others_are_read_lane_by_lane(columns: list[int], lanes: int):
    assert single_loads(text(program(columns, 20, lanes))) == lanes * len(columns)


def test_what_is_written_meanwhile_is_read_in_order():
    func = program(list(range(8)), 20, 8, source="y")
    assert single_loads(text(func)) > 32  # some of them are what was just stored
    x, y = np.zeros(SIZE, "float32"), np.arange(SIZE, dtype="float32")
    want = y.copy()
    for k in range(8):
        want[8 * k : 8 * k + 8] = want[k + 20 * np.arange(8)] + 1
    run_native(func, x, y, schedule=False)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4", "znver4"])
def test_two_instructions_for_two_registers(cpu: str):
    """For each power of two up to the number of columns; LLVM may merge some of them with loads."""
    lanes = 16 if cpu in ("x86-64-v4", "znver4") else 8 if cpu == "x86-64-v3" else 4
    func = program(list(range(lanes)), 32, lanes).with_attr("tir.is_scheduled", True)
    code = kernel_source(IRModule({"main": func}), f"llvm -mcpu={cpu}", "asm")
    exchanges = re.findall(r"\bv?(?:unpck|shuf|perm|insert|blend|mov[lh]h?l?ps|movlhps|movhlps)\w*", code)
    assert len(exchanges) <= lanes * (lanes.bit_length() - 1) + lanes


def test_functions_of_columns_go_in_step():
    """What reads across may be computed by several registers together, as what reads along is."""
    x, y = Buffer("x", (SIZE,), "float32"), Buffer("y", (SIZE,), "float32")
    stores = [BufferStore(y, tir.exp(BufferLoad(x, (Ramp(k, 20, 8),))), (Ramp(8 * k, 1, 8),)) for k in range(8)]
    source = text(PrimFunc((x, y), seq(*stores)).with_attr("tir.noalias", True))
    assert single_loads(source) == 0
    assert {found.count("=") for found in re.findall(r'asm "", "([^"]*)"', source)} == {4}


# ---- schedules of transpositions


@given(
    st.lists(st.sampled_from([1, 3, 4, 7, 8, 16, 17, 40, 70]), min_size=2, max_size=4).filter(
        lambda shape: np.prod(shape) < 60_000
    ),
    st.randoms(use_true_random=False),
    st.sampled_from(["float32", "float64", "bfloat16", "int8"]),
)
def test_transpositions(shape: list[int], random: Any, dtype: str):
    order = random.sample(range(len(shape)), len(shape))
    x = noise(3, *shape, dtype=dtype)
    check([Case("transpose", lambda a: topi.add(topi.transpose(a, order), topi.transpose(a, order)), [x],
                lambda a: 2 * a.permute(order))])  # fmt: skip


def test_matrices_of_any_size():
    n, m = Var("n", "int64"), Var("m", "int64")
    x = te.placeholder((n, m), "float32")
    func = te.create_prim_func([x, topi.transpose(x)])
    for sizes in ((1, 1), (15, 17), (16, 16), (33, 70), (5, 100)):
        data = noise(1, *sizes)
        got = np.zeros(sizes[::-1], "float32")
        run_native(func, data, got)
        np.testing.assert_array_equal(got, data.T)


@pytest.mark.parametrize(
    ("rows", "columns", "outermost"),
    [
        *((1024, 1024, 1024 // 16), (64, 12288, 64 // 16), (12544, 64, 64 // 16), (500, 700, 500 // 16)),
        *((16, 4096, 4096 // 16), (4096, 16, 4096 // 16)),  # of one axis there are no tiles
    ],
)
def test_tiles_follow_the_rows_that_are_far_apart(rows: int, columns: int, outermost: int):
    """Those that are written where these are a multiple of 1024 bytes apart, else those that are read."""
    x = te.placeholder((rows, columns), "float32")
    scheduled = schedule_for_cpu(te.create_prim_func([x, topi.transpose(x)]), Vectors(512, 32))
    loops = [part for part in post_order(scheduled.body) if isinstance(part, For)]
    assert sum(loop.kind == ForKind.UNROLLED for loop in loops) >= 1
    shared = [loop for loop in loops if loop.kind == ForKind.PARALLEL]
    assert [loop.extent.value - (loop.extent.value > outermost) for loop in shared] == [outermost]


def test_an_image_gets_its_channels_last():
    x = noise(2, 2, 19, 6, 7)
    assert from_numpy(x.dtype) == "float32"
    check([Case("permute", lambda a: topi.nn.relu(topi.transpose(a, (0, 2, 3, 1))), [x],
                lambda a: torch.relu(a.permute(0, 2, 3, 1)))])  # fmt: skip
