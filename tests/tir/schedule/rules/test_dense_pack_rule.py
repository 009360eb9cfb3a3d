"""Products with weights in panels in default schedules: one nest, whose sums stay in registers."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.ahead import steady_asks
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.driver.inspect import kernel_source
from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules import dense_pack
from eutectic.tir.schedule.rules.cpu import schedule_by_rules, schedule_for_cpu
from eutectic.tir.stmt import For, parts_of
from eutectic.topi.nn.dense_pack import packed_panels

NATIVE = Target("llvm")


def program(
    rows: tuple[int, ...], depth: int, columns: int, panel: int, dtype: str = "float32", narrow: str = ""
) -> tir.PrimFunc:
    """A product, a bias of each column, an activation and a residual."""
    data = te.placeholder((*rows, depth), dtype, "data")
    weight = te.placeholder((-(-columns // panel), depth, panel), narrow or dtype, "weight")
    bias = te.placeholder((columns,), dtype, "bias")
    residual = te.placeholder((*rows, columns), dtype, "residual")
    product = topi.nn.dense_pack(data, weight, columns)
    total = te.compute(product.shape, lambda *at: product(*at) + bias(at[-1]), "total")
    active = topi.nn.relu(total)
    out = te.compute(product.shape, lambda *at: active(*at) + residual(*at), "out")
    return te.create_prim_func([data, weight, bias, residual, out])


def check(
    rows: tuple[int, ...], depth: int, columns: int, panel: int, dtype: str = "float32", narrow: str = ""
) -> None:
    """The scheduled program gives what float64 gives."""
    rng = np.random.default_rng(columns)
    shapes = [(*rows, depth), (depth, columns), (columns,), (*rows, columns)]
    data, weight, bias, residual = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    weight = weight.astype(to_numpy(narrow or dtype))
    wide = data.astype(np.float64) @ weight.astype(np.float64) + bias
    want = np.maximum(wide, 0) + residual
    scheduled = schedule_for_cpu(program(rows, depth, columns, panel, dtype, narrow), machine_of(NATIVE))
    out = np.full(want.shape, np.nan, dtype)
    NativePrimFunc(scheduled, NATIVE, 2)(data, packed_panels(weight, panel), bias, residual, out)
    np.testing.assert_allclose(out, want, atol=(1e-5 if dtype == "float32" else 1e-13) * np.abs(wide).max(initial=0))


def nests(rows: tuple[int, ...], columns: int, panel: int) -> list[Any]:
    sch = schedule_by_rules(program(rows, 24, columns, panel), Vectors())
    check_round_trip(sch.func)
    return list(parts_of(sch.func.body.block.body))


@pytest.mark.parametrize("rows", [(), (1,), (2,), (1, 3), (4,), (1, 1, 1)])
@pytest.mark.parametrize("columns", [64, 100, 129, 192, 7])
def test_values(rows: tuple[int, ...], columns: int):
    check(rows, 37, columns, 64)


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [(1,), (1, 3), (8,), (70,)])
def test_narrow_weights_are_widened_exactly(rows: tuple[int, ...], narrow: str):
    check(rows, 37, 100, 32, narrow=narrow)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 40), st.integers(1, 90), st.integers(1, 40))
def test_odd_sizes(rows: list[int], depth: int, columns: int, panel: int):
    check(tuple(rows), depth, columns, panel)


def test_double_precision():
    check((2,), 50, 70, 16, "float64")


@pytest.mark.parametrize(("rows", "columns"), [((1,), 256), ((7,), 256), ((2, 3), 256), ((1, 1), 256)])
def test_threads_share_panels_in_one_nest(rows: tuple[int, ...], columns: int):
    (nest,) = nests(rows, columns, 64)
    while nest.extent.value == 1:  # rows of which there is one
        nest = nest.body
    assert isinstance(nest, For)
    assert (nest.kind, nest.extent.value) == ("parallel", 4)


@pytest.mark.parametrize("rows", [(), (1,), (3,), (1, 1), (9,)])
@pytest.mark.parametrize(("columns", "panel"), [(256, 64), (1000, 64), (130, 32), (17, 16)])
def test_no_primitive_refuses_what_the_rule_does(rows: tuple[int, ...], columns: int, panel: int):
    (line,) = schedule_for_cpu(program(rows, 24, columns, panel), Vectors()).attrs["tir.chosen"]
    assert line.startswith("dense_pack@0: ")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(8,), (9,), (29,), (3, 11), (5, 1), (2, 2, 9)])
@pytest.mark.parametrize(("columns", "panel"), [(256, 64), (130, 64), (128, 32), (70, 8)])
def test_more_rows_than_registers_are_tiled(rows: tuple[int, ...], columns: int, panel: int):
    assert len(nests(rows, columns, panel)) == 1 or columns % panel
    check(rows, 20, columns, panel)


def test_panels_too_wide_for_several_rows_are_left_to_other_rules():
    assert len(nests((2,), 512, 256)) > 1
    check((9,), 20, 130, 256)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(40,), (39,), (2, 39), (3, 7)])
@pytest.mark.parametrize("columns", [64, 70])
@pytest.mark.parametrize("block", [7, 14, 28])
def test_blocks_of_rows(rows: tuple[int, ...], columns: int, block: int, monkeypatch: pytest.MonkeyPatch):
    own = dense_pack.DensePack.decide
    monkeypatch.setattr(dense_pack.DensePack, "decide", lambda *given: {**own(*given), "block": block})
    chosen = str(schedule_for_cpu(program(rows, 20, columns, 32), Vectors()).attrs["tir.chosen"])
    assert "block=" in chosen
    assert "block=0" not in chosen
    check(rows, 20, columns, 32)


@pytest.mark.parametrize(
    ("terms", "dtype", "rows"),
    [
        (3072, "float32", 10),  # all rows begin at equal places of a page: ten lines, and two for weights
        (1024, "float32", 10),
        (512, "float64", 10),
        (768, "float32", 13),  # 128 rows in ten tiles of 13 are fewer than in tiles of 14
        (512, "float32", 13),
        (37, "float32", 13),
    ],
)
def test_rows_of_a_tile_have_places_in_the_nearest_cache(terms: int, dtype: str, rows: int):
    panel = 2 * Vectors().lanes()
    (line,) = schedule_for_cpu(program((128,), terms, 4 * panel, panel, dtype), Vectors()).attrs["tir.chosen"]
    assert f"rows={rows}," in line


@pytest.mark.parametrize("columns", [64, 70])
def test_every_choice_gives_the_same(columns: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dense_pack, "_NEAR_BYTES", 1)
    monkeypatch.setattr(dense_pack, "_BLOCK_BYTES", 1200)
    rule = dense_pack.DensePack()
    axes: list[dense_pack.Axes] = []
    own = dense_pack.DensePack.decide
    monkeypatch.setattr(dense_pack.DensePack, "decide", lambda _, found, by: axes.append(found) or own(rule, found, by))
    panel = 2 * machine_of(NATIVE).lanes()
    check((23,), 20, columns, panel)
    choices = rule.candidates(axes[0], machine_of(NATIVE))
    assert len(choices) > 3
    for choice in choices:
        monkeypatch.setattr(dense_pack.DensePack, "decide", lambda *_, choice=choice: choice)
        check((23,), 20, columns, panel)


def test_columns_narrower_than_a_panel_are_left_to_other_rules():
    chosen = schedule_for_cpu(program((1,), 24, 7, 16), Vectors()).attrs["tir.chosen"]
    assert [str(line).split("@")[0] for line in chosen] == ["register_tile", "elementwise"]


def test_no_rows_are_left_to_other_rules():
    check((0,), 20, 64, 32)
    check((3, 0), 20, 64, 32)


def test_weights_are_asked_for_ahead():
    sch = schedule_by_rules(program((1,), 24, 256, 64), Vectors())
    assert '"prefetch": [["weight", 16]]' in sch.func.script()


def test_beside_tiles_the_next_panel_is_asked_for():
    func = schedule_by_rules(program((100,), 512, 256, 32), Vectors()).func
    assert '"prefetch": [["weight", 512]]' in func.script()
    assert not steady_asks(func.body, Vectors().lanes()), "weights of other kernels are not asked for besides"


@pytest.mark.parametrize("terms", [1024, 3072])
def test_tiles_share_the_asking_where_registers_are_few(terms: int):
    func = schedule_by_rules(program((100,), terms, 256, 16), Vectors(256, 16)).func
    assert f'"prefetch": [["weight", {terms}, "spread"]]' in func.script()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
def test_what_is_asked_for_long_before_is_kept_in_larger_caches():
    wide = Target("llvm -mcpu=x86-64-v4")
    row = kernel_source(IRModule({"main": program((1,), 512, 256, 64)}), wide, "asm")
    assert set(re.findall(r"prefetch\w+", row)) == {"prefetcht0"}
    tiles = kernel_source(IRModule({"main": program((100,), 512, 256, 32)}), wide, "asm")
    assert set(re.findall(r"prefetch\w+", tiles)) == {"prefetcht1"}


def test_traces_make_the_same_program():
    func = program((2,), 24, 100, 32)
    scheduled = schedule_for_cpu(func, Vectors())
    trace = scheduled.attrs["tir.schedule_trace"]
    assert any("compute_at" in line for line in trace)
    sch = tir.Schedule(func)
    trace_from_python(trace).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)


def test_what_is_not_a_row_of_columns_is_left_to_other_rules():
    data, weight = te.placeholder((1, 24), "float32", "x"), te.placeholder((4, 24, 64), "float32", "w")
    product = topi.nn.dense_pack(data, weight, 256)
    out = te.compute((4, 64), lambda i, j: product(0, (3 - i) * 64 + j), "out")
    func = te.create_prim_func([data, weight, out])
    x, w = np.random.default_rng(0).standard_normal((1, 24), np.float32), np.ones((4, 24, 64), np.float32)
    got = np.zeros((4, 64), np.float32)
    NativePrimFunc(schedule_for_cpu(func, machine_of(NATIVE)), NATIVE, 1)(x, w, got)
    np.testing.assert_allclose(got, np.full((4, 64), x.sum()), rtol=1e-5)
