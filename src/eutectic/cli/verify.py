"""`eutectic verify`: checks of what Eutectic promises, run here and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

verify = typer.Typer(help="Checks of what Eutectic promises, run here.", no_args_is_help=True)


@verify.callback()
def several() -> None:
    """Checks of what Eutectic promises, run here."""


@verify.command("epilogues")
def epilogues() -> None:
    """Fuse reductions with epilogues, and run each program before and after; TVM's results beside where it is there."""
    from eutectic.testing.epilogue_cases import cases  # these import the whole compiler
    from eutectic.testing.epilogues import check
    from eutectic.testing.tvm_epilogues import tvm_results, tvm_version

    version = tvm_version()
    theirs = {} if version is None else tvm_results()
    table = Table("program", "result", "how, or why not", title="fuse_reduction_epilogue, mode exact")
    if version is not None:
        table.add_column(f"TVM {version}")
    counts = {"fused": 0, "refused": 0, "wrong": 0}
    unexpected = []
    for case in track(cases(), "running", console=Console(stderr=True), transient=True):
        outcome = check(case)
        counts[outcome.result] += 1
        if (outcome.result == "fused") != case.fuses:
            unexpected.append(case.name)
        table.add_row(case.name, outcome.result, outcome.said, *([] if version is None else [theirs[case.name]]))
    console = Console()
    console.print(table, markup=False)
    typer.echo(f"{counts['fused']} fused with equal results, {counts['refused']} refused, {counts['wrong']} wrong")
    if version is not None:
        kinds = [result.split(":")[0] for result in theirs.values()]
        said = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
        typer.echo(f"TVM {version}: {said}")
    if unexpected:
        typer.echo(f"not as expected: {', '.join(unexpected)}", err=True)
        raise typer.Exit(1)


@verify.command("operators")
def operators(
    op: Annotated[list[str] | None, typer.Option(help="Name in torch's table; may be given again.")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="Dtype of the samples; may be given again.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Target to compile for; may be given again.")] = None,
    samples: Annotated[int, typer.Option(min=0, help="Samples of each operator and dtype; 0 takes all.")] = 4,
    write: Annotated[Path | None, typer.Option(help="File for the page of all results.")] = None,
    log: Annotated[Path | None, typer.Option(help="Keep results here, and go on where an earlier run ended.")] = None,
) -> None:
    """Compile samples of torch's operators, and compare with their definitions in float64 and with eager."""
    from eutectic.support.errors import EutecticError  # these import torch and the whole compiler
    from eutectic.testing.operator_samples import DTYPES, select
    from eutectic.testing.operator_sweep import EQUAL, REFUSED, WRONG, targets
    from eutectic.testing.operator_table import Coverage, page, resumed, run

    unknown = [name for name in dtype or () if name not in DTYPES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]}: expected one of {', '.join(DTYPES)}", param_hint="--dtype")
    coverage = Coverage(samples or None, tuple(target or targets()), tuple(dtype or DTYPES))
    try:
        names = select(op or ())
    except EutecticError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    sweep = run(names, coverage) if log is None else resumed(names, coverage, log)
    progress = track(sweep, "sweeping", len(names), console=Console(stderr=True), transient=True)
    for _ in progress:
        pass
    for outcome in coverage.wrong:
        coverage.said.append(f"{outcome.sample}: {outcome.said}")
    for said in coverage.said:
        typer.echo(f"wrong: {said}", err=True)
    if write is not None:
        write.write_text(page(coverage), encoding="utf-8")
    total = coverage.total()
    typer.echo(f"{total[EQUAL]} equal, {total[REFUSED]} refused, {total[WRONG]} wrong")
    if coverage.said:
        raise typer.Exit(1)
