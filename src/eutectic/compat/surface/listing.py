"""The table of TVM's public names: which are here, with fewer options, refused, or not ours.

Whether a name is here is looked up, not written down: the table cannot claim what a script would not get.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from importlib import import_module
from typing import Any, Final

from eutectic.compat.surface import SURFACES, WHOLE, PublicName, Surface


class Status(Enum):
    """What a script gets that uses a name."""

    THERE = "there"
    FEWER = "fewer options"
    REFUSED = "refused"
    NOT_OURS = "not ours"
    MISSING = "missing"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        module: TVM's module.
        name: The name within it.
        status: What a script gets.
        remark: Parameters that are not here, or what to use instead.
    """

    module: str
    name: str
    status: Status
    remark: str = ""

    @property
    def path(self) -> str:
        """Module and name."""
        return f"{self.module}.{self.name}"


def rows() -> list[Row]:
    """The table; `import tvm` must give Eutectic.

    Raises:
        ModuleNotFoundError: `install_as_tvm` was not called, and there is no TVM.
    """
    return [_row(module, surface, name) for module, surface in SURFACES.items() for name in surface.names()]


def _row(module: str, surface: Surface, name: PublicName) -> Row:
    try:
        value = reduce(getattr, name.name.split("."), import_module(module))
    except (AttributeError, ModuleNotFoundError):
        return _absent(module, surface, name.name)
    lacking = _lacking(value, name.parameters)
    remark = f"without {', '.join(lacking)}" if lacking else ""
    return Row(module, name.name, Status.FEWER if lacking else Status.THERE, remark)


def _absent(module: str, surface: Surface, name: str) -> Row:
    for status, reasons in ((Status.REFUSED, surface.refused), (Status.NOT_OURS, surface.not_ours)):
        if reason := reasons.get(name) or reasons.get(WHOLE):
            return Row(module, name, status, reason)
    return Row(module, name, Status.MISSING)


def _lacking(value: Any, parameters: tuple[str, ...]) -> list[str]:
    """Which of TVM's parameters cannot be passed by their names."""
    try:
        ours = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in ours):
        return []
    known = {parameter.name for parameter in ours}
    return [name for name in parameters if name not in known and not name.startswith("*") and name != "span"]


BEGIN: Final = "<!-- the table of names: python -m eutectic.compat --table docs/compat.md -->"
END: Final = "<!-- end of the table -->"


def with_table(text: str) -> str:
    """A page with the table as it is now between the two comments that mark its place.

    Raises:
        ValueError: the page has no such place.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: a line {BEGIN}, and below it {END}")
    return "\n".join([before + BEGIN, "", *markdown(), "", END + after])


def markdown() -> Iterator[str]:
    """The table as lines of Markdown, a part for each module, after the counts."""
    listed = rows()
    counts = Counter(row.status for row in listed)
    yield "| " + " | ".join(status.value for status in Status) + " |"
    yield "|" + "---|" * len(Status)
    yield "| " + " | ".join(str(counts[status]) for status in Status) + " |"
    for module in dict.fromkeys(row.module for row in listed):
        yield from ("", f"### {module}", "", "| name | status | remark |", "|---|---|---|")
        yield from (f"| `{row.name}` | {row.status.value} | {row.remark} |" for row in listed if row.module == module)
