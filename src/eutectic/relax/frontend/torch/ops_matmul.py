"""Matrix products: linear, mm and its relatives, einsum, scaled dot-product attention."""

from __future__ import annotations

import math
from operator import getitem
from typing import Any, Final

import numpy as np

from eutectic.relax.base import Expr
from eutectic.relax.expr import Constant, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.ellipsis import spelled_out
from eutectic.relax.frontend.torch.ops_reduce import log_sum_exp
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.frontend.torch.varying import positions
from eutectic.relax.op import (
    add,
    broadcast_to,
    einsum,
    equal,
    expand_dims,
    greater_equal,
    matmul,
    max,
    multiply,
    nn,
    permute_dims,
    repeat,
    sum,
    where,
)
from eutectic.relax.op.shapes import is_one, same

_MULTIPLIED: Final = ("float16", "bfloat16")  # also by zero


def _product(ctx: Context, a: Expr, b: Expr) -> Expr:
    return ctx.call(matmul, a, b, dtype_of(a))


@converts("aten.linear.default")
def linear(ctx: Context, x: Expr, weight: Expr, bias: Expr | None) -> Expr:
    """`x @ weight.T + bias`: permute_dims, matmul, add."""
    out = _product(ctx, x, ctx.call(permute_dims, weight))
    return out if bias is None else ctx.call(add, out, bias)


