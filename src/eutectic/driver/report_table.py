"""A report for people: one line per group, as text and as HTML."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from eutectic.driver.plan import GroupRecord

_COLUMNS: Final = ("", "backend", "computes", "gives", "module", "source")
_WIDTH: Final = 120
_MOST_NAMES: Final = 4


def report_text(title: str, groups: Sequence[GroupRecord], sentences: Sequence[str]) -> str:
    """A table without colours, at most 120 characters wide.

    Args:
        title: What is above it.
        groups: Its rows.
        sentences: What is below it.
    """
    table = Table(*_COLUMNS, title=title, title_justify="left", title_style="")
    for row in _rows(groups):
        table.add_row(*row)
    console = Console(width=_WIDTH, file=io.StringIO(), record=True, color_system=None, legacy_windows=False)
    console.print(table, *sentences, sep="\n", markup=False)
    return "\n".join(line.rstrip() for line in console.export_text(styles=False).rstrip().splitlines())


def report_html(title: str, groups: Sequence[GroupRecord], sentences: Sequence[str]) -> str:
    """The same as HTML, for notebooks."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in _rows(groups))
    below = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    caption = html.escape(title)
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def _rows(groups: Sequence[GroupRecord]) -> Iterator[tuple[str, ...]]:
    for number, group in enumerate(groups):
        yield (
            str(number),
            group.backend or group.kind,
            _computes(group),
            group.gives,
            ", ".join(group.modules[:2]) + (", ..." if len(group.modules) > 2 else ""),
            ", ".join(source.rpartition("/")[2] for source in group.sources[:2]),
        )


def _computes(group: GroupRecord) -> str:
    names = [operator.label.partition(" ")[0] for operator in group.operators]
    more = f" + {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return " + ".join(names[:_MOST_NAMES]) + more
