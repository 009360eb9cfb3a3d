"""FuseAttention: attention that a program spells out as products and a softmax becomes one operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import as_prim, mul
from eutectic.ir.span import merged_span
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import is_call_of, read_once
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.nn.attention import attention
from eutectic.relax.op.nn.attention_tiles import tile_of
from eutectic.relax.op.nn.masked_attention import masked_attention
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import same, static
from eutectic.relax.op.unary import logical_not
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.attention.products import Operand, Product, in_order, products_of
from eutectic.relax.transform.attention.scores import Mask, Scores, scores_of
from eutectic.relax.transform.infra import FunctionPass, mutated

_FEWEST_KEYS: Final = 256  # up to so many, scores stay in the caches, and the operator saves nothing
_DTYPES: Final = ("float32", "float64")  # 16-bit floats are rounded after each step, which the operator does not do
_RANK: Final = 4  # of operands of attention
_SWAP: Final = (0, 2, 1, 3)  # heads and sequence change places


@dataclass(frozen=True)
class FuseAttention(FunctionPass):
    """Make `nn.attention` or `nn.masked_attention` of `softmax(q @ k * factor) @ v`.

    Between the factor and the softmax a mask may hide scores (`where`), or something be added; products are `matmul` or
    `einsum`. Taken only when nobody else reads what is between, and where the operator is lowered in tiles of queries
    and saves the scores: for 256 keys or more, or an unknown number of them. `CombinePermuteDims` afterwards joins what
    is transposed twice.

    before:                                 after:
        lv = matmul(q, k)  # k: (b, n, h, t)    lv = permute_dims(q, (0, 2, 1, 3))
        lv1 = multiply(lv, 0.125)               lv1 = permute_dims(k, (0, 3, 1, 2))
        lv2 = where(seen, lv1, -inf)            lv2 = permute_dims(v, (0, 2, 1, 3))
        lv3 = nn.softmax(lv2)                   lv3 = nn.masked_attention(lv, lv1, lv2, seen, 0.125)
        lv4 = matmul(lv3, v)                    lv4 = permute_dims(lv3, (0, 2, 1, 3))

    A mask that is known to be causal becomes `causal_mask`, so that keys that nobody sees need not be read.

    Accuracy: the result is divided by sums of weights, instead of the weights, and scores are multiplied by the inverse
    of what they are divided by.
    Cost: linear in the size of the function.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fuse inside one function."""
        return mutated(function, _Fuser(function))


class _Fuser(PyExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._read_once = read_once(function)

    def visit_call_(self, call: Call) -> Any:
        """Replace the product of weights and values."""
        for mixed in products_of(call):
            softmax = self._read_once(mixed.left.value)
            if softmax is not None and is_call_of(softmax, "relax.nn.softmax") and _is_last_axis(softmax, mixed.left):
                scores = scores_of(softmax.args[0], self._read_once)
                if scores is not None and _pays(scores, mixed):
                    return self._fused(scores, softmax, mixed)
        return super().visit_call_(call)

    def _fused(self, scores: Scores, softmax: Call, mixed: Product) -> Expr:
        span = merged_span([step.span for step in (*scores.steps, softmax, mixed.call)])
        operands = (scores.product.left, scores.product.right, mixed.right)
        made = [in_order(self.visit_expr(item.value), item.axes, span) for item in operands]
        mask = scores.mask and replace(scores.mask, value=self.visit_expr(scores.mask.value))
        return in_order(_attention(made, mask, scores.factor, span), mixed.result, span)


def _is_last_axis(softmax: Call, weights: Operand) -> bool:
    """Whether a softmax is over the axis that the product of weights and values sums, and axes are in order."""
    axis, rank = softmax.attrs["axis"] if softmax.attrs is not None else None, len(weights.axes)
    return axis in (-1, rank - 1) and weights.axes == tuple(range(rank))


def _pays(scores: Scores, mixed: Product) -> bool:
    """Whether two products are those of attention, and that is lowered in tiles of enough keys."""
    operands = (scores.product.left, scores.product.right, mixed.right)
    if any(not operand.sizes or operand.dtype not in _DTYPES for operand in operands):
        return False
    query, key, value = (operand.sizes for operand in operands)
    pairs = [*zip(query[:-2], key[:-2], strict=True), *zip(query[:-2], value[:-2], strict=True)]
    pairs += [(query[-1], key[-2]), (key[-1], value[-2])]
    features, keys = static(query[-1]), static(key[-1])
    if features is None or (keys is not None and keys < _FEWEST_KEYS) or not all(same(a, b) for a, b in pairs):
        return False
    if scores.mask is not None and len(query) > _RANK:
        return False
    return tile_of(static(query[-2]), keys, features, operands[0].dtype) is not None


def _attention(operands: Sequence[Expr], mask: Mask | None, factor: float, span: Any) -> Expr:
    """The operator on `(..., s, h)`, `(..., h, t)` and `(..., t, v)`; gives `(..., s, v)`."""
    query, key, value = operands
    sizes, rank = _dims(query), len(_dims(query))
    args: list[Expr]
    if rank == _RANK:
        args = [permute_dims(query, _SWAP), permute_dims(key, (0, 3, 1, 2)), permute_dims(value, _SWAP)]
    else:
        turned = permute_dims(key, (*range(rank - 2), rank - 1, rank - 2))
        args = [_one_head(x) for x in (query, turned, value)]
    q, k, v = args
    made: Expr
    if mask is None or _is_causal(mask, operands):
        made = attention(q, k, v, None, factor, None if mask is None else "TopLeft", span=span)
    else:
        seen = _four_axes(mask.value if mask.shows else logical_not(mask.value, span=span), rank)
        hidden = -math.inf if mask.hidden is None else mask.hidden
        made = masked_attention(q, k, v, seen, factor, hidden, span=span)
    if rank == _RANK:
        return permute_dims(made, _SWAP, span=span)
    return reshape(made, (*sizes[:-1], _dims(value)[-1]), span=span)


def _is_causal(mask: Mask, operands: Sequence[Expr]) -> bool:
    """Whether a mask lets each query see the keys up to its own number."""
    sizes = [static(x) for x in (_dims(operands[0])[-2], _dims(operands[1])[-1])]
    return mask.is_causal and list(_dims(mask.value)[-2:]) == sizes


def _dims(x: Expr) -> Any:
    info = x.struct_info
    assert isinstance(info, TensorStructInfo)
    return info.dims or ()


def _one_head(x: Expr) -> Expr:
    """`(..., s, h)` as `(b, s, 1, h)`."""
    sizes, batch = _dims(x), as_prim(1)
    for size in sizes[:-2]:
        batch = mul(batch, size)
    return reshape(x, (batch, sizes[-2], 1, sizes[-1]))


def _four_axes(mask: Expr, rank: int) -> Expr:
    """What broadcasts to scores of a rank up to 4, as it broadcasts to `(b, n, s, t)`."""
    sizes = _dims(mask)
    whole = [*([1] * (rank - len(sizes))), *sizes]
    if rank < _RANK:
        whole = [*([1] * (3 - rank)), *whole[:-2], 1, *whole[-2:]]
    return mask if len(sizes) == _RANK else reshape(mask, whole)
