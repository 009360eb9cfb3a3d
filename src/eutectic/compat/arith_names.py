"""`tvm.arith`: the analyzer, linear forms and iterator maps, with TVM's arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import _GeneratorContextManager
from dataclasses import dataclass
from math import inf, prod
from typing import Any, ClassVar, Final

from eutectic.arith import iter_map as _maps
from eutectic.arith.analyzer import Analyzer as _Analyzer
from eutectic.arith.interval import Interval, ModularSet, dtype_range
from eutectic.arith.iter_map import IterMap, IterMark, IterRefusal
from eutectic.arith.iter_map import IterSplit as IterSplitExpr
from eutectic.arith.iter_map import IterSum as IterSumExpr
from eutectic.compat.int_sets import NEG_INF, POS_INF, IntervalSet, IntSet, evaluated
from eutectic.ir.prim_expr import EQ, GE, GT, LE, LT, IntImm, Operand, PrimExpr, Var, as_prim
from eutectic.tir.analysis.linear import linear
from eutectic.tir.iter_var import Range

__all__ = [
    "Analyzer",
    "CompareResult",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "ProofStrength",
    "deduce_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "estimate_region_upper_bound",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_to_iter_sum",
    "subspace_divide",
]


class ProofStrength:
    """How hard a proof is tried; there is one way here, which both ask for."""

    DEFAULT: Final = 0
    SYMBOLIC_BOUND: Final = 1


class IterMapLevel:
    """What is to be shown of an iterator map."""

    Bijective: Final = 0
    Surjective: Final = 1
    NoCheck: Final = 3


_CHECKS: Final[dict[Any, _maps.Check]] = {0: "bijective", 1: "surjective", 3: "none"}


@dataclass(frozen=True)
class ConstIntBound:
    """Constant ends of what an expression may be.

    Attributes:
        min_value: The smallest value; `NEG_INF` where there is none.
        max_value: The largest value; `POS_INF` where there is none.
    """

    min_value: int
    max_value: int
    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = 1 - (1 << 63)

    @staticmethod
    def of(interval: Interval) -> ConstIntBound:
        """The bound that an interval is."""
        low = ConstIntBound.NEG_INF if interval.lo == -inf else int(interval.lo)
        return ConstIntBound(low, ConstIntBound.POS_INF if interval.hi == inf else int(interval.hi))


class Analyzer(_Analyzer):
    """`eutectic.arith.Analyzer` with TVM's methods."""

    def bind(self, var: Var, expr: Any) -> None:
        """Say what a variable is: a range, or an expression that it stands for."""
        super().bind(var, expr)

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Say what is known of a variable; with `override` in place of what was known.

        Args:
            var: The variable.
            info: A `ConstIntBound` or a `ModularSet`.
            override: Whether what an earlier call said may be widened.

        Raises:
            TypeError: other information.
        """
        if isinstance(info, ModularSet):
            self.bind_modular(var, info)
            return
        if not isinstance(info, ConstIntBound):
            raise TypeError(f"update takes a ConstIntBound or a ModularSet, got {type(info).__name__}")
        ends = Interval(
            -inf if info.min_value == ConstIntBound.NEG_INF else info.min_value,
            inf if info.max_value == ConstIntBound.POS_INF else info.max_value,
        )
        super().bind(var, ends if override else ends.intersect(super().const_int_bound(var)))

    def simplify(self, expr: Operand, steps: int = 2) -> PrimExpr:
        """The normal form; `steps` is accepted as TVM does."""
        return super().simplify(expr)

    def can_prove(self, expr: Operand, strength: int = ProofStrength.DEFAULT) -> bool:
        """Whether a condition is proved; `strength` is accepted as TVM does."""
        return super().can_prove(expr)

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions are proved to have one value."""
        return super().can_prove_equal(lhs, rhs)

    def constraint_scope(self, constraint: Operand) -> _GeneratorContextManager[None, None, None]:
        """Within the `with` block the condition holds."""
        return super().constraint_scope(constraint)

    def const_int_bound(self, expr: Operand) -> Any:
        """Constant ends of an integer expression."""
        return ConstIntBound.of(super().const_int_bound(expr))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether constant ends of a variable are known, other than those of its dtype."""
        return super().const_int_bound(var) not in (dtype_range(var.dtype), Interval(-inf, inf))

    def try_compare(self, lhs: PrimExpr, rhs: PrimExpr, propagate_inequalities: bool = True) -> int:
        """The strongest of `CompareResult` that is proved; `propagate_inequalities` is accepted as TVM does."""
        for result, holds in (
            (CompareResult.EQ, self.can_prove_equal(lhs, rhs)),
            (CompareResult.LT, self.can_prove_less(lhs, rhs)),
            (CompareResult.GT, self.can_prove_less(rhs, lhs)),
            (CompareResult.LE, self.can_prove_greater_equal(rhs, lhs)),
            (CompareResult.GE, self.can_prove_greater_equal(lhs, rhs)),
            (CompareResult.NE, self.can_prove(lhs.not_equal(rhs))),
        ):
            if holds:
                return result
        return CompareResult.UNKNOWN

    def int_set(self, expr: PrimExpr, dom_map: Mapping[Var, Any] | None = None) -> IntervalSet:
        """A set of all values of an expression, where variables go through sets of their own."""
        return evaluated(expr, dom_map or {}, self.copy())


class CompareResult:
    """How two expressions compare, as far as is proved."""

    INCONSISTENT: Final = 0
    EQ: Final = 1
    LT: Final = 2
    LE: Final = 3
    GT: Final = 4
    GE: Final = 5
    NE: Final = 6
    UNKNOWN: Final = 7


def detect_linear_equation(expr: PrimExpr, var_list: Sequence[Var]) -> list[PrimExpr]:
    """Factors of the variables in a linear expression, and what is left; an empty list for another expression."""
    expr = as_prim(expr)
    form = linear(expr, var_list)
    if form is None:
        return []
    rules = _Analyzer()
    return [
        rules.simplify(as_prim(part, expr.dtype).astype(expr.dtype)) for part in (*map(form.step, var_list), form.rest)
    ]


def deduce_bound(
    var: Var, cond: PrimExpr, hint_map: Mapping[Var, Any] | None, relax_map: Mapping[Var, Any] | None
) -> IntSet:
    """The values of a variable for which a condition holds, whatever the relaxed variables are.

    Args:
        var: The variable; the condition is a comparison that is linear in it, with a number as its factor.
        cond: Such as `x * 2 + y >= 10`.
        hint_map: Accepted as TVM does.
        relax_map: Sets that other variables go through.

    Returns:
        An interval, which may be open at one end; everything where the condition says nothing about `var`.
    """
    cond = as_prim(cond, "bool")
    if not isinstance(cond, LT | LE | GT | GE | EQ):
        return IntervalSet(NEG_INF, POS_INF)
    form = linear(cond.a - cond.b, (var,))
    factor = 0 if form is None else form.step(var)
    factor = factor.value if isinstance(factor, IntImm) else factor
    if form is None or not isinstance(factor, int) or factor == 0:
        return IntervalSet(NEG_INF, POS_INF)
    rest = evaluated(form.rest.astype(var.dtype), relax_map or {})
    strict = isinstance(cond, LT | GT)
    ends: list[Any] = [NEG_INF, POS_INF]
    if isinstance(cond, LT | LE | EQ):  # factor * var <= -rest, for all of rest
        ends[factor > 0] = _quotient(0 - rest.max_value - int(strict), factor)
    if isinstance(cond, GT | GE | EQ):  # factor * var >= -rest
        ends[factor < 0] = _quotient(rest.min_value - int(strict), -factor)
    return IntervalSet(*(_Analyzer().simplify(end) if end not in (NEG_INF, POS_INF) else end for end in ends))


def _quotient(bound: PrimExpr, factor: int) -> PrimExpr:
    """The last `x` with `factor * x <= bound`: the largest for a positive factor, the smallest for a negative one."""
    return bound // factor if factor > 0 else 0 - bound // -factor


class IterIndices(tuple[IterSumExpr, ...]):
    """The indices of a recognised map, which know it."""

    recognised: IterMap


@dataclass(frozen=True)
class IterMapResult:
    """What `detect_iter_map` found out.

    Attributes:
        indices: A sum of digits for each index; empty where the map was not recognised.
        errors: Why it was not.
        padding_predicate: Where the map has been padded: nowhere.
    """

    indices: Sequence[IterSumExpr]
    errors: Sequence[str]
    padding_predicate: PrimExpr


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: _Analyzer | None = None,
) -> IterMapResult:
    """Recognise indices as digits of the input variables; see `eutectic.arith.iter_map.detect_iter_map`.

    Args:
        indices: Index expressions.
        input_iters: Range of each variable.
        predicate: Condition on the inputs; it must follow from the ranges.
        check_level: One of `IterMapLevel`.
        simplify_trivial_iterators: Accepted as TVM does: digits of axes of one point never count.
        analyzer: Facts about other variables.
    """
    known = _maps.detect_iter_map(indices, input_iters, predicate, _check(check_level), analyzer)
    false = IntImm("bool", 0)
    if isinstance(known, IterRefusal):
        return IterMapResult((), (known.why,), false)
    listed = IterIndices(known.indices)
    listed.recognised = known
    return IterMapResult(listed, (), false)


def _check(level: int | str) -> _maps.Check:
    if isinstance(level, str):
        level = {"bijective": 0, "surjective": 1, "nocheck": 3}.get(level.lower(), level)
    if level not in _CHECKS:
        raise ValueError(f"check_level is one of IterMapLevel, got {level!r}")
    return _CHECKS[level]


def normalize_to_iter_sum(
    index: PrimExpr, input_iters: Mapping[Var, Range], analyzer: _Analyzer | None = None
) -> IterSumExpr:
    """One index as a sum of digits.

    Raises:
        ValueError: it is none; the message says why.
    """
    known = _maps.normalize_to_iter_sum(index, input_iters, analyzer)
    if isinstance(known, IterRefusal):
        raise ValueError(known.why)
    return known


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: _Analyzer | None = None,
) -> list[PrimExpr]:
    """The indices as sums of digits where they are recognised; arguments as those of `detect_iter_map`."""
    return _maps.iter_map_simplify(indices, input_iters, predicate, _check(check_level), analyzer)


def inverse_affine_iter_map(iter_map: Any, outputs: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """The inputs of a bijective map from its outputs.

    Args:
        iter_map: `detect_iter_map(..., check_level=IterMapLevel.Bijective).indices`.
        outputs: One expression per index.

    Raises:
        ValueError: the map was not checked to be bijective, or has another number of outputs.
    """
    known = getattr(iter_map, "recognised", iter_map)
    if not isinstance(known, IterMap):
        raise ValueError("inverse_affine_iter_map needs the indices that detect_iter_map gave")
    return _maps.inverse_affine_iter_map(known, outputs)


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: PrimExpr | bool = True,
    check_level: int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: _Analyzer | None = None,
) -> list[list[IterMark]]:
    """Take indices apart into an outer and an inner part, of which only the inner one uses `sub_iters`.

    Returns:
        Outer and inner mark of each index, and the pair of the predicates, which are of one point; an empty list where
        that is not possible.
    """
    known = _maps.detect_iter_map(bindings, input_iters, predicate, _check(check_level), analyzer)
    pairs = known if isinstance(known, IterRefusal) else _maps.subspace_divide(known, sub_iters)
    if isinstance(pairs, IterRefusal):
        return []
    return [*([_mark(outer), _mark(inner)] for outer, inner in pairs), [_mark(IterSumExpr((), 0))] * 2]


def _mark(digits: IterSumExpr) -> IterMark:
    return IterMark(digits, prod(split.extent for split in digits.args))


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any, analyzer: _Analyzer | None = None
) -> list[IntervalSet]:
    """For each axis of a region a set that has all of it, where variables go through ranges.

    Args:
        region: A range for each axis.
        var_dom: Range of each variable.
        predicate: Accepted as TVM does; the set may be larger than it needs to be.
        analyzer: Facts about other variables.
    """
    sets = [(evaluated(r.min, var_dom, analyzer), evaluated(r.min + r.extent - 1, var_dom, analyzer)) for r in region]
    return [IntervalSet(first.min_value, last.max_value) for first, last in sets]
