"""relax.nn.masked_attention: attention with a mask or a term of its scores, and the weights that a softmax gives."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, const
from eutectic.relax.op.binary import add
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.nn.activation import stable_softmax
from eutectic.relax.op.nn.attention import attend, in_tiles, infer_attention, rounded, scaled_scores
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, tensor_args
from eutectic.relax.op.separable import are_aligned
from eutectic.relax.op.ternary import where
from eutectic.relax.struct_info import TensorStructInfo

_masked_attention = define_op("relax.nn.masked_attention", arity=4, fusion="opaque", traits=["attention"])


@node("relax.attrs.MaskedAttentionAttrs")
class MaskedAttentionAttrs(Attrs):
    """Factor of the scores, and what a score is that a mask of truth values hides."""

    scale: float | None = None
    hidden: float = -math.inf


def masked_attention(
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr,
    scale: float | None = None,
    hidden: float = -math.inf,
    *,
    span: Any = None,
) -> Call:
    """Attention as programs spell it out: `softmax(where(mask, scores, hidden)) @ value`, or with `scores + mask`.

    Unlike `attention` with a bias, a query whose scores are all minus infinity gives NaN, as a softmax does.

    Args:
        query: `(b, s, n, h)`; a float dtype.
        key: `(b, t, m, h)`, same dtype; `m` divides `n`, and consecutive heads share keys.
        value: `(b, t, m, v)`, same dtype.
        mask: Broadcasts to `(b, n, s, t)`. Of bool, whether a score stays; of the dtype of `query`, added to the scaled
            scores.
        scale: Factor of the scores; None means `1 / sqrt(h)`.
        hidden: What a score becomes where a mask of bool is false.
        span: Python source of the call, for errors.

    Returns:
        `(b, s, n, v)`, dtype of `query`.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree.

    Accuracy: as `attention`.
    """
    attrs = MaskedAttentionAttrs(None if scale is None else float(scale), float(hidden))
    return call(_masked_attention, query, key, value, mask, attrs=attrs, span=span)


_masked_attention.separable(are_aligned)


@_masked_attention.infer
def _infer(c: Call) -> TensorStructInfo:
    attrs_of(c, MaskedAttentionAttrs)
    infos = tensor_args(c)
    return infer_attention(c, infos, infos[:3] if infos[3].dtype == "bool" else infos, "mask")


@_masked_attention.reference
def _reference(attrs: MaskedAttentionAttrs, query: Array, key: Array, value: Array, mask: Array) -> Array:
    scores, v = scaled_scores(attrs.scale, query, key, value)
    hidden = np.asarray(attrs.hidden, scores.dtype)
    kept = np.where(mask, scores, hidden) if mask.dtype == bool else scores + widen(mask)
    return cast(np.matmul(stable_softmax(kept, -1), v).transpose(0, 2, 1, 3), dtype_of(query))


@_masked_attention.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    hidden = attrs_of(c, MaskedAttentionAttrs).hidden
    out = in_tiles(builder, c, hidden=hidden) or attend(builder, c, None, partial(_masked, builder, c, hidden))
    return c if out is None else rounded(out, c)


def _masked(builder: Builder, c: Call, hidden: float, scores: Expr) -> Expr:
    """Scores as the softmax takes them."""
    (given,), mask, info = tensor_args(c, (3,)), c.args[3], scores.struct_info
    assert isinstance(info, TensorStructInfo)
    if given.dtype == "bool":
        return where(mask, scores, const(hidden, info.dtype))
    return add(scores, builder.emit(astype(mask, info.dtype)) if given.dtype != info.dtype else mask)
