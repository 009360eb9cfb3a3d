"""What a refusal shows: the program with lines under the loops and blocks that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Var
from eutectic.ir.visit import rewrite
from eutectic.tir.block import BlockRealize
from eutectic.tir.function import PrimFunc
from eutectic.tir.program_excerpt import Mark, ProgramExcerpt, shown, whole_line
from eutectic.tir.schedule.state import Site, replaced
from eutectic.tir.stmt import For, Stmt

__all__ = ["excerpt_of", "shown"]

_MARK: Final = "placeOfTheRefusal"


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
            return next((whole_line(k, line) for k, line in enumerate(lines) if 'T.block("root")' in line), None)
        block = replace(stmt.block, name_hint=_MARK)
        marked = func.with_body(replaced(func.body, {}, {stmt.block: block}))
    else:
        return None
    for number, line in enumerate(marked.script(name=name).rstrip().splitlines()):
        if _MARK in line:
            return (
                _loop_mark(number, line, lines[number]) if isinstance(stmt, For) else whole_line(number, lines[number])
            )
    return None


def _renamed(func: PrimFunc, var: Var) -> PrimFunc:
    other = Var(_MARK, var.dtype)
    renamed: Node = rewrite(func, lambda item: other if item is var else None)
    assert isinstance(renamed, PrimFunc)
    return renamed


def _loop_mark(number: int, marked: str, line: str) -> Mark:
    """The head of a loop; only its variable when it shares the line with others."""
    names, printed = (re.match(r"\s*for (.*?) in ", text) for text in (marked, line))
    if names is None or printed is None or "," not in printed[1]:
        return whole_line(number, line)
    place = names[1].split(", ").index(_MARK)
    parts = printed[1].split(", ")
    return Mark(number, printed.start(1) + sum(len(part) + 2 for part in parts[:place]), len(parts[place]))
