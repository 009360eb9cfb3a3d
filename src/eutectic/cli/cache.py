"""`eutectic cache`: the compiled kernels and models that are kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import typer
from rich.console import Console
from rich.table import Table

from eutectic.support import cache as store
from eutectic.support.config import cache_folder

cache = typer.Typer(
    help="The compiled kernels and models that are kept on disk: list or remove them. Example: eutectic cache ls",
    no_args_is_help=True,
)


@cache.command("ls")
def list_entries() -> None:
    """List the kernels and models that are kept, the latest used first.

    Example: eutectic cache ls
    """
    folder = store.usable_folder()
    if folder is None:
        _say_why_not()
        return
    entries = store.entries()
    if not entries:
        typer.echo(f"Nothing is kept in {folder}.")
        return
    table = Table("kernel or model", "cpu", "size", "last used", caption=_total(entries))
    table.columns[2].justify = "right"
    for item in entries:
        used = datetime.fromtimestamp(item.used).strftime("%Y-%m-%d %H:%M")
        table.add_row(_name(item), str(item.meta.get("cpu", "")), readable_bytes(item.bytes), used)
    console = Console()
    console.print(table)
    console.print(f"in {folder}", markup=False, highlight=False, soft_wrap=True)


@cache.command("clear")
def clear() -> None:
    """Remove all kernels and models that are kept.

    Example: eutectic cache clear
    """
    if store.usable_folder() is None:
        _say_why_not()
        return
    typer.echo(f"Removed {_total(store.clear())}.")


def readable_bytes(size: int) -> str:
    """A size in bytes, KiB, MiB or GiB."""
    amount, unit = float(size), "B"
    for bigger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, bigger
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def _name(item: store.EntryInfo) -> str:
    """What a row is about."""
    if item.is_model:
        return f"model {item.key[:12]}"
    return str(item.meta.get("name") or item.key[:12]) if item.meta else f"{item.key[:12]} (damaged)"


def _total(entries: Sequence[store.EntryInfo]) -> str:
    models = sum(item.is_model for item in entries)
    counts = [_count(len(entries) - models, "kernel"), *([_count(models, "model")] if models else [])]
    return f"{' and '.join(counts)}, {readable_bytes(sum(item.bytes for item in entries))}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _say_why_not() -> None:
    """Say on the error stream why there is no cache."""
    folder = cache_folder()
    if folder is None:
        text = "The cache is off: EUTECTIC_CACHE_DIR is empty. Unset it, or name a folder, to keep what was compiled."
    else:
        text = (
            f"The cache in {folder} is not used: it must be a folder that you own and that nobody else can write to. "
            "Change that, or name another folder in EUTECTIC_CACHE_DIR."
        )
    typer.echo(text, err=True)
