"""A report for people: one line per group, as text and as HTML."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from eutectic.driver.plan import GroupRecord

if TYPE_CHECKING:
    from eutectic.driver.report import CompileReport

_COLUMNS: Final = ("", "backend", "computes", "gives", "module", "source")
_WIDTH: Final = 120
_MOST_NAMES: Final = 4


def report_text(report: CompileReport) -> str:
    """The report as a table without colours, at most 120 characters wide, and sentences below it."""
    table = Table(*_COLUMNS, title=headline(report), title_justify="left", title_style="")
    for row in _rows(report):
        table.add_row(*row)
    console = Console(width=_WIDTH, file=io.StringIO(), record=True, color_system=None, legacy_windows=False)
    console.print(table, *_sentences(report), sep="\n", markup=False)
    return "\n".join(line.rstrip() for line in console.export_text(styles=False).rstrip().splitlines())


def report_html(report: CompileReport) -> str:
    """The report as an HTML table, for notebooks."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in _rows(report))
    below = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in _sentences(report))
    title = html.escape(headline(report))
    return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def headline(report: CompileReport) -> str:
    """The whole in one line."""
    groups = report.plan.groups
    operators = sum(len(group.operators) for group in groups)
    return f"{operators} operators in {len(groups)} groups, compiled in {report.seconds:.2f} s"


def _rows(report: CompileReport) -> Iterator[tuple[str, ...]]:
    for number, group in enumerate(report.plan.groups):
        yield (
            str(number),
            group.backend or group.kind,
            _computes(group),
            ", ".join(map(str, group.results)),
            ", ".join(group.modules[:2]) + (", ..." if len(group.modules) > 2 else ""),
            ", ".join(source.rpartition("/")[2] for source in group.sources[:2]),
        )


def _computes(group: GroupRecord) -> str:
    names = [operator.label.partition(" ")[0] for operator in group.operators]
    more = f" + {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return " + ".join(names[:_MOST_NAMES]) + more


def _sentences(report: CompileReport) -> Iterator[str]:
    for host in report.host_operators:
        yield f"{host.op} runs in Python{f' ({host.source})' if host.source else ''}"
    yield from report.notes
    if len(report.plan.groups) > 1:
        yield "why these are not fewer groups: explain()"
