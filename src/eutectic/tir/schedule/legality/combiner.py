"""How a reduction combines its result so far with the next term: sums, products, maxima and minima."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.prim_expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Select,
    as_prim,
)
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.op import infinity, max_value, min_value
from eutectic.tir.statement_mutator import operands_of, with_operands
from eutectic.tir.stmt import BufferStore

_KINDS: Final[Mapping[type[PrimExpr], str]] = {Add: "sum", Mul: "prod", Max: "max", Min: "min"}


@dataclass(frozen=True, slots=True)
class Combiner:
    """A reduction by one of the known operations.

    Attributes:
        kind: `sum`, `prod`, `max` or `min`.
        result: The result so far.
        term: What it is combined with; it does not read the result.
        value: Both combined.
    """

    kind: str
    result: BufferLoad
    term: PrimExpr
    value: PrimExpr

    def combined(self, result: PrimExpr, term: PrimExpr) -> PrimExpr:
        """Another result combined with another term."""

        @deep
        def rebuilt(item: PrimExpr) -> PrimExpr:
            if structural_equal(item, self.result):
                return result
            if item is self.term or structural_equal(item, self.term):
                return term
            return with_operands(item, [rebuilt(part) for part in operands_of(item)])

        return rebuilt(self.value)

    def first(self, initial: PrimExpr) -> PrimExpr:
        """What partial results begin with, so that it makes no difference how many there are.

        Args:
            initial: What the whole reduction begins with.
        """
        dtype = self.result.dtype
        if self.kind == "sum":
            return as_prim(0, dtype)
        if self.kind == "prod":
            return as_prim(1, dtype)
        if isinstance(initial, IntImm | FloatImm):
            return initial  # the largest of several numbers stays the same when one of them is there again
        if is_float(dtype):
            return infinity(dtype) if self.kind == "min" else FloatImm(dtype, float("-inf"))
        return max_value(dtype) if self.kind == "min" else min_value(dtype)


def combiner_of(store: BufferStore) -> Combiner | None:
    """The reduction that a store is an update of; None when it is of another form.

    Besides the operations themselves a selection by a comparison is a maximum or minimum, if it does with
    NaN the same wherever that comes: NaN is dropped, or a test of the result keeps it.
    """
    value = store.value
    if not (is_integer(store.buffer.dtype) or is_float(store.buffer.dtype)) or "x" in store.buffer.dtype:
        return None
    result = BufferLoad(store.buffer, store.indices)
    match: tuple[str, PrimExpr] | None = None
    if isinstance(value, Add | Mul | Max | Min):
        sides = (value.a, value.b)
        term = next((b for a, b in (sides, sides[::-1]) if structural_equal(a, result)), None)
        match = None if term is None else (_KINDS[type(value)], term)
    elif isinstance(value, Select):
        match = _selected(value, result)
    if match is None or any(
        isinstance(i, BufferLoad) and i.buffer.data is result.buffer.data for i in _parts(match[1])
    ):
        return None
    return Combiner(match[0], result, match[1], value)


def _parts(expr: PrimExpr) -> list[object]:
    return list(post_order(expr))


def _selected(value: Select, result: BufferLoad) -> tuple[str, PrimExpr] | None:
    def is_result(expr: PrimExpr) -> bool:
        return structural_equal(expr, result)

    condition, keeps = value.condition, is_result(value.true_value)
    term = value.false_value if keeps else value.true_value
    if keeps == is_result(value.false_value):
        return None
    tests_nan = isinstance(condition, Or) and isinstance(condition.b, NE)
    if isinstance(condition, Or):
        test = condition.b
        if not (isinstance(test, NE) and is_result(test.a) and is_result(test.b) and keeps):
            return None
        condition = condition.a
    # without a test a comparison must fail for NaN on the side of the result, so that NaN is dropped
    if is_float(result.dtype) and keeps and not tests_nan:
        return None
    larger = _larger(condition, is_result, term)
    if larger is None:
        return None
    return ("max" if larger == keeps else "min"), term


def _larger(condition: PrimExpr, is_result: Callable[[PrimExpr], bool], term: PrimExpr) -> bool | None:
    """Whether a comparison says that the result is larger (or smaller) than the term; None when it says neither."""
    if not isinstance(condition, LT | LE | GT | GE):
        return None
    if is_result(condition.a) and structural_equal(condition.b, term):
        return isinstance(condition, GT | GE)
    if is_result(condition.b) and structural_equal(condition.a, term):
        return isinstance(condition, LT | LE)
    return None
