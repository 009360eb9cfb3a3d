"""Whatever a rule says is worth a measurement computes the same; and programs bring decisions with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.test_rules_inverted_residual import Block
from tests.tir.schedule.rules.processors import Vectors
from tests.tir.schedule.rules.test_cpu_rules import PROGRAMS, WIDE, arrays, k, n
from tests.tir.schedule.rules.test_winograd_rule import CASES, LAYOUTS, program

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.module import IRModule
from eutectic.ir.services import Measured, Services
from eutectic.ir.transform import PassContext
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules.choosing import (
    Chooser,
    candidates_of,
    distinct,
    given_decisions,
    with_decisions,
    workload_key,
)
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.rule import JointRule, Rule
from eutectic.tir.schedule.rules.tile_size import TileAxes, choose_tile, near_tiles
from eutectic.tir.transform import ScheduleForTarget, TakeDecisions

NATIVE = Target("llvm")
ROOT = Path(__file__).parents[2]


def variants(func: tir.PrimFunc) -> Iterator[tuple[tir.PrimFunc, dict[str, object]]]:
    """The program scheduled with every candidate of every choice point."""
    machine = machine_of(NATIVE)
    for point in choice_points(func, machine).values():
        candidates = point.alternatives()
        assert dict(candidates[0]) == dict(point.chosen)
        assert len(distinct(candidates)) == len(candidates)
        for candidate in candidates:
            scheduled = schedule_for_cpu(with_decisions(func, {point.name: candidate}), machine)
            lines = [line for line in scheduled.attrs["tir.chosen"] if line.startswith(f"{point.name}:")]
            assert [line.endswith("(tuned)") for line in lines] in ([True], [])  # or a primitive refused it
            yield scheduled, {point.name: candidate}


def test_bands_of_rows_or_none():
    """Ways without bands have no part that says how large one is, and are taken as they are."""
    x, w = te.placeholder((1, 1, 28, 28, 16), "float32", "x"), te.placeholder((1, 1, 3, 3, 16), "float32", "w")
    func = te.create_prim_func([x, w, topi.nn.relu(topi.nn.conv2d_nchwc(x, w, 1, 1, 1, groups=16))])
    data = [np.random.default_rng(k).standard_normal(item.shape).astype("float32") for k, item in enumerate((x, w))]
    results, ways = [], []
    for scheduled, decisions in variants(func):
        out = np.empty((1, 1, 28, 28, 16), "float32")
        NativePrimFunc(scheduled, NATIVE, threads=1)(*data, out)
        results.append(out)
        ways.append("band" in decisions["padded_window@0"])
    assert {True, False} <= set(ways)
    for out in results[1:]:
        np.testing.assert_allclose(out, results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_candidate_computes_the_same(name: str):
    func, sizes = PROGRAMS[name], {n: 11, k: 37}
    want = arrays(func, sizes)
    inputs = [array.copy() for array in want[:-1]]
    run(func, *want)
    for scheduled, decisions in variants(func):
        out = np.full_like(want[-1], -77)
        results = [*(array.copy() for array in inputs), out]
        NativePrimFunc(scheduled, NATIVE, 2)(*results)
        np.testing.assert_allclose(out, want[-1], rtol=2e-5, atol=2e-5, err_msg=str(decisions))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    processor=st.sampled_from([Vectors(), Vectors(256, 16)]),
    images=st.integers(1, 2),
    blocks=st.tuples(*[st.sampled_from([1, 2, 4, 8, 16, 32])] * 2),
    size=st.sampled_from([5, 7, 9, 13, 14]),
    taps=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 2),
)
def test_every_candidate_of_a_convolution_goes_through(
    processor: Vectors, images: int, blocks: tuple[int, int], size: int, taps: int, stride: int
):
    lanes, (channels, filters) = processor.lanes(), blocks
    x = te.placeholder((images, channels, size, size, lanes), "float32", "x")
    w = te.placeholder((filters, channels, taps, taps, lanes, lanes), "float32", "w")
    func = te.create_prim_func([x, w, topi.nn.relu(topi.nn.conv2d_nchwc(x, w, stride, taps // 2, 1))])
    for point in choice_points(func, processor).values():
        for candidate in point.alternatives():
            scheduled = schedule_for_cpu(with_decisions(func, {point.name: candidate}), processor)
            assert not [line for line in scheduled.attrs["tir.chosen"] if "refused" in line], candidate


@pytest.mark.parametrize("size", [(64, 48, 56), (33, 70, 130)])
def test_every_candidate_of_a_large_product(size: tuple[int, int, int]):
    rows, terms, columns = size
    a, b = te.placeholder((rows, terms), "float32", "a"), te.placeholder((terms, columns), "float32", "b")
    func = te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, terms), "float32"), rng.standard_normal((terms, columns), "float32")
    want = np.maximum(x.astype("float64") @ y, 0)
    tried = 0
    for scheduled, decisions in variants(func):
        out = np.full((rows, columns), np.nan, "float32")
        NativePrimFunc(scheduled, NATIVE, 2)(x, y, out)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4, err_msg=str(decisions))
        tried += 1
    assert tried > 4


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_every_candidate_of_winograd(case: tuple[object, ...], layout: str):
    func, inputs, expected = program(case, layout)
    tried = set()
    for scheduled, decisions in variants(func):
        out = np.full(expected.shape, np.nan, "float32")
        NativePrimFunc(scheduled, NATIVE, 2)(*inputs, out)
        assert np.abs(out - expected).max() < 1e-5 * np.abs(expected).max(), decisions
        tried |= set(decisions)
    assert "winograd@0" in tried


@pytest.mark.slow
@pytest.mark.parametrize("expands", [True, False])
def test_every_candidate_of_inverted_residuals(expands: bool):
    block = Block((1, 24, 28, 14, 96, 24), 3, 1, expands)
    func, inputs = block.program("NHWC")
    want, tried = block.reference("NHWC"), 0
    for scheduled, decisions in variants(func):
        out = np.full(want.shape, np.nan, "float32")
        NativePrimFunc(scheduled, NATIVE, 2)(*inputs, out)
        assert np.linalg.norm(out - want) <= 1e-6 * np.linalg.norm(want), decisions
        tried += 1
    assert tried >= 5


def test_decisions_change_the_trace_and_are_told():
    func = PROGRAMS["product of many rows"]
    point = choice_points(func, WIDE)["register_tile@0"]
    default, other = point.alternatives()[:2]
    plain = schedule_for_cpu(func, WIDE)
    tuned = schedule_for_cpu(with_decisions(func, {"register_tile@0": other}), WIDE)
    assert tuned.attrs["tir.schedule_trace"] != plain.attrs["tir.schedule_trace"]
    assert [line[-9:] for line in plain.attrs["tir.chosen"]] == ["(default)"]
    assert f"rows={other['rows']}, width={other['width']}" in tuned.attrs["tir.chosen"][0]
    same = schedule_for_cpu(with_decisions(func, {"register_tile@0": default}), WIDE)
    assert same.attrs["tir.schedule_trace"] == plain.attrs["tir.schedule_trace"]


@pytest.mark.parametrize("decisions", [{"rows": 4}, {"rows": 10**6, "width": 8}, {}])
def test_decisions_of_another_version_are_not_used(decisions: dict[str, int]):
    func = PROGRAMS["product"]
    scheduled = schedule_for_cpu(with_decisions(func, {"register_tile@0": decisions}), WIDE)
    assert scheduled.attrs["tir.schedule_trace"] == schedule_for_cpu(func, WIDE).attrs["tir.schedule_trace"]
    assert "(default; what was tuned is of another version" in scheduled.attrs["tir.chosen"][0]


def test_the_rules_own_choice_is_the_first_tile():
    func = PROGRAMS["product of many rows"]
    axes = {"rows": 31, "columns": 40}

    class Extent:
        def __init__(self, size: int) -> None:
            self.size = size

    rows, vector = Extent(axes["rows"]), Extent(axes["columns"])
    tiled = TileAxes(vector, rows, shares=True)
    tiles = near_tiles(tiled, WIDE, 32, 5)
    chosen = choice_points(func, WIDE)["register_tile@0"].chosen
    best = choose_tile(tiled, WIDE)
    assert (chosen["rows"], chosen["width"]) == (best.rows, best.width)
    assert len(tiles) == len(set(tiles)) == 5
    assert len({tile.width for tile in tiles}) >= 3


def test_what_the_contract_says_of_a_rule_without_candidates():
    class Bare:
        name = "bare"

        def decide(self, axes, processor):
            return {"size": axes}

    class Single(Rule):
        name = "single"

        def decide(self, axes, processor):
            return {"size": axes}

    class Joint(JointRule):
        name = "joint"

        def decide(self, axes, processor):
            return {"size": axes}

    for rule in (Bare(), Single(), Joint()):
        assert list(candidates_of(rule, 3, WIDE)) == [{"size": 3}]
        assert Chooser(WIDE, {f"{rule.name}@0": {"size": 4}}).choose(rule, 3, 0) == {"size": 3}


def test_parts_that_only_a_candidate_has_or_lacks():
    class Rule:
        name = "rule"

        def decide(self, axes, processor):
            return {"size": 1, "band": 2}

        def candidates(self, axes, processor):
            return [self.decide(axes, processor), {"size": 1}, {"parts": 3, "size": 1}]

    for other in Rule().candidates(0, WIDE):
        assert Chooser(WIDE, {"rule@0": other}).choose(Rule(), 0, 0) == other


# ---- keys


def product(names: str, block: str = "product", terms: int = 6) -> tir.PrimFunc:
    a = te.placeholder((4, terms), "float32", f"{names}a")
    b = te.placeholder((terms, 9), "float32", f"{names}b")
    i = te.reduce_axis((0, terms), f"{names}k")
    c = te.compute((4, 9), lambda y, x: te.sum(a[y, i] * b[i, x], axis=i), block)
    return te.create_prim_func([a, b, c])


def test_keys_do_not_depend_on_names():
    key = workload_key(product(""))
    assert workload_key(product("other_", "another")) == key
    assert workload_key(product("").with_attr("global_symbol", "f").with_attr("op_pattern", 4)) == key
    assert workload_key(with_decisions(product(""), {"register_tile@0": {"rows": 1}})) == key
    assert workload_key(product("", terms=7)) != key
    assert workload_key(product("").without_attr("tir.noalias")) != key


def test_keys_are_the_same_in_every_process():
    code = (
        "from tests.tune.test_candidates import product\n"
        "from eutectic.tir.schedule.rules.choosing import workload_key\nprint(workload_key(product('z')))"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == workload_key(product(""))


def test_decisions_are_taken_from_the_services_and_survive_as_text():
    func = product("")
    mod = IRModule({"main": func})
    decisions = {"register_tile@0": choice_points(func, machine_of(NATIVE))["register_tile@0"].alternatives()[1]}
    assert TakeDecisions()(mod) is mod
    with PassContext(services=Services(Measured({"another": decisions}))):
        assert TakeDecisions()(mod) is mod
    with PassContext(services=Services(Measured({workload_key(func): decisions}))):
        taken = TakeDecisions()(mod)
        assert TakeDecisions()(taken) is taken
        scheduled = ScheduleForTarget("llvm")(taken)
        assert TakeDecisions()(scheduled) is scheduled
    check_round_trip(taken)
    assert given_decisions(taken["main"]) == decisions
    assert scheduled["main"].attrs["tir.chosen"][0].endswith("(tuned)")
    assert with_decisions(taken["main"], {}).attr("tir.decisions") is None
