"""The program `eutectic`: collects the verbs."""

from __future__ import annotations

from typing import Annotated

try:
    import typer
except ModuleNotFoundError as error:
    raise SystemExit(f"the command eutectic needs {error.name}: pip install 'eutectic[compiler]'") from None

from eutectic.cli.bench import bench
from eutectic.cli.cache import cache
from eutectic.cli.compile import compile, run
from eutectic.cli.demo import demo
from eutectic.cli.doctor import doctor
from eutectic.cli.explain import explain
from eutectic.cli.lower import lower
from eutectic.cli.tune import tune
from eutectic.cli.verify import verify

app = typer.Typer(
    name="eutectic",
    help="An operator-fusion compiler: a PyTorch model in, fused native kernels out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _verb in (compile, run, bench, explain, lower, tune, doctor, demo):
    app.command(_verb.__name__)(_verb)
app.add_typer(cache, name="cache")
app.add_typer(verify, name="verify")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # a quarter of what the program needs to start

        typer.echo(f"eutectic {metadata.version('eutectic')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """An operator-fusion compiler: a PyTorch model in, fused native kernels out."""
