"""`eutectic cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

from datetime import datetime

import typer
from rich.console import Console
from rich.table import Table

from eutectic.support import cache as store
from eutectic.support.config import cache_folder

cache = typer.Typer(
    help="The compiled kernels that are kept on disk: list or remove them. Example: eutectic cache ls",
    no_args_is_help=True,
)


@cache.command("ls")
def list_entries() -> None:
    """List the kernels that are kept, the latest used first.

    Example: eutectic cache ls
    """
    folder = store.usable_folder()
    if folder is None:
        _say_why_not()
        return
    entries = store.entries()
    if not entries:
        typer.echo(f"No kernels are kept in {folder}.")
        return
    table = Table(
        "kernel", "cpu", "size", "last used", caption=_total(len(entries), sum(item.bytes for item in entries))
    )
    table.columns[2].justify = "right"
    for item in entries:
        name = str(item.meta.get("name") or item.key[:12]) if item.meta else f"{item.key[:12]} (damaged)"
        used = datetime.fromtimestamp(item.used).strftime("%Y-%m-%d %H:%M")
        table.add_row(name, str(item.meta.get("cpu", "")), readable_bytes(item.bytes), used)
    console = Console()
    console.print(table)
    console.print(f"in {folder}", markup=False, highlight=False, soft_wrap=True)


@cache.command("clear")
def clear() -> None:
    """Remove all kernels that are kept.

    Example: eutectic cache clear
    """
    if store.usable_folder() is None:
        _say_why_not()
        return
    count, size = store.clear()
    typer.echo(f"Removed {_total(count, size)}.")


def readable_bytes(size: int) -> str:
    """A size in bytes, KiB, MiB or GiB."""
    amount, unit = float(size), "B"
    for bigger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, bigger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def _total(count: int, size: int) -> str:
    return f"{count} kernel{'' if count == 1 else 's'}, {readable_bytes(size)}"


def _say_why_not() -> None:
    """Say on the error stream why there is no cache."""
    folder = cache_folder()
    if folder is None:
        text = "The cache is off: EUTECTIC_CACHE_DIR is empty. Unset it, or name a folder, to keep compiled kernels."
    else:
        text = (
            f"The cache in {folder} is not used: it must be a folder that you own and that nobody else can write to. "
            "Change that, or name another folder in EUTECTIC_CACHE_DIR."
        )
    typer.echo(text, err=True)
