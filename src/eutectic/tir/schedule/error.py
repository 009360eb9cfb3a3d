"""What a refusal shows: the program with lines under the loops and blocks that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.visit import rewrite
from eutectic.support.errors import Excerpt
from eutectic.tir.block import BlockRealize
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.state import Site, replaced
from eutectic.tir.stmt import For, Stmt

_MARK: Final = "placeOfTheRefusal"
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


def excerpt_of(func: PrimFunc, name: str, sites: Sequence[Site]) -> ProgramExcerpt:
    """The text of a function with loops and blocks underlined.

    Args:
        func: The function.
        name: Its name.
        sites: Places of loops and blocks; places of other statements are not marked.
    """
    lines = func.script(name=name).rstrip().splitlines()
    marks = [mark for site in sites if (mark := _mark(func, name, site.stmt, lines)) is not None]
    first = min(marks, key=lambda mark: mark.line, default=Mark(0, 0, 1))
    text = lines[first.line] if lines else ""
    return ProgramExcerpt(
        f"tir {name}", text, first.line + 1, first.column, first.width, tuple(lines), tuple(dict.fromkeys(marks))
    )


def _mark(func: PrimFunc, name: str, stmt: Stmt, lines: Sequence[str]) -> Mark | None:
    """Where a statement is printed: print it again under a name that can be found."""
    if isinstance(stmt, For):
        marked = _renamed(func, stmt.loop_var)
    elif isinstance(stmt, BlockRealize):
        if stmt is func.body and not stmt.block.iter_vars:
            return next((_whole(k, line) for k, line in enumerate(lines) if 'T.block("root")' in line), None)
        block = replace(stmt.block, name_hint=_MARK)
        marked = func.with_body(replaced(func.body, {}, {stmt.block: block}))
    else:
        return None
    for number, line in enumerate(marked.script(name=name).rstrip().splitlines()):
        if _MARK in line:
            return _loop_mark(number, line, lines[number]) if isinstance(stmt, For) else _whole(number, lines[number])
    return None


def _renamed(func: PrimFunc, var: Var) -> PrimFunc:
    other = Var(_MARK, var.dtype)
    made: Node = rewrite(func, lambda item: other if item is var else None)
    assert isinstance(made, PrimFunc)
    return made


def _whole(number: int, line: str) -> Mark:
    inside = line.lstrip()
    return Mark(number, len(line) - len(inside), max(1, len(inside)))


def _loop_mark(number: int, marked: str, line: str) -> Mark:
    """The head of a loop; only its variable when it shares the line with others."""
    names, printed = (re.match(r"\s*for (.*?) in ", text) for text in (marked, line))
    if names is None or printed is None or "," not in printed[1]:
        return _whole(number, line)
    place = names[1].split(", ").index(_MARK)
    parts = printed[1].split(", ")
    return Mark(number, printed.start(1) + sum(len(part) + 2 for part in parts[:place]), len(parts[place]))
