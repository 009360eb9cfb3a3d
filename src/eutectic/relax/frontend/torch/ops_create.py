"""Tensors made from numbers, and the operators that change nothing but the dtype."""

from __future__ import annotations

from typing import Any

import torch

from eutectic.ir.dtype import is_float
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant
from eutectic.relax.frontend.torch.dtypes import to_array
from eutectic.relax.frontend.torch.table import Context, converts, dims_of
from eutectic.relax.op import arange, broadcast_to, full, ones, tril, triu, zeros


@converts(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
)
def same(ctx: Context, x: Expr, **options: Any) -> Expr:
    """The value itself: memory formats and copies do not exist here."""
    return x


@converts("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(ctx: Context, x: Expr, rate: float, train: bool) -> Expr:
    """Nothing, in inference."""
    if train and rate:
        ctx.refuse("it is in training mode; call model.eval()")
    return x


@converts("aten.native_dropout.default")
def native_dropout(ctx: Context, x: Expr, rate: float, train: bool | None) -> list[Expr | None]:
    """Nothing, in inference; its mask cannot be had."""
    return [dropout(ctx, x, rate, bool(train)), None]


@converts(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten.type_as.default",
)
def cast(ctx: Context, x: Expr, *rest: Any, **options: Any) -> Expr:
    """The value in the dtype of the result."""
    return ctx.cast(x, ctx.out_dtype)


def _filled(ctx: Context, value: Any) -> Expr:
    dtype = ctx.out_dtype
    return ctx.call(full, ShapeExpr(ctx.out_shape), ctx.tensor(value, dtype), dtype)


@converts("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def full_(ctx: Context, like_or_size: Any, value_or_size: Any, value: Any = None, **options: Any) -> Expr:
    """One number everywhere."""
    return _filled(ctx, value if ".new_full" in str(ctx.node.target) else value_or_size)


@converts("aten.fill.Scalar", "aten.fill.Tensor")
def fill(ctx: Context, x: Expr, value: Any) -> Expr:
    """One number everywhere, in the shape and dtype of `x`."""
    return _filled(ctx, value)


@converts("aten.scalar_tensor.default")
def scalar_tensor(ctx: Context, value: Any, **options: Any) -> Expr:
    """A tensor without axes."""
    return ctx.tensor(value, ctx.out_dtype)


@converts(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.zero.default",
)
def zeros_(ctx: Context, *given: Any, **options: Any) -> Expr:
    """Zeros; memory that torch leaves uninitialised is zero too."""
    return ctx.call(zeros, ShapeExpr(ctx.out_shape), ctx.out_dtype)


@converts("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones_(ctx: Context, *given: Any, **options: Any) -> Expr:
    """Ones."""
    return ctx.call(ones, ShapeExpr(ctx.out_shape), ctx.out_dtype)


@converts("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange_(ctx: Context, *numbers: Any, **options: Any) -> Expr:
    """Numbers in equal steps; fractions are computed by torch, so that they are the same to the last bit."""
    first, last, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if is_float(ctx.out_dtype) or any(isinstance(value, float) for value in (first, last, step)):
        return evaluated(ctx)
    return ctx.call(arange, first, last, step, ctx.out_dtype)


@converts("aten.linspace.default", "aten.logspace.default", "aten.eye.default", "aten.eye.m")
def evaluated(ctx: Context, *numbers: Any, **options: Any) -> Expr:
    """A constant that torch computes now."""
    node = ctx.node
    if any(not isinstance(size, int) for size in ctx.result().shape) or node.all_input_nodes:
        ctx.refuse("its size varies")
    target: Any = node.target
    made = target(*node.args, **node.kwargs)
    assert isinstance(made, torch.Tensor)
    return Constant(to_array(made).copy())


@converts("aten.tril.default", "aten.triu.default")
def triangle(ctx: Context, x: Expr, diagonal: int) -> Expr:
    """One side of a diagonal; zeros on the other."""
    return ctx.call(tril if "tril" in str(ctx.node.target) else triu, x, diagonal)


@converts("aten.copy.default")
def copy(ctx: Context, x: Expr, source: Expr, non_blocking: bool = False) -> Expr:
    """`source` in the shape and dtype of `x`."""
    return ctx.call(broadcast_to, ctx.cast(source, ctx.out_dtype), ShapeExpr(dims_of(x)))
