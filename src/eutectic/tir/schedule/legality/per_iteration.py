"""Epilogues at every step of a sum: another function of the inputs, for those who want that program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from eutectic.ir.prim_expr import Add, FloatImm, IntImm, Max, Min, PrimExpr, as_prim
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.legality.epilogue import Epilogue
from eutectic.tir.stmt import BufferStore


@dataclass(frozen=True, slots=True)
class Steps:
    """A sum that begins with a value and is changed after each term.

    Attributes:
        first: What the sum begins with.
        step: What becomes of the sum after each term.
    """

    first: PrimExpr
    step: Callable[[PrimExpr], PrimExpr]


def steps_of(value: PrimExpr, result: Buffer) -> Steps | None:
    """The steps that stand for an epilogue `value` of a sum; None when it has no such form.

    A clip is `min(max(sum, low), high)` or `max(min(sum, high), low)`, a bias `sum + term`, and a relu the
    maximum of these and zero; operands may be in any order.
    """
    clip = _clip(value, result)
    if clip is not None:
        return clip
    term = bias_of(value, result)
    if term is not None:
        return Steps(term, lambda x: x)
    zero = as_prim(0, result.dtype)
    for inside, other in _operands(value, Max):
        if not is_zero(other):
            continue
        term = zero if _is_result(inside, result) else bias_of(inside, result)
        if term is not None:
            return Steps(Max(term, zero), lambda x: Max(x, zero))
    return None


def _clip(value: PrimExpr, result: Buffer) -> Steps | None:
    zero = as_prim(0, result.dtype)
    for inside, high in _operands(value, Min):
        for x, low in _operands(inside, Max):
            if _is_result(x, result) and _is_free(low, result) and _is_free(high, result):
                return _low_first(zero, low, high)
    for inside, low in _operands(value, Max):
        for x, high in _operands(inside, Min):
            if _is_result(x, result) and _is_free(low, result) and _is_free(high, result):
                if _in_order(low, high):
                    return _low_first(zero, low, high)
                return Steps(Max(Min(zero, high), low), _high_first(low, high))
    return None


def _low_first(zero: PrimExpr, low: PrimExpr, high: PrimExpr) -> Steps:
    return Steps(Min(Max(zero, low), high), lambda x: Min(Max(x, low), high))


def _high_first(low: PrimExpr, high: PrimExpr) -> Callable[[PrimExpr], PrimExpr]:
    return lambda x: Max(Min(x, high), low)


def _in_order(low: PrimExpr, high: PrimExpr) -> bool:
    """Whether both orders of a clip are the same function."""
    return isinstance(low, IntImm | FloatImm) and isinstance(high, IntImm | FloatImm) and low.value <= high.value


def _operands(value: PrimExpr, kind: type[Min] | type[Max]) -> list[tuple[PrimExpr, PrimExpr]]:
    """Both orders of the operands of a node of a kind."""
    if not isinstance(value, kind):
        return []
    return [(value.a, value.b), (value.b, value.a)]


def _is_result(expr: PrimExpr, result: Buffer) -> bool:
    return isinstance(expr, BufferLoad) and expr.buffer is result


def _is_free(expr: PrimExpr, result: Buffer) -> bool:
    return not any(isinstance(item, BufferLoad) and item.buffer is result for item in post_order(expr))


def bias_of(value: PrimExpr, result: Buffer) -> PrimExpr | None:
    """The term of `sum + term`, in any order; None for other expressions."""
    if isinstance(value, Add):
        for x, term in ((value.a, value.b), (value.b, value.a)):
            if _is_result(x, result) and _is_free(term, result):
                return term
    return None


def is_zero(expr: PrimExpr) -> bool:
    """Whether an expression is the constant zero; -0.0 is another number, to which adding is not the same."""
    if isinstance(expr, FloatImm):
        return expr.value == 0 and math.copysign(1.0, expr.value) > 0
    return isinstance(expr, IntImm) and expr.value == 0


def is_sum_from_zero(init: BufferStore, update: BufferStore) -> bool:
    """Whether a reduction adds terms, which are free of the sum, to zero."""
    value = update.value
    return is_zero(init.value) and isinstance(value, Add) and bias_of(value, update.buffer) is not None


def not_fusible(epilogue: Epilogue) -> str | None:
    """Why the epilogue has no form at every step; None when it has one."""
    result, target = epilogue.result, epilogue.store.buffer
    if not is_sum_from_zero(epilogue.init, epilogue.update):
        return f"{result.name} is not a sum that begins with zero"
    if result.dtype != target.dtype:
        return f"{result.name} is {result.dtype} and {target.name} is {target.dtype}"
    if not epilogue.is_local:
        return f"{result.name} lives longer than the block around, and would not be written"
    if steps_of(epilogue.store.value, result) is None:
        return "it is not a bias, a relu of a sum with or without a bias, or a clip"
    return None
