"""Source positions: where in the user's Python (or IR text) a node came from."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from eutectic.ir.node import Node, node
from eutectic.support.errors import Excerpt

_PACKAGE: Final = str(Path(__file__).resolve().parents[1])


@node("ir.Span")
class Span(Node):
    """A position in a source file.

    Attributes:
        file: Path or display name of the source.
        line: 1-based line.
        column: 0-based first column.
        end_column: 0-based column after the last one; 0 when unknown.
        module: Path of the torch module that the value belongs to, such as `features.3.conv`.
        others: Of a value that several were merged into, the positions of these beside the first.
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    module: str | None = None
    others: tuple[Span, ...] = ()

    @property
    def all(self) -> tuple[Span, ...]:
        """This position and the others."""
        return (self, *self.others)

    def excerpt(self) -> Excerpt:
        """The source line with the position underlined; empty text when the file is gone."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        column = self.column or len(text) - len(text.lstrip())
        width = (self.end_column or len(text)) - column
        where = f"{self.file}:{self.line}" + (f":{self.column + 1}" if self.column else "")
        return Excerpt(where, text, self.line, column, width)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{self.module} ({place})" if self.module else place


def merged_span(spans: Iterable[Span | None]) -> Span | None:
    """The position of a value that takes the place of several: that of the first which has one, and the others."""
    known: dict[tuple[str, int, int, str | None], Span] = {}
    for position in spans:
        for span in position.all if position is not None else ():
            plain = replace(span, others=()) if span.others else span
            known.setdefault((span.file, span.line, span.column, span.module), plain)
    first, *others = known.values() or (None,)
    return replace(first, others=tuple(others)) if first is not None and others else first


def caller_span() -> Span | None:
    """Position of the innermost frame outside this package; for errors in hand-written IR."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return Span(frame.f_code.co_filename, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
