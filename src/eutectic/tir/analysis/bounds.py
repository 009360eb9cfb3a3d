"""Whether each access of a program is inside of its buffer: proved, refuted, or for the run time to see.

Constant bounds of indices decide most; then come the facts of the loops and conditions around, and at last isl, with
a budget. A proof holds for arithmetic as machines do it: an index, or a condition, that may overflow or divide by
zero is not reasoned about. Sizes are those of arrays in memory, whose products do not overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from eutectic.arith import INF, Analyzer, Interval, exact_bounds
from eutectic.arith.bounds import intrinsic_name
from eutectic.arith.sets import Region, example
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    GE,
    LT,
    Call,
    Cast,
    IntImm,
    PrimExpr,
    Var,
    compare,
    lanes_of,
    logical_and,
    logical_not,
    logical_or,
)
from eutectic.ir.structural import structural_equal
from eutectic.tir.analysis.access_sites import Scope, Site, Sites, sites_of, sizes_of
from eutectic.tir.analysis.accesses import is_affine
from eutectic.tir.analysis.index_facts import linear
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import Range
from eutectic.tir.statement_mutator import rewrite_expr

_EFFORT: Final = 100_000  # operations of isl for one access
_MOST_QUESTIONS: Final = 256  # to isl, for one program
PROVED: Final = True
UNKNOWN: Final = None
_TRUE: Final = IntImm("bool", 1)


@dataclass(frozen=True, slots=True)
class Fault:
    """An access that leaves its buffer.

    Attributes:
        site: The access.
        axis: Number of the axis.
        values: Values of the index that leave, in words: `takes values 4..7`.
        extent: Elements of the axis.
    """

    site: Site
    axis: int
    values: str
    extent: PrimExpr


@dataclass(frozen=True, slots=True)
class Question:
    """An axis of an access that nothing is proved of.

    Attributes:
        site: The access.
        axis: Number of the axis.
    """

    site: Site
    axis: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is known of the accesses of a program; what is proved is not listed.

    Attributes:
        sites: All places where memory is touched or named.
        faults: Accesses that leave their buffers whenever they are executed.
        open: Axes of accesses that have to be looked at when the program runs.
    """

    sites: Sites
    faults: tuple[Fault, ...]
    open: tuple[Question, ...]


def verdicts_of(func: PrimFunc) -> Verdicts:
    """Look at every access of a function.

    Args:
        func: Any well-formed function.
    """
    sites, prover = sites_of(func), Prover(sizes_of(func))
    faults: list[Fault] = []
    unknown: list[Question] = []
    for site in sites.accesses:
        for axis, (index, extent) in enumerate(zip(site.indices, site.buffer.shape, strict=True)):
            verdict = UNKNOWN if index is None else prover.inside(index, extent, site.scope)
            if verdict is UNKNOWN:
                unknown.append(Question(site, axis))
            elif isinstance(verdict, str):
                faults.append(Fault(site, axis, verdict, extent))
    return Verdicts(sites, tuple(faults), tuple(unknown))


class Prover:
    """Answers whether indices are inside of axes, and whether conditions hold.

    Args:
        sizes: Variables that are sizes of arguments.
    """

    def __init__(self, sizes: Sequence[Var]) -> None:
        self.sizes = sizes
        self.questions = 0

    def inside(self, index: PrimExpr, extent: PrimExpr, scope: Scope) -> bool | str | None:
        """Whether an index is one of an axis wherever it is computed.

        Returns:
            True when that is proved; None when it is not known; the values that leave, in words, when some do for
            sure.
        """
        size = extent.value if isinstance(extent, IntImm) else None
        interval = exact_bounds(index, scope.ranges)
        if size is not None and interval is not None and interval.lo >= 0 and interval.hi < size:
            return PROVED
        if is_checked(index, extent):
            return PROVED
        index, extent = scope.resolved(index), scope.resolved(extent)
        attained = _attained(index, scope)
        if size is not None and attained is not None and (attained.lo < 0 or attained.hi >= size):
            return _values(attained)
        if exact_bounds(index, scope.usual) is None or exact_bounds(extent, scope.usual) is None:
            return UNKNOWN
        if size is not None and attained is not None:
            return PROVED
        return self._by_facts(index, extent, scope)

    def holds(self, condition: PrimExpr, scope: Scope) -> bool | None:
        """Whether a condition holds (True), does not hold at some time for sure (False), or neither is known."""
        condition = scope.resolved(condition)
        interval = exact_bounds(condition, scope.ranges)
        if interval is not None and interval.value == 1:
            return PROVED
        if exact_bounds(condition, scope.usual) is None:
            return UNKNOWN
        with ExitStack() as stack:
            known = _Facts(scope, self.sizes, stack)
            condition = known.wide(condition)
            if known.analyzer.can_prove(condition):
                return PROVED
            never = known.analyzer.can_prove(logical_not(condition))
            answer = self._ask(logical_not(condition), known)
            if answer is False:
                return PROVED
            if isinstance(answer, dict) and known.exact:
                return False
            return False if never and self._ask(_TRUE, known) is not False else UNKNOWN

    def _by_facts(self, index: PrimExpr, extent: PrimExpr, scope: Scope) -> bool | str | None:
        with ExitStack() as stack:
            known = _Facts(scope, self.sizes, stack)
            index, extent, prove = known.wide(index), known.wide(extent), known.analyzer
            if prove.can_prove_greater_equal(index, 0) and prove.can_prove_less(index, extent):
                return PROVED
            never = prove.can_prove_less(index, 0) or prove.can_prove_greater_equal(index, extent)
            if never:
                interval = prove.const_int_bound(index)
                if self._ask(_TRUE, known) is False:
                    return PROVED
                size = extent.value if isinstance(extent, IntImm) else None
                return (
                    _values(interval)
                    if size is not None and (interval.hi < 0 or interval.lo >= size)
                    else "is never inside"
                )
            zero = IntImm("int64", 0)
            answer = self._ask(logical_or(compare(LT, index, zero), compare(GE, index, extent)), known)
            if answer is False:
                return PROVED
            return _values_at(index, answer) if isinstance(answer, dict) and known.exact else UNKNOWN

    def _ask(self, condition: PrimExpr, known: _Facts) -> bool | dict[Var, int]:
        """Where a condition holds: nowhere (False), at an example, or that is not known (True)."""
        self.questions += 1
        if self.questions > _MOST_QUESTIONS or not is_affine(condition):
            return True
        return example(Region((), known.iters, logical_and(condition, known.assumption)), effort=_EFFORT)


