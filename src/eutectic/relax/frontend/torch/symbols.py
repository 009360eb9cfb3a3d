"""Sizes that torch knows as symbols, as scalar expressions of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np
import sympy  # type: ignore[import-untyped]  # it ships no types
import torch
from torch import fx

from eutectic.arith import simplify
from eutectic.arith.analyzer import Analyzer
from eutectic.arith.interval import Interval
from eutectic.ir.prim_expr import Max, Min, PrimExpr, Var, add, as_prim, floordiv, floormod, mul
from eutectic.support.errors import FrontendError
from eutectic.tir.analysis.conditions import variables

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
_ROUNDINGS: Final[dict[str, Callable[[Any], Any]]] = {
    "TruncToInt": np.trunc,
    "FloorToInt": np.floor,
    "CeilToInt": np.ceil,
}
_MOST_PARTS: Final = 1 << 10  # denominators of the numbers that sizes are multiplied by
_MOST_TRIED: Final = 1 << 20  # sizes


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
        self.of_shapes: set[str] = set()  # symbols in the shapes of tensors

    def define(self, *sizes: Any) -> None:
        """Note that values of the program define the symbols in sizes."""
        fresh = {str(symbol) for size in sizes for symbol in free_symbols([size])} - self.known
        self.known |= fresh
        self.of_values |= fresh

    def are_known(self, *values: Any) -> bool:
        """Whether arguments, and values that were met, define all symbols in numbers, shapes of tensors, and lists."""
        return self.known.issuperset(map(str, free_symbols(values)))

    def is_size(self, value: Any) -> bool:
        """Whether an integer that values decide is a size: a shape has it, or torch knows that it is not negative."""
        name = str(value.node.expr) if isinstance(value, torch.SymInt) else str(value)
        known = self._ranges.get(name)
        lower = None if known is None else finite(known.lower)
        return name in self.of_shapes or (lower is not None and lower >= 0)

    def size(self, value: Any) -> PrimExpr:
        """A Python int or a `SymInt` as a scalar expression.

        Raises:
            FrontendError: the expression has a form that shapes here cannot have.
        """
        if isinstance(value, torch.SymInt):
            return self._convert(value.node.expr)
        return as_prim(int(value), "int64")

    def of_expression(self, expr: Any) -> PrimExpr:
        """An expression of sympy as a scalar expression.

        Raises:
            FrontendError: as for `size`.
        """
        return self._convert(expr)

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
        if kind in _ROUNDINGS and (rounded := self._rounded(kind, expr.args[0])) is not None:
            return rounded
        if kind in ("Pow", "PowByNatural") and isinstance(expr.args[1], sympy.Integer) and int(expr.args[1]) > 0:
            return reduce(mul, [self._convert(expr.args[0])] * int(expr.args[1]))
        raise FrontendError(
            f"a size of the model is {expr}, which is not an integer expression of sums, products and divisions",
            help="export the model with that size fixed",
        )

    def _rounded(self, rounding: str, expr: Any) -> PrimExpr | None:
        """A float that is a size times or over a number, rounded to an integer; None when no quotient says it."""
        parts = _scaled(expr)
        if parts is None:
            return None
        size, factor, computed = self._convert(parts[0]), *parts[1:]
        low, high = self.range_of(size)
        exact, is_ceil = factor.limit_denominator(_MOST_PARTS), rounding == "CeilToInt"
        if low < 0 or factor <= 0:
            return None
        if exact != factor and not _same_everywhere(low, high, exact, computed, _ROUNDINGS[rounding], is_ceil):
            return None
        whole = mul(size, as_prim(exact.numerator, "int64"))
        raised = add(whole, as_prim(exact.denominator - 1, "int64")) if is_ceil else whole
        return floordiv(raised, as_prim(exact.denominator, "int64"))

    def from_start(self, place: PrimExpr, size: PrimExpr) -> PrimExpr | None:
        """A place along an axis counted from its start.

        Args:
            place: Negative ones count from the end.
            size: Of the axis.

        Returns:
            None where values decide it, or whether it is negative.
        """
        if self.is_of_values(place) or self.is_of_values(size):
            return None
        if self.is_count(place):
            return place
        counted = simplify(add(size, place))
        return counted if self.range_of(place)[1] < 0 and self.is_count(counted) else None

    def is_of_values(self, size: PrimExpr) -> bool:
        """Whether values of the program decide a size."""
        return any(var.name in self.of_values for var in variables(size))

    def least(self, size: PrimExpr) -> float:
        """The smallest value that a size can have."""
        return self.range_of(size)[0]

    def range_of(self, size: PrimExpr) -> tuple[float, float]:
        """The smallest and the largest value that a size can have."""
        bound = self._analyzer().const_int_bound(size)
        return float(bound.lo), float(bound.hi)

    def fits(self, part: PrimExpr, whole: PrimExpr) -> bool:
        """Whether one size is at most another in all of the ranges, which are wider than what torch assumes: it takes
        no size that varies for one.
        """
        analyzer = self._analyzer()
        return analyzer.can_prove(part <= whole) or analyzer.can_prove_at_least(whole, part)

    def is_count(self, size: PrimExpr) -> bool:
        """Whether a size is never negative."""
        return self.fits(as_prim(0, "int64"), size)

    def _analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        lower, upper = self.bounds()
        for name in lower.keys() | upper.keys():
            analyzer.bind(self.variables[name], Interval(lower.get(name, -math.inf), upper.get(name, math.inf)))
        return analyzer

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


def _scaled(expr: Any) -> tuple[Any, Fraction, Callable[[Any], Any]] | None:
    """A size, what it is multiplied by, and how torch computes that in floats; None for other expressions."""
    kind = type(expr).__name__
    if kind == "IntTrueDiv" and isinstance(expr.args[1], sympy.Integer):
        divisor = int(expr.args[1])
        return (expr.args[0], Fraction(1, divisor), lambda sizes: sizes / divisor) if divisor else None
    is_quotient = kind == "FloatTrueDiv"
    if not (is_quotient or isinstance(expr, sympy.Mul)) or len(expr.args) != 2:
        return None
    size, factor = expr.args if is_quotient else reversed(expr.args)
    if not isinstance(factor, sympy.Float) or type(size).__name__ != "ToFloat" or not factor:
        return None
    number = float(factor)
    if is_quotient:
        return size.args[0], 1 / Fraction(number), lambda sizes: sizes / number
    return size.args[0], Fraction(number), lambda sizes: sizes * number


def _same_everywhere(
    low: float, high: float, exact: Fraction, computed: Callable[[Any], Any], rounding: Any, is_ceil: bool
) -> bool:
    """Whether a quotient of integers is what floats give, for all sizes of a range that can be tried."""
    if not high - low < _MOST_TRIED:
        return False
    sizes = np.arange(int(low), int(high) + 1, dtype=np.int64)
    raised = sizes * exact.numerator + (exact.denominator - 1 if is_ceil else 0)
    return bool((rounding(computed(sizes.astype(np.float64))) == raised // exact.denominator).all())


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
