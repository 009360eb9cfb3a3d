"""The search as a whole: what it measures, keeps, refuses and remembers; and what compiling makes of that."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic.backend.llvm import kernels
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.settings import settings_of
from eutectic.ir.module import IRModule
from eutectic.ir.services import Measured
from eutectic.relax import op
from eutectic.relax.op import nn
from eutectic.support.errors import ArgumentError, CodegenError, LoadError
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights
from eutectic.tir.schedule.rules.choosing import workload_key
from eutectic.tune import Database, TuneReport, search, tuning
from eutectic.tune.lookup import processor_key
from eutectic.tune.measure import Contest
from eutectic.tune.records import ChoiceRow, SpeedRow
from eutectic.tune.search import Search

NATIVE = Target("llvm")
X = np.random.default_rng(0).standard_normal((48, 40), "float32")
IMAGE = np.random.default_rng(0).standard_normal((1, 32, 20, 20), "float32")


def products() -> IRModule:
    def body(bb: Any, x: Any) -> Any:
        return bb.emit(op.matmul(bb.emit(nn.relu(op.matmul(x, weights(40, 64)))), weights(64, 24)))

    return graph({"x": (48, 40)}, body)


def convolution() -> IRModule:
    return graph({"x": IMAGE.shape}, lambda bb, x: bb.emit(nn.relu(nn.conv2d(x, weights(32, 32, 3, 3), padding=1))))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """One that knows the speed of the machine, so that it is not measured."""
    made = Database(tmp_path / "tuning.db")
    made.record([SpeedRow(processor_key(NATIVE), 1, 1.5e11, 1e11, 9e10, 3e10, "here", 0.0)])
    return made


@pytest.fixture
def wins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every candidate of a search wins, as nothing is measured; how many there were."""
    seen: list[int] = []

    def won(*args: Any) -> Contest:
        seen.append(1)
        return Contest(1.0, 0.1, 0.01, 16)

    monkeypatch.setattr(search, "contest", won)
    monkeypatch.setattr(tuning, "contest", lambda *_, **__: Contest(1.0, 0.1, 0.01, 24))
    return seen


def tuned(mod: IRModule, database: Database, x: np.ndarray, **options: Any) -> TuneReport:
    options = {"budget": 60.0, **options}
    report: TuneReport = eutectic.tune(mod, (x,), target="llvm", threads=1, database=database, **options)
    return report


def chosen(model: Any) -> list[str]:
    return [line for group in model.report.plan.groups for line in group.chosen]


def test_what_wins_is_remembered_and_used(database: Database, wins: list[int]):
    report = tuned(products(), database, X)
    assert len(wins) == sum(choice.measured for choice in report.choices) > 4
    assert {choice.point for choice in report.improved} == {"register_tile@0"}
    assert (report.known, report.left, report.refused) == (0, 0, ())
    plain = eutectic.compile(products(), target="llvm", threads=1, tuned=False)
    for source in (database, database.path, str(database.path)):
        fast = eutectic.compile(products(), target="llvm", threads=1, tuned=source)
        np.testing.assert_allclose(fast(X), plain(X), rtol=1e-5, atol=1e-5)
        assert [line[-7:] for line in chosen(fast)] == ["(tuned)"] * 2
        traces = [[group.trace for group in model.report.plan.groups] for model in (fast, plain)]
        assert traces[0] != traces[1]
    assert all(line.endswith("(default)") for line in chosen(plain))
    assert "(tuned)" in str(fast.explain(measure=False))
    assert "(default)" not in str(plain.explain(measure=False))


def test_other_threads_and_no_database_change_nothing(database: Database, wins: list[int]):
    tuned(products(), database, X)
    other = eutectic.compile(products(), target="llvm", threads=2, tuned=database)
    assert all(line.endswith("(default)") for line in chosen(other))
    assert chosen(eutectic.compile(products(), target="llvm", threads=1)) == chosen(other)


def test_the_users_database_is_the_default(database: Database, wins: list[int], monkeypatch: pytest.MonkeyPatch):
    tuned(products(), database, X)
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", str(database.path))
    assert all(line.endswith("(tuned)") for line in chosen(eutectic.compile(products(), target="llvm", threads=1)))
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", str(database.path.with_name("none.db")))
    assert all(line.endswith("(default)") for line in chosen(eutectic.compile(products(), target="llvm", threads=1)))


