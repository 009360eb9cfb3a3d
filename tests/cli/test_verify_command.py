"""`eutectic verify epilogues`: the table, TVM beside it, and the status of the process."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from eutectic.cli.main import app
from eutectic.testing import epilogue_cases, tvm_epilogues
from eutectic.testing.epilogues import Case, Outcome, check, program

SOME = [
    Case("sum, relu", program("T.max({s}, {zero})")),
    Case("int32 sum, bias", program("{s} + {c}", dtype="int32")),
    Case("sum, two elements", program("{s} + temp[vi, 3 - vj]"), fuses=False),
]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(epilogue_cases, "cases", lambda: SOME)
    monkeypatch.setattr(tvm_epilogues, "tvm_version", lambda: None)


def test_the_table_is_printed():
    result = CliRunner().invoke(app, ["verify", "epilogues"])
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [
        ["sum, relu", "fused", "after the loops, the sum in D"],
        ["int32 sum, bias", "fused", "the sum begins with the term"],
        ["sum, two elements", "refused", "block epilogue reads several elements of temp at a point"],
    ]
    assert "2 fused with equal results, 1 refused, 0 wrong" in result.stdout


def test_tvm_is_beside_it(monkeypatch: pytest.MonkeyPatch):
    theirs = {"sum, relu": "wrong: 4 of 12", "int32 sum, bias": "same", "sum, two elements": "wrong: 1 of 12"}
    monkeypatch.setattr(tvm_epilogues, "tvm_version", lambda: "0.27.0")
    monkeypatch.setattr(tvm_epilogues, "tvm_results", lambda: theirs)
    result = CliRunner().invoke(app, ["verify", "epilogues"])
    assert result.exit_code == 0, result.output
    assert "wrong: 4 of 12 │" in result.stdout
    assert "TVM 0.27.0: 1 same, 2 wrong" in result.stdout


def test_what_is_not_as_expected_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(epilogue_cases, "cases", lambda: [Case("relu", program("T.max({s}, {zero})"), fuses=False)])
    result = CliRunner().invoke(app, ["verify", "epilogues"])
    assert result.exit_code == 1
    assert "not as expected: relu" in result.stderr


def test_a_wrong_result_is_one(monkeypatch: pytest.MonkeyPatch):
    from eutectic.testing import epilogues

    monkeypatch.setattr(epilogues, "differences", lambda before, after: iter(["D differs in 1 of 12 elements"]))
    outcome = check(SOME[0])
    assert outcome == Outcome(SOME[0], "wrong", "D differs in 1 of 12 elements")
    result = CliRunner().invoke(app, ["verify", "epilogues"])
    assert result.exit_code == 1
    assert "0 fused with equal results, 1 refused, 2 wrong" in result.stdout


def test_programs_in_the_names_of_tvm():
    old = tvm_epilogues.in_tvm(SOME[0].source, new=False)
    assert "import" not in old
    assert 'T.block("sum")' in old
    new = tvm_epilogues.in_tvm(SOME[0].source, new=True)
    for part in ("@T.prim_func(s_tir=True)", 'T.sblock("sum")', "T.sblock_alloc_buffer("):
        assert part in new
