"""Running maxima, minima and logarithms of sums of exponentials along an axis: programs, as `topi.scan` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, Var, as_prim, logical_and, logical_not, logical_or
from eutectic.ir.prim_logic import Select
from eutectic.tir import exp, isnan
from eutectic.tir.buffer import Buffer
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import abs, log, max_value, min_value
from eutectic.tir.stmt import BufferStore, For, LetStmt, Stmt, seq
from eutectic.topi.loop_nest import block_under_loops, loops_beside
from eutectic.topi.shapes import axis_of
from eutectic.topi.special_values import accumulator

_ZERO: Final = IntImm("int32", 0)
_Steps = Callable[[PrimExpr, PrimExpr], Stmt]


def running_extreme_program(kind: str, shape: Sequence[PrimExpr], dtype: str, axis: int) -> PrimFunc:
    """A program that gives the largest or smallest of all elements up to each one, and where it is.

    Args:
        kind: `cummax` or `cummin`.
        shape: Sizes of the data, in variables of the program's own.
        dtype: Dtype of the data.
        axis: The axis.

    Returns:
        A function of the data, the values and their places, int64. Of equal elements it is the last one; a NaN is
        handed on, and the last NaN's place with it.

    Raises:
        ValueError: another kind, or no such axis.

    Reference: torch.cummax, torch.cummin.
    """
    if kind not in ("cummax", "cummin"):
        raise ValueError(f"there is no running extreme {kind!r}")
    wide = "int32" if dtype == "bool" else accumulator(dtype)
    held, where = Buffer("held", (1,), wide), Buffer("where", (1,), "int64")
    values, places = Buffer(f"T_{kind}", tuple(shape), dtype), Buffer("T_places", tuple(shape), "int64")
    at = (_ZERO,)

    def step(x: PrimExpr, k: PrimExpr) -> Stmt:
        value, before = Var("value", wide), held[at]
        is_new = value >= before if kind == "cummax" else value <= before
        if is_float(wide):
            is_new = logical_or(isnan(value), logical_and(logical_not(isnan(before)), is_new))
        taken = Var("taken", "bool")
        keep = seq(
            BufferStore(held, Select(taken, value, before), at),
            BufferStore(where, Select(taken, k, where[at]), at),
        )
        return LetStmt(value, x.astype(wide), LetStmt(taken, is_new, keep))

    start = seq(BufferStore(held, _first(kind, wide), at), BufferStore(where, as_prim(0, "int64"), at))
    results = [(values, held[at].astype(dtype)), (places, where[at])]
    return _program(kind, shape, dtype, axis, start, step, results, [held, where])


def _first(kind: str, dtype: str) -> PrimExpr:
    """What every element takes the place of."""
    if is_float(dtype):
        return FloatImm(dtype, -inf if kind == "cummax" else inf)
    return min_value(dtype) if kind == "cummax" else max_value(dtype)


def logcumsumexp_program(shape: Sequence[PrimExpr], dtype: str, axis: int) -> PrimFunc:
    """A program that gives the logarithm of the sum of the exponentials of all elements up to each one.

    Args:
        shape: Sizes of the data, in variables of the program's own.
        dtype: A float dtype, of the data and the result.
        axis: The axis.

    Returns:
        A function of the data and the result.

    Raises:
        ValueError: no such axis, or no float dtype.

    Accuracy: computed in float64, relative to the largest element so far, and rounded at the end.
    Reference: torch.logcumsumexp.
    """
    if not is_float(dtype):
        raise ValueError(f"logcumsumexp of {dtype}, which is no float dtype")
    top, total = Buffer("top", (1,), "float64"), Buffer("total", (1,), "float64")
    out, at = Buffer("T_logcumsumexp", tuple(shape), dtype), (_ZERO,)

    def step(x: PrimExpr, k: PrimExpr) -> Stmt:
        value, less, before = Var("value", "float64"), Var("less", "float64"), top[at]
        # Of equal ones, as of two infinities, neither is less than the other; a NaN makes the total one, and stays.
        difference = Select(value.equal(before), as_prim(1.0, "float64"), exp(-abs(value - before)))
        is_below = value <= before
        grown = Select(is_below, total[at] + less, total[at] * less + 1.0)
        grow = seq(BufferStore(total, grown, at), BufferStore(top, Select(is_below, before, value), at))
        return LetStmt(value, x.astype("float64"), LetStmt(less, difference, grow))

    start = seq(BufferStore(top, FloatImm("float64", -inf), at), BufferStore(total, FloatImm("float64", 0.0), at))
    results = [(out, (top[at] + log(total[at])).astype(dtype))]
    return _program("logcumsumexp", shape, dtype, axis, start, step, results, [top, total])


def _program(
    name: str,
    shape: Sequence[PrimExpr],
    dtype: str,
    axis: int,
    start: Stmt,
    step: _Steps,
    results: Sequence[tuple[Buffer, PrimExpr]],
    memory: Sequence[Buffer],
) -> PrimFunc:
    """A function with a block for all elements along the axis."""
    along = axis_of(axis, len(shape))
    data, k = Buffer("A", tuple(shape), dtype), Var("k", shape[along].dtype)
    loops = loops_beside(along, shape)

    def body(*at: Var) -> Stmt:
        place = (*at[:along], k, *at[along:])
        give = [BufferStore(out, value, place) for out, value in results]
        steps = seq(step(data[place], k.astype("int64")), *give)
        return seq(start, For(k, as_prim(0, k.dtype), shape[along], "serial", steps))

    stmt = block_under_loops(f"T_{name}", loops, body, memory=memory)
    params = (data, *(out for out, _ in results))
    return complete(PrimFunc(params, stmt, attrs={"tir.noalias": True}))  # type: ignore[arg-type]  # the node converts what it is given
