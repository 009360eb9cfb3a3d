"""Cases of quantize, dequantize, attention over sequences of different lengths, and allocation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tests.relax.op.oracle import FLOATS, Case, Feeds, covers

from eutectic.relax.op import builtin, dequantize, nn, quantize

PRECISE = ["float16", "bfloat16", "float32", "float64"]


def _parameters(f: Feeds, shape: tuple[int, ...], axis: int, low: int) -> tuple[Any, Any, Any, Any]:
    """A scale and a zero point, for all or per size of the axis, and the same shaped to broadcast."""
    sizes = (shape[axis],) if f.flag() else ()
    scale, ts = f.tensor(sizes, f.pick("float32", "float16"), low=0.125, high=2)
    zero, tz = f.tensor(sizes, f.pick("int8", "int32"), low=low, high=5)
    spread = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))] if sizes else []
    return scale, zero, ts.double().reshape(spread), tz.double().reshape(spread)


@covers("relax.quantize")
def quantize_case(f: Feeds) -> Case:
    shape, out_dtype = f.shape(least=1), f.pick("int8", "uint8", "int16", "int32")
    axis = f.integer(-len(shape), len(shape) - 1)
    x, t = f.tensor(shape, f.pick(*FLOATS), low=-300, high=300)
    scale, zero, ts, tz = _parameters(f, shape, axis, 0 if out_dtype == "uint8" else -5)
    limits = torch.iinfo(getattr(torch, out_dtype))
    want = torch.clamp(torch.round(t.double() / ts) + tz, limits.min, limits.max)
    call = quantize(x, scale, zero, axis, out_dtype)
    return Case(call, want.to(getattr(torch, out_dtype)), exact=True, feeds=f.values)


@covers("relax.dequantize")
def dequantize_case(f: Feeds) -> Case:
    shape, out_dtype = f.shape(least=1), f.pick(*PRECISE)
    axis = f.integer(-len(shape), len(shape) - 1)
    x, t = f.tensor(shape, f.pick("int8", "uint8", "int32", "float32"))
    scale, zero, ts, tz = _parameters(f, shape, axis, -5)
    want = ((t.double() - tz) * ts).to(getattr(torch, out_dtype))
    return Case(dequantize(x, scale, zero, axis, out_dtype), want, exact=True, feeds=f.values)


@covers("relax.nn.attention_var_len")
def attention_var_len(f: Feeds) -> Case:
    dtype, count = f.pick(*FLOATS), f.integer(1, 3)
    queries = [f.integer(1, 3) for _ in range(count)]
    keys = list(queries) if f.flag() else [n + f.integer(0, 2) for n in queries]
    heads, shared, h, v = (f.integer(1, 2) for _ in range(4))
    q, tq = f.tensor((1, sum(queries), heads * shared, h), dtype)
    k, tk = f.tensor((1, sum(keys), heads, h), dtype)
    u, tv = f.tensor((1, sum(keys), heads, v), dtype)
    starts_q, starts_k = (f.var(np.cumsum([0, *sizes]).astype(np.int32)) for sizes in (queries, keys))
    causal = f.pick(None, "BottomRight")
    parts, at = [], [0, 0]
    for s, t in zip(queries, keys, strict=True):
        wide = [x.double().transpose(1, 2) for x in (tq[:, at[0] : at[0] + s], tk[:, at[1] : at[1] + t])]
        wide.append(tv[:, at[1] : at[1] + t].double().transpose(1, 2))
        wide[1:] = [x.repeat_interleave(shared, 1) for x in wide[1:]]
        mask = torch.ones(s, t).tril(t - s).bool() if causal else None
        parts.append(F.scaled_dot_product_attention(*wide, attn_mask=mask).transpose(1, 2))
        at = [at[0] + s, at[1] + t]
    longest = f.var(np.asarray(max(keys), np.int32)) if f.flag() else max(keys)
    call = nn.attention_var_len(q, k, u, starts_q, longest, starts_k, max(keys), causal_mask=causal)
    return Case(call, torch.cat(parts, 1).to(tq.dtype), slack=2, feeds=f.values)


@covers("relax.builtin.alloc_tensor")
def alloc_tensor(f: Feeds) -> Case:
    shape, dtype = f.shape(), f.pick("uint8", "float32")
    return Case(builtin.alloc_tensor(shape, dtype), torch.zeros(shape, dtype=getattr(torch, dtype)), feeds=f.values)
