"""Which values of its axes a block computes something at: conditions as bounds of single axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Comparison,
    IntImm,
    PrimExpr,
    Var,
    add,
    floordiv,
    maximum,
    minimum,
    sub,
)
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.index_facts import linear, reads_memory
from eutectic.tir.iter_var import IterVar
from eutectic.tir.statement_mutator import rewrite_expr


@dataclass(frozen=True, slots=True)
class Box:
    """Bounds of axes; what has none is as the axis is.

    Attributes:
        low: First value of an axis.
        high: The value after the last one.
    """

    low: dict[Var, PrimExpr] = field(default_factory=dict)
    high: dict[Var, PrimExpr] = field(default_factory=dict)

    def at_least(self, axis: IterVar, value: PrimExpr, analyzer: Analyzer) -> None:
        """Leave out values of an axis below some value."""
        known = self.low.get(axis.var, None if axis.dom is None else axis.dom.min)
        self.low[axis.var] = value if known is None else _one(known, value, analyzer, largest=True)

    def below(self, axis: IterVar, value: PrimExpr, analyzer: Analyzer) -> None:
        """Leave out values of an axis from some value on."""
        known = self.high.get(axis.var, None if axis.dom is None else add(axis.dom.min, axis.dom.extent))
        self.high[axis.var] = value if known is None else _one(known, value, analyzer, largest=False)


def _one(a: PrimExpr, b: PrimExpr, analyzer: Analyzer, *, largest: bool) -> PrimExpr:
    if analyzer.can_prove_greater_equal(a, b):
        return a if largest else b
    if analyzer.can_prove_greater_equal(b, a):
        return b if largest else a
    return analyzer.simplify((maximum if largest else minimum)(a, b))


def box_of(condition: PrimExpr, axes: Mapping[Var, IterVar], analyzer: Analyzer) -> Box | PrimExpr:
    """Where a condition holds, as bounds of axes.

    Args:
        condition: The condition.
        axes: Axes by their variables.
        analyzer: Knows what else there is.

    Returns:
        The bounds; or a part of the condition that is no bound of one axis.
    """
    box = Box()
    for part in conjuncts(condition):
        if not isinstance(part, Comparison) or not part.a.dtype.startswith("int") or reads_memory(part):
            return part
        bound = _bound(part, axes)
        if bound is None:
            return part
        axis, factor, rest = bound
        # factor * axis + rest >= 0, or == 0
        if factor > 0 or isinstance(part, EQ):
            turned = rest if factor > 0 else sub(IntImm(rest.dtype, 0), rest)
            ceiling = sub(IntImm(rest.dtype, 0), floordiv(turned, abs(factor)))
            box.at_least(axis, analyzer.simplify(ceiling), analyzer)
        if factor < 0 or isinstance(part, EQ):
            turned = rest if factor < 0 else sub(IntImm(rest.dtype, 0), rest)
            box.below(axis, analyzer.simplify(add(floordiv(turned, abs(factor)), 1)), analyzer)
    return box


def _bound(part: Comparison, axes: Mapping[Var, IterVar]) -> tuple[IterVar, int, PrimExpr] | None:
    """An axis, its factor and the rest of `factor * axis + rest >= 0` (`== 0` for an equality)."""
    used = variables(part) & axes.keys()
    if len(used) != 1:
        return None
    (var,) = used
    match part:
        case LT():
            low, high, strict = part.a, part.b, 1
        case LE():
            low, high, strict = part.a, part.b, 0
        case GT():
            low, high, strict = part.b, part.a, 1
        case GE() | EQ():
            low, high, strict = part.b, part.a, 0
        case _:
            return None
    factors = [_factor(side, var) for side in (high, low)]
    if None in factors:
        return None
    factor = (factors[0] or 0) - (factors[1] or 0)
    if factor == 0:
        return None

    def without(side: PrimExpr) -> PrimExpr:
        return rewrite_expr(side, lambda item: IntImm(var.dtype, 0) if item is var else None)

    return axes[var], factor, sub(sub(without(high), without(low)), strict)


def _factor(side: PrimExpr, var: Var) -> int | None:
    """How often a variable is in a sum; None when it is in something else."""
    if var not in variables(side):
        return 0
    sums = linear(side)
    return None if sums is None else sums.get(var, 0)
