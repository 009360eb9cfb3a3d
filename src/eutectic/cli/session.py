"""What the verbs share: options, errors as one paragraph, progress on a terminal."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from eutectic.support.errors import EutecticError

REFUSED: Final = 1  # exit status: a model, a file or a setting was refused
DIFFERENT: Final = 3  # exit status: results differ

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A .pt2 or .eut file, or package.module:factory; see `docs/cli.md`.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of each call.")]
TargetOption = Annotated[str | None, typer.Option("--target", help='What for, such as "llvm -mcpu=x86-64-v3".')]
Precision = Annotated[str, typer.Option("--precision", help="default or strict.")]
Fallback = Annotated[str, typer.Option("--fallback", help="eager or error: what becomes of unsupported operators.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Errors made on purpose end the program with one paragraph; others are faults and keep their traceback."""
    try:
        yield
    except EutecticError as error:
        if debug:
            raise
        Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED) from None


@contextmanager
def progress(what: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """A line on the error stream that says what is being done, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Console(stderr=True).status(what) as status:
        yield lambda step, done, total: status.update(f"{what}: {step} ({done}/{total})")


def print_json(tree: Any) -> None:
    """One JSON document on the output."""
    typer.echo(json_format.dumps(tree, indent=2, default=str))
