"""What `kernels.py` found: numbers of each layer, as cells of a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eutectic.explain.machine import MachineSpeed
from eutectic.explain.numbers import count_text, share_text

BEHIND: Final = 0.92  # layers of a lower ratio are counted
COLUMNS: Final = (
    "layer",
    "times",
    "MFLOP",
    "ours us",
    "GFLOP/s",
    "of peak",
    "of roofline",
    "oneDNN us",
    "of roofline",
    "oneDNN / ours",
    "note",
)


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender on one layer.

    Attributes:
        median_us: Median of its samples.
        low_us: Tenth percentile.
        high_us: Ninetieth percentile.
        error: Largest difference from float64, relative to the scale of the result.
        layouts: Layouts of the data and of the result.
        kernels: How many kernels a call runs.
    """

    median_us: float
    low_us: float
    high_us: float
    error: float
    layouts: str
    kernels: int


@dataclass(frozen=True, slots=True)
class Row:
    """A layer.

    Attributes:
        layer: Its name.
        count: How often the network has it.
        flops: Floating-point operations of one run.
        bytes: Bytes that one run reads and writes at least.
        ours: Our kernel.
        library: oneDNN in the same turns; None where it did not take part.
        missing: Why it did not.
    """

    layer: str
    count: int
    flops: int
    bytes: int
    ours: Timing
    library: Timing | None
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """oneDNN's median over ours, above 1 when ours is faster."""
        return None if self.library is None else self.library.median_us / self.ours.median_us

    @property
    def note(self) -> str:
        """What a reader should know."""
        several = {"ours": self.ours, "oneDNN": self.library}
        parts = [f"{name}: {t.kernels} kernels" for name, t in several.items() if t is not None and t.kernels != 1]
        return "; ".join([*parts, *([f"without oneDNN: {self.missing}"] if self.missing else [])])

    def gflops(self) -> float:
        """10^9 operations per second of ours."""
        return self.flops / self.ours.median_us / 1e3

    def least_us(self, speed: MachineSpeed) -> float:
        """Microseconds at least: of the operations at the measured peak, or of the bytes at the measured bandwidth.

        Reference: Williams, Waterman, Patterson, Roofline, 2009; the bandwidth is that of the cache which the layer's
        data fits in.
        """
        return 1e6 * max(self.flops / speed.flops, self.bytes / speed.bandwidth(self.bytes))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The layers of one network, measured in one process beside the peak of the machine.

    Attributes:
        model: Its name.
        title: Its name for people.
        rows: The layers.
        speed: What the machine can do, measured between the layers.
    """

    model: str
    title: str
    rows: tuple[Row, ...]
    speed: MachineSpeed

    def of_peak(self, row: Row) -> float:
        """The share of the peak that our kernel reaches."""
        return 1e9 * row.gflops() / self.speed.flops

    def of_roofline(self, row: Row, timing: Timing | None) -> float | None:
        """The share of the roofline that a contender reaches."""
        return None if timing is None else row.least_us(self.speed) / timing.median_us

    def behind(self) -> list[Row]:
        """Layers that take longer than oneDNN by more than `BEHIND` says."""
        return [row for row in self.rows if row.ratio is not None and row.ratio < BEHIND]

    def totals_ms(self) -> tuple[float, float]:
        """Milliseconds of ours and of oneDNN, of the layers that both computed, as often as the network has them."""
        pairs = [(row.count * row.ours.median_us, row.count * t.median_us) for row in self.rows if (t := row.library)]
        return sum(own for own, _ in pairs) / 1e3, sum(other for _, other in pairs) / 1e3

    def total_of_peak(self) -> float:
        """The share of the peak that our kernels reach together, as often as the network has them."""
        microseconds = sum(row.count * row.ours.median_us for row in self.rows)
        return sum(row.count * row.flops for row in self.rows) / microseconds * 1e6 / self.speed.flops

    def cells(self, row: Row) -> tuple[str, ...]:
        """The texts of a row under `COLUMNS`."""
        other, ratio = row.library, row.ratio
        return (
            row.layer,
            str(row.count),
            f"{row.flops / 1e6:.4g}",
            f"{row.ours.median_us:.4g}",
            f"{row.gflops():.4g}",
            share_text(self.of_peak(row)),
            share_text(self.of_roofline(row, row.ours)),
            "-" if other is None else f"{other.median_us:.4g}",
            share_text(self.of_roofline(row, other)),
            "-" if ratio is None else f"{ratio:.2f}",
            row.note,
        )

    def summary(self) -> str:
        """Totals, and how many layers are behind."""
        both = sum(row.library is not None for row in self.rows)
        peak = f"peak {count_text(self.speed.flops, 'FLOP/s')}"
        if not both:
            return f"{peak}; nothing to compare with"
        own, other = self.totals_ms()
        own_text = f"ours {own:.4g} ms ({share_text(self.total_of_peak())} of peak)"
        counted = f"{len(self.behind())} of {both} below {BEHIND} of oneDNN"
        return f"{own_text}, oneDNN {other:.4g} ms, ratio {other / own:.2f}; {counted}; {peak}"

    def to_json(self) -> dict[str, Any]:
        """The outcome as a JSON object."""
        own, other = self.totals_ms()
        ratio = other / own if own else None
        totals = {"ours_ms": own, "onednn_ms": other, "ratio": ratio, "of_peak": self.total_of_peak()}
        return {
            "model": self.model,
            "title": self.title,
            "machine_speed": asdict(self.speed),
            "layers": [self._row_json(row) for row in self.rows],
            "totals": {**totals, "behind": [row.layer for row in self.behind()]},
        }

    def _row_json(self, row: Row) -> dict[str, Any]:
        shares = {"of_peak": self.of_peak(row), "of_roofline": self.of_roofline(row, row.ours)}
        library = row.library and {**asdict(row.library), "of_roofline": self.of_roofline(row, row.library)}
        return {
            "layer": row.layer,
            "count": row.count,
            "flops": row.flops,
            "bytes": row.bytes,
            "roofline_us": row.least_us(self.speed),
            "ours": {**asdict(row.ours), "gflops": row.gflops(), **shares},
            "onednn": library,
            "ratio": row.ratio,
            "note": row.note,
        }


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the layers of a network and their totals."""
    table = Table(*COLUMNS, title=outcome.title, box=None)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for column in table.columns:
        column.no_wrap = True
    for row in outcome.rows:
        table.add_row(*outcome.cells(row))
    console.print(table)
    console.print(f"  {outcome.summary()}", markup=False)


def documents(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """All outcomes as JSON."""
    return [outcome.to_json() for outcome in outcomes]
