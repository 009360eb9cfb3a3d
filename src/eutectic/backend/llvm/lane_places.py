"""Where the lanes of a vector index lie from each other, where that is known at compile time.

A gather whose lanes lie close together, in whatever order, is a few contiguous loads and shuffles. That is what indices
such as `x // 2`, `x % 2 * n + x // 2` or `3 * x` become once `x` is a vector.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Sub,
    lanes_of,
)
from eutectic.support.deep import deep

_COMPARED: Final[dict[type[Comparison], Callable[[int, int], bool]]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}
_LEAST: Final = 4  # lanes of a run, on average, from which on it is cheaper than lane by lane


@dataclass(frozen=True)
class Places:
    """Lanes of an index as `base + offsets[lane]`.

    Attributes:
        base: A scalar.
        offsets: One for each lane.
    """

    base: PrimExpr
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """Lanes that one contiguous load covers.

    Attributes:
        first: Smallest offset.
        count: Elements from there to the largest one; no more than there are lanes.
        lanes: Numbers of the lanes.
    """

    first: int
    count: int
    lanes: tuple[int, ...]


@deep
def places_of(index: PrimExpr) -> Places | None:
    """The places of the lanes of a vector index; None where they are not known.

    Args:
        index: An expression of integers.
    """
    lanes = lanes_of(index.dtype)
    match index:
        case Ramp(stride=IntImm(value=stride)) if lanes_of(index.base.dtype) == 1:
            return Places(index.base, tuple(lane * stride for lane in range(lanes)))
        case Broadcast() if lanes_of(index.value.dtype) == 1:
            return Places(index.value, (0,) * lanes)
        case Mul(b=Broadcast(value=IntImm(value=factor))):
            return _scaled(places_of(index.a), factor)
        case Mul(a=Broadcast(value=IntImm(value=factor))):
            return _scaled(places_of(index.b), factor)
        case FloorDiv(b=Broadcast(value=IntImm(value=divisor))) | FloorMod(b=Broadcast(value=IntImm(value=divisor))):
            return _divided(places_of(index.a), divisor, isinstance(index, FloorMod))
        case Add() | Sub():
            return _added(places_of(index.a), places_of(index.b), -1 if isinstance(index, Sub) else 1)
    return None


def _scaled(places: Places | None, factor: int) -> Places | None:
    return places and Places(places.base * factor, tuple(offset * factor for offset in places.offsets))


def _added(a: Places | None, b: Places | None, sign: int) -> Places | None:
    if a is None or b is None:
        return None
    base = a.base + b.base if sign > 0 else a.base - b.base
    return Places(base, tuple(x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)))


def _divided(places: Places | None, divisor: int, remains: bool) -> Places | None:
    """Quotients or remainders, where the base is a multiple of the divisor and a number."""
    parts = _parts(places.base, divisor) if places is not None and divisor > 0 else None
    if places is None or parts is None:
        return None
    multiple, rest = parts
    if remains:
        zero = IntImm(places.base.dtype, 0)
        return Places(zero, tuple((rest + offset) % divisor for offset in places.offsets))
    return Places(multiple, tuple((rest + offset) // divisor for offset in places.offsets))


@deep
def _parts(base: PrimExpr, divisor: int) -> tuple[PrimExpr, int] | None:
    """`multiple` and `rest` with `base == multiple * divisor + rest`; None where they are not seen."""
    match base:
        case IntImm(value=value):
            return IntImm(base.dtype, value // divisor), value % divisor
        case Mul(b=IntImm(value=value)) if value % divisor == 0:
            return base.a * (value // divisor), 0
        case Add() | Sub():
            a, b = _parts(base.a, divisor), _parts(base.b, divisor)
            if a is None or b is None:
                return None
            return (a[0] - b[0], a[1] - b[1]) if isinstance(base, Sub) else (a[0] + b[0], a[1] + b[1])
    return None


@deep
def flags_of(predicate: PrimExpr) -> tuple[bool, ...] | None:
    """The lanes of a condition; None where they are not known at compile time.

    Args:
        predicate: A vector of bool.
    """
    match predicate:
        case Not():
            flags = flags_of(predicate.a)
            return flags and tuple(not flag for flag in flags)
        case And() | Or():
            a, b = flags_of(predicate.a), flags_of(predicate.b)
            join = operator.and_ if isinstance(predicate, And) else operator.or_
            return None if a is None or b is None else tuple(map(join, a, b))
        case Comparison():
            difference = _added(places_of(predicate.a), places_of(predicate.b), -1)
            if difference is None or not isinstance(difference.base, IntImm):
                return None
            compared, base = _COMPARED[type(predicate)], difference.base.value
            return tuple(compared(base + offset, 0) for offset in difference.offsets)
    return None


def runs_of(offsets: Sequence[int], flags: Sequence[bool] | None) -> list[Run]:
    """Contiguous loads that cover all lanes; none where there would be many of few lanes.

    Args:
        offsets: Where each lane lies.
        flags: Which lanes are wanted; None for all.
    """
    wanted = sorted((offset, lane) for lane, offset in enumerate(offsets) if flags is None or flags[lane])
    runs: list[list[tuple[int, int]]] = []
    for offset, lane in wanted:
        if not runs or offset - runs[-1][0][0] >= len(offsets):
            runs.append([])
        runs[-1].append((offset, lane))
    if len(runs) * _LEAST > len(wanted):
        return []
    return [Run(run[0][0], run[-1][0] - run[0][0] + 1, tuple(lane for _, lane in run)) for run in runs]
