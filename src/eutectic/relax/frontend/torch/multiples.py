"""Sizes that no axis of an input has by itself, such as `n` where an axis has `2 * n`: they are found from that axis.

The parameter gets a size of its own for the axis. The program defines `n` from it, and asserts the shape that is meant,
so that a size which is no multiple is an error in the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]  # it ships no types
import torch

from eutectic.ir.prim_expr import PrimExpr, Var, as_prim, floordiv, sub
from eutectic.relax.base import ShapeExpr, ShapeStructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.frontend.torch.symbols import Symbols, free_symbols


@dataclass(frozen=True)
class Multiple:
    """A symbol, and the axis that it is found from.

    Attributes:
        symbol: As torch names it.
        axis: The size of the axis, a variable of its own: `factor * symbol + rest`.
        factor: At least one.
        rest: Any number.
    """

    symbol: str
    axis: Var
    factor: int
    rest: int

    @property
    def value(self) -> PrimExpr:
        """The symbol from the size of the axis."""
        return floordiv(sub(self.axis, as_prim(self.rest, "int64")), as_prim(self.factor, "int64"))


class Multiples:
    """The multiples of one program's inputs.

    Args:
        symbols: The sizes of the program.
        shapes: The shapes of its inputs, as torch has them.
    """

    def __init__(self, symbols: Symbols, shapes: Sequence[Sequence[Any]]) -> None:
        exact = [size.node.expr for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
        alone = {str(expr) for expr in exact if isinstance(expr, sympy.Symbol)}
        self._symbols = symbols
        self._axes: dict[str, Var] = {}
        self.found: dict[str, Multiple] = {}
        """By the names of the symbols."""
        for expr in exact:
            if len(expr.free_symbols) == 1 and str(symbol := next(iter(expr.free_symbols))) not in alone:
                self._add(str(symbol), expr, _line(expr, symbol))

    def _add(self, symbol: str, expr: Any, line: tuple[int, int] | None) -> None:
        if line is not None and symbol not in self.found:
            self.found[symbol] = Multiple(symbol, self._axis(expr), *line)

    def _axis(self, expr: Any) -> Var:
        """The variable of its own that stands for a size."""
        return self._axes.setdefault(str(expr), Var(f"axis{len(self._axes)}", "int64"))

    def shape(self, sizes: Iterable[Any]) -> tuple[PrimExpr, ...]:
        """The shape of a parameter: what is made of a symbol that is found from an axis is a variable of its own."""
        return tuple(
            self._axis(size.node.expr) if self.are_part_of(size) else self._symbols.size(size) for size in sizes
        )

    def are_part_of(self, size: Any) -> bool:
        """Whether a size is made of a symbol that is found from an axis."""
        return any(str(symbol) in self.found for symbol in free_symbols([size]))

    def define(self, builder: BlockBuilder) -> None:
        """Define the symbols, in the function that is being built."""
        for name, multiple in self.found.items():
            var = self._symbols.variables.setdefault(name, Var(name, "int64"))
            builder.match_cast(ShapeExpr((multiple.value,)), ShapeStructInfo((var,)))


def _line(expr: Any, symbol: Any) -> tuple[int, int] | None:
    """`(a, b)` where an expression is `a * symbol + b`."""
    if not expr.is_polynomial(symbol):
        return None
    factors = sympy.Poly(expr, symbol).all_coeffs()
    if len(factors) != 2 or not all(isinstance(factor, sympy.Integer) for factor in factors) or factors[0] < 1:
        return None
    return int(factors[0]), int(factors[1])
