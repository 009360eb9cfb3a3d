"""`eutectic demo`: two ImageNet networks, compiled, on photos, beside torch eager."""

from __future__ import annotations

import json as json_format
from importlib.util import find_spec
from typing import Annotated

import typer
from rich.console import Console

import eutectic
from eutectic.support.errors import EutecticError, ToolchainError


def demo(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads for the compiled network and for torch.")
    ] = None,
) -> None:
    """Compile trained networks, name what is on photos, and compare labels and latency with torch eager.

    Example: eutectic demo --threads 2
    """
    errors = Console(stderr=True)
    try:
        _demo(json=json, threads=threads, errors=errors)
    except EutecticError as error:
        errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


def _demo(*, json: bool, threads: int | None, errors: Console) -> None:
    if find_spec("torch") is None:
        raise ToolchainError("the demo needs torch, which is not installed", help="pip install 'eutectic[torch,demo]'")
    from eutectic.demo.report import print_result, to_json  # these import torch
    from eutectic.demo.run import show
    from eutectic.demo.subjects import choose
    from eutectic.driver.progress import bar

    output = Console()
    messages = errors if json else output
    results = []
    for subject in choose(lambda sentence: messages.print(sentence, markup=False)):
        with bar(subject.entry.title, errors, delay=0) as progress:
            results.append(show(subject, eutectic.compile, threads=threads, progress=progress))
        if not json:
            print_result(output, results[-1])
    if json:
        typer.echo(json_format.dumps(to_json(results), indent=2))
