"""The page that says which of torch's operators are computed: samples equal and refused, by operator and dtype."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from eutectic.testing.operator_rows import Row, Settings
from eutectic.testing.operator_samples import table
from eutectic.testing.operator_sweep import EQUAL, REFUSED, WRONG

_SHOWN = 4  # operators listed per reason


@dataclass
class Coverage:
    """What became of the samples of a sweep.

    Attributes:
        settings: What was asked.
        counts: Numbers of results by operator and dtype.
        reasons: Operators by reason of refusal.
        wrong: A sentence for each sample that is wrong.
    """

    settings: Settings
    counts: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    reasons: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    wrong: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Count the samples of an operator."""
        self.counts[row.operator] = {dtype: Counter(counts) for dtype, counts in row.counts.items()}
        for reason in row.reasons:
            self.reasons[reason].add(row.operator)
        self.wrong += row.wrong

    def total(self) -> Counter[str]:
        """Numbers of results of all samples."""
        totals: Counter[str] = Counter()
        for by_dtype in self.counts.values():
            for counter in by_dtype.values():
                totals.update(counter)
        return totals


def coverage_of(rows: Iterable[Row], settings: Settings) -> Coverage:
    """The coverage that rows make up, whatever order they are in."""
    coverage = Coverage(settings)
    for row in sorted(rows, key=lambda row: row.operator):
        coverage.add(row)
    return coverage


def page(coverage: Coverage) -> str:
    """A coverage as a page of the documentation."""
    total, settings = coverage.total(), coverage.settings
    command = f"eutectic verify operators --samples {settings.count or 0} --write docs/coverage.md"
    asked = "all samples" if settings.count is None else f"up to {settings.count} samples, spread evenly,"
    lines = [
        "# Coverage of torch's operators",
        "",
        f"Written by `{command}`, never by hand.",
        "",
        f"torch {torch.__version__.split('+')[0]} describes {len(table())} operators in the table of its own tests,",
        f"`op_db`. Here are {asked} of {_share(len(coverage.counts))} and each dtype, compiled for",
        f"{_listed(f'`{target}`' for target in settings.targets)}, and compared with the definition in float64 and",
        "with eager (the bound is in `eutectic.testing.operator_truth`).",
        "",
        f"**{total[EQUAL]} equal, {total[REFUSED]} refused, {total[WRONG]} wrong.**",
        "",
        "A refusal is an error that names the operator, raised when the model is compiled. Cells: samples equal, and",
        "after a plus those refused.",
        "",
        f"| operator | {' | '.join(settings.dtypes)} |",
        f"|---|{'---|' * len(settings.dtypes)}",
    ]
    some = {name: by for name, by in coverage.counts.items() if any(c[EQUAL] or c[WRONG] for c in by.values())}
    lines += [f"| {name} | {' | '.join(_cell(by.get(d)) for d in settings.dtypes)} |" for name, by in some.items()]
    lines += ["", "## Reasons of refusals", "", "| reason | operators |", "|---|---|"]
    lines += [f"| {_plain(reason)} | {_few(names)} |" for reason, names in sorted(coverage.reasons.items())]
    return "\n".join(lines) + "\n"


def _share(count: int) -> str:
    """How many of the operators of torch's table a page is about."""
    return "each operator" if count == len(table()) else f"{count} of these operators"


def _cell(counter: Counter[str] | None) -> str:
    if counter is None:
        return ""
    parts = [str(counter[EQUAL])]
    parts += [f"+ {counter[REFUSED]}"] if counter[REFUSED] else []
    parts += [f"**{counter[WRONG]} wrong**"] if counter[WRONG] else []
    return " ".join(parts)


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words)


def _few(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _plain(text: str) -> str:
    """A reason in one cell of a table."""
    return " ".join(text.replace("|", "/").replace("<", "(").replace(">", ")").split())
