"""Long sums in blocks of terms: how long blocks are, and programs that compute the same with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors
from tests.tir.schedule.rules.test_cpu_rules import PROGRAMS
from tests.tir.schedule.rules.test_dense_pack_rule import check as check_dense_pack
from tests.tir.schedule.rules.test_winograd_rule import CASES, LAYOUTS
from tests.tir.schedule.rules.test_winograd_rule import program as winograd_program

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import Var
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.block import TERMS_OF_SUM
from eutectic.tir.interpret import run
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules import partial_sums, winograd
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.partial_sums import terms_of_block
from eutectic.tir.schedule.rules.stage import Stage, stages_of

NARROW, WIDE = Vectors(128, 16), Vectors(256, 16)
SUMS = [name for name in PROGRAMS if any(word in name for word in ("product", "any", "convolution", "sum", "norm"))]
EXACT = [name for name in SUMS if not any(word in name for word in ("softmax", "norm"))]


@dataclass(frozen=True)
class Size:
    """An axis."""

    size: int | None


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs have several blocks of terms."""
    monkeypatch.setattr(partial_sums, "_TERMS", 3)
    monkeypatch.setattr(partial_sums, "_TERMS_OF_FEW_ROWS", 2)


def stage(kind: str = "sum", dtype: str = "float32", terms: int | None = None) -> Stage:
    """A reduction of that kind."""
    x = te.placeholder((4, 64), dtype, "x")
    k = te.reduce_axis((0, 64), "k")
    reducer = {"sum": te.sum, "max": te.max}[kind]
    attrs = None if terms is None else {TERMS_OF_SUM: terms}
    found = stages_of(te.create_prim_func([x, te.compute((4,), lambda i: reducer(x[i, k], [k]), "r", attrs=attrs)]))
    assert found is not None
    return found[0][0]


def whole_numbers(func: tir.PrimFunc, sizes: dict[Var, int]) -> list[np.ndarray]:
    """Arguments of which every sum is exact in float32, in whatever order."""
    rng = np.random.default_rng(5)
    shapes = [[next((n for v, n in sizes.items() if v is s), s) for s in b.shape] for b in func.buffer_map.values()]
    buffers = func.buffer_map.values()
    return [rng.integers(-4, 5, [int(n) for n in s]).astype(b.dtype) for s, b in zip(shapes, buffers, strict=True)]


# ---- how long blocks are


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=3), st.sampled_from([None, 1, 4, 5, 1000]))
def test_blocks_are_as_long_as_they_may_be(sizes: list[int], rows: int | None):
    block = terms_of_block(stage(), [Size(size) for size in sizes], rows)
    first, inner, most = sizes[0], int(np.prod(sizes[1:])), 256 if rows is None or rows > 4 else 64
    if not block:
        assert first * inner <= 1.5 * most or first == 1
        return
    assert block < first
    assert block == 1 or block * inner <= most
    assert 2 * (block + 1) * inner > most  # and not much shorter


def test_an_unknown_number_of_terms_has_blocks():
    assert terms_of_block(stage(), [Size(None)]) == 256
    assert terms_of_block(stage(), [Size(None), Size(9)]) == 28
    assert terms_of_block(stage(), [Size(40), Size(None)]) == 1


def test_only_sums_of_floats_have_blocks():
    for other in (stage("max"), stage(dtype="int32")):
        assert not terms_of_block(other, [Size(10000)])


def test_a_stage_may_say_how_many_terms():
    assert terms_of_block(stage(terms=16), [Size(64), Size(4)]) == 4


def test_short_sums_have_none():
    assert not terms_of_block(stage(), [Size(384)])
    assert not terms_of_block(stage(), [Size(24), Size(16)])


# ---- programs


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("processor", [NARROW, WIDE], ids=["128", "256"])
@pytest.mark.parametrize("name", SUMS)
def test_results_stay(name: str, processor: Vectors):
    func = PROGRAMS[name]
    made = schedule_for_cpu(func, processor)
    variables = {v for buffer in func.buffer_map.values() for v in buffer.shape if isinstance(v, Var)}
    for size in (1, 2, 37):
        want = whole_numbers(func, dict.fromkeys(variables, size))
        got = [array.copy() for array in want]
        run(func, *want)
        run(made, *got)
        if name in EXACT:
            np.testing.assert_array_equal(got[-1], want[-1])
        else:
            np.testing.assert_allclose(got[-1], want[-1], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(
    "name", ["product", "any rows", "any terms", "convolution", "sum over rows", "sum of any number"]
)
def test_blocks_are_steps_of_the_trace(name: str):
    func = PROGRAMS[name]
    made = schedule_for_cpu(func, WIDE)
    trace = made.attrs["tir.schedule_trace"]
    assert any("sch.merge(" in line for line in trace)
    assert any("sch.rfactor(" in line for line in trace)
    sch = tir.Schedule(func)
    trace_from_python(trace).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, made.body)
    check_round_trip(made)


@pytest.mark.usefixtures("short_blocks")
@settings(max_examples=15)
@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 40), st.integers(1, 90), st.integers(1, 40))
def test_products_with_packed_weights(rows: list[int], depth: int, columns: int, panel: int):
    check_dense_pack(tuple(rows), depth, columns, panel)


@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by stages"])
@pytest.mark.parametrize("case", [CASES[1], CASES[2]], ids=str)
def test_convolutions_by_winograds_method(case: tuple[int, ...], by_rows: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(winograd, "_NEAR_BYTES", 1 << 30 if by_rows else 0)
    monkeypatch.setattr(winograd, "_FEWEST_ROWS", 0)
    monkeypatch.setattr(topi.nn.winograd, "_TERMS", 4)
    func, inputs, expected = winograd_program(case, LAYOUTS[1])
    made = schedule_for_cpu(func, Vectors(128))
    assert any("sch.rfactor(" in line for line in made.attrs["tir.schedule_trace"])
    out = np.full(expected.shape, np.nan, "float32")
    NativePrimFunc(made, Target("llvm"), threads=2)(*inputs, out)
    assert np.abs(out - expected).max() < 2e-6 * np.abs(expected).max() * case[1]


def test_products_of_winograds_method_say_how_many_terms():
    """What is lost in them is lost several times in results."""
    func, _, _ = winograd_program((1, 128, 4, 12, 12, 4, 1), LAYOUTS[1])
    assert choice_points(func, Vectors(128))["winograd@0"].chosen["terms"] == 64
