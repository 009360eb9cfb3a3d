"""relax.nn.attention: scaled dot-product attention over (batch, sequence, heads, features)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, const
from eutectic.relax.op.binary import add, equal, multiply
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.matmul import matmul
from eutectic.relax.op.nn.activation import need_float, softmax, stable_softmax
from eutectic.relax.op.nn.attention_tiles import attend_in_tiles
from eutectic.relax.op.numerics import Array, cast, dtype_of, is_narrow, widen
from eutectic.relax.op.reduce import max
from eutectic.relax.op.registry import OpDef, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.repeat import repeat
from eutectic.relax.op.separable import are_aligned
from eutectic.relax.op.shapes import differ, dims_text, int_of, is_one, reject, same, static, tensor_info
from eutectic.relax.op.ternary import where
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor

_attention = define_op("relax.nn.attention", arity=3, fusion="opaque", traits=["attention"])
_FEW: Final = 4
"""Queries up to which keys are read as they are: transposing them first would cost more than it saves."""
_attention_bias = define_op("relax.nn.attention_bias", arity=4, fusion="opaque", traits=["attention"])

MASKS: Final = ("TopLeft", "BottomRight")


@node("relax.attrs.AttentionAttrs")
class AttentionAttrs(Attrs):
    """Factor of the scores, kind of causal mask, and width of a sliding window."""

    scale: float | None = None
    causal_mask: str | None = None
    window_size: int | None = None


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
    *,
    span: Any = None,
) -> Call:
    """Weighted means of values, by the similarity of queries and keys.

    Args:
        query: `(b, s, n, h)`; a float dtype.
        key: `(b, t, m, h)`, same dtype; `m` divides `n`, and consecutive heads share keys.
        value: `(b, t, m, v)`, same dtype.
        bias: Broadcasts to `(b, n, s, t)`, added to the scaled scores; same dtype. A query whose scores are all minus
            infinity then has weights of zero, as in torch; without a bias its result is NaN.
        scale: Factor of the scores; None means `1 / sqrt(h)`.
        causal_mask: `TopLeft` lets query i see keys up to i, `BottomRight` up to `i + t - s`; None sees all.
        window_size: How many keys a query sees at most, with `BottomRight` only.
        span: Python source of the call, for errors.

    Returns:
        `(b, s, n, v)`, dtype of `query`.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree, an unknown mask, or a window without its mask.

    Accuracy: 16-bit floats are computed in float32; the softmax subtracts the maximum.
    Reference: TVM relax.nn.attention; torch.nn.functional.scaled_dot_product_attention with axes 1 and 2 swapped.
    """
    if causal_mask is not None and causal_mask not in MASKS:
        reject(f"attention has no causal mask {causal_mask!r}", help=f"choose one of {', '.join(MASKS)}, or None")
    if window_size is not None and causal_mask != "BottomRight":
        reject("attention with a window needs the causal mask BottomRight")
    attrs = AttentionAttrs(
        None if scale is None else float(scale),
        causal_mask,
        None if window_size is None else int_of(window_size, "window_size"),
    )
    if bias is None:
        return call(_attention, query, key, value, attrs=attrs, span=span)
    return call(_attention_bias, query, key, value, bias, attrs=attrs, span=span)


def _infer(c: Call) -> TensorStructInfo:
    attrs_of(c, AttentionAttrs)
    infos = tensor_args(c)
    return infer_attention(c, infos, infos)


def infer_attention(
    c: Call, infos: Sequence[TensorStructInfo], alike: Sequence[TensorStructInfo], term: str = "bias"
) -> TensorStructInfo:
    """What attention gives.

    Args:
        c: The call.
        infos: Of its query, key, value, and what may broadcast to the scores.
        alike: Those of them that have one dtype.
        term: What the last one is called.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree.
    """
    query, key, value = infos[:3]
    need_float(c, query)
    if len({info.dtype for info in alike if info.dtype}) > 1:
        refuse(c, f"{short_name(c)} of {' and '.join(info.dtype for info in alike)}", help="cast with astype")
    if any(info.ndim not in (-1, 4) for info in infos):
        refuse(c, f"{short_name(c)} needs four axes everywhere, got {_shapes(infos)}")
    if query.dims is None or key.dims is None or value.dims is None:
        return tensor_info(None, query.dtype, 4)
    (b, s, n, h), (kb, t, m, kh), (vb, vt, vm, features) = query.dims, key.dims, value.dims
    pairs = ((b, kb), (b, vb), (h, kh), (t, vt), (m, vm), (floormod(n, m), as_prim(0)))
    if any(differ(*pair) for pair in pairs):
        refuse(
            c,
            f"{short_name(c)} of {_shapes(infos)}: sizes disagree",
            help="query (b, s, n, h), key (b, t, m, h), value (b, t, m, v), where m divides n",
        )
    if len(infos) == 4 and infos[3].dims is not None:
        wanted = zip(infos[3].dims, (b, n, s, t), strict=True)
        if any(differ(size, want) and not is_one(size) for size, want in wanted):
            refuse(c, f"{short_name(c)}: the {term} {dims_text(infos[3].dims)} does not broadcast to (b, n, s, t)")
    return tensor_info((b, s, n, features), query.dtype)


def _shapes(infos: Sequence[TensorStructInfo]) -> str:
    return ", ".join(dims_text(info.dims) for info in infos)


def _visible(attrs: AttentionAttrs, queries: int, keys: int) -> Array | None:
    """Which keys each query sees, or None when all."""
    if attrs.causal_mask is None:
        return None
    last = np.arange(queries)[:, None] + (keys - queries if attrs.causal_mask == "BottomRight" else 0)
    places = np.arange(keys)[None, :]
    seen = places <= last
    return seen if attrs.window_size is None else seen & (places > last - attrs.window_size)


def scaled_scores(scale: float | None, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Scores `(b, n, s, t)` and values `(b, n, t, v)` in wide floats; heads of keys are repeated as needed."""
    q, k, v = (widen(x).transpose(0, 2, 1, 3) for x in (query, key, value))
    shared = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, shared, axis=1) if shared > 1 else x for x in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return np.matmul(q, k.transpose(0, 1, 3, 2)) * np.asarray(factor, q.dtype), v


