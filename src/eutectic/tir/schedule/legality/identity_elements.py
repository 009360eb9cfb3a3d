"""Identity elements of reductions: terms that make no difference to the result, whatever the other terms are."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.ir.dtype import integer_limits, is_float, is_integer
from eutectic.ir.prim_expr import (
    Add,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
    as_prim,
)
from eutectic.support.deep import deep
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.op import is_if_then_else, max_value
from eutectic.tir.schedule.legality.combiner import combiner_of
from eutectic.tir.stmt import BufferStore

_FINITE: Final = "finite"  # some number, but no infinity and not NaN
_Known: TypeAlias = "int | float | str | None"  # None: anything
_EXACT: Final = 8  # integers up to this are numbers of every float dtype
_WIDE: Final = ("float32", "float64", "bfloat16")  # every integer is finite in these
_SAID: Final = {
    "sum": "is not proved to be 0: 0 times infinity or NaN is NaN",
    "prod": "is not proved to be 1",
    "max": "is not proved to be the smallest number",
    "min": "is not proved to be the largest number",
}


@dataclass(frozen=True, slots=True)
class IdentityElement:
    """What copies of operands are filled with.

    Attributes:
        kind: `sum`, `prod`, `max` or `min`.
        axes: The axes of the reduction with new points.
    """

    kind: str
    axes: tuple[Var, ...]

    def fill(self, dtype: str) -> PrimExpr:
        """What copies of a dtype are filled with."""
        value = _number(self.kind, dtype)
        return FloatImm(dtype, float(value)) if is_float(dtype) else as_prim(value, dtype)


def _number(kind: str, dtype: str) -> int | float:
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if is_float(dtype):
        return -math.inf if kind == "max" else math.inf
    return integer_limits(dtype)[0 if kind == "max" else 1]


def identity_element(update: BufferStore, first: PrimExpr, axes: Sequence[Var]) -> IdentityElement | str:
    """What operands have to be at new points of a reduction, so that its result stays the same, bit for bit.

    Args:
        update: How a reduction adds a term.
        first: Its initial value.
        axes: The axes with new points.

    Returns:
        What operands that have such an axis are to be filled with; or why there is no such thing, in words.
    """
    combiner = combiner_of(update)
    if combiner is None:
        return "it is not a sum, a product, a maximum or a minimum"
    dtype = update.buffer.dtype
    known = isinstance(first, FloatImm) and (first.value != 0 or math.copysign(1.0, first.value) > 0)
    if combiner.kind == "sum" and is_float(dtype) and not known:
        return "its initial value could be -0.0, which adding 0 makes 0.0"
    for axis in axes:
        # at a new point of one axis the others may be anywhere
        value = _at(combiner.term, {axis}, combiner.kind)
        if isinstance(value, str) or value is None or value != _number(combiner.kind, dtype):
            return f"its term {_SAID[combiner.kind]}, at new points of axis {axis.name}"
    return IdentityElement(combiner.kind, tuple(axes))


@deep
def _at(expr: PrimExpr, axes: Collection[Var], kind: str) -> _Known:
    """What an expression is where operands with some axes are filled, and others are anything."""
    match expr:
        case IntImm():
            return expr.value
        case FloatImm():
            largest = max_value(expr.dtype)
            assert isinstance(largest, FloatImm)
            return expr.value if abs(expr.value) <= largest.value else None  # infinity when it is rounded
        case Var():
            return _FINITE
        case BufferLoad():
            if any(index in axes for index in expr.indices if isinstance(index, Var)):
                return _number(kind, expr.buffer.dtype)
            return None if is_float(expr.dtype) else _FINITE
        case Cast():
            return _cast(_at(expr.value, axes, kind), expr.value.dtype, expr.dtype)
        case Add() | Sub() | Mul() | Max() | Min():
            return _joined(expr, _at(expr.a, axes, kind), _at(expr.b, axes, kind))
        case Select():
            return _either(_at(expr.true_value, axes, kind), _at(expr.false_value, axes, kind))
        case Call() if is_if_then_else(expr):
            return _either(_at(expr.args[1], axes, kind), _at(expr.args[2], axes, kind))
        case _:
            return None


def _either(a: _Known, b: _Known) -> _Known:
    return a if a == b and type(a) is type(b) else None


def _cast(value: _Known, source: str, target: str) -> _Known:
    if target == "bool" or value is None:
        return None
    if value == _FINITE:
        return _FINITE if not is_float(source) and (is_integer(target) or target in _WIDE) else None
    assert not isinstance(value, str)
    if is_float(target):
        return float(value) if math.isinf(value) or (abs(value) <= _EXACT and value == int(value)) else None
    if math.isinf(value) or value != int(value):
        return None
    low, high = integer_limits(target)
    return int(value) if low <= value <= high else None


def _joined(expr: Add | Sub | Mul | Max | Min, a: _Known, b: _Known) -> _Known:
    whole = not is_float(expr.dtype)
    if isinstance(expr, Mul) and (a == 0 or b == 0):
        other = b if a == 0 else a
        finite = whole or other == _FINITE or (not isinstance(other, str | None) and math.isfinite(other))
        return (0 if whole else 0.0) if finite else None
    if isinstance(a, str | None) or isinstance(b, str | None):
        return _FINITE if whole else None
    if isinstance(expr, Max | Min):
        return max(a, b) if isinstance(expr, Max) else min(a, b)
    small = all(abs(x) <= _EXACT and x == int(x) for x in (a, b) if math.isfinite(x))
    if not small or not (math.isfinite(a) and math.isfinite(b)):
        return None
    value = a * b if isinstance(expr, Mul) else a + b if isinstance(expr, Add) else a - b
    if not whole:
        return value if abs(value) <= _EXACT else None
    low, high = integer_limits(expr.dtype)
    return value if low <= value <= high else None
