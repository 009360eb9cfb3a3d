"""relax.nn.attention_var_len: attention over sequences of different lengths that lie behind one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.dtype import is_integer
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.nn.activation import need_float
from eutectic.relax.op.nn.attention import MASKS, AttentionAttrs, attend, rounded
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, infer_call, op_def, refuse, tensor_args
from eutectic.relax.op.shapes import differ, dims_text, int_of, is_one, reject, tensor_info
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo
from eutectic.support.errors import CallError

_attention_var_len = define_op("relax.nn.attention_var_len", arity=7, fusion="opaque", traits=["attention"])


def attention_var_len(
    queries: Expr,
    keys: Expr,
    values: Expr,
    seqstart_q: Expr,
    max_seqlen_q: Any,
    seqstart_k: Expr | None = None,
    max_seqlen_k: Any = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
    *,
    span: Any = None,
) -> Call:
    """Attention within each of several sequences, which are parts of one axis.

    Args:
        queries: `(1, s, n, h)`, all sequences behind one another; a float dtype.
        keys: `(1, t, m, h)`, same dtype; `m` divides `n`, and consecutive heads share keys.
        values: `(1, t, m, v)`, same dtype.
        seqstart_q: `(batch + 1,)`, where each sequence of queries starts, then `s`; an integer dtype.
        max_seqlen_q: No sequence of queries is longer: a number, or one integer as a tensor.
        seqstart_k: The same for keys and values; None means that of the queries.
        max_seqlen_k: The same for keys and values; None means that of the queries.
        scale: As `attention` takes it, as are the next ones; a mask counts within each sequence.
        causal_mask: `TopLeft`, `BottomRight` or None.
        window_size: How many keys a query sees at most, with `BottomRight` only.
        span: Python source of the call, for errors.

    Returns:
        `(1, s, n, v)`, dtype of `queries`.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree, an unknown mask, or a window without its mask.

    Accuracy: as `attention`.
    Reference: TVM relax.nn.attention_var_len; the arguments of the call are in the order of this signature.
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
    starts = seqstart_q if seqstart_k is None else seqstart_k
    longest = max_seqlen_q if max_seqlen_k is None else max_seqlen_k
    args = (queries, keys, values, seqstart_q, max_seqlen_q, starts, longest)
    return call(_attention_var_len, *args, attrs=attrs, span=span)


@_attention_var_len.infer
def _infer(c: Call) -> TensorStructInfo:
    attrs_of(c, AttentionAttrs)
    query, key, value = tensor_args(c, (0, 1, 2))
    _check_lengths(c)
    need_float(c, query)
    known = {info.dtype for info in (query, key, value) if info.dtype}
    if len(known) > 1:
        refuse(c, f"nn.attention_var_len of {' and '.join(sorted(known))}", help="cast with astype")
    for info in (query, key, value):
        if info.ndim not in (-1, 4):
            refuse(c, "nn.attention_var_len needs four axes everywhere", help="(1, all sequences, heads, features)")
    if query.dims is None or key.dims is None or value.dims is None:
        return tensor_info(None, query.dtype, 4)
    if any(not is_one(info.dims[0]) for info in (query, key, value) if info.dims is not None):
        refuse(
            c,
            f"nn.attention_var_len of {dims_text(query.dims)}: the first axis must be 1",
            help="put the sequences behind one another along axis 1",
        )
    plain = op_def("relax.nn.attention")
    assert plain is not None
    out = infer_call(Call(plain.op, c.args[:3], c.attrs, (), c.span)).struct_info
    assert isinstance(out, TensorStructInfo)
    return out


def _check_lengths(c: Call) -> None:
    starts = tensor_args(c, (3, 5))
    for info in starts:
        if (info.dtype and not is_integer(info.dtype)) or info.ndim not in (-1, 1):
            refuse(c, "nn.attention_var_len: starts of sequences are integers along one axis")
    if starts[0].dims and starts[1].dims and differ(starts[0].dims[0], starts[1].dims[0]):
        refuse(c, "nn.attention_var_len: queries and keys have different numbers of sequences")
    for i in (4, 6):
        longest = c.args[i].struct_info
        dtype = longest.dtype if isinstance(longest, (PrimStructInfo, TensorStructInfo)) else None
        many = isinstance(longest, TensorStructInfo) and any(not is_one(size) for size in longest.dims or ())
        if dtype is None or (dtype and not is_integer(dtype)) or many:
            refuse(c, "nn.attention_var_len: the longest length is one integer")


@_attention_var_len.reference
def _reference(
    attrs: AttentionAttrs,
    query: Array,
    key: Array,
    value: Array,
    starts_q: Array,
    longest_q: Any,
    starts_k: Array,
    longest_k: Any,
) -> Array:
    _check_starts(starts_q, query.shape[1], int(np.asarray(longest_q).reshape(())), "queries")
    _check_starts(starts_k, key.shape[1], int(np.asarray(longest_k).reshape(())), "keys")
    plain = op_def("relax.nn.attention")
    assert plain is not None and plain.reference_fn is not None
    out = np.zeros((*query.shape[:3], value.shape[3]), query.dtype)
    for i in range(len(starts_q) - 1):
        rows, columns = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        if rows.stop > rows.start and columns.stop > columns.start:
            out[:, rows] = plain.reference_fn(attrs, query[:, rows], key[:, columns], value[:, columns])
    return out


def _check_starts(starts: Array, size: int, longest: int, what: str) -> None:
    """Starts begin at 0, never fall, end at the size of the axis, and no sequence is longer than promised."""
    lengths = np.diff(starts.astype(np.int64))
    if len(starts) < 1 or starts[0] != 0 or starts[-1] != size or (lengths < 0).any():
        raise CallError(
            f"attention_var_len: starts {starts.tolist()} of {what} do not divide an axis of size {size}",
            help="give 0, then where each further sequence starts, then the size of the axis",
        )
    if lengths.size and lengths.max() > longest:
        raise CallError(
            f"attention_var_len: a sequence of {what} has length {lengths.max()}, which is more than {longest}",
            help="pass the length of the longest sequence",
        )


@_attention_var_len.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    attrs, starts = attrs_of(c, AttentionAttrs), (c.args[3], c.args[5])

    def masked(scores: Expr) -> Expr:
        return builder.call_te(topi.nn.sequence_mask, scores, *starts, attrs.causal_mask, attrs.window_size)

    out = attend(builder, c, None, masked)
    if out is None:
        return c
    return rounded(builder.emit(builder.call_te(topi.nn.without_empty_sequences, out, *starts)), c)
