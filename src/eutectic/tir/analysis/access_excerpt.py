"""The text of a program with some of its accesses underlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.program_excerpt import Mark, ProgramExcerpt
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr
from eutectic.tir.stmt import BufferStore, Stmt

_MARK: Final = "placeOfTheAccess"
_SHOWN: Final = 4  # accesses that are underlined


def access_excerpt(func: PrimFunc, name: str, places: Sequence[BufferLoad | BufferStore]) -> ProgramExcerpt:
    """The text of a function with accesses underlined.

    Args:
        func: The function.
        name: Its name.
        places: Loads and stores in it.
    """
    lines = func.script(name=name).rstrip().splitlines()
    candidates = [_mark(func, name, place, lines) for place in places[:_SHOWN]]
    marks = tuple(dict.fromkeys(mark for mark in candidates if mark is not None))
    first = min(marks, key=lambda mark: mark.line, default=Mark(0, 0, 1))
    text = lines[first.line] if lines else ""
    return ProgramExcerpt(f"tir {name}", text, first.line + 1, first.column, first.width, tuple(lines), marks)


def _mark(func: PrimFunc, name: str, place: BufferLoad | BufferStore, lines: Sequence[str]) -> Mark | None:
    """Where an access is printed: print the program with a name in its place that can be found."""
    marked = func.with_body(_Marking(place).stmt(func.body)).script(name=name).rstrip().splitlines()
    more = len(marked) - len(lines)  # the name may be declared above
    for number, line in reversed(list(enumerate(marked[more:]))):
        if _MARK not in line or more < 0:
            continue
        original = lines[number]
        begin = len(original) - len(original.lstrip())
        if isinstance(place, BufferLoad):  # the line is the same up to the access
            begin = next((k for k, (a, b) in enumerate(zip(original, line, strict=False)) if a != b), begin)
            while begin > 0 and (original[begin - 1].isalnum() or original[begin - 1] == "_"):
                begin -= 1
        return Mark(number, begin, _width(original, begin))
    return None


def _width(line: str, begin: int) -> int:
    """Columns of an access that begins somewhere: a name, and its indices in brackets."""
    depth = 0
    for column in range(begin, len(line)):
        if line[column] == "[":
            depth += 1
        elif line[column] == "]":
            depth -= 1
            if depth == 0:
                return column + 1 - begin
    return max(1, len(line) - begin)


class _Marking(StmtMutator):
    def __init__(self, place: BufferLoad | BufferStore) -> None:
        self.place = place

    def expr(self, expr: PrimExpr) -> PrimExpr:
        return rewrite_expr(expr, lambda item: None, None, self._marked)

    def _marked(self, original: PrimExpr, rewritten: PrimExpr) -> PrimExpr:
        return Var(_MARK, original.dtype) if original is self.place else rewritten

    def visit_store(self, stmt: BufferStore) -> Stmt:
        store = super().visit_store(stmt)
        if stmt is self.place and isinstance(store, BufferStore):
            return replace(store, value=Var(_MARK, store.value.dtype))
        return store
