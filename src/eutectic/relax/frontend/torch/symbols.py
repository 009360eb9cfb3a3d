"""Sizes that torch knows as symbols, as scalar expressions of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Final

import sympy  # type: ignore[import-untyped]  # it ships no types
import torch
from torch import fx

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.interval import Interval
from eutectic.ir.prim_expr import Max, Min, PrimExpr, Var, add, as_prim, floordiv, floormod, mul
from eutectic.support.errors import FrontendError

_FOLDS: Final[dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "Add": add,
    "Mul": mul,
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "Mod": floormod,
    "PythonMod": floormod,
    "Max": Max,
    "Min": Min,
}


class Symbols:
    """The symbolic sizes of one program; each symbol of torch is one int64 variable.

    Args:
        ranges: Range per symbol, as `ExportedProgram.range_constraints` gives it.
    """

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = {str(symbol): bounds for symbol, bounds in ranges.items()}
        self.variables: dict[str, Var] = {}
        self.known: set[str] = set()  # symbols that arguments, or values that were met, define
        self.of_values: set[str] = set()  # those of them that values define

    def define(self, *sizes: Any) -> None:
        """Note that values of the program define the symbols in sizes."""
        fresh = {str(symbol) for size in sizes for symbol in free_symbols([size])} - self.known
        self.known |= fresh
        self.of_values |= fresh

    def are_known(self, *values: Any) -> bool:
        """Whether arguments, and values that were met, define all symbols in numbers, shapes of tensors, and lists."""
        return self.known.issuperset(map(str, free_symbols(values)))

    def size(self, value: Any) -> PrimExpr:
        """A Python int or a `SymInt` as a scalar expression.

        Raises:
            FrontendError: the expression has a form that shapes here cannot have.
        """
        if isinstance(value, torch.SymInt):
            return self._convert(value.node.expr)
        return as_prim(int(value), "int64")

    def shape(self, sizes: Iterable[Any]) -> tuple[PrimExpr, ...]:
        """All sizes of a shape."""
        return tuple(self.size(size) for size in sizes)

    def _convert(self, expr: Any) -> PrimExpr:
        if isinstance(expr, sympy.Symbol):
            return self.variables.setdefault(str(expr), Var(str(expr), "int64"))
        if isinstance(expr, sympy.Integer):
            return as_prim(int(expr), "int64")
        kind = type(expr).__name__
        if kind in _FOLDS:
            return reduce(_FOLDS[kind], [self._convert(arg) for arg in expr.args])
        if kind in ("Pow", "PowByNatural") and isinstance(expr.args[1], sympy.Integer) and int(expr.args[1]) > 0:
            return reduce(mul, [self._convert(expr.args[0])] * int(expr.args[1]))
        raise FrontendError(
            f"a size of the model is {expr}, which is not an integer expression of sums, products and divisions",
            help="export the model with that size fixed",
        )

    def least(self, size: PrimExpr) -> float:
        """The smallest value that a size can have."""
        analyzer = Analyzer()
        lower, _ = self.bounds()
        for name, bound in lower.items():
            analyzer.bind(self.variables[name], Interval(bound))
        return float(analyzer.const_int_bound(size).lo)

    def bounds(self) -> tuple[dict[str, int], dict[str, int]]:
        """Lower and upper bounds of the variables in use, as far as they are finite."""
        lower: dict[str, int] = {}
        upper: dict[str, int] = {}
        for name in self.variables:
            known = self._ranges.get(name)
            if known is None:
                continue
            for limits, bound in ((lower, known.lower), (upper, known.upper)):
                value = finite(bound)
                if value is not None:
                    limits[name] = value
        return lower, upper


def free_symbols(values: Iterable[Any]) -> frozenset[Any]:
    """The symbols of torch in numbers and in shapes of tensors."""
    symbols: set[Any] = set()
    for value in values:
        if isinstance(value, torch.Tensor):
            symbols |= free_symbols(value.shape)
        elif isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            symbols |= value.node.expr.free_symbols
        elif isinstance(value, (list, tuple)):
            symbols |= free_symbols(value)
    return frozenset(symbols)


def example_size(size: int | torch.SymInt) -> int:
    """What a size is in the example. `int` of one that varies would make the program one for that size alone.

    Raises:
        TypeError: it depends on data, and has no example.
    """
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def example_sizes(graph: fx.Graph) -> dict[str, int]:
    """The symbols in the shapes of a graph's arguments, with their values in the example that it was traced with."""
    values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    shapes: list[Any] = [value.shape for value in values if isinstance(value, torch.Tensor)]
    sizes = [size.node for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
    known = [size for size in sizes if isinstance(size.expr, sympy.Symbol) and size.has_hint()]
    return {str(size.expr): int(size.hint) for size in known}


def finite(bound: Any) -> int | None:
    """A bound of a range as a Python int, or None when there is none."""
    text = str(bound)
    digits = text.removeprefix("-")
    value = int(text) if digits.isdigit() else None
    return value if value is not None and abs(value) < 2**62 else None