def _reference(attrs: AttentionAttrs, query: Array, key: Array, value: Array, bias: Array | None = None) -> Array:
    scores, v = scaled_scores(attrs.scale, query, key, value)
    if bias is not None:
        scores = scores + widen(bias)
    seen = _visible(attrs, *scores.shape[2:])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    weights = stable_softmax(scores, -1)
    if bias is not None:
        weights = np.where(scores.max(axis=-1, keepdims=True) == -np.inf, 0, weights).astype(weights.dtype)
    return cast(np.matmul(weights, v).transpose(0, 2, 1, 3), dtype_of(query))


def _terms(c: Call) -> tuple[float, int] | None:
    """The factor of the scores, and how many heads share keys; None when a size that says it is not a number."""
    query, key, _ = tensor_args(c, (0, 1, 2))
    assert query.dims is not None and key.dims is not None and c.attrs is not None
    heads, shared, features = query.dims[2], key.dims[2], static(query.dims[3])
    scale = c.attrs["scale"]
    counts = (static(heads), static(shared))
    if scale is None and features is None:
        return None
    if None in counts and not is_one(shared) and not same(heads, shared):
        return None
    times = 1 if None in counts or counts[1] == 1 else (counts[0] or 0) // (counts[1] or 1)
    return (1 / math.sqrt(features) if scale is None and features else scale or 0.0), times


def _arranged(builder: Builder, dtype: str, x: Expr, axes: Sequence[int], times: int) -> Expr:
    """An operand with its axes in an order, in the dtype that is computed in, each head so many times."""
    wide = builder.emit(astype(x, "float32")) if is_narrow(dtype) else x
    moved = wide if list(axes) == sorted(axes) else builder.emit(permute_dims(wide, axes))
    return builder.emit(repeat(moved, times, axis=1)) if times > 1 else moved


