"""Which tests are slow is measured, and each slow test has its turn."""

from __future__ import annotations

import re

import pytest
from tests import tiers

SECONDS = {"a.py::all[x]": 2.0, "a.py::all[y]": 3.0, "a.py::some[x]": 0.2, "a.py::some[y [1]]": 1.5, "b.py::none": 0.9}


def test_functions_stand_for_all_their_tests():
    text = tiers.as_text(SECONDS)
    assert tiers.long_ones(text) == {"a.py::all", "a.py::some[y [1]]"}
    assert "3.0 a.py::all\n" in text


def test_these_tests_are_never_slow():
    assert tiers.long_ones(tiers.as_text({**SECONDS, "tests/house/test_a.py::b": 9.0})) == tiers.long_ones(
        tiers.as_text(SECONDS)
    )


def test_what_was_not_measured_stays():
    before = "4.0 a.py::some\n5.0 a.py::some[z]\n5.0 a.py::some[x]\n6.0 c.py::other[x]\n"
    names = {"a.py::all", "a.py::some[y [1]]", "a.py::some[z]", "c.py::other[x]"}
    assert tiers.long_ones(tiers.as_text(SECONDS, before)) == names


def test_tests_that_were_measured_exist():
    names = {tiers.function_of(name) for name in tiers.long_ones(tiers.DURATIONS.read_text(encoding="utf-8"))}
    assert len(names) > 100
    gone = []
    for name in sorted(names):
        file, _, function = name.partition("::")
        path = tiers.DURATIONS.parents[1] / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        gone += [] if re.search(rf"def {function.rpartition('::')[2]}\b", text) else [name]
    assert not gone


class _Config:
    def __init__(self, within: float | None) -> None:
        self.within = within

    def getoption(self, name: str) -> float | None:
        assert name == "--within"
        return self.within


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid, self.marks = nodeid, []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


@pytest.mark.parametrize(("within", "first"), [(None, 0), (60.0, 4)])
def test_limited_time_begins_elsewhere(monkeypatch: pytest.MonkeyPatch, within: float | None, first: int):
    monkeypatch.setenv("EUTECTIC_TESTS_FIRST", "0.45")
    before = [_Item(f"t.py::test[{k}]") for k in range(10)]
    items = list(before)
    tiers.arrange(_Config(within), items)
    assert items == before[first:] + before[:first]


def test_long_tests_are_marked(monkeypatch: pytest.MonkeyPatch, tmp_path):
    (tmp_path / "durations.txt").write_text(tiers.as_text(SECONDS), encoding="utf-8")
    monkeypatch.setattr(tiers, "DURATIONS", tmp_path / "durations.txt")
    items = [_Item(name) for name in (*SECONDS, "a.py::all[new]")]
    tiers.arrange(_Config(None), items)
    assert [item.marks for item in items] == [["slow"], ["slow"], [], ["slow"], [], ["slow"]]


def test_every_place_is_near_the_first_test_of_some_day():
    days = sorted(day * tiers._GOLDEN_RATIO % 1 for day in range(738_000, 738_008))
    gaps = [b - a for a, b in zip(days, [*days[1:], 1 + days[0]], strict=True)]
    assert max(gaps) < 0.25
