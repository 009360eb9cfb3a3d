"""Measured choices that are remembered: one SQLite file, which any number of processes may read and write.

Every operation is a transaction on a connection of its own, so that threads and forked processes share nothing. The
file says by its `application_id` that it is one of ours, and by its `user_version` which tables it has.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

from eutectic.ir.services import Measured, Speeds
from eutectic.support.config import tuning_file
from eutectic.support.errors import ArgumentError, LoadError
from eutectic.tune.records import ChoiceRow, Row, SpeedRow, from_line, to_line

VERSION: Final = 1
_APPLICATION: Final = 0x45555443  # "EUTC"
_BUSY_SECONDS: Final = 30.0  # that a process waits for another one
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS choices (
        workload TEXT, processor TEXT, threads INTEGER, point TEXT, decisions TEXT, is_default INTEGER, gain REAL,
        name TEXT, measured_at REAL, PRIMARY KEY (workload, processor, threads, point))""",
    """CREATE TABLE IF NOT EXISTS speeds (
        processor TEXT, threads INTEGER, flops REAL, near REAL, shared REAL, memory REAL, name TEXT, measured_at REAL,
        PRIMARY KEY (processor, threads))""",
)
_HEADER: Final = "eutectic choices"
T = TypeVar("T", ChoiceRow, SpeedRow)


class Database:
    """Choices and speeds that were measured.

    Args:
        path: The file, made when something is recorded; None takes the user's, which `EUTECTIC_TUNING_FILE` names.

    Raises:
        ArgumentError: no path is given, and `EUTECTIC_TUNING_FILE` is empty.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        chosen = tuning_file() if path is None else Path(path)
        if chosen is None:
            raise ArgumentError(
                "no database is named, and EUTECTIC_TUNING_FILE is empty", help="give a path, or unset the variable"
            )
        self.path = chosen

    def record(self, rows: Iterable[Row]) -> None:
        """Write rows; each takes the place of an earlier one for the same choice or processor.

        Raises:
            LoadError: the file cannot be written, or is none of ours.
        """
        with self._connected(create=True) as connection:
            for row in rows:
                _write(connection, row)

    def choices(self, processor: str | None = None, threads: int | None = None) -> list[ChoiceRow]:
        """The choices for a processor and a number of threads, or all; none when there is no file.

        Raises:
            LoadError: the file is damaged, or none of ours.
        """
        return self._all(ChoiceRow, processor, threads)

    def speeds(self, processor: str | None = None, threads: int | None = None) -> list[SpeedRow]:
        """The speeds of processors, likewise."""
        return self._all(SpeedRow, processor, threads)

    def measured(self, processor: str, threads: int) -> Measured:
        """What compiling for a processor asks for; choices that are the default anyway are left out.

        Raises:
            LoadError: the file is damaged, or none of ours.
        """
        if not self.path.is_file():
            return Measured()
        decisions: dict[str, dict[str, Any]] = {}
        with self._connected(create=False) as connection:
            choices = self._select(connection, ChoiceRow, processor, threads)
            speeds = self._select(connection, SpeedRow, processor, threads)
        for row in choices:
            if not row.is_default:
                decisions.setdefault(row.workload, {})[row.point] = row.decisions
        rates = [Speeds(row.flops / 1e9, row.shared / 1e9, row.memory / 1e9) for row in speeds]
        return Measured(decisions, rates[0] if rates else None)

    def forget_speeds(self, processor: str, threads: int) -> None:
        """Remove the speeds of a processor, so that estimates reckon with what is usual."""
        with self._connected(create=True) as connection:
            connection.execute("DELETE FROM speeds WHERE processor = ? AND threads = ?", (processor, threads))

    def clear(self) -> int:
        """Forget everything; gives the number of rows."""
        if not self.path.is_file():
            return 0
        with self._connected(create=False) as connection:
            return sum(connection.execute(f"DELETE FROM {table}").rowcount for table in ("choices", "speeds"))

    def export_lines(self, path: str | Path) -> int:
        """Write all rows as lines of JSON, for another machine of the same kind, or to be kept with a project.

        Returns:
            How many.

        Raises:
            LoadError: the database is damaged, or none of ours.
            OSError: the file cannot be written.
        """
        rows: list[Row] = [*self.choices(), *self.speeds()]
        lines = [json.dumps({"kind": _HEADER, "version": VERSION}), *map(to_line, rows)]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return len(rows)

    def import_lines(self, path: str | Path) -> int:
        """Take the rows of a file that `export_lines` wrote; of two for the same choice the later measurement stays.

        Returns:
            How many were taken.

        Raises:
            LoadError: the file is none of these, or of another version; nothing is taken then.
            OSError: it cannot be read.
        """
        try:
            first, *lines = Path(path).read_text(encoding="utf-8").splitlines() or [""]
        except UnicodeDecodeError:
            raise LoadError(f"{path} is no text", help="import what eutectic tune --export wrote") from None
        _check_header(first, str(path))
        rows = [from_line(line, f"{path}:{number}") for number, line in enumerate(lines, 2) if line.strip()]
        with self._connected(create=True) as connection:
            return sum(_write(connection, row, later_only=True) for row in rows)

    def _all(self, cls: type[T], processor: str | None, threads: int | None) -> list[T]:
        if not self.path.is_file():
            return []
        with self._connected(create=False) as connection:
            return self._select(connection, cls, processor, threads)

    def _select(
        self, connection: sqlite3.Connection, cls: type[T], processor: str | None, threads: int | None
    ) -> list[T]:
        table = "choices" if cls is ChoiceRow else "speeds"
        query = f"SELECT * FROM {table} WHERE (? IS NULL OR processor = ?) AND (? IS NULL OR threads = ?)"
        rows = connection.execute(query, (processor, processor, threads, threads)).fetchall()
        return [cls(**self._values(row)) for row in rows]

    def _values(self, row: sqlite3.Row) -> dict[str, Any]:
        values = dict(row)
        if "decisions" in values:
            try:
                decisions = json.loads(values["decisions"])
            except (TypeError, ValueError):
                decisions = None
            if not isinstance(decisions, dict):
                raise self._refusal(f"decisions of {values['name']} are damaged: {values['decisions']!r}")
            values |= {"decisions": decisions, "is_default": bool(values["is_default"])}
        return values

    @contextmanager
    def _connected(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        """A transaction on a connection of its own; that of a writer begins with the right to write.

        Raises:
            LoadError: the file cannot be opened, is damaged, none of ours, or of a newer version.
        """
        try:
            if create:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                if create:
                    self._prepare(connection)
                self._check(connection)
                connection.execute("BEGIN IMMEDIATE" if create else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._refusal(str(error)) from error
        except OSError as error:
            raise self._refusal(error.strerror or str(error)) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables in an empty file."""
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        connection.execute("BEGIN IMMEDIATE")
        is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if is_empty:
            for statement in (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}", *_TABLES):
                connection.execute(statement)
        connection.execute("COMMIT")
        if is_empty:
            connection.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait for each other

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise self._refusal("it was made by another program")
        if version > VERSION:
            raise self._refusal(f"it has version {version}, and this program reads up to version {VERSION}")

    def _refusal(self, reason: str) -> LoadError:
        return LoadError(
            f"{self.path} cannot be used as a database of measured choices: {reason}",
            help="name another file, or remove it and run eutectic tune again; tuned=False compiles without it",
        )


