"""relax.nn.attention_bias: the constructor under the operator's own name, as the text form writes it."""

from __future__ import annotations

from typing import Any

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.nn.attention import attention


def attention_bias(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
    *,
    span: Any = None,
) -> Call:
    """Attention with something added to the scores; the same as `attention` with a bias.

    Args:
        query: `(b, s, n, h)`; a float dtype.
        key: `(b, t, m, h)`, same dtype; `m` divides `n`.
        value: `(b, t, m, v)`, same dtype.
        bias: Broadcasts to `(b, n, s, t)`; same dtype.
        scale: As `attention` takes it, as are the next ones.
        causal_mask: `TopLeft`, `BottomRight` or None.
        window_size: How many keys a query sees at most, with `BottomRight` only.
        span: Python source of the call, for errors.

    Returns:
        `(b, s, n, v)`, dtype of `query`.

    Raises:
        TypeInferenceError: as `attention`.

    Reference: TVM relax.nn.attention_bias.
    """
    return attention(query, key, value, bias, scale, causal_mask, window_size, span=span)