def test_compiling_without_a_database_reads_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", str(tmp_path / "none.db"))
    monkeypatch.setattr(Database, "_connected", lambda *_, **__: pytest.fail("it was opened"))
    assert settings_of("llvm", 1).measured == Measured()
    assert settings_of("llvm", 1, tuned=False).measured == Measured()


def test_a_later_search_goes_on_where_the_first_ended(database: Database, wins: list[int]):
    first = tuned(products(), database, X)
    count = len(wins)
    second = tuned(products(), database, X)
    assert (len(wins), second.choices, second.known) == (count, (), len(first.choices))


def test_the_default_is_remembered_when_nothing_is_faster(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "contest", lambda *_: Contest(1.0, -0.1, 0.01, 6))
    monkeypatch.setattr(tuning, "contest", lambda *_, **__: Contest(1.0, 0.0, 0.01, 24))
    report = tuned(products(), database, X)
    assert report.improved == ()
    assert all(row.is_default for row in database.choices())
    assert len(database.choices()) == len(report.choices) == 2
    assert "0 choices changed" in str(report)
    fast = eutectic.compile(products(), target="llvm", threads=1, tuned=database)
    assert all(line.endswith("(default)") for line in chosen(fast))


def test_a_kernel_that_computes_something_else_is_refused(
    database: Database, wins: list[int], monkeypatch: pytest.MonkeyPatch
):
    """Of the candidates those of three vectors are made of another program."""
    lowered, width = kernels.lowered_kernel, 3 * machine_of(Target("llvm")).lanes()

    def spoiled(func: Any, machine: Any, symbol: str = "kernel") -> Any:
        made = lowered(func, machine, symbol)
        lines = func.attr("tir.chosen") or ()
        if any(f"width={width}" in line and "(tuned)" in line for line in lines):
            return replace(made, text=made.text.replace("fmul contract", "fadd contract").replace("fmul ", "fadd "))
        return made

    monkeypatch.setattr(kernels, "lowered_kernel", spoiled)
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")
    report = tuned(products(), database, X)
    assert report.refused
    assert all(f"width={width}" in sentence and "of its size" in sentence for sentence in report.refused)
    assert all(choice.best.get("width") != width for choice in report.choices)


def test_the_budget_is_kept(database: Database):
    start = time.perf_counter()
    report = tuned(products(), database, X, budget=1e-3)
    assert report.choices == ()
    assert report.left > 0
    assert "there was not enough time" in str(report)
    assert report.spent < time.perf_counter() - start + 1
    assert report.spent < 20


def test_progress_is_told(database: Database, wins: list[int]):
    steps: list[tuple[str, int, int]] = []
    tuned(products(), database, X, progress=lambda *step: steps.append(step))
    assert len(steps) == len(wins)
    assert all(0 <= done <= total <= 60_000 for _, done, total in steps)
    assert "register_tile@0" in steps[0][0]


# ---- ways to compute operators


@pytest.mark.slow
def test_ways_to_compute_a_convolution(database: Database, wins: list[int]):
    report = tuned(convolution(), database, IMAGE)
    (choice,) = [choice for choice in report.choices if choice.point == "winograd"]
    assert choice.measured == 2
    assert not choice.is_default
    assert choice.workload == "conv2d 1x32x20x20 to 32, 3x3"
    rows = {(row.workload, row.point): row.decisions for row in database.choices()}
    assert rows[choice.workload, "winograd"] == choice.best
    fast = eutectic.compile(convolution(), target="llvm", threads=1, tuned=database)
    assert f"winograd of {choice.workload}: tile={choice.best['tile']} (tuned)" in fast.report.notes
    names = [group.operators[0].op for group in fast.report.plan.groups if group.kind == "kernel"]
    assert any("winograd" in name for name in names) == (choice.best["tile"] > 0)


