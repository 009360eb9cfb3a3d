"""`eutectic explain`: what is executed, how long it takes, and why it is not fewer kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eutectic.cli.models import compiled, open_model
from eutectic.cli.session import (
    Debug,
    Fallback,
    Json,
    Model,
    Precision,
    TargetOption,
    Threads,
    print_json,
    progress,
    reported,
)


def explain(
    model: Model,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the graph there.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Write one inference for Perfetto there.")] = None,
    why: Annotated[
        tuple[str, str] | None,
        typer.Option("--why", metavar="A B", help="Two operators by name, module path or file:line."),
    ] = None,
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="MODEL", help="Compare with the plan of another.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure/--no-measure", help="Run the model for times.")] = True,
    target: TargetOption = None,
    threads: Threads = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Explain a compiled model: groups of operators, where they come from, and the reason of each boundary.

    Example: eutectic explain nets:small --why conv2d relu
    """
    from eutectic.explain.diff import diff as difference  # --help loads none of this
    from eutectic.explain.explanation import Explanation

    def explained(text: str) -> Explanation:
        subject = open_model(text)
        options = {"target": target, "threads": threads, "precision": precision, "fallback": fallback}
        fast = compiled(subject, **options)
        is_measured = measure and bool(subject.args or subject.kwargs)
        with progress(f"measuring {subject.name}"):
            plan: Explanation = (
                fast.explain(*subject.args, **subject.kwargs) if is_measured else fast.explain(measure=False)
            )
        return plan

    with reported(debug):
        plan = explained(model)
        answer = plan.why(*why) if why is not None else None
        changes = difference(plan, explained(diff)) if diff is not None else None
        files = [path for path in (html and plan.to_html(html), trace and plan.to_perfetto(trace)) if path]
    chosen = answer if answer is not None else changes if changes is not None else plan
    if json:
        print_json(plan.to_json() if chosen is plan else asdict(chosen))
        return
    Console(soft_wrap=True).print(str(chosen), markup=False, highlight=False)
    for path in files:
        typer.echo(f"wrote {path}", err=True)
