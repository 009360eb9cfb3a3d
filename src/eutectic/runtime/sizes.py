"""Sizes that depend on the arguments of a call, as data."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from eutectic.support.deep import deep
from eutectic.support.errors import LoadError

Sizes: TypeAlias = dict[str, int]
Size: TypeAlias = "int | str | SizeExpr"


@dataclass(frozen=True)
class SizeExpr:
    """A size that is computed from others.

    Attributes:
        op: A key of `OPERATIONS`, or `select`, which takes a condition and two values.
        parts: Numbers, names of symbols, and other expressions.
    """

    op: str
    parts: tuple[Size, ...]

    def __post_init__(self) -> None:
        if self.op != "select" and self.op not in OPERATIONS:
            raise LoadError(f"unknown operation {self.op!r} in a size")


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _wrapped(value: int, bits: int) -> int:
    """A signed integer of so many bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


OPERATIONS: Final[Mapping[str, Callable[..., int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "truncdiv": _truncated_quotient,
    "truncmod": lambda a, b: a - b * _truncated_quotient(a, b),
    "min": min,
    "max": max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "wrap": _wrapped,
    "wrap_unsigned": lambda value, bits: value % (1 << bits),
}


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """A size as an integer; conditions give 0 or 1.

    Raises:
        KeyError: a symbol has no value.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return sizes[size]
    return _computed(size, sizes)


@deep
def _computed(size: SizeExpr, sizes: Mapping[str, int]) -> int:
    if size.op == "select":
        condition, then, otherwise = size.parts
        return evaluate(then if evaluate(condition, sizes) else otherwise, sizes)
    return int(OPERATIONS[size.op](*(evaluate(part, sizes) for part in size.parts)))


@dataclass(frozen=True)
class Line:
    """A size that is `factor * symbol + rest`.

    Attributes:
        symbol: Its name.
        factor: At least one.
        rest: Any number.
    """

    symbol: str
    factor: int = 1
    rest: int = 0

    def at(self, value: int) -> int:
        """The size for a value of the symbol."""
        return self.factor * value + self.rest

    @property
    def text(self) -> str:
        """What the size is, besides inside of limits; empty when it may be any."""
        if self.factor == 1:
            return ""
        rest = self.rest % self.factor
        return f", {f'{rest} more than ' if rest else ''}a multiple of {self.factor},"


@deep
def line_of(size: Size) -> Line | None:
    """A size as a line; None for another expression."""
    if isinstance(size, str):
        return Line(size)
    if not isinstance(size, SizeExpr) or size.op not in ("add", "sub", "mul"):
        return None
    first, second = size.parts
    if isinstance(first, int) and size.op != "sub":
        first, second = second, first
    line = line_of(first)
    if line is None or not isinstance(second, int) or (size.op == "mul" and second < 1):
        return None
    if size.op == "mul":
        return Line(line.symbol, line.factor * second, line.rest * second)
    return Line(line.symbol, line.factor, line.rest + (second if size.op == "add" else -second))


def computed(op: str, *parts: Size) -> Size:
    """A size that is computed from others: a number when they are numbers."""
    expression = SizeExpr(op, parts)
    return evaluate(expression, {}) if all(isinstance(part, int) for part in parts) else expression


@deep
def size_to_json(size: Size) -> Any:
    """A size as JSON data: a number, a name, or a list of an operation and its parts."""
    if isinstance(size, SizeExpr):
        return [size.op, *map(size_to_json, size.parts)]
    return size


@deep
def size_from_json(data: Any) -> Size:
    """Inverse of `size_to_json`.

    Raises:
        LoadError: the data is no size.
    """
    if isinstance(data, list) and data and isinstance(data[0], str):
        return SizeExpr(data[0], tuple(map(size_from_json, data[1:])))
    if type(data) is int or isinstance(data, str):
        return data
    raise LoadError(
        f"a size is described by {data!r}, expected a number, a name, or a list of an operation and its parts"
    )
