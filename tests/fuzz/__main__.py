"""The command: `make fuzz ARGS="--minutes 30 --seed 1"`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from tests.fuzz.families import FAMILIES, outcome
from tests.fuzz.runner import Fault, Report, fuzz, work

OUTCOMES = ("equal", "refused", "wrong", "internal error", "signal", "endless")
console = Console(soft_wrap=True, highlight=False)


def say(fault: Fault) -> None:
    """Print a fault."""
    console.print(f"[bold red]{fault.kind}[/] in {fault.family}: {fault.reproducer}")
    console.print(fault.detail, markup=False)


def table(report: Report, families: list[str]) -> None:
    """Print the counts, and the commonest reasons of refusals."""
    console.print(f"{'':12}" + "".join(f"{name:>16}" for name in OUTCOMES))
    for family in families:
        console.print(f"{family:12}" + "".join(f"{report.counts[family, name]:16}" for name in OUTCOMES))
    for (family, reason), count in report.refusals.most_common(15):
        console.print(f"  refused {count} times, {family}: {reason[:150]}", markup=False)
    for fault in report.faults:
        console.print(f"fault: {fault.kind}: {fault.reproducer}", markup=False)


def main(
    minutes: Annotated[float, typer.Option(help="How long to run.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Decides which cases are run.")] = 0,
    family: Annotated[list[str] | None, typer.Option(help=f"Among {', '.join(FAMILIES)}; all by default.")] = None,
    case: Annotated[int | None, typer.Option(help="Run one case here, and let its error through.")] = None,
    worker: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Compile programs that nobody wrote; exit with 1 when one is computed wrongly, or ends in no error of ours."""
    chosen = family or list(FAMILIES)
    for name in chosen:
        if name not in FAMILIES:
            raise typer.BadParameter(f"no family {name!r}; have {', '.join(FAMILIES)}")
    if worker:
        work(chosen[0])
    elif case is not None:
        print(outcome(chosen[0], case))
    else:
        report = fuzz(chosen, minutes, seed, say)
        table(report, chosen)
        sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    typer.run(main)
