"""NaN, and floats of 16 bits: what all operator definitions do about them.

`tir.Max` and `tir.Min` promise nothing about NaN. Operators that PyTorch defines
to hand NaN on use `nan_max` and `nan_min` of this module. Floats of 16 bits or
fewer are computed in float32 and rounded once, sums included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.te import comm_reducer
from eutectic.te.reduction import highest, lowest
from eutectic.tir import NE, Select, isnan, logical_and, logical_or


def is_narrow(dtype: str) -> bool:
    """Whether it is a float of 16 bits or fewer."""
    return is_float(dtype) and dtype not in ("float32", "float64")


def accumulator(dtype: str) -> str:
    """The dtype in which values of `dtype` are computed and summed."""
    return "float32" if is_narrow(dtype) else dtype


def widen(x: PrimExpr) -> PrimExpr:
    """`x` in the dtype in which it is computed."""
    return convert(x, accumulator(x.dtype))


def convert(x: PrimExpr, dtype: str) -> PrimExpr:
    """`x` in `dtype`; for bool whether it is not zero."""
    return x.not_equal(0) if dtype == "bool" and x.dtype != "bool" else x.astype(dtype)


def nan_max(a: PrimExpr, b: PrimExpr | float) -> PrimExpr:
    """The larger of two values, NaN if one of them is.

    A bound that is a constant costs one comparison, which x86 has as one instruction with the selection.
    """
    return _chosen(a, b, lambda x, y: x < y, lambda x, y: x > y, logical_or)


def nan_min(a: PrimExpr, b: PrimExpr | float) -> PrimExpr:
    """The smaller of two values, NaN if one of them is."""
    return _chosen(a, b, lambda x, y: x > y, lambda x, y: x < y, logical_and)


def _chosen(
    a: PrimExpr,
    b: PrimExpr | float,
    loses: Callable[[Any, Any], PrimExpr],
    wins: Callable[[Any, Any], PrimExpr],
    of_bools: Callable[[Any, Any], PrimExpr],
) -> PrimExpr:
    if a.dtype == "bool":
        return of_bools(a, b)
    if not isinstance(b, PrimExpr):
        b = FloatImm(a.dtype, float(b)) if is_float(a.dtype) else IntImm(a.dtype, int(b))
    constant = isinstance(b, IntImm) or (isinstance(b, FloatImm) and b.value == b.value)
    if constant or not is_float(a.dtype):
        return Select(loses(a, b), b, a)
    return Select(logical_or(wins(a, b), NE(a, a)), a, b)


def _nan_max_of(a: Any, b: Any) -> PrimExpr:
    return nan_max(a, b)


def _nan_min_of(a: Any, b: Any) -> PrimExpr:
    return nan_min(a, b)


reduce_max = comm_reducer(_nan_max_of, lowest, "max")
reduce_min = comm_reducer(_nan_min_of, highest, "min")


def precedes(
    first: tuple[PrimExpr, PrimExpr], second: tuple[PrimExpr, PrimExpr], better: Callable[[Any, Any], PrimExpr]
) -> PrimExpr:
    """Whether the first of two (place, value) pairs wins: NaN before all, then the better, then the earlier."""
    (at, value), (other_at, other) = first, second
    nan, other_nan = isnan(value), isnan(other)
    wins = logical_or(better(value, other), logical_and(nan, ~other_nan))
    same = logical_or(value.equal(other), logical_and(nan, other_nan))
    return logical_or(wins, logical_and(same, at < other_at))
