"""The fuzzer itself: it counts, it finds what is wrong, and it survives what it finds."""

from __future__ import annotations

import os
import signal

import pytest
from tests.fuzz import families
from tests.fuzz.families import FAMILIES, outcome
from tests.fuzz.runner import Report, Worker, answer, numbers

from eutectic.support.errors import CodegenError


@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=[pytest.mark.slow] * (f in ("models", "operators"))) for f in FAMILIES]
)
def test_a_case_of_each_family(family: str):
    number = next(numbers(0, family))
    found = outcome(family, number)
    assert found.partition(":")[0] in ("equal", "refused")
    assert outcome(family, number) == found


def test_numbers_depend_on_seed_and_family():
    assert len({next(numbers(seed, family)) for seed in (1, 2) for family in ("models", "texts")}) == 4


def refuse(number: int) -> str:
    raise CodegenError("not this one\nand more")


def assert_something(number: int) -> str:
    assert number == 0
    return "equal"


def fail(number: int) -> str:
    raise KeyError(number)


@pytest.mark.parametrize(
    ("case", "kind"),
    [(refuse, "refused"), (assert_something, "wrong"), (fail, "internal error")],
    ids=["refused", "wrong", "internal"],
)
def test_outcomes(case, kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(families, "case_of", lambda family: case)
    found = answer("any", 7)
    assert found["kind"] == kind
    report = Report()
    report.add("any", 7, found)
    assert bool(report.faults) == (kind != "refused")
    if report.faults:
        assert report.faults[0].reproducer == "python -m tests.fuzz --family any --case 7"


def test_the_end_of_a_process_is_a_fault():
    worker = Worker("texts")
    assert worker.run(next(numbers(0, "texts")))["kind"] in ("equal", "refused")
    os.kill(worker.process.pid, signal.SIGSEGV)
    assert worker.run(1)["kind"] == "signal"
    assert not worker.is_usable
    worker.stop()
