"""Numbers that a model returns and that depend on the sizes of its arguments, as data."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.runtime.sizes import OPERATIONS, Size, evaluate
from eutectic.support.deep import deep
from eutectic.support.errors import LoadError

Number: TypeAlias = int | float | bool
Amount: TypeAlias = "Size | float | Formula"


@dataclass(frozen=True)
class Formula:
    """A number that is computed from others, in Python's arithmetic.

    Attributes:
        op: A key of `FUNCTIONS`.
        parts: Numbers, names of symbols, sizes, and other formulas.
    """

    op: str
    parts: tuple[Amount, ...]

    def __post_init__(self) -> None:
        if self.op not in FUNCTIONS:
            raise LoadError(f"unknown operation {self.op!r} in a number")


FUNCTIONS: Final[Mapping[str, Callable[..., Number]]] = {
    **OPERATIONS,
    "select": lambda condition, a, b: a if condition else b,
    "truediv": operator.truediv,
    "pow": operator.pow,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "float": float,
    "int": int,
    "bool": bool,
    "trunc": lambda a: float(math.trunc(a)),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
}


@deep
def amount(value: Amount, sizes: Mapping[str, int]) -> Number:
    """A formula as a number.

    Raises:
        KeyError: a symbol has no value.
    """
    if isinstance(value, float):
        return value
    if isinstance(value, Formula):
        return FUNCTIONS[value.op](*(amount(part, sizes) for part in value.parts))
    return evaluate(value, sizes)
