"""Index maps on boxes: how far they reach, whether they are injective, and their inverses, all of it proved.

A map is given by its input variables and output expressions; a box by one extent per input, from zero on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.bounds import bounds
from eutectic.arith.interval import INF, Interval, dtype_range
from eutectic.arith.iter_map import IterMap, detect_iter_map
from eutectic.arith.sets import Region, is_empty, is_injective
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
    add,
    compare,
    logical_and,
    logical_or,
    mul,
    sub,
)
from eutectic.ir.visit import post_order
from eutectic.tir.access import relax
from eutectic.tir.iter_var import Range
from eutectic.tir.statement_mutator import is_zero, operands_of, rewrite_expr, with_values

MAX_POINTS: Final = 1 << 20  # of a box that is looked at point by point
TRUE: Final = IntImm("bool", 1)
FALSE: Final = IntImm("bool", 0)


@dataclass(frozen=True)
class MapOnBox:
    """An index map on a box.

    Attributes:
        inputs: Its input variables, all of one dtype.
        outputs: Its outputs, of the same dtype.
        shape: Extent of each input, from zero on.
        assumption: What holds of other variables.
    """

    inputs: tuple[Var, ...]
    outputs: tuple[PrimExpr, ...]
    shape: tuple[PrimExpr, ...]
    assumption: PrimExpr = TRUE

    @cached_property
    def constant_shape(self) -> list[int] | None:
        """The extents when all are constants."""
        sizes = [size.value for size in self.shape if isinstance(size, IntImm)]
        return sizes if len(sizes) == len(self.shape) else None

    @cached_property
    def analyzer(self) -> Analyzer:
        """Facts about the inputs."""
        known = Analyzer()
        for var, size in zip(self.inputs, self.shape, strict=True):
            known.bind(var, Range(min=IntImm(size.dtype, 0), extent=size))
        return known

    @cached_property
    def points(self) -> dict[Var, Any] | None:
        """Every point of the box, as an array per input; None when there are too many, or not a constant number."""
        shape = self.constant_shape
        if shape is None or prod(shape) > MAX_POINTS:
            return None
        grid = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
        return dict(zip(self.inputs, grid, strict=True))

    @cached_property
    def iter_map(self) -> IterMap | None:
        """The map as one of splits and fuses onto a box, when it is that on a constant shape."""
        shape = self.constant_shape
        if shape is None:
            return None
        ranges = {var: (0, size) for var, size in zip(self.inputs, shape, strict=True)}
        detected = detect_iter_map(self.outputs, ranges)
        return detected if isinstance(detected, IterMap) else None

    # ---- extents

    @cached_property
    def extents(self) -> tuple[PrimExpr, ...] | None:
        """Size of a box from zero on that holds all outputs; None when an output has no bound, or could be negative."""
        extents = [self._extent(output) for output in self.outputs]
        known = tuple(item for item in extents if item is not None)
        return known if len(known) == len(extents) else None

    def _extent(self, output: PrimExpr) -> PrimExpr | None:
        dtype = output.dtype
        empty = {var for var, size in zip(self.inputs, self.shape, strict=True) if is_zero(size)}
        if variables_of(output) & empty:
            return IntImm(dtype, 0)
        if self.constant_shape is not None:
            ends = self._constant_ends(output)
            return None if ends is None or ends[0] < 0 else IntImm(dtype, ends[1] + 1)
        domains = {
            var: (IntImm(size.dtype, 0), sub(size, 1)) for var, size in zip(self.inputs, self.shape, strict=True)
        }
        relaxed = relax(self.analyzer.simplify(output), {**domains})
        if relaxed is None or not self._is_at_least_zero(output):
            return None
        return Analyzer().simplify(add(relaxed[1], 1))

    def _is_at_least_zero(self, output: PrimExpr) -> bool:
        if self.analyzer.can_prove_greater_equal(output, 0):
            return True
        negative = compare(LT, output, IntImm(output.dtype, 0))
        return is_empty(Region((), self.iters, negative), self.assumption)

    def _constant_ends(self, output: PrimExpr) -> tuple[int, int] | None:
        """Smallest and largest value on a constant shape; None when not known, or when a step could leave its dtype."""
        assert self.constant_shape is not None
        if self.iter_map is not None:
            number = next(k for k, item in enumerate(self.outputs) if item is output)
            iter_sum = self.iter_map.indices[number]
            low, high = iter_sum.base, iter_sum.base + iter_sum.extent - 1
        else:
            walked = self.analyzer.const_int_bound(output)
            values = None if self.points is None or 0 in self.constant_shape else values_of(output, self.points)
            if values is not None:
                low, high = int(np.min(values)), int(np.max(values))
            elif walked.lo > -INF and walked.hi < INF:
                low, high = int(walked.lo), int(walked.hi)
            else:
                return None
        fits = high < dtype_range(output.dtype).hi and not self._may_overflow(output)
        return (low, high) if fits else None

    @cached_property
    def fits(self) -> bool:
        """Whether no step of the computation leaves its dtype; it is taken so where the shape is not constant."""
        return self.constant_shape is None or not any(map(self._may_overflow, self.outputs))

    def _may_overflow(self, output: PrimExpr) -> bool:
        """Whether some step of the computation may leave its dtype, or is not known."""
        assert self.constant_shape is not None
        ranges = {var: Interval(0, size - 1) for var, size in zip(self.inputs, self.constant_shape, strict=True)}
        unknown: list[PrimExpr] = []

        def named(item: PrimExpr) -> PrimExpr | None:
            if not isinstance(item, Call):
                return None
            operands = [bounds(part, ranges) for part in operands_of(item)]
            if getattr(item.op, "name", "") not in _BITS or not all(x.lo >= 0 and x.hi < INF for x in operands):
                unknown.append(item)
                return None
            bits = Var("bits", item.dtype)  # of numbers that are not negative: no more of them than these have
            ranges[bits] = Interval(0, (1 << max(int(x.hi).bit_length() for x in operands)) - 1)
            return bits

        for item in post_order(rewrite_expr(output, named)):
            if isinstance(item, PrimExpr) and not isinstance(item, Var | IntImm) and is_integer(item.dtype):
                interval, limits = bounds(item, ranges), dtype_range(item.dtype)
                if interval.lo <= limits.lo or interval.hi >= limits.hi:
                    return True
        return bool(unknown)

    # ---- proofs

    @property
    def iters(self) -> dict[Var, tuple[PrimExpr | int, PrimExpr | int]]:
        """The inputs with their ranges, as regions take them."""
        return {var: (0, size) for var, size in zip(self.inputs, self.shape, strict=True)}

    @cached_property
    def is_injective(self) -> bool:
        """Whether different points are proved to have different outputs."""
        if self.iter_map is not None or is_injective(Region(self.outputs, self.iters), self.assumption):
            return True
        if self.points is None:
            return False
        columns = [values_of(output, self.points) for output in self.outputs]
        if not columns or any(column is None for column in columns):
            return False
        count = prod(self.constant_shape or ())
        return len(np.unique(_numbered(columns, count), axis=0)) == count

    @cached_property
    def is_bijective(self) -> bool:
        """Whether it is proved that each point of the box of `extents` is the output of exactly one point."""
        if self.extents is None or not self.is_injective:
            return False
        # as many points as places, each place taken once at most
        dtype = next((item.dtype for item in (*self.shape, *self.extents)), "int64")
        return Analyzer().can_prove_equal(product(self.shape, dtype), product(self.extents, dtype))

    def always(self, condition: PrimExpr) -> bool:
        """Whether a condition on the inputs is proved at all points."""
        if self.analyzer.can_prove(condition):
            return True
        if is_empty(Region((), self.iters, Not(condition)), self.assumption):
            return True
        if self.points is None:
            return False
        values = values_of(condition, self.points)
        return values is not None and bool(np.all(values))

    def is_inverse(self, variables: Sequence[Var], inverse: Sequence[PrimExpr]) -> bool:
        """Whether expressions of the outputs are proved to give the inputs back at all points.

        Args:
            variables: One variable per output.
            inverse: One expression per input.
        """
        there = dict(zip(variables, self.outputs, strict=True))
        pairs = zip(inverse, self.inputs, strict=True)
        return all(
            self.analyzer.can_prove_equal(back := with_values(value, there), var) or self.always(compare(EQ, back, var))
            for value, var in pairs
        )

    def outside(self, variables: Sequence[Var], inverse: Sequence[PrimExpr]) -> PrimExpr:
        """The condition under which a place in the box of `extents` is the output of no point.

        Args:
            variables: One variable per output.
            inverse: One expression per input, proved to be the inverse at all points.
        """
        assert self.extents is not None
        known = Analyzer()
        places = {var: (IntImm(size.dtype, 0), size) for var, size in zip(variables, self.extents, strict=True)}
        for var, (low, size) in places.items():
            known.bind(var, Range(min=low, extent=size))
        there = dict(zip(self.inputs, inverse, strict=True))
        parts: list[PrimExpr] = []
        for value, size in zip(inverse, self.shape, strict=True):
            parts += [compare(LT, value, IntImm(value.dtype, 0)), compare(LE, size, value)]
        parts += [compare(NE, with_values(out, there), var) for out, var in zip(self.outputs, variables, strict=True)]
        condition: PrimExpr = FALSE
        for part in parts:
            simple = known.simplify(part)
            if known.can_prove(Not(simple)):
                continue
            more = logical_and(simple, Not(condition))  # beyond what those before say
            if is_empty(Region((), places, more), self.assumption):
                continue
            condition = logical_or(condition, simple)
        return condition


def _numbered(columns: Sequence[Any], count: int) -> Any:
    """A number per tuple, or the tuple where numbers would be too large."""
    spread = [np.broadcast_to(np.asarray(column), (count,)) for column in columns]
    if not count or prod(int(np.max(column)) - int(np.min(column)) + 1 for column in spread) >= 1 << 62:
        return np.stack(spread, axis=1)
    number = np.zeros(count, np.int64)
    for column in spread:
        low, high = int(np.min(column)), int(np.max(column))
        number = number * (high - low + 1) + (column - low)
    return number


def product(sizes: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """The number of points of a box."""
    total: PrimExpr = IntImm(dtype, 1)
    for size in sizes:
        total = mul(total, size)
    return total


def variables_of(expr: PrimExpr) -> set[Var]:
    """Variables in an expression."""
    return {item for item in post_order(expr) if isinstance(item, Var)}


# ---- values

_VALUES: Final[dict[type[PrimExpr], Callable[[Any, Any], Any]]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}
_BITS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
}


def values_of(expr: PrimExpr, points: Mapping[Var, Any]) -> Any | None:
    """Values of an integer expression or condition at many points; None when it has operations that are not known.

    Args:
        expr: The expression.
        points: Values of its variables, as arrays of int64.
    """
    memo: dict[int, Any] = {}
    for item in post_order(expr):
        if not isinstance(item, PrimExpr):
            continue
        value = _value(item, memo, points)
        if value is None:
            return None
        memo[id(item)] = value
    return memo[id(expr)]


def _value(item: PrimExpr, memo: Mapping[int, Any], points: Mapping[Var, Any]) -> Any | None:
    parts = [memo[id(part)] for part in operands_of(item)]
    match item:
        case IntImm():
            return np.bool_(item.value) if item.dtype == "bool" else np.int64(item.value)
        case Var():
            return points.get(item)
        case FloorDiv() | FloorMod() if not np.all(parts[1]):
            return None
        case Not():
            return np.logical_not(parts[0])
        case Select():
            return np.where(*parts)
        case Cast() if is_integer(item.dtype) and is_integer(item.value.dtype):
            return parts[0]
        case Call() if getattr(item.op, "name", "") in _BITS:
            return _BITS[getattr(item.op, "name", "")](*parts)
        case _ if type(item) in _VALUES:
            return _VALUES[type(item)](*parts)
        case _:
            return None


def is_index(expr: PrimExpr) -> bool:
    """Whether an expression can be an index: a signed integer."""
    return is_integer(expr.dtype) and expr.dtype[0] == "i"
