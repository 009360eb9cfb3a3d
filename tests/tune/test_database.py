"""The database of measured choices: what is written is read, by whoever else writes at the same time."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eutectic.ir.services import Measured
from eutectic.support.errors import ArgumentError, LoadError
from eutectic.tune import Database
from eutectic.tune.records import ChoiceRow, SpeedRow, from_line, to_line

ROOT = Path(__file__).parents[2]
CHOICE = ChoiceRow("key", "cpu-1", 2, "register_tile@0", {"rows": 4, "unroll": [True]}, False, 1e-5, "dense", 10.0)
SPEED = SpeedRow("cpu-1", 2, 4e11, 2e11, 1e11, 3e10, "a processor", 10.0)
WRITER = """
import sys
from eutectic.tune.database import Database
from eutectic.tune.records import ChoiceRow
path, who = sys.argv[1:]
for number in range(40):
    shared = ChoiceRow("shared", "cpu", 1, "p", {"who": who}, False, 0.0, "", float(number))
    own = ChoiceRow(f"{who}-{number}", "cpu", 1, "p", {"number": number}, False, 0.0, "", 0.0)
    Database(path).record([shared, own])
"""


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "folder" / "tuning.db")


def test_what_is_recorded_is_read(database: Database):
    other = replace(CHOICE, processor="cpu-2")
    default = replace(CHOICE, workload="other", is_default=True)
    database.record([CHOICE, other, SPEED, default])
    assert database.choices("cpu-1", 2) == [CHOICE, default]
    assert len(database.choices()) == 3
    assert database.choices("cpu-1", 1) == []
    assert database.speeds() == [SPEED]
    measured = database.measured("cpu-1", 2)
    assert measured.decisions == {"key": {"register_tile@0": {"rows": 4, "unroll": [True]}}}
    assert measured.speeds is not None
    assert (measured.speeds.flops, measured.speeds.shared, measured.speeds.memory) == (400.0, 100.0, 30.0)
    database.forget_speeds("cpu-1", 2)
    assert database.measured("cpu-1", 2).speeds is None


def test_a_later_row_takes_the_place_of_an_earlier_one(database: Database):
    database.record([CHOICE])
    database.record([replace(CHOICE, decisions={"rows": 5})])
    assert [row.decisions for row in database.choices()] == [{"rows": 5}]


def test_reading_makes_no_file(database: Database):
    assert database.choices() == []
    assert database.measured("cpu", 1) == Measured()
    assert database.clear() == 0
    assert not database.path.parent.exists()


def test_cleared(database: Database):
    database.record([CHOICE, SPEED])
    assert database.clear() == 2
    assert (database.choices(), database.speeds()) == ([], [])


@pytest.mark.parametrize("exists", [False, True])
def test_processes_write_at_the_same_time(database: Database, exists: bool):
    if exists:
        database.record([CHOICE])
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", WRITER, str(database.path)]
    writers = [subprocess.Popen([*command, who], env=env, stderr=subprocess.PIPE, text=True) for who in "abc"]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    rows = {row.workload: row.decisions for row in database.choices("cpu", 1)}
    assert len(rows) == 1 + 3 * 40
    assert all(rows[f"{who}-{number}"] == {"number": number} for who in "abc" for number in range(40))


def test_a_file_of_something_else(tmp_path: Path):
    (tmp_path / "text").write_text("no database" * 100)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE choices (a)")
    connection.close()
    for name, reason in (("text", "file is not a database"), ("other.db", "made by another program")):
        database = Database(tmp_path / name)
        for use in (database.choices, lambda database=database: database.record([CHOICE])):
            with pytest.raises(LoadError, match=rf"{name} cannot be used .*{reason}") as caught:
                use()
            assert "tuned=False" in str(caught.value)


def test_a_damaged_file(database: Database):
    database.record([replace(CHOICE, workload=f"w{number}", name="x" * 500) for number in range(200)])
    data = bytearray(database.path.read_bytes())
    data[5000:30000] = b"\xff" * 25000
    database.path.write_bytes(data)
    with pytest.raises(LoadError, match="malformed"):
        database.choices()


def test_damaged_decisions(database: Database):
    database.record([CHOICE])
    with sqlite3.connect(database.path) as connection:
        connection.execute("UPDATE choices SET decisions = '[1'")
    connection.close()
    with pytest.raises(LoadError, match="decisions of dense are damaged"):
        database.choices()


def test_a_newer_version(database: Database):
    database.record([CHOICE])
    with sqlite3.connect(database.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LoadError, match="it has version 99, and this program reads up to version 1"):
        database.choices()


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LoadError, match="cannot be used as a database"):
        Database(tmp_path / "file" / "tuning.db").record([CHOICE])


def test_the_users_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", str(tmp_path / "mine.db"))
    assert Database().path == tmp_path / "mine.db"
    monkeypatch.setenv("EUTECTIC_TUNING_FILE", "")
    with pytest.raises(ArgumentError, match="EUTECTIC_TUNING_FILE is empty"):
        Database()
    monkeypatch.delenv("EUTECTIC_TUNING_FILE")
    assert Database().path.name == "tuning.db"


def test_exported_and_imported(database: Database, tmp_path: Path):
    database.record([CHOICE, SPEED])
    assert database.export_lines(tmp_path / "rows.jsonl") == 2
    other = Database(tmp_path / "other.db")
    other.record([replace(CHOICE, decisions={"rows": 9}, measured_at=5.0), replace(SPEED, flops=1.0, measured_at=20.0)])
    assert other.import_lines(tmp_path / "rows.jsonl") == 1  # the speed that is there was measured later
    assert other.choices() == [CHOICE]
    assert other.speeds()[0].flops == 1.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no exported choices"),
        ('{"kind": "something"}', "holds no exported choices"),
        ('{"kind": "eutectic choices", "version": 9}', "has version 9"),
        ('{"kind": "eutectic choices", "version": 1}\n{', "rows.jsonl:2 is no JSON"),
        ('{"kind": "eutectic choices", "version": 1}\n[]', "rows.jsonl:2 is neither a choice nor a speed"),
        ('{"kind": "eutectic choices", "version": 1}\n{"kind": "choice"}', "rows.jsonl:2 lacks"),
    ],
)
def test_what_is_not_imported(database: Database, tmp_path: Path, text: str, reason: str):
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(LoadError, match=reason):
        database.import_lines(tmp_path / "rows.jsonl")
    assert database.choices() == []


def test_a_binary_file_is_not_imported(database: Database, tmp_path: Path):
    (tmp_path / "rows.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LoadError, match="is no text"):
        database.import_lines(tmp_path / "rows.jsonl")


def test_a_line_with_an_unknown_field():
    with pytest.raises(LoadError, match="it has colour that is not known"):
        from_line(json.dumps({**json.loads(to_line(SPEED)), "colour": 1}), "here")


VALUES = st.integers(-(2**40), 2**40) | st.booleans() | st.text(max_size=5) | st.lists(st.booleans(), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.text(max_size=9), st.integers(1, 99))
def test_every_row_survives(database: Database, decisions: dict[str, object], name: str, threads: int):
    name = name.encode("utf-8", "ignore").decode()
    row = ChoiceRow("w", "cpu", threads, "p", decisions, True, 0.5, name, 1.0)
    assert from_line(to_line(row), "") == row
    if "\x00" not in name:
        database.record([row])
        assert database.choices("cpu", threads) == [row]
