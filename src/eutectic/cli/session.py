"""What the verbs share: options, errors as one paragraph, progress on a terminal."""

from __future__ import annotations

import json as json_format
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any, Final, Literal, TextIO

import typer
from rich.console import Console

from eutectic.support.deep import deep
from eutectic.support.errors import EutecticAdvice, EutecticError, LoadError

REFUSED: Final = 1  # exit status: a model, a file or a setting was refused
DIFFERENT: Final = 3  # exit status: results differ

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A .pt2 or .eut file, or package.module:factory; see `docs/cli.md`.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of each call.")]
TargetOption = Annotated[str | None, typer.Option("--target", help='What for, such as "llvm -mcpu=x86-64-v3".')]
Precision = Annotated[
    Literal["default", "strict", "bf16", "f16"],
    typer.Option(
        "--precision",
        help="strict: no library that loses NaN or infinities. bf16, f16: narrow operands where that is faster.",
    ),
]
Fallback = Annotated[
    Literal["eager", "error"], typer.Option("--fallback", help="What becomes of operators that are not supported.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Run the work of a verb: errors made on purpose end the program with one paragraph, advice is said once.

    Other errors are faults of ours and keep their traceback. What the user's code prints goes to the error stream, so
    that the output is the result alone.

    Args:
        debug: Whether errors made on purpose show their traceback, too.
    """
    try:
        with redirect_stdout(sys.stderr), _readable_advice():
            yield
    except (EutecticError, OSError) as error:
        if debug:
            raise
        text = str(error) if isinstance(error, EutecticError) else _of_the_system(error)
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED) from None


def _of_the_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return str(LoadError(f"{where}{error.strerror or error}", help="name a file that can be read or written"))


@contextmanager
def _readable_advice() -> Iterator[None]:
    """Advice as sentences on the error stream, each once; it names the lines of the user's model itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        warnings.filterwarnings("always", category=EutecticAdvice)
        usual, said = warnings.showwarning, set[str]()

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, EutecticAdvice):
                if str(message) not in said:
                    typer.echo(f"advice: {message}", err=True)
                said.add(str(message))
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


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
    typer.echo(json_format.dumps(_standard(tree), indent=2, default=str, allow_nan=False))


@deep
def _standard(tree: Any) -> Any:
    """With texts for NaN and infinities, which JSON does not have."""
    if isinstance(tree, float) and not math.isfinite(tree):
        return str(tree)
    if isinstance(tree, dict):
        return {str(key): _standard(value) for key, value in tree.items()}
    return [_standard(item) for item in tree] if isinstance(tree, (list, tuple)) else tree
