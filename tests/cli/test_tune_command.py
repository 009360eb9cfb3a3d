"""eutectic tune: a search, the database carried to another file and emptied, and what doctor says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
import typer
from tests.cli.test_models import NETS, call, folder

from eutectic.cli.tune import seconds_of
from eutectic.tune import search, tuning
from eutectic.tune.measure import Contest

__all__ = ["folder"]
MLP = f"{NETS}:mlp"
OPTIONS = ("--target", "llvm", "--threads", "1", "--budget", "60s")


def test_a_search_and_its_database(folder: Path, monkeypatch: pytest.MonkeyPatch):
    for module in (search, tuning):  # what a busy machine would measure is not the matter here
        monkeypatch.setattr(module, "contest", lambda *_, **__: Contest(1.0, 0.1, 0.01, 24))
    tree = json.loads(call("tune", MLP, *OPTIONS, "--database", "a.db", "--export", "rows.jsonl", "--json").stdout)
    assert tree["report"]["threads"] == 1
    assert (
        tree["exported"] == len(tree["report"]["choices"]) + 1 == len(Path("rows.jsonl").read_text().splitlines()) - 1
    )
    assert (
        f"b.db: imported {tree['exported']} rows" in call("tune", "--database", "b.db", "--import", "rows.jsonl").stdout
    )
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", "b.db")
    monkeypatch.setenv("EUTECTIC_THREADS", "1")
    facts = json.loads(call("doctor", "--json").stdout)["facts"]
    assert facts["tuned choices"].startswith(f"{len(tree['report']['choices'])} measured, ")
    assert "GFLOP/s by one thread, own caches " in facts["measured speed"]
    call("compile", MLP, "--target", "llvm")
    assert f"forgotten {tree['exported']} rows" in call("tune", "--clear").stdout


def test_a_table_for_people(folder: Path):
    output = call("tune", MLP, *OPTIONS[:-1], "2s", "--database", "a.db").stdout
    assert "candidates of " in output
    assert " before, " in output


def test_what_is_refused(folder: Path):
    assert "name a MODEL" in call("tune", status=2).stderr
    assert "no duration" in call("tune", MLP, "--budget", "soon", status=2).stderr
    call("compile", MLP, "--target", "llvm", "-o", "net.eut")
    assert "is compiled already" in call("tune", "net.eut", "--database", "a.db", status=1).stderr
    Path("bad.db").write_text("x" * 9999)
    assert "bad.db cannot be used as a database" in call("tune", MLP, "--database", "bad.db", status=1).stderr
    assert "EUTECTIC_TUNING_FILE is empty" in call("tune", MLP, status=1).stderr


def test_doctor_without_a_database():
    facts = json.loads(call("doctor", "--json").stdout)["facts"]
    assert facts["tuned choices"] == "none: eutectic tune MODEL measures them"


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("30", 30), ("1.5m", 90), ("2 min", 120), ("1h", 3600)])
def test_durations(text: str, seconds: float):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "-3s", "3 days", "s", "1e3"])
def test_what_is_no_duration(text: str):
    with pytest.raises(typer.BadParameter, match="is no duration"):
        seconds_of(text)