def attend(builder: Builder, c: Call, bias: Expr | None, masked: Callable[[Expr], Expr]) -> Expr | None:
    """Attention spelt with matmul and softmax; None when a size that it needs is not a number.

    Args:
        builder: Takes the bindings.
        c: The call; its first arguments are query, key and value.
        bias: Added to the scaled scores.
        masked: Hides scores `(b, n, s, t)`.

    Returns:
        `(b, s, n, v)` in the dtype that 16-bit floats are computed in.
    """
    terms = _terms(c)
    if terms is None:
        return None
    query, key, _ = tensor_args(c, (0, 1, 2))
    assert query.dims is not None and key.dims is not None
    factor, times = terms
    arranged = partial(_arranged, builder, query.dtype)
    q, v = arranged(c.args[0], (0, 2, 1, 3), 1), arranged(c.args[2], (0, 2, 1, 3), times)
    if (static(query.dims[1]) or _FEW + 1) <= _FEW and same(query.dims[3], key.dims[3]):
        k = arranged(c.args[1], (0, 2, 1, 3), times)
        scores = builder.emit(builder.call_te(_products_of_rows, q, k, primfunc_name_hint="matmul"))
    else:
        scores = builder.emit(matmul(q, arranged(c.args[1], (0, 2, 3, 1), times)))
    scores = builder.emit(multiply(scores, const(factor, "float32" if is_narrow(query.dtype) else query.dtype)))
    if bias is not None:
        scores = builder.emit(add(scores, builder.emit(astype(bias, "float32")) if is_narrow(query.dtype) else bias))
    scores = builder.emit(masked(scores))
    weights: Expr = builder.emit(softmax(scores))
    if bias is not None:
        weights = _of_seen(builder, scores, weights)
    return builder.emit(permute_dims(builder.emit(matmul(weights, v)), (0, 2, 1, 3)))


def _of_seen(builder: Builder, scores: Expr, weights: Expr) -> Expr:
    """Weights, and zeros for the queries whose scores are all minus infinity."""
    info = scores.struct_info
    assert isinstance(info, TensorStructInfo)
    top = builder.emit(max(scores, -1, True))
    blind = builder.emit(equal(top, const(-math.inf, info.dtype)))
    return builder.emit(where(blind, const(0, info.dtype), weights))


def _products_of_rows(q: Tensor, k: Tensor) -> Tensor:
    """Matrices whose second one is transposed."""
    return topi.matmul(q, k, transp_b=True, name="matmul")


def rounded(out: Expr, c: Call) -> Expr:
    """What `attend` gave, in the dtype of the query."""
    (query,) = tensor_args(c, (0,))
    return astype(out, query.dtype) if is_narrow(query.dtype) else out


def _legalize(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, AttentionAttrs)

    def masked(scores: Expr) -> Expr:
        if attrs.causal_mask is None:
            return scores
        return builder.call_te(topi.nn.causal_mask, scores, attrs.causal_mask, attrs.window_size)

    out = in_tiles(builder, c, (attrs.causal_mask, attrs.window_size)) or attend(
        builder, c, c.args[3] if len(c.args) > 3 else None, masked
    )
    return c if out is None else rounded(out, c)


def in_tiles(
    builder: Builder, c: Call, mask: tuple[str | None, int | None] = (None, None), hidden: float | None = None
) -> Expr | None:
    """Attention as `attend_in_tiles` lowers it; None where that is not possible, or not worth while.

    Args:
        builder: Takes the bindings.
        c: The call; its arguments are query, key, value and perhaps a bias.
        mask: As there.
        hidden: As there.
    """
    terms = _terms(c)
    if terms is None:
        return None
    query, key = tensor_args(c, (0, 1))
    assert query.dims is not None and key.dims is not None
    if terms[1] == 1 and not same(query.dims[2], key.dims[2]):
        return None  # one head of keys for all, which are not repeated
    arranged = partial(_arranged, builder, query.dtype)
    return attend_in_tiles(builder, c, arranged, terms, mask, hidden)


def _define(op: OpDef) -> None:
    op.infer(_infer)
    op.reference(_reference)
    op.legalize(_legalize)
    op.separable(are_aligned)


for _op in (_attention, _attention_bias):
    _define(_op)
