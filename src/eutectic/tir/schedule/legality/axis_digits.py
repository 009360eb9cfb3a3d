"""Values of an axis from those of its digits: `v // 12` and `v % 12` together say what `v` is."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.prim_expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var, add, mul
from eutectic.tir.access import Interval


def spans_from_digits(
    indices: Sequence[PrimExpr | None],
    spans: Sequence[Interval | None],
    axes: Collection[Var],
    analyzer: Analyzer,
) -> dict[Var, Interval]:
    """First and last value of axes of which indices are digits.

    Args:
        indices: The indices, of which some are `v // a` or `v // a % b`.
        spans: First and last value of each.
        axes: The axes that are asked for.
        analyzer: Knows when the first and the last value are the same.
    """
    digits: dict[Var, list[tuple[int, int | None, Interval]]] = {}
    for index, span in zip(indices, spans, strict=True):
        digit = None if index is None or span is None else _digit(index, axes)
        if digit is not None and span is not None and span[0].dtype == digit[0].dtype:
            digits.setdefault(digit[0], []).append((digit[1], digit[2], span))
    out: dict[Var, Interval] = {}
    for var, parts in digits.items():
        known: Interval | None = None
        unit = 0
        for step, whole, span in sorted(parts, key=lambda part: -part[0]):
            if whole is None:
                known, unit = span, step
            elif known is not None and whole == unit and analyzer.can_prove_equal(*known):
                above = mul(known[0], IntImm(var.dtype, whole // step))
                known, unit = (add(above, span[0]), add(above, span[1])), step
        if known is not None:
            size = IntImm(var.dtype, unit)
            out[var] = mul(known[0], size), add(mul(known[1], size), unit - 1)
    return out


def _digit(index: PrimExpr, axes: Collection[Var]) -> tuple[Var, int, int | None] | None:
    """An axis, what it is divided by, and where the next digit begins; None for the last digit."""
    step, whole = 1, None
    match index:
        case FloorMod(a=FloorDiv(a=Var() as var, b=IntImm() as by), b=IntImm() as count):
            step, whole = by.value, by.value * count.value
        case FloorDiv(a=FloorMod(a=Var() as var, b=IntImm() as end), b=IntImm() as by):
            step, whole = by.value, end.value
        case FloorMod(a=Var() as var, b=IntImm() as end):
            whole = end.value
        case FloorDiv(a=Var() as var, b=IntImm() as by):
            step = by.value
        case _:
            return None
    sound = step > 0 and (whole is None or (whole > 0 and whole % step == 0))
    return (var, step, whole) if var in axes and sound else None