def _write(connection: sqlite3.Connection, row: Row, *, later_only: bool = False) -> int:
    """Write a row; gives 1, or 0 when a later measurement is there."""
    values = asdict(row)
    if isinstance(row, ChoiceRow):
        values |= {"decisions": json.dumps(dict(row.decisions), sort_keys=True), "is_default": int(row.is_default)}
        table, key = "choices", "workload, processor, threads, point"
    else:
        table, key = "speeds", "processor, threads"
    rest = ", ".join(f"{name} = excluded.{name}" for name in values if name not in key.split(", "))
    later = f" WHERE excluded.measured_at > {table}.measured_at" if later_only else ""
    statement = (
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {rest}{later}"
    )
    return connection.execute(statement, tuple(values.values())).rowcount


def _check_header(line: str, where: str) -> None:
    """Refuse a file that `export_lines` did not write.

    Raises:
        LoadError: it did not, or in a newer version.
    """
    try:
        tree = json.loads(line)
    except ValueError:
        tree = None
    if not isinstance(tree, dict) or tree.get("kind") != _HEADER or not isinstance(tree.get("version"), int):
        raise LoadError(f"{where} holds no exported choices", help="import what eutectic tune --export wrote")
    if tree["version"] > VERSION:
        raise LoadError(
            f"{where} has version {tree['version']}, and this program reads up to version {VERSION}",
            help="import it with a newer version of Eutectic",
        )
