"""The text being parsed: its syntax tree, and errors that point into it."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from eutectic.ir.span import Span
from eutectic.support.errors import EutecticError, Excerpt, ScriptError

MAX_CHARACTERS: Final = 64 << 20  # of a text from outside
MAX_DEPTH: Final = 200  # nested statements and expressions
MAX_SYNTAX_NODES: Final = 8_000_000


@dataclass(frozen=True)
class Source:
    """A text and where it comes from.

    Attributes:
        file: Path, or what messages call the text.
        lines: Its lines, without newlines.
    """

    file: str
    lines: tuple[str, ...]

    def span(self, node: ast.AST) -> Span:
        """Position of a syntax node."""
        line, column, end = self._columns(node)
        return Span(self.file, line, column, end)

    def excerpt(self, node: ast.AST) -> Excerpt:
        """The line of a syntax node with the node underlined, as far as it is on one line."""
        line, column, end = self._columns(node)
        text = self.line(line)
        stop = end if end > column else len(text.rstrip())
        return Excerpt(f"{self.file}:{line}:{column + 1}", text, line, column, max(1, stop - column))

    def line(self, number: int) -> str:
        """A line by its 1-based number; empty when there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def _columns(self, node: ast.AST) -> tuple[int, int, int]:
        line = getattr(node, "lineno", 1)
        encoded = self.line(line).encode()
        column = len(encoded[: getattr(node, "col_offset", 0)].decode(errors="replace"))
        end = 0
        if getattr(node, "end_lineno", None) == line:
            end = len(encoded[: getattr(node, "end_col_offset", 0)].decode(errors="replace"))
        return line, column, end

    def refuse(self, node: ast.AST, message: str, *, notes: Sequence[str] = (), help: str | None = None) -> NoReturn:
        """Raise a `ScriptError` that points at a syntax node."""
        raise self.error(node, message, notes=notes, help=help)

    def error(self, node: ast.AST, message: str, *, notes: Sequence[str] = (), help: str | None = None) -> ScriptError:
        """A `ScriptError` that points at a syntax node."""
        return ScriptError(message, at=self.excerpt(node), notes=notes, help=help)

    def locate(self, error: EutecticError, node: ast.AST) -> None:
        """Let an error that came from below point at a syntax node, unless it points into this text already."""
        if error.at is None or not error.at.text or not error.at.where.startswith(f"{self.file}:"):
            error.at = self.excerpt(node)


def parse_text(text: str, file: str) -> tuple[Source, ast.Module]:
    """Syntax tree of a text from outside.

    Raises:
        ScriptError: it is not Python syntax, or it is too large or too deep to be taken.
    """
    source = Source(file, tuple(text.splitlines()))
    if len(text) > MAX_CHARACTERS:
        raise ScriptError(f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are taken")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text, file)
    except SyntaxError as error:
        line, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
        at = Excerpt(f"{file}:{line}:{column + 1}", source.line(line), line, column, _width(error, column))
        raise ScriptError(f"not valid Python syntax: {error.msg}", at=at) from None
    except (RecursionError, MemoryError):
        raise ScriptError("the text is nested too deeply to be parsed") from None
    except ValueError as error:  # null bytes, integers of thousands of digits
        raise ScriptError(f"not valid Python syntax: {error}") from None
    check_limits(source, tree)
    return source, tree


def _width(error: SyntaxError, column: int) -> int:
    if error.end_lineno == error.lineno and error.end_offset is not None:
        return max(1, error.end_offset - 1 - column)
    return 1


def check_limits(source: Source, tree: ast.AST) -> None:
    """Refuse trees that would exhaust the stack or the memory of what walks them.

    Raises:
        ScriptError: nested deeper than `MAX_DEPTH`, or more than `MAX_SYNTAX_NODES` nodes.
    """
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    count = 0
    while todo:
        node, depth = todo.pop()
        count += 1
        if depth > MAX_DEPTH:
            source.refuse(node, f"nested more than {MAX_DEPTH} deep")
        if count > MAX_SYNTAX_NODES:
            source.refuse(node, f"more than {MAX_SYNTAX_NODES} syntax nodes")
        todo.extend((child, depth + 1) for child in ast.iter_child_nodes(node) if hasattr(child, "lineno"))


@lru_cache(maxsize=16)
def _parsed(file: str, lines: tuple[str, ...]) -> tuple[Source, ast.Module]:
    return Source(file, tuple(line.rstrip("\n") for line in lines)), ast.parse("".join(lines), file)


def parsed_file(file: str) -> tuple[Source, ast.Module]:
    """The file (or notebook cell) in which a decorator was used.

    Raises:
        ScriptError: its text is not available.
    """
    linecache.checkcache(file)
    lines = tuple(linecache.getlines(file))
    if not lines:
        raise ScriptError(
            f"the source of {file} is not available, and decorators parse source",
            help="define the function in a file or notebook cell, or parse its text with script.from_source",
        )
    return _parsed(file, lines)


def definition_at(
    file: str, line: int, name: str, kinds: tuple[type[ast.AST], ...]
) -> tuple[Source, ast.FunctionDef | ast.ClassDef]:
    """The definition called `name` whose decorators or header cover a line.

    Raises:
        ScriptError: there is none; the file changed since it was loaded, for example.
    """
    source, tree = parsed_file(file)
    best: ast.FunctionDef | ast.ClassDef | None = None
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or not isinstance(node, kinds) or node.name != name:
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = max([node.lineno, *(d.end_lineno or d.lineno for d in node.decorator_list)])
        if first <= line <= last:
            best = node
    if best is None:
        raise ScriptError(f"no definition of {name} at {file}:{line}; did the file change after it was loaded?")
    return source, best
