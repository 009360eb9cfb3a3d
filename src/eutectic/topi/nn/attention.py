"""What attention needs beside products and softmax: which keys a query sees."""

from __future__ import annotations

from typing import Any

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir import op
from eutectic.topi.shapes import stage


def causal_mask(scores: Tensor, mask: str, window: int | None = None) -> Tensor:
    """Scores with minus infinity where a query does not see a key.

    Args:
        scores: `(..., s, t)`, queries and keys; a float dtype.
        mask: `TopLeft` lets query i see keys up to i, `BottomRight` up to `i + t - s`.
        window: How many keys a query sees at most; None for any number.

    Returns:
        Shape and dtype of `scores`; one stage `T_causal_mask`.
    """
    offset = scores.shape[-1] - scores.shape[-2] if mask == "BottomRight" else 0
    hidden = op.const(float("-inf"), scores.dtype)

    def element(*at: PrimExpr) -> PrimExpr:
        return Select(sees(at[-1], at[-2] + offset, window), scores(*at), hidden)

    return stage(scores.shape, element, "T_causal_mask", "elemwise")


def sees(key: PrimExpr, last: PrimExpr, window: int | None) -> PrimExpr:
    """Whether a query sees a key: keys up to a last one, of these so many at most."""
    seen = key <= last
    return seen if window is None else op.logical_and(seen, key > last - window)


def sequence_mask(
    scores: Tensor, starts_q: Tensor, starts_k: Tensor, mask: str | None, window: int | None = None
) -> Tensor:
    """Scores with minus infinity where a query and a key belong to different sequences, or the query is before the key.

    Args:
        scores: `(..., s, t)`, queries and keys of all sequences behind one another; a float dtype.
        starts_q: `(batch + 1,)`, where each sequence of queries starts, then `s`; integers.
        starts_k: The same for keys, then `t`.
        mask: As for `causal_mask`, within each sequence; None sees all.
        window: As there.

    Returns:
        Shape and dtype of `scores`; a stage `T_seen`, which counts sequences, and `T_sequence_mask`.
    """
    index = scores.shape[-1].dtype
    b = reduce_axis((0, starts_q.shape[0] - 1), "b")
    hidden = op.const(float("-inf"), scores.dtype)

    def bounds(starts: Tensor) -> tuple[PrimExpr, PrimExpr]:
        return starts(b).astype(index), starts(b + 1).astype(index)

    def seen(query: PrimExpr, key: PrimExpr) -> Any:
        (begin_q, end_q), (begin_k, end_k) = bounds(starts_q), bounds(starts_k)
        visible = op.all(begin_q <= query, query < end_q, begin_k <= key, key < end_k)
        if mask is not None:
            offset = end_k - begin_k - (end_q - begin_q) if mask == "BottomRight" else IntImm(index, 0)
            visible = op.logical_and(visible, sees(key - begin_k, query - begin_q + offset, window))
        return te_sum(visible.astype("int32"), b)

    counted: Tensor = compute(scores.shape[-2:], seen, "T_seen", "comm_reduce")
    return stage(
        scores.shape,
        lambda *at: Select(counted(*at[-2:]) > 0, scores(*at), hidden),
        "T_sequence_mask",
        "elemwise",
    )


def without_empty_sequences(out: Tensor, starts_q: Tensor, starts_k: Tensor) -> Tensor:
    """Zeros for the queries of sequences that have no keys.

    Args:
        out: `(b, s, n, v)`, what attention gave.
        starts_q: `(batch + 1,)`, where each sequence of queries starts, then `s`; integers.
        starts_k: The same for keys.

    Returns:
        Shape and dtype of `out`; a stage `T_answered`, which counts sequences, and `T_without_empty_sequences`.
    """
    index = out.shape[1].dtype
    b = reduce_axis((0, starts_q.shape[0] - 1), "b")

    def answered(query: PrimExpr) -> Any:
        condition = op.all(
            starts_q(b).astype(index) <= query,
            query < starts_q(b + 1).astype(index),
            starts_k(b) < starts_k(b + 1),
        )
        return te_sum(condition.astype("int32"), b)

    counted: Tensor = compute((out.shape[1],), answered, "T_answered", "comm_reduce")
    zero = op.const(0, out.dtype)
    return stage(
        out.shape, lambda *at: Select(counted(at[1]) > 0, out(*at), zero), "T_without_empty_sequences", "elemwise"
    )