class _Facts:
    """What is known at a place, in 64-bit integers, which have the same values: that is what makes arithmetic reliable.

    Attributes:
        analyzer: Knows it until the stack is left.
        iters: Loops around, for isl.
        assumption: Conditions that hold, for isl.
        exact: Whether `iters` and `assumption` are all that there is.
    """

    def __init__(self, scope: Scope, sizes: Sequence[Var], stack: ExitStack) -> None:
        self.analyzer = Analyzer()
        self.iters: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self.assumption: PrimExpr = _TRUE
        self.exact = scope.exact
        self._vars: dict[Var, Var] = {}
        for size in sizes:
            self.analyzer.bind(self.var(size), Interval(0, INF))
            self.assumption = logical_and(self.assumption, compare(GE, self.var(size), IntImm("int64", 0)))
        for var, interval in scope.ranges.items():
            if var not in scope.values and var not in scope.iters and var not in sizes:
                self.analyzer.bind(self.var(var), interval)
        for var, bounds in scope.iters.items():
            self._loop(var, bounds, scope)
        for part in scope.conditions:
            if exact_bounds(part, scope.usual) is None:
                self.exact = False
                continue
            condition = self.wide(part)
            stack.enter_context(self.analyzer.constraint_scope(condition))
            affine = is_affine(condition)
            self.exact = self.exact and affine
            self.assumption = logical_and(self.assumption, condition) if affine else self.assumption

    def _loop(self, var: Var, bounds: tuple[PrimExpr, PrimExpr], scope: Scope) -> None:
        reliable = all(exact_bounds(end, scope.usual) is not None for end in bounds)
        low, extent = (self.wide(end) for end in bounds)
        if reliable:
            self.analyzer.bind(self.var(var), Range(min=low, extent=extent))
        if not (reliable and is_affine(low) and is_affine(extent)):
            self.exact = False
            low, extent = IntImm("int64", -(1 << 62)), IntImm("int64", 1 << 63)
        self.iters[self.var(var)] = (low, extent)

    def var(self, var: Var) -> Var:
        """The variable that stands for another one."""
        if var.dtype == "int64":
            return var
        return self._vars.setdefault(var, Var(var.name, "int64"))

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """An integer or a condition with all integers in it made 64 bits wide."""

        def change(item: PrimExpr) -> PrimExpr | None:
            if not is_integer(item.dtype) or item.dtype == "int64" or lanes_of(item.dtype) > 1:
                inner = item.value if isinstance(item, Cast) and item.dtype == "int64" else None
                return inner if inner is not None and inner.dtype == "int64" else None
            match item:
                case IntImm():
                    return IntImm("int64", item.value)
                case Var():
                    return self.var(item)
                case Cast() if item.value.dtype == "int64":
                    return item.value
                case _:
                    return item.astype("int64")

        return rewrite_expr(expr, change)


def is_checked(index: PrimExpr, extent: PrimExpr) -> bool:
    """Whether an index is looked at when it is computed."""
    if not isinstance(index, Call) or intrinsic_name(index) != "tir.checked_index":
        return False
    known = index.args[1]
    if isinstance(known, IntImm) and isinstance(extent, IntImm):
        return known.value == extent.value
    return structural_equal(known, extent)


def _attained(index: PrimExpr, scope: Scope) -> Interval | None:
    """The least and the largest value of a sum over loops that do not depend on others; it takes both for sure."""
    if scope.conditions or not scope.exact:
        return None
    sums = linear(index)
    constant = all(isinstance(low, IntImm) and isinstance(extent, IntImm) for low, extent in scope.iters.values())
    if sums is None or not constant or not all(var is None or var in scope.iters for var in sums):
        return None
    low = high = sums.get(None, 0)
    for var, factor in sums.items():
        if var is not None:
            ends = [factor * int(end) for end in (scope.ranges[var].lo, scope.ranges[var].hi)]
            low, high = low + min(ends), high + max(ends)
    return Interval(low, high)


def _values(interval: Interval) -> str:
    if interval.lo == -INF or interval.hi == INF:
        return "is never inside"
    return f"is {interval.lo}" if interval.value is not None else f"takes values {interval.lo}..{interval.hi}"


def _values_at(index: PrimExpr, at: dict[Var, int]) -> str:
    """The value of an index for some values of loop variables."""
    points = {var: Interval.point(value) for var, value in at.items()}
    interval = exact_bounds(index, points)
    where = ", ".join(f"{var.name} = {value}" for var, value in at.items())
    return (
        f"is {interval.value} at {where}"
        if interval is not None and interval.value is not None
        else f"leaves at {where}"
    )
