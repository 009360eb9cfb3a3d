"""What a benchmark found, as JSON and as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

_MOVED: Final = 2.0  # times as long for a cache line as before


@dataclass(frozen=True, slots=True)
class Row:
    """One contender on one model.

    Attributes:
        peer: The contender.
        median_ms: Median latency.
        low_ms: Tenth percentile.
        high_ms: Ninetieth percentile.
        error_eager: Largest difference from eager float32, relative to the scale of the output.
        error_float64: The same from the model in float64.
        prepare_seconds: Time to compile.
        note: What a reader should know.
    """

    peer: str
    median_ms: float
    low_ms: float
    high_ms: float
    error_eager: float
    error_float64: float
    prepare_seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All contenders on one model; `missing` says why the others did not take part.

    `exchange_ns` is how long the processors took to hand each other a cache line before and after, the slowest pair.
    """

    model: str
    title: str
    rows: tuple[Row, ...]
    missing: dict[str, str] = field(default_factory=dict)
    exchange_ns: tuple[float, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the processors came closer to each other meanwhile, or apart: then medians mix two machines."""
        return bool(self.exchange_ns) and max(self.exchange_ns) > _MOVED * min(self.exchange_ns)

    def ratio(self, peer: str, ours: str) -> float | None:
        """A contender's median over ours, above 1 when ours is faster; None when one of them is missing."""
        medians = {row.peer: row.median_ms for row in self.rows}
        return medians[peer] / medians[ours] if {peer, ours} <= set(medians) else None

    def to_json(self, ours: str) -> dict[str, Any]:
        """The outcome as a JSON object."""
        return {
            "model": self.model,
            "title": self.title,
            "missing": self.missing,
            "exchange_ns": list(self.exchange_ns),
            "peers": {
                row.peer: {
                    "median_ms": row.median_ms,
                    "p10_ms": row.low_ms,
                    "p90_ms": row.high_ms,
                    "ratio_to_ours": self.ratio(row.peer, ours),
                    "error_eager": row.error_eager,
                    "error_float64": row.error_float64,
                    "prepare_seconds": row.prepare_seconds,
                    "note": row.note,
                }
                for row in self.rows
            },
        }


def print_outcome(console: Console, outcome: Outcome, ours: str) -> None:
    """Print one model's contenders, and who is missing."""
    table = Table("peer", "median ms", "10-90 %", "to ours", "error f64", "note", title=outcome.title, box=None)
    for column in table.columns[1:5]:
        column.justify = "right"
    for row in outcome.rows:
        ratio = outcome.ratio(row.peer, ours)
        table.add_row(
            row.peer,
            f"{row.median_ms:.4g}",
            f"{row.low_ms:.4g}-{row.high_ms:.4g}",
            "" if ratio is None else f"{ratio:.2f}x",
            f"{row.error_float64:.1e}",
            row.note,
        )
    console.print(table)
    if outcome.moved:
        before, after = (f"{time:.0f}" for time in outcome.exchange_ns)
        console.print(f"  the processors moved: they took {before} ns for a cache line there and back, then {after}")
    for peer, reason in outcome.missing.items():
        console.print(f"  without {peer}: {reason}", markup=False)