@pytest.mark.parametrize("tile", [0, 2, 4])
def test_each_way_computes_the_same(database: Database, tile: int):
    row = ChoiceRow(
        "conv2d 1x32x20x20 to 32, 3x3", processor_key(NATIVE), 1, "winograd", {"tile": tile}, False, 0, "", 0
    )
    database.record([row])
    fast = eutectic.compile(convolution(), target="llvm", threads=1, tuned=database)
    assert f"winograd of conv2d 1x32x20x20 to 32, 3x3: tile={tile} (tuned)" in fast.report.notes
    plain = eutectic.compile(convolution(), target="llvm", threads=1, tuned=False)
    np.testing.assert_allclose(fast(IMAGE), plain(IMAGE), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("decisions", [{"tile": 3}, {"size": 2}, {}])
def test_a_way_that_is_none_is_not_taken(database: Database, decisions: dict[str, int]):
    row = ChoiceRow("conv2d 1x32x20x20 to 32, 3x3", processor_key(NATIVE), 1, "winograd", decisions, False, 0, "", 0)
    database.record([row])
    notes = eutectic.compile(convolution(), target="llvm", threads=1, tuned=database).report.notes
    assert not [note for note in notes if "winograd" in note]


# ---- refusals


def test_the_whole_is_measured_before_it_is_kept(database: Database, wins: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tuning, "contest", lambda *_, **__: Contest(1.0, -0.5, 0.01, 16))
    report = tuned(products(), database, X)
    assert (report.kept, report.seconds_after) == (False, 1.5)
    assert "the defaults stay" in str(report)
    assert all(row.is_default for row in database.choices())
    assert database.speeds() == []


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"budget": 0.0}, ArgumentError, "budget=0.0: expected a positive number of seconds"),
        ({"inputs": None}, ArgumentError, "needs arguments to call the model with"),
        ({"target": "llvm -mcpu=x86-64-v2"}, CodegenError, "it is not this processor"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str):
    whole = {"inputs": (X,), "target": "llvm", "threads": 1, "database": tmp_path / "t.db", **options}
    with pytest.raises(error, match=said):
        eutectic.tune(products(), **whole)


@pytest.mark.parametrize("source", ["none.db", 3, ["a"]])
def test_sources_of_choices_that_are_none(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((LoadError, ArgumentError), match=r"there is no database none.db|expected True, False, a path"):
        eutectic.compile(products(), target="llvm", tuned=source)


def test_a_damaged_database_is_told_when_compiling(tmp_path: Path):
    (tmp_path / "t.db").write_text("nothing" * 999)
    with pytest.raises(LoadError, match="cannot be used as a database of measured choices"):
        eutectic.compile(products(), target="llvm", tuned=tmp_path / "t.db")


def test_speeds_are_measured_once(tmp_path: Path, wins: list[int], monkeypatch: pytest.MonkeyPatch):
    store = Database(tmp_path / "t.db")
    tuned(products(), store, X, budget=1e-3)
    (speed,) = store.speeds()
    assert 1e9 < speed.flops < 1e13
    assert 1e9 < speed.memory < 1e12
    assert speed.near > speed.memory
    tuned(products(), store, X, budget=1e-3)
    assert store.speeds() == [speed]


def test_keys_of_kernels_are_those_of_the_plan(database: Database, wins: list[int]):
    report = tuned(products(), database, X)
    mod = eutectic.compile(products(), target="llvm", threads=1, tuned=False).lowered
    keys = {workload_key(func) for _, func in mod.functions_items() if hasattr(func, "buffer_map")}
    assert {choice.workload for choice in report.choices} <= keys


@pytest.mark.parametrize("gain", [0.0, -0.1])
def test_a_search_that_is_cut_short_goes_on(database: Database, monkeypatch: pytest.MonkeyPatch, gain: float):
    """What was not measured to the end, and not beaten, is measured again; also where noise says that all is slower."""
    monkeypatch.setattr(tuning, "contest", lambda *_, **__: Contest(1.0, gain, 0.01, 24))
    now = [0.0]

    def lost(*args: Any) -> Contest:
        now[0] += 100.0
        return Contest(1.0, -0.1, 0.01, 6)

    monkeypatch.setattr(search, "contest", lost)
    clock = lambda: time.perf_counter() + now[0]  # noqa: E731
    monkeypatch.setattr(tuning, "Search", lambda *args, **options: Search(*args, **options, clock=clock))
    report = tuned(products(), database, X)
    assert [choice.measured for choice in report.choices] == [1]
    assert report.left == 2
    assert database.choices() == []
