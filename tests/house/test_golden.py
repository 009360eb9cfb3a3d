"""The golden fixture writes what it is told to, and compares what it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parents[1]
CONFTEST = (TESTS / "conftest.py").read_text(encoding="utf-8")
TEST = "def test_it(golden):\n    golden({!r})\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.mkdir("tests")  # what it imports
    for name in ("tiers.py", "durations.txt"):
        shutil.copy(TESTS / name, pytester.path / "tests" / name)
    return pytester


def _outcomes(suite: pytest.Pytester, text: str, *args: str) -> tuple[dict[str, int], str]:
    suite.makepyfile(test_one=TEST.format(text))
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", *args)
    return result.parseoutcomes(), result.stdout.str()


def test_written_then_compared(suite: pytest.Pytester):
    assert _outcomes(suite, "a\nb", "--update-golden")[0] == {"passed": 1}
    assert (suite.path / "golden" / "test_one" / "test_it.txt").read_text() == "a\nb\n"
    assert _outcomes(suite, "a\nb")[0] == {"passed": 1}
    outcomes, output = _outcomes(suite, "a\nc")
    assert outcomes == {"failed": 1}
    assert "-b" in output
    assert "+c" in output


def test_missing_file_is_a_failure(suite: pytest.Pytester):
    outcomes, output = _outcomes(suite, "a")
    assert outcomes == {"failed": 1}
    assert "--update-golden" in output
