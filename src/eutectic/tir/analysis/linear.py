"""Sums of variables with factors: what strides a loop nest steps through memory with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from eutectic.arith import Analyzer
from eutectic.ir.prim_expr import Add, Cast, IntImm, Mul, PrimExpr, Sub, Var, add, mul
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.analysis.index_facts import looks_at_indices, reads_memory
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import Range

_INDEX: Final = ("int32", "int64")


@dataclass
class Linear:
    """`rest + sum(steps[v] * v)`; `rest` has none of the variables.

    Attributes:
        steps: Factor of each variable; an integer, or an expression in symbolic sizes.
        rest: Everything else.
    """

    steps: dict[Var, int | PrimExpr] = field(default_factory=dict)
    rest: PrimExpr = field(default_factory=lambda: IntImm("int64", 0))

    def step(self, var: Var) -> int | PrimExpr:
        """Factor of a variable."""
        return self.steps.get(var, 0)


@deep
def linear(expr: PrimExpr, variables: Collection[Var]) -> Linear | None:
    """An integer expression as a linear function of `variables`; None when it is not one."""
    match expr:
        case Var() if expr in variables:
            return Linear({expr: 1})
        case Add() | Sub():
            a, b = linear(expr.a, variables), linear(expr.b, variables)
            if a is None or b is None:
                return None
            return _sum(a, b, 1 if isinstance(expr, Add) else -1)
        case Mul():
            a, b = linear(expr.a, variables), linear(expr.b, variables)
            if a is None or b is None or (a.steps and b.steps):
                return None
            return _scaled(a, b.rest) if a.steps else _scaled(b, a.rest)
        case Cast() if expr.dtype in _INDEX and expr.value.dtype in _INDEX:
            return linear(expr.value, variables)  # indices do not overflow
        case _:
            if any(isinstance(part, Var) and part in variables for part in post_order(expr)):
                return None
            return Linear({}, expr)


def _factor(value: int | PrimExpr) -> PrimExpr:
    return IntImm("int64", value) if isinstance(value, int) else value


def _number(value: PrimExpr) -> int | PrimExpr:
    return value.value if isinstance(value, IntImm) else value


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    steps = dict(a.steps)
    for var, step in b.steps.items():
        old = steps.get(var, 0)
        if isinstance(old, int) and isinstance(step, int):
            steps[var] = old + sign * step
        else:
            steps[var] = _number(add(_factor(old), mul(_factor(step), sign)))
    rest = b.rest if sign == 1 else mul(b.rest, -1)
    return Linear({var: step for var, step in steps.items() if step != 0}, _plus(a.rest, rest))


def _plus(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(a, IntImm) and a.value == 0:
        return b
    if isinstance(b, IntImm) and b.value == 0:
        return a
    return add(a, b)


def _scaled(a: Linear, factor: PrimExpr) -> Linear:
    known = _number(factor)
    if known == 0:
        return Linear()
    steps: dict[Var, int | PrimExpr] = {}
    for var, step in a.steps.items():
        both = isinstance(step, int) and isinstance(known, int)
        steps[var] = step * known if both else _number(mul(_factor(step), factor))
    return Linear(steps, mul(a.rest, factor))


def strides_of(buffer: Buffer) -> list[PrimExpr]:
    """Elements between neighbours along each axis."""
    if buffer.strides:
        return list(buffer.strides)
    out: list[PrimExpr] = []
    step: PrimExpr = IntImm("int64", 1)
    for size in reversed(buffer.shape):
        out.append(step)
        step = mul(size, step)
    return out[::-1]


def flat_offset(buffer: Buffer, indices: Collection[PrimExpr], extents: Mapping[Var, PrimExpr]) -> Linear | None:
    """The distance of an element from the buffer's first as a linear function; None when it is not one.

    Args:
        buffer: The buffer.
        indices: Of the element.
        extents: Of the variables how many values each has, from 0 on.
    """
    total = Linear()
    for index, stride in zip(indices, strides_of(buffer), strict=True):
        part = linear(index, extents)
        if part is None:
            return _put_together(buffer, indices, extents)
        total = _sum(total, _scaled(part, stride), 1)
    return total


def _put_together(buffer: Buffer, indices: Collection[PrimExpr], extents: Mapping[Var, PrimExpr]) -> Linear | None:
    """The same for indices that are parts of one number, as those of reshaped data: `x[i // 8, i % 8]`."""
    if any(reads_memory(index) or looks_at_indices(index) for index in indices):
        return None
    analyzer = Analyzer()
    for var, extent in extents.items():
        analyzer.bind(var, Range(extent))
    places = [mul(index, stride) for index, stride in zip(indices, strides_of(buffer), strict=True)]
    return linear(analyzer.simplify(reduce(add, places)), extents)
