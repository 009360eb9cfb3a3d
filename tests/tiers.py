"""Which tests are slow, and which of the slow ones a run of limited time begins with.

A test is slow that is marked so, or that took long when it was last measured: `durations.txt` has those, and is
written anew by `python -m pytest ... --write-durations`. A run `--within` some seconds begins with other tests each
day, so that each of them has its turn even where there is never time for all.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Final

import pytest

DURATIONS: Final = Path(__file__).with_name("durations.txt")
LONG: Final = 1.0
"""Seconds from which on a test that was measured is a slow one."""
_ALWAYS: Final = "tests/house/"
"""Tests of what no change may break: run with the fast ones however long they take, unless they are marked."""
_BEGAN: Final = time.monotonic()
_FIRST: Final = "EUTECTIC_TESTS_FIRST"  # parallel workers must collect in one order, also around midnight
_GOLDEN_RATIO: Final = 0.6180339887  # of its multiples, each lies in one of the largest gaps between those before


def add_options(parser: pytest.Parser) -> None:
    """The options of the command line."""
    parser.addoption("--within", type=float, metavar="SECONDS", help="skip tests that have not begun by then")
    parser.addoption("--write-durations", action="store_true", help=f"write which tests took {LONG} s or more")


def configure(config: pytest.Config) -> None:
    """Choose where a run of limited time begins, and measure if that is asked for."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    os.environ[_FIRST] = str(date.today().toordinal() * _GOLDEN_RATIO % 1)
    if config.getoption("--write-durations"):
        config.pluginmanager.register(Stopwatch())


def arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests; with limited time, begin somewhere else each day."""
    slow = long_ones(DURATIONS.read_text(encoding="utf-8"))
    for item in items:
        if not slow.isdisjoint((item.nodeid, function_of(item.nodeid))):
            item.add_marker(pytest.mark.slow)
    if config.getoption("--within") is not None:
        at = int(float(os.environ[_FIRST]) * len(items))
        items[:] = items[at:] + items[:at]


def skip_if_late(item: pytest.Item) -> None:
    """Skip what does not begin within the time that was given."""
    seconds = item.config.getoption("--within")
    if seconds is not None and time.monotonic() - _BEGAN > seconds:
        pytest.skip(f"not begun within {seconds:.0f} s")


def long_ones(text: str) -> frozenset[str]:
    """Tests of a file of durations, and functions all of whose tests are long."""
    return frozenset(name for name, seconds in durations_in(text).items() if seconds >= LONG)


def durations_in(text: str) -> dict[str, float]:
    """The seconds that a file of durations says, by test or function."""
    lines = (line.split(maxsplit=1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(seconds) for seconds, name in lines}


def function_of(test: str) -> str:
    """The test function of a test: its name without parameters."""
    return re.sub(r"\[.*", "", test, flags=re.DOTALL)


def as_text(seconds: Mapping[str, float], before: str = "") -> str:
    """A file of durations.

    Args:
        seconds: How long each test took.
        before: The file as it was, of which stays what was not measured.
    """
    by_function = defaultdict(list)
    for test in seconds:
        if not test.startswith(_ALWAYS):
            by_function[function_of(test)].append(test)
    known = seconds.keys() | by_function.keys()
    found = {name: each for name, each in durations_in(before).items() if name not in known}
    for function, tests in by_function.items():
        long = [test for test in tests if seconds[test] >= LONG]
        if len(long) == len(tests):
            found[function] = max(map(seconds.__getitem__, tests))
        else:
            found.update((test, seconds[test]) for test in long)
    head = f"# Seconds of tests that take {LONG} s or more; written by pytest --write-durations."
    return "\n".join([head, *(f"{found[name]:.1f} {name}" for name in sorted(found)), ""])


class Stopwatch:
    """Measures all tests of a run, and writes those that took long."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a part of a test took; what was skipped is not measured."""
        if not report.skipped:
            self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file; what was not measured stays as it is."""
        DURATIONS.write_text(as_text(self.seconds, DURATIONS.read_text(encoding="utf-8")), encoding="utf-8")
