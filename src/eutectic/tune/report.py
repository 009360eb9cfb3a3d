"""What a search did: data, and the same for people."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from eutectic.explain.numbers import seconds_text

_WIDTH = 120


@dataclass(frozen=True)
class TunedChoice:
    """One choice that was measured.

    Attributes:
        name: What people call the kernel or operator.
        workload: What the database calls it.
        point: The choice point.
        default: What is chosen without a measurement.
        best: What was fastest.
        seconds: That it saves in a call; 0 when the default is the fastest.
        measured: How many others were measured.
    """

    name: str
    workload: str
    point: str
    default: Mapping[str, Any]
    best: Mapping[str, Any]
    seconds: float
    measured: int

    @property
    def is_default(self) -> bool:
        """Whether nothing else was faster."""
        return dict(self.default) == dict(self.best)

    def changes(self) -> str:
        """What differs from the default, as `rows: 14 -> 9, width: 32 -> 48`."""
        return ", ".join(
            f"{name}: {str(self.default.get(name)).lower()} -> {str(value).lower()}"
            for name, value in self.best.items()
            if self.default.get(name) != value
        )


@dataclass(frozen=True)
class TuneReport:
    """What a search did; `print` shows a table.

    Attributes:
        seconds_before: Median time of a call with the choices of rules and estimates.
        seconds_after: The same with what was measured, in turns with the former.
        spread: Seconds that the difference of the two must exceed to mean something.
        choices: What was measured, in the order in which it was.
        refused: What could not be compiled or computed other results, as sentences.
        known: How many choices of the model the database had already.
        left: How many kernels and operators there was not enough time for.
        kept: Whether the choices are in the database; they are not when the whole was slower with them.
        spent: Seconds that all of it took, compilation included.
        threads: Threads of a call.
        processor: What the database calls the processor.
    """

    seconds_before: float
    seconds_after: float
    spread: float
    choices: tuple[TunedChoice, ...]
    refused: tuple[str, ...]
    known: int
    left: int
    kept: bool
    spent: float
    threads: int
    processor: str

    @property
    def improved(self) -> tuple[TunedChoice, ...]:
        """The choices of which something else than the default was faster."""
        return tuple(choice for choice in self.choices if not choice.is_default)

    def to_json(self) -> dict[str, Any]:
        """All of it as a tree that `json.dumps` takes."""
        return asdict(self)

    def __str__(self) -> str:
        table = Table("what", "choice point", "saves", "how")
        table.columns[2].justify = "right"
        for choice in self.improved:
            table.add_row(choice.name, choice.point, seconds_text(choice.seconds), choice.changes())
        console = Console(width=_WIDTH, record=True, file=io.StringIO())
        console.print(self._headline(), markup=False, highlight=False, soft_wrap=True)
        if self.improved:
            console.print(table)
        for sentence in self._sentences():
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        return console.export_text()

    def _headline(self) -> str:
        before, after, noise = map(seconds_text, (self.seconds_before, self.seconds_after, self.spread))
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        return f"{before} before, {after} after (noise {noise}), {threads}, took {self.spent:.0f} s"

    def _sentences(self) -> list[str]:
        tried = sum(choice.measured for choice in self.choices)
        said = [f"{tried} candidates of {len(self.choices)} choices measured, {len(self.improved)} choices changed"]
        if self.known:
            said.append(f"{self.known} choices were known already")
        if self.left:
            said.append(
                f"there was not enough time for {self.left} kernels and operators: tune again, or give a larger budget"
            )
        if not self.kept:
            said.append("all of it together was slower than before: the defaults stay")
        return [*said, *(f"refused: {sentence}" for sentence in self.refused)]
