"""Tensors made from numbers, and the operators that change nothing but the dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import IntImm
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, number
from eutectic.relax.frontend.torch.dtypes import to_array
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.frontend.torch.varying import positions
from eutectic.relax.op import (
    add,
    arange,
    broadcast_to,
    divide,
    equal,
    full,
    multiply,
    ones,
    subtract,
    tril,
    triu,
    where,
    zeros,
)


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
    "prims.convert_element_type.default",
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
def zeros_(ctx: Context, *arguments: Any, **options: Any) -> Expr:
    """Zeros; memory that torch leaves uninitialised is zero too."""
    return ctx.call(zeros, ShapeExpr(ctx.out_shape), ctx.out_dtype)


@converts("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones_(ctx: Context, *arguments: Any, **options: Any) -> Expr:
    """Ones."""
    return ctx.call(ones, ShapeExpr(ctx.out_shape), ctx.out_dtype)


@converts("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange_(ctx: Context, *numbers: Any, **options: Any) -> Expr:
    """Numbers in equal steps; fractions are computed by torch, so that they are the same to the last bit."""
    first, last, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if is_float(ctx.out_dtype) or any(isinstance(value, float) for value in (first, last, step)):
        return evaluated(ctx) if as_int(ctx.out_shape[0]) is not None else _in_steps(ctx, first, step, "float64")
    if isinstance(step, int) and step < 0 and as_int(ctx.out_shape[0]) is None:
        return _in_steps(ctx, first, step, "int64")
    return ctx.call(arange, first, last, step, ctx.out_dtype)


def _in_steps(ctx: Context, first: Any, step: Any, work: str) -> Expr:
    """As many numbers in equal steps as torch says, computed in another dtype."""
    numbers = ctx.cast(positions(ctx, ctx.out_shape[0]), work)
    moved = ctx.call(multiply, numbers, ctx.tensor(step, work))
    return ctx.cast(ctx.call(add, moved, ctx.tensor(first, work)), ctx.out_dtype)


@converts("aten.eye.default", "aten.eye.m")
def eye(ctx: Context, *sizes: Any, **options: Any) -> Expr:
    """Ones where the two positions are equal."""
    rows, columns = ctx.out_shape
    is_one = ctx.call(equal, positions(ctx, rows, 0, 2), positions(ctx, columns, 1, 2))
    return ctx.cast(is_one, ctx.out_dtype)


@converts("aten.linspace.default")
def linspace(ctx: Context, start: Any, end: Any, steps: Any, **options: Any) -> Expr:
    """Numbers in equal steps, computed by torch where all that they are made from is known."""
    if all(isinstance(value, (bool, int, float)) for value in (start, end)):
        return evaluated(ctx)
    return linspace_of_tensors(ctx, start, end, steps)


@converts("aten.logspace.default")
def evaluated(ctx: Context, *numbers: Any, **options: Any) -> Expr:
    """A constant that torch computes now."""
    node = ctx.node
    if any(not isinstance(size, int) for size in ctx.result().shape) or node.all_input_nodes:
        ctx.refuse("its size varies")
    target: Any = node.target
    tensor = target(*node.args, **node.kwargs)
    assert isinstance(tensor, torch.Tensor)
    return Constant(to_array(tensor).copy())


@converts("aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor")
def linspace_of_tensors(ctx: Context, start: Any, end: Any, steps: Any, **options: Any) -> Expr:
    """Numbers in equal steps between two that are known when the model runs.

    As ATen's kernel has it, and its decomposition has not: for integers both ends are integers first, and the step
    is a float64; the second half is counted from the end, so that both ends are exact.
    """
    dtype = ctx.out_dtype
    if not isinstance(steps, int):
        ctx.refuse("its number of steps varies")
    work = dtype if is_float(dtype) else "float64"
    first, last = (_end(ctx, value, work) for value in (start, end))
    if steps < 2:
        return ctx.cast(ctx.call(broadcast_to, first, ShapeExpr((IntImm("int64", steps),))), dtype)
    step = ctx.call(divide, ctx.call(subtract, last, first), number(steps - 1, work))
    places = np.arange(steps)
    halfway = steps // 2
    rising = Constant(np.where(places < halfway, places, 0).astype(to_numpy(work)))
    falling = Constant(np.where(places < halfway, 0, steps - 1 - places).astype(to_numpy(work)))
    up = ctx.call(add, first, ctx.call(multiply, step, rising))
    down = ctx.call(subtract, last, ctx.call(multiply, step, falling))
    return ctx.cast(ctx.call(where, Constant(places < halfway), up, down), dtype)


def _end(ctx: Context, value: Any, work: str) -> Expr:
    """One end, rounded towards zero when the result is of integers."""
    if isinstance(value, Expr):
        return ctx.cast(ctx.cast(value, ctx.out_dtype), work)
    plain = int(value) if isinstance(value, float) and not is_float(ctx.out_dtype) else value
    return ctx.tensor(plain, work)


@converts("aten.tril.default", "aten.triu.default")
def triangle(ctx: Context, x: Expr, diagonal: int) -> Expr:
    """One side of a diagonal; zeros on the other."""
    return ctx.call(tril if "tril" in str(ctx.node.target) else triu, x, diagonal)


@converts("aten.copy.default")
def copy(ctx: Context, x: Expr, source: Any, non_blocking: bool = False) -> Expr:
    """`source`, a tensor or a number, in the shape and dtype of `x`."""
    return ctx.call(broadcast_to, ctx.tensor(source, ctx.out_dtype), ShapeExpr(dims_of(x)))
