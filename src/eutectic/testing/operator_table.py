"""The page that says which of torch's operators are computed: samples equal and refused, by operator and dtype."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from eutectic.testing.operator_samples import samples, table
from eutectic.testing.operator_sweep import EQUAL, NO_CONVERTER, REFUSED, WRONG, Outcome, sweep

_SHOWN = 4  # operators listed per reason


@dataclass
class Coverage:
    """What became of the samples of a sweep.

    Attributes:
        count: Samples per operator and dtype; None means all that torch has.
        targets: The targets that results were compared for.
        dtypes: In the order of the columns.
        counts: Numbers of results by operator and dtype.
        reasons: Operators by reason of refusal.
        wrong: Outcomes that must not be.
        said: The same as text, where a log had them.
    """

    count: int | None
    targets: tuple[str, ...]
    dtypes: tuple[str, ...]
    counts: dict[str, dict[str, Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    reasons: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    wrong: list[Outcome] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self.counts[outcome.sample.operator][outcome.sample.dtype][outcome.result] += 1
        if outcome.result == REFUSED:
            self.reasons[outcome.said].add(outcome.sample.operator)
        if outcome.result == WRONG:
            self.wrong.append(outcome)

    def total(self) -> Counter[str]:
        """Numbers of results of all samples."""
        totals: Counter[str] = Counter()
        for by_dtype in self.counts.values():
            for counter in by_dtype.values():
                totals.update(counter)
        return totals


def resumed(operators: Sequence[str], coverage: Coverage, log: Path) -> Iterator[str]:
    """`run`, with a log: an operator that is in it is not swept again, one that is done is appended.

    Args:
        operators: Names in torch's table.
        coverage: What is filled.
        log: One JSON object a line. It belongs to one version of the code, and to the coverage's settings.
    """
    settings = [coverage.count, list(coverage.targets), list(coverage.dtypes)]
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    done = {row["operator"]: row for row in rows if row["settings"] == settings}
    for operator in operators:
        if operator not in done:
            own = Coverage(coverage.count, coverage.targets, coverage.dtypes)
            for _ in run([operator], own):
                pass
            done[operator] = _row(operator, own, settings)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[operator]) + "\n")
        _take(coverage, done[operator])
        yield operator


def _row(operator: str, own: Coverage, settings: list[Any]) -> dict[str, Any]:
    counts = {dtype: dict(counter) for dtype, counter in own.counts[operator].items()}
    wrong = [f"{outcome.sample}: {outcome.said}" for outcome in own.wrong]
    return {
        "operator": operator, "settings": settings, "counts": counts, "reasons": sorted(own.reasons), "wrong": wrong
    }  # fmt: skip


def _take(coverage: Coverage, row: dict[str, Any]) -> None:
    for dtype, counts in row["counts"].items():
        coverage.counts[row["operator"]][dtype].update(counts)
    for reason in row["reasons"]:
        coverage.reasons[reason].add(row["operator"])
    coverage.said += row["wrong"]


def run(operators: Sequence[str], coverage: Coverage) -> Iterator[str]:
    """Sweep operators into a coverage; gives each operator's name when it is done.

    An operator of which no sample of the first dtype can be imported, for want of a converter, is not asked
    about the other dtypes.
    """
    for operator in operators:
        for dtype in coverage.dtypes:
            outcomes = list(sweep(samples(operator, dtype, coverage.count), coverage.targets))
            for outcome in outcomes:
                coverage.add(outcome)
            if outcomes and all(outcome.said.startswith(NO_CONVERTER) for outcome in outcomes):
                break
        yield operator


def page(coverage: Coverage) -> str:
    """A coverage as a page of the documentation."""
    total = coverage.total()
    asked = "all samples" if coverage.count is None else f"up to {coverage.count} samples"
    lines = [
        "# Coverage of torch's operators",
        "",
        "Written by `eutectic verify operators --write docs/coverage.md`, never by hand.",
        "",
        f"torch {torch.__version__.split('+')[0]} describes {len(table())} operators in the table of its own tests,",
        f"`op_db`. Here are {asked} of each operator and dtype, spread evenly over that table, compiled for",
        f"{_listed(f'`{target}`' for target in coverage.targets)}, and compared with the definition in float64 and",
        "with eager (the bound is in `eutectic.testing.operator_truth`).",
        "",
        f"**{total[EQUAL]} equal, {total[REFUSED]} refused, {total[WRONG]} wrong.**",
        "",
        "A refusal is an error that names the operator, raised when the model is compiled. Cells: samples equal, and",
        "after a plus those refused.",
        "",
        f"| operator | {' | '.join(coverage.dtypes)} |",
        f"|---|{'---|' * len(coverage.dtypes)}",
    ]
    some = {name: by for name, by in coverage.counts.items() if any(c[EQUAL] or c[WRONG] for c in by.values())}
    lines += [f"| {name} | {' | '.join(_cell(by.get(d)) for d in coverage.dtypes)} |" for name, by in some.items()]
    lines += ["", "## Reasons of refusals", "", "| reason | operators |", "|---|---|"]
    lines += [f"| {_plain(reason)} | {_few(names)} |" for reason, names in sorted(coverage.reasons.items())]
    return "\n".join(lines) + "\n"


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
