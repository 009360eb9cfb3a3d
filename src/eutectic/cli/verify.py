"""`eutectic verify`: checks of what Eutectic promises, run here and printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from typer.core import TyperGroup

from eutectic.cli.models import compiled, open_model
from eutectic.cli.session import (
    DIFFERENT,
    Debug,
    Fallback,
    Json,
    Model,
    Precision,
    TargetOption,
    Threads,
    print_json,
    reported,
)
from eutectic.support.errors import LoadError

_HELP = (
    "Check a model: verify MODEL; or what Eutectic promises: verify epilogues, verify operators. "
    "Example: eutectic verify nets:small"
)


class _ModelFirst(TyperGroup):
    """A group whose first argument may be a MODEL in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command by its name; what is none is a model."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["model", *args]
        return super().resolve_command(ctx, args)


verify = typer.Typer(help=_HELP, no_args_is_help=True, cls=_ModelFirst)


@verify.callback(help=_HELP)
def several() -> None:
    """A group needs it."""


@verify.command("model")
def model(
    model: Model,
    target: TargetOption = None,
    threads: Threads = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare a torch model's outputs with eager and with float64; of a difference say where it begins.

    The exit status is 3 when an output is wrong.

    Example: eutectic verify nets:small --target llvm
    """
    with reported(debug):
        subject = open_model(model)
        if subject.is_compiled or hasattr(subject.model, "functions_items"):
            raise LoadError(
                f"{model} is no torch model: there is no eager to compare it with", help="give the torch model itself"
            )
        from eutectic.testing.verify_model import first_difference, output_errors  # these import torch

        options = {"target": target, "threads": threads, "precision": precision, "fallback": fallback}
        fast = compiled(subject, **options)
        rows = output_errors(subject.model, fast, subject.args, subject.kwargs)
        wrong = not all(row.ok for row in rows)
        where = first_difference(subject.model, subject.args, subject.kwargs, **options) if wrong else None
    if json:
        print_json({"outputs": [asdict(row) for row in rows], "first": asdict(where) if where else None})
    else:
        _print_model(subject.name, rows, where)
    if wrong:
        raise typer.Exit(DIFFERENT)


def _print_model(name: str, rows: Sequence[Any], where: Any) -> None:
    table = Table("", "error", "error of eager", "", title=f"{name}, against float64, relative to the scale")
    for row in rows:
        table.add_row(row.name, f"{row.ours:.1e}", f"{row.eager:.1e}", "ok" if row.ok else "WRONG")
    console = Console()
    console.print(table)
    if where is not None:
        first = f"first value that differs: {where.operator}, {where.place}" if where.operator else ""
        for sentence in (first, where.change and f"first pass that changes results: {where.change}"):
            console.print(sentence or "", markup=False, highlight=False, soft_wrap=True)


@verify.command("epilogues")
def epilogues() -> None:
    """Fuse reductions with epilogues, and run each program before and after; TVM's results beside where it is there.

    Example: eutectic verify epilogues
    """
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
    jobs: Annotated[int, typer.Option(min=1, help="Processes side by side, each with one thread.")] = 1,
) -> None:
    """Compile samples of torch's operators, and compare with their definitions in float64 and with eager.

    Example: eutectic verify operators --op nn.functional.gelu --dtype float32
    """
    from eutectic.support.errors import EutecticError  # these import torch and the whole compiler
    from eutectic.testing.operator_rows import Settings, rows
    from eutectic.testing.operator_samples import DTYPES, select
    from eutectic.testing.operator_sweep import EQUAL, REFUSED, WRONG, targets
    from eutectic.testing.operator_table import coverage_of, page

    unknown = [name for name in dtype or () if name not in DTYPES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]}: expected one of {', '.join(DTYPES)}", param_hint="--dtype")
    settings = Settings(samples or None, tuple(target or targets()), tuple(dtype or DTYPES))
    try:
        names = select(op or ())
        sweep = rows(names, settings, log, jobs)
        progress = track(sweep, "sweeping", len(names), console=Console(stderr=True), transient=True)
        coverage = coverage_of(progress, settings)
    except EutecticError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    for said in coverage.wrong:
        typer.echo(f"wrong: {said}", err=True)
    if write is not None:
        write.write_text(page(coverage), encoding="utf-8")
    total = coverage.total()
    typer.echo(f"{total[EQUAL]} equal, {total[REFUSED]} refused, {total[WRONG]} wrong")
    if coverage.wrong:
        raise typer.Exit(1)
