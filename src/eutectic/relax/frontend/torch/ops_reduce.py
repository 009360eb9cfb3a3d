"""Reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    abs,
    add,
    argmax,
    argmin,
    cumprod,
    cumsum,
    divide,
    equal,
    exp,
    expand_dims,
    log,
    max,
    maximum,
    mean,
    min,
    multiply,
    not_equal,
    power,
    prod,
    reshape,
    sqrt,
    square,
    squeeze,
    subtract,
    sum,
    variance,
    where,
    zeros,
)
from eutectic.relax.op.shapes import product as elements

_NARROW: Final = ("float16", "bfloat16")


def _axes(x: Expr, dim: Any) -> list[int] | None:
    """The axes to reduce, or None for all."""
    if dim is None or ndim_of(x) == 0:
        return None
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [axis_of(axis, ndim_of(x)) for axis in dims] or None


def _reduce(ctx: Context, operator: Callable[..., Call], x: Expr, dim: Any, keepdim: bool) -> Expr:
    return ctx.call(operator, x, _axes(x, dim), keepdim and ndim_of(x) > 0)


@converts("aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim")
def total(ctx: Context, x: Expr, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Expr:
    """Sum and mean, in the dtype of the result; integers are summed in int64."""
    operator = mean if ".mean." in str(ctx.node.target) else sum
    return _reduce(ctx, operator, ctx.cast(x, ctx.out_dtype), dim, keepdim)


@converts("aten.prod.default", "aten.prod.dim_int")
def product(ctx: Context, x: Expr, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Expr:
    """Product, in the dtype of the result."""
    return _reduce(ctx, prod, ctx.cast(x, ctx.out_dtype), dim, keepdim)


@converts("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def extreme(ctx: Context, x: Expr, dim: Any = None, keepdim: bool = False) -> Expr:
    """Largest and smallest element; NaN wins."""
    return _reduce(ctx, max if "max" in str(ctx.node.target) else min, x, dim, keepdim)


@converts("aten.max.dim", "aten.min.dim")
def extreme_with_index(ctx: Context, x: Expr, dim: int, keepdim: bool) -> list[Expr]:
    """Largest or smallest element and where it is."""
    if ndim_of(x) == 0:
        return [x, number(0, "int64")]
    axis, largest = axis_of(dim, ndim_of(x)), ".max." in str(ctx.node.target)
    value = (max if largest else min)(x, axis, keepdim, span=ctx.span)
    return [value, (argmax if largest else argmin)(x, axis, keepdim, span=ctx.span)]


@converts("aten.argmax.default", "aten.argmin.default")
def place(ctx: Context, x: Expr, dim: int | None, keepdim: bool) -> Expr:
    """Place of the largest or smallest element."""
    if ndim_of(x) == 0:
        return number(0, "int64")
    axis = None if dim is None else axis_of(dim, ndim_of(x))
    return ctx.call(argmax if "argmax" in str(ctx.node.target) else argmin, x, axis, keepdim)


@converts(*(f"aten.{name}.{form}" for name in ("any", "all") for form in ("default", "dim", "dims")))
def quantifier(ctx: Context, x: Expr, dim: Any = None, keepdim: bool = False) -> Expr:
    """Whether one or every element is not zero."""
    is_any = ".any." in str(ctx.node.target)
    flags = ctx.cast(x, "bool")
    axes = _axes(x, dim)
    reduced = range(ndim_of(x)) if axes is None else axes
    if any(as_int(dims_of(x)[axis]) == 0 for axis in reduced):
        result: Expr = ctx.call(zeros, ctx.out_shape, "bool")
        result = result if is_any else ctx.call(equal, result, number(False, "bool"))
    else:
        result = _reduce(ctx, max if is_any else min, flags, dim, keepdim)
    return ctx.cast(result, ctx.out_dtype)


def _variance(ctx: Context, x: Expr, dim: Any, correction: float | None, keepdim: bool) -> Expr:
    """Variance with a divisor of `n - correction`, in no less than float32."""
    dtype = dtype_of(x)
    wide = ctx.cast(x, "float32" if dtype in _NARROW else dtype)
    less = 1 if correction is None else correction
    out = _reduce(ctx, variance, wide, dim, keepdim)
    if less == 0:
        return out
    axes = _axes(x, dim)
    count = elements(dims_of(x)[axis] for axis in (range(ndim_of(x)) if axes is None else axes))
    return ctx.call(multiply, out, _corrected(ctx, count, less, dtype_of(wide)))


def _corrected(ctx: Context, count: PrimExpr, less: float, dtype: str) -> Expr:
    """A number of elements over what is left of it, infinite where nothing is left."""
    known = as_int(count)
    if known is not None:
        return number(known / (known - less) if known > less else math.inf, dtype)
    every = ctx.tensor(count, dtype)
    rest = ctx.call(maximum, ctx.call(subtract, every, number(less, dtype)), number(0, dtype))
    return ctx.call(divide, every, rest)


@converts("aten.var.correction", "aten.std.correction")
def spread(ctx: Context, x: Expr, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Expr:
    """Variance and standard deviation."""
    out = _variance(ctx, x, dim, correction, keepdim)
    return ctx.cast(ctx.call(sqrt, out) if ".std." in str(ctx.node.target) else out, dtype_of(x))


@converts("aten.var.default", "aten.std.default", "aten.var.dim", "aten.std.dim")
def spread_by_flag(ctx: Context, x: Expr, *options: Any) -> Expr:
    """The older forms, which say whether one is subtracted from the number of elements."""
    dim, unbiased, keepdim = (None, options[0], False) if len(options) == 1 else (*options, False)[:3]
    return spread(ctx, x, dim, correction=1 if unbiased else 0, keepdim=keepdim)


@converts("aten.var_mean.correction", "aten.std_mean.correction")
def spread_and_mean(
    ctx: Context, x: Expr, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> list[Expr]:
    """Variance or standard deviation, and mean."""
    value = _variance(ctx, x, dim, correction, keepdim)
    value = ctx.call(sqrt, value) if "std" in str(ctx.node.target) else value
    return [ctx.cast(value, dtype_of(x)), _reduce(ctx, mean, x, dim, keepdim)]


@converts("aten.logsumexp.default")
def logsumexp(ctx: Context, x: Expr, dim: Any, keepdim: bool = False) -> Expr:
    """Logarithm of the sum of exponentials, in no less than float32."""
    dtype = ctx.out_dtype
    wide = ctx.cast(x, "float32" if dtype in _NARROW else dtype)
    return ctx.cast(log_sum_exp(ctx, wide, dim, keepdim), dtype)


def log_sum_exp(ctx: Context, x: Expr, dim: Any, keepdim: bool = False) -> Expr:
    """The same in the dtype of `x`; the maximum is subtracted first unless it is infinite."""
    zero = number(0, dtype_of(x))
    top = _reduce(ctx, max, x, dim, True)
    shift = ctx.call(where, ctx.call(equal, ctx.call(abs, top), number(math.inf, dtype_of(x))), zero, top)
    powers = ctx.call(exp, ctx.call(subtract, x, shift))
    out = ctx.call(add, ctx.call(log, _reduce(ctx, sum, powers, dim, True)), shift)
    if keepdim or ndim_of(x) == 0:
        return out
    axes = _axes(x, dim)
    return ctx.call(squeeze, out, list(range(ndim_of(x))) if axes is None else axes)


@converts("aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def norm(
    ctx: Context, x: Expr, order: float | None = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Expr:
    """Vector norms of any order."""
    p, target = 2.0 if order is None else float(order), ctx.out_dtype
    wide = ctx.cast(x, "float32" if target in _NARROW else target)
    kind = dtype_of(wide)
    if p == 2:
        out: Expr = ctx.call(sqrt, _reduce(ctx, sum, ctx.call(square, wide), dim, keepdim))
    elif math.isinf(p):
        out = _reduce(ctx, max if p > 0 else min, ctx.call(abs, wide), dim, keepdim)
    elif p == 0:
        out = _reduce(ctx, sum, ctx.cast(ctx.call(not_equal, wide, number(0, kind)), kind), dim, keepdim)
    elif p == 1:
        out = _reduce(ctx, sum, ctx.call(abs, wide), dim, keepdim)
    else:
        powers = ctx.call(power, ctx.call(abs, wide), number(p, kind))
        out = ctx.call(power, _reduce(ctx, sum, powers, dim, keepdim), number(1 / p, kind))
    return ctx.cast(out, target)


@converts("aten.cumsum.default", "aten.cumprod.default")
def running(ctx: Context, x: Expr, dim: int, *, dtype: Any = None) -> Expr:
    """Running sums and products, in the dtype of the result."""
    operator = cumsum if "cumsum" in str(ctx.node.target) else cumprod
    wide = ctx.cast(x, ctx.out_dtype)
    if ndim_of(x) == 0:
        return ctx.call(reshape, ctx.call(operator, ctx.call(expand_dims, wide, 0), 0), ())
    return ctx.call(operator, wide, axis_of(dim, ndim_of(x)))
