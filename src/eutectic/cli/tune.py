"""`eutectic tune`: choices measured in a model, remembered, carried to other machines, and forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from eutectic.cli.models import open_model
from eutectic.cli.session import Debug, Json, Precision, TargetOption, Threads, print_json, progress, reported

if TYPE_CHECKING:
    from eutectic.tune import Database

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|)")


def seconds_of(text: str) -> float:
    """Seconds of a duration such as `30s`, `5m` or `30`.

    Raises:
        BadParameter: it is none, or nothing.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match.group(1)) * _UNITS[match.group(2)] if match else 0.0
    if not seconds:
        raise typer.BadParameter(f"{text!r} is no duration: expected such as 30s, 5m or 1h")
    return seconds


def tune(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="A .pt2 file, or package.module:factory; see `docs/cli.md`.")
    ] = None,
    budget: Annotated[
        float, typer.Option("--budget", parser=seconds_of, metavar="TIME", help="Time to spend, such as 30s or 5m.")
    ] = "30s",  # type: ignore[assignment]  # typer parses it
    database: Annotated[Path | None, typer.Option("--database", help="File; the user's when not given.")] = None,
    export: Annotated[Path | None, typer.Option("--export", help="Write all choices there, as lines of JSON.")] = None,
    imported: Annotated[Path | None, typer.Option("--import", help="Take the choices of such a file first.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget all choices first.")] = False,
    target: TargetOption = None,
    threads: Threads = None,
    precision: Precision = "default",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure choices for a model in the model, and remember the best: compile uses them from then on.

    Example: eutectic tune nets:small --budget 30s --threads 2
    """
    if model is None and not clear and export is None and imported is None:
        raise typer.BadParameter("name a MODEL, or --import, --export or --clear", param_hint="MODEL")
    said: dict[str, Any] = {}
    with reported(debug):
        from eutectic.tune import Database  # --help loads none of this

        store = Database(database)
        said["database"] = str(store.path)
        if clear:
            said["forgotten"] = store.clear()
        if imported is not None:
            said["imported"] = store.import_lines(imported)
        report = None if model is None else _tuned(model, store, budget, target, threads, precision)
        if export is not None:
            said["exported"] = store.export_lines(export)
    if json:
        print_json({**said, **({} if report is None else {"report": report.to_json()})})
        return
    typer.echo(_sentence(said))
    if report is not None:
        typer.echo(str(report).rstrip())


def _sentence(said: dict[str, Any]) -> str:
    counts = [f"{name} {said[name]} rows" for name in ("forgotten", "imported", "exported") if name in said]
    return ": ".join([said["database"], *([", ".join(counts)] if counts else [])])


def _tuned(model: str, store: Database, budget: float, target: str | None, threads: int | None, precision: str) -> Any:
    """The report of a search for the model that MODEL names."""
    from eutectic.support.errors import LoadError  # --help loads none of this
    from eutectic.tune.tuning import tune as search

    subject = open_model(model)
    if subject.is_compiled:
        raise LoadError(f"{model} is compiled already", help="tune what it was compiled from, and compile that again")
    with progress(f"tuning {subject.name}") as say:
        step: Callable[[str, int, int], None] | None = say
        return search(
            subject.model,
            subject.args,
            kwargs=dict(subject.kwargs),
            target=target,
            precision=precision,
            budget=budget,
            threads=threads,
            database=store,
            progress=step,
        )
