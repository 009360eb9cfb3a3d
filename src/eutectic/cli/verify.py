"""`eutectic verify`: checks of what Eutectic promises, run here and printed."""

from __future__ import annotations

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
        made = check(case)
        counts[made.result] += 1
        if (made.result == "fused") != case.fuses:
            unexpected.append(case.name)
        table.add_row(case.name, made.result, made.said, *([] if version is None else [theirs[case.name]]))
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