@converts("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default")
def product(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Products without a summand; of two vectors the inner product."""
    return _product(ctx, a, b)


@converts("aten.dot.default")
def dot(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Inner product of two vectors."""
    return ctx.call(sum, ctx.call(multiply, a, b)) if dims_of(a) == () else _product(ctx, a, b)


@converts("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default", "aten.addbmm.default")
def add_product(ctx: Context, summand: Expr, a: Expr, b: Expr, *, beta: float = 1, alpha: float = 1) -> Expr:
    """`beta * summand + alpha * (a @ b)`; a summand times zero is left out, so its NaN does not count.

    So is a product, where torch leaves it out whatever the sizes are: not in `baddbmm`, and not of 16 bits.
    """
    scaled = _scaled(ctx, summand, beta) if beta != 0 else None
    if alpha == 0 and ctx.out_dtype not in _MULTIPLIED and str(ctx.node.target) != "aten.baddbmm.default":
        return ctx.call(broadcast_to, number(0, ctx.out_dtype) if scaled is None else scaled, ctx.out_shape)
    out = _product(ctx, a, b)
    if str(ctx.node.target) == "aten.addbmm.default":
        out = ctx.call(sum, out, 0)
    out = _scaled(ctx, out, alpha)
    return out if scaled is None else ctx.call(add, scaled, out)


def _scaled(ctx: Context, x: Expr, factor: float) -> Expr:
    return x if factor == 1 else ctx.call(multiply, x, number(factor, dtype_of(x)))


@converts("aten.einsum.default")
def einsum_(ctx: Context, equation: str, operands: list[Expr], path: Any = None) -> Expr:
    """Sums of products by letters."""
    text = spelled_out(equation, [ndim_of(operand) for operand in operands])
    if text is None:
        ctx.refuse("its equation has more axes than there are letters")
    dtype = ctx.out_dtype
    return ctx.call(einsum, [ctx.cast(operand, dtype) for operand in operands], text)


@converts("aten._trilinear.default")
def trilinear(
    ctx: Context,
    a: Expr,
    b: Expr,
    c: Expr,
    expand_a: list[int],
    expand_b: list[int],
    expand_c: list[int],
    over: list[int],
    unroll: int = 1,
) -> Expr:
    """Sums of products of three tensors that lack some of the axes, as a bilinear layer makes them."""
    operands = (a, b, c)
    rank = ndim_of(a) + len(expand_a)
    lacking = [{axis % rank for axis in axes} for axes in (expand_a, expand_b, expand_c)]
    letters = ["".join(chr(ord("a") + axis) for axis in range(rank) if axis not in axes) for axes in lacking]
    summed = {axis % rank for axis in over}
    result = "".join(chr(ord("a") + axis) for axis in range(rank) if axis not in summed)
    dtype = ctx.out_dtype
    return ctx.call(einsum, [ctx.cast(operand, dtype) for operand in operands], f"{','.join(letters)}->{result}")


@converts("aten.scaled_dot_product_attention.default")
def attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr | None,
    dropout: float,
    is_causal: bool,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Expr:
    """Attention, whose masks are added to the scores; spelt out where operands are broadcast."""
    if dropout:
        ctx.refuse(f"dropout_p={dropout} in attention; call model.eval()")
    shared = ndim_of(query) == ndim_of(key) == ndim_of(value) == 4
    if shared and enable_gqa and dims_of(key)[1] != dims_of(value)[1]:
        ctx.refuse("keys and values have different numbers of heads")
    if shared and _same_batch(query, key, value) and _has_keys(ctx, query, key) and _fits(mask, query, key):
        order = (0, 2, 1, 3)
        swapped = [ctx.call(permute_dims, x, order) for x in (query, key, value)]
        bias = None if mask is None else _bias(ctx, mask, dtype_of(query))
        causal = "TopLeft" if is_causal else None
        return ctx.call(permute_dims, ctx.call(nn.attention, *swapped, bias, scale=scale, causal_mask=causal), order)
    if enable_gqa:
        key, value = (_repeated(ctx, query, x) for x in (key, value))
    return _masked_attention(ctx, (query, key, value), mask, is_causal, scale)


@converts("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention_with_sums(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Expr | None = None,
    scale: float | None = None,
) -> list[Expr | None]:
    """Attention as graphs of `torch.compile` have it, and the logarithm of what each query's weights are divided by.

    That is 0 for a query that sees nothing.
    """
    out = attention(ctx, query, key, value, attn_mask, dropout, is_causal, scale=scale)
    if not any(user.target is getitem and user.args[1] == 1 for user in ctx.node.users):
        return [out, None]
    sums = log_sum_exp(ctx, _scores(ctx, query, key, attn_mask, is_causal, scale), [-1])
    zero, nothing = (number(value, dtype_of(sums)) for value in (0, -math.inf))
    return [out, ctx.call(where, ctx.call(equal, sums, nothing), zero, sums)]


def _same_batch(query: Expr, key: Expr, value: Expr) -> bool:
    """Whether batch sizes agree without broadcasting, and heads agree or are shared."""
    batches = {dims_of(x)[0] for x in (query, key, value)}
    return len(batches) == 1 and bool(dims_of(key)[1] == dims_of(value)[1]) and _heads_fit(query, key)


def _heads_fit(query: Expr, key: Expr) -> bool:
    n, m = as_int(dims_of(query)[1]), as_int(dims_of(key)[1])
    return n is not None and m is not None and m > 0 and n % m == 0 and (n == m or m > 1)


def _has_keys(ctx: Context, query: Expr, key: Expr) -> bool:
    """Whether each query has a key: there is one at least, or there are as many as queries."""
    queries, keys = dims_of(query)[2], dims_of(key)[2]
    are_as_many = as_int(keys) is None and same(queries, keys)
    return are_as_many or ctx.symbols.least(keys) > 0


def _fits(mask: Expr | None, query: Expr, key: Expr) -> bool:
    """Whether each axis of a mask is that of the scores, or one."""
    if mask is None:
        return True
    scores = (*dims_of(query)[:3], dims_of(key)[2])
    mine = dims_of(mask)
    return len(mine) <= 4 and all(is_one(a) or same(a, b) for a, b in zip(mine[::-1], scores[::-1], strict=False))


def _bias(ctx: Context, mask: Expr, dtype: str) -> Expr:
    """What is added to scores, with four axes."""
    missing = 4 - ndim_of(mask)
    return _added(ctx, ctx.call(expand_dims, mask, [*range(missing)]) if missing else mask, dtype)


def _repeated(ctx: Context, query: Expr, x: Expr) -> Expr:
    """Keys or values with each head repeated for the queries that share it."""
    n, m = as_int(dims_of(query)[-3]), as_int(dims_of(x)[-3])
    if n is None or m is None:
        ctx.refuse("its number of heads varies")
    return x if n == m else ctx.call(repeat, x, n // m, ndim_of(x) - 3)


def _masked_attention(
    ctx: Context, operands: tuple[Expr, Expr, Expr], mask: Expr | None, is_causal: bool, scale: float | None
) -> Expr:
    query, key, value = operands
    scores = _scores(ctx, query, key, mask, is_causal, scale)
    wide = dtype_of(scores)
    weights: Expr = ctx.call(nn.softmax, scores, -1)
    if mask is not None:  # a query that sees nothing has no weights
        blind = ctx.call(equal, ctx.call(max, scores, -1, True), number(-math.inf, wide))
        weights = ctx.call(where, blind, number(0, wide), weights)
    return ctx.cast(_product(ctx, weights, ctx.cast(value, wide)), dtype_of(query))


def _scores(ctx: Context, query: Expr, key: Expr, mask: Expr | None, is_causal: bool, scale: float | None) -> Expr:
    """Scaled scores in no less than float32, with masks added: what is hidden is minus infinity, or NaN if it was."""
    q, k = ctx.wide(query), ctx.wide(key)
    wide, ndim, width = dtype_of(q), ndim_of(key), as_int(dims_of(query)[-1])
    if scale is None and width is None:
        ctx.refuse("its number of features varies")
    factor = 1 / math.sqrt(width or 1) if scale is None else scale
    turned = ctx.call(permute_dims, k, [*range(ndim - 2), ndim - 1, ndim - 2])
    scores: Expr = ctx.call(multiply, _product(ctx, q, turned), number(factor, wide))
    if is_causal:
        scores = ctx.call(add, scores, _triangle(ctx, query, key, wide))
    return scores if mask is None else ctx.call(add, scores, _added(ctx, mask, wide))


def _added(ctx: Context, mask: Expr, dtype: str) -> Expr:
    """A mask of numbers, or minus infinity where a key is not seen."""
    if dtype_of(mask) != "bool":
        return ctx.cast(mask, dtype)
    return ctx.call(where, mask, number(0, dtype), number(-math.inf, dtype))


def _triangle(ctx: Context, query: Expr, key: Expr, dtype: str) -> Expr:
    """Minus infinity where a key lies behind the query."""
    sizes = dims_of(query)[-2], dims_of(key)[-2]
    queries, keys = map(as_int, sizes)
    if queries is None or keys is None:
        seen = ctx.call(greater_equal, positions(ctx, sizes[0], 0, 2), positions(ctx, sizes[1], 1, 2))
        return _added(ctx, seen, dtype)
    return Constant(np.where(np.tri(queries, keys, dtype=np.bool_), 0, -np.inf).astype(dtype))
