"""The page that lists which operators of torch are imported, and as which graph operators.

    python -m eutectic.testing.converter_table docs/aten.md

What a converter may call is read from its code: the constructors that it refers to, itself or by way of functions of
the importer. Casts, and tensors of sizes, which the context adds, are not part of that.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from eutectic.ir.op import Op
from eutectic.relax import op as operators
from eutectic.relax.frontend.torch import TABLE
from eutectic.relax.frontend.torch.ops import FAMILIES

PAGE: Final = Path("docs/aten.md")
_IMPORTER: Final = "eutectic.relax.frontend"
_SPACES: Final = (("relax", operators), ("relax.nn", operators.nn), ("relax.image", operators.image))
_HEAD: Final = """# Operators of torch

Written by `python -m eutectic.testing.converter_table docs/aten.md`, never by hand.

{overloads} overloads of operators are imported. The columns say by which operators of the graph each may be expressed
(which of them, its arguments and dtypes decide), and what the converter does. An overload with no graph operator beside
it is the operand itself, a constant, or a change of dtype.

All others are [left to torch](fallback.md). Forms in place (`relu_`) and views are made functional before this table
is asked, and composite operators of torch without an entry are taken apart by torch first. How many samples of each
operator give what eager gives is on the page [Coverage of torch's operators](coverage.md).
"""


def page() -> str:
    """The page, as Markdown."""
    sections = [_section(family) for family in FAMILIES]
    return "\n".join((_HEAD.format(overloads=len(TABLE)), *sections))


def graph_operators(name: str) -> list[str]:
    """The graph operators that a converter may call.

    Args:
        name: The overload, such as `aten.relu.default`.

    Returns:
        Their names, such as `relax.nn.relu`, sorted.

    Raises:
        KeyError: there is no converter for the overload.
    """
    names = _names_of_constructors()
    return sorted({names[constructor] for constructor in _constructors(TABLE[name], name.split(".")[1], set())})


def _section(family: ModuleType) -> str:
    title = _first_sentence(family).split(":")[0].removesuffix(".")
    rows = [_row(name) for name in sorted(TABLE) if TABLE[name].__module__ == family.__name__]
    return "\n".join((f"## {title}", "", "| overload | graph operators | what it does |", "|---|---|---|", *rows, ""))


def _row(name: str) -> str:
    used = ", ".join(f"`{operator}`" for operator in graph_operators(name))
    return f"| `{name}` | {used} | {_first_sentence(TABLE[name]).replace('|', chr(92) + '|')} |"


def _first_sentence(documented: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(documented) or "").partition("\n")[0]


@cache
def _names_of_constructors() -> dict[Any, str]:
    """Constructors of graph operators, with the names of what they construct."""
    known = set(Op.list_op_names())
    paths = [(f"{prefix}.{name}", getattr(space, name)) for prefix, space in _SPACES for name in space.__all__]
    return {constructor: path for path, constructor in paths if path in known}


def _constructors(function: Any, operator: str, visited: set[int]) -> Iterator[Any]:
    """Constructors that a function refers to, itself or by way of other functions of the importer.

    Args:
        function: The function.
        operator: The operator without namespace and overload: tables of the importer are looked up by it.
        visited: Identities of the functions that are done.
    """
    if id(function) in visited:
        return
    visited.add(id(function))
    for value in _values(function):
        yield from _among(value, operator, visited)


def _among(value: Any, operator: str, visited: set[int]) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from _among(value[operator] if operator in value else tuple(value.values()), operator, visited)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _among(item, operator, visited)
    elif isinstance(value, FunctionType) and value.__module__.startswith(_IMPORTER):
        yield from _constructors(value, operator, visited)
    elif callable(value) and value in _names_of_constructors():
        yield value


def _values(function: FunctionType) -> Iterator[Any]:
    """Values of the names outside of a function that it reads: globals, their attributes, and variables around it."""
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    for code in _codes(function.__code__):
        value: Any = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(instruction.argval)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
                value = getattr(value, instruction.argval, None)
            else:
                value = None
            if value is not None:
                yield value


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
