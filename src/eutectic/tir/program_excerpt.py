"""A program within an error: its text with lines under the parts that the error is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.support.errors import Excerpt
from eutectic.tir.buffer import Buffer, BufferLoad

_CONTEXT: Final = 12  # lines shown around a place in a program that is longer than `_WHOLE`
_WHOLE: Final = 48


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a line to be underlined.

    Attributes:
        line: Number of the line, from zero.
        column: First column.
        width: Columns.
    """

    line: int
    column: int
    width: int


@dataclass(frozen=True, slots=True)
class ProgramExcerpt(Excerpt):
    """A program with parts underlined; the fields of the base tell of the first part.

    Attributes:
        lines: The whole program.
        marks: What is underlined.
    """

    lines: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()

    def render(self) -> list[str]:
        """The lines of the excerpt, ready to be joined."""
        visible = _visible(len(self.lines), [mark.line for mark in self.marks])
        gutter = len(str(len(self.lines)))
        out = [f"  --> {self.where}", f" {'':{gutter}} |"]
        before = -1
        for number in visible:
            if number != before + 1:
                out.append(f" {'':{gutter}} | ...")
            before = number
            out.append(f" {number + 1:>{gutter}} | {self.lines[number]}".rstrip())
            under = _underline([mark for mark in self.marks if mark.line == number])
            if under:
                out.append(f" {'':{gutter}} | {under}")
        if visible and visible[-1] + 1 < len(self.lines):
            out.append(f" {'':{gutter}} | ...")
        return out


def _visible(count: int, near: Sequence[int]) -> list[int]:
    if count <= _WHOLE or not near:
        return list(range(count))
    return [k for k in range(count) if any(abs(k - line) <= _CONTEXT for line in near)]


def _underline(marks: Sequence[Mark]) -> str:
    width = max((mark.column + mark.width for mark in marks), default=0)
    covered = {k for mark in marks for k in range(mark.column, mark.column + mark.width)}
    return "".join("^" if k in covered else " " for k in range(width))


def shown(expr: PrimExpr) -> str:
    """An expression within a sentence."""
    return str(expr.value) if isinstance(expr, IntImm) else expr.script()


def whole_line(number: int, line: str) -> Mark:
    """All of a line but the white space that it begins with."""
    inside = line.lstrip()
    return Mark(number, len(line) - len(inside), max(1, len(inside)))


def index_shown(index: PrimExpr) -> str:
    """An index as it is printed within brackets, where constants need no dtype."""
    return BufferLoad(Buffer("A", (1,)), (index,)).script()[2:-1]
