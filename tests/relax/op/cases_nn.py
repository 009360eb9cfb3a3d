"""Cases of neural-network and image operators."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from tests.relax.op.cases_conv import SPATIAL, arranged, exact_in_float64, in_blocks, ints, laid_out
from tests.relax.op.oracle import FLOATS, Case, Feeds, as_numpy, covers, table

from eutectic.relax.op import image, nn
from eutectic.topi.nn.dense_pack import packed_panels


@covers("relax.nn.dense_pack")
def _dense_pack(f: Feeds) -> Case:
    """Panels of some columns, the last of which may have columns that are not used; weights may be narrower."""
    kinds = f.pick(("float32", "float32"), ("float64", "float64"), ("float32", "float16"), ("float32", "bfloat16"))
    (dtype, narrow), panel, depth, columns = kinds, f.integer(1, 4), f.integer(1, 6), f.integer(1, 9)
    rows = f.shape(least=0, most=3, high=3)
    data, td = f.tensor((*rows, depth), dtype, low=-2, high=2)
    tw = f.tensor((depth, columns), narrow, low=-2, high=2)[1]
    call = nn.dense_pack(data, f.var(packed_panels(as_numpy(tw), panel)), columns)
    return Case(call, (td.double() @ tw.double()).to(td.dtype), slack=30, feeds=f.values)


@covers("relax.nn.inverted_residual")
def _inverted_residual(f: Feeds) -> Case:
    """Blocks of 2 channels, panels of 3; with a first convolution and without it."""
    dtype, activation, lanes, panel = f.pick("float32", "float64"), f.pick("linear", "relu", "relu6"), 2, 3
    wide, filters, kernel, pads = lanes * f.integer(1, 2), f.integer(1, 4), ints(f, 2, 1, 3), ints(f, 4, 0, 2)
    expands, strides, panels = f.pick(True, False), ints(f, 2, 1, 2), -(-filters // panel)
    channels = 2 * f.integer(1, 2) if expands else wide
    small: dict[str, Any] = {"low": -2, "high": 2}
    tx = f.tensor((f.integer(1, 2), channels, f.integer(3, 6), f.integer(3, 6)), dtype, **small)[1]
    window, tw = f.tensor((wide // lanes, *kernel, lanes), dtype, **small)
    bias, tb = f.tensor((wide // lanes, lanes), dtype, **small)
    project, tp = f.tensor((panels, wide // lanes, lanes, panel), dtype, **small)
    bounds = {"linear": (None, None), "relu": (0.0, None), "relu6": (0.0, 6.0)}[activation]
    limited = (lambda t: t) if activation == "linear" else (lambda t: t.clamp(*bounds))
    h, first = tx.double(), []
    if expands:
        expand, te = f.tensor((wide // lanes, channels, lanes), dtype, **small)
        expand_bias, ta = f.tensor((wide // lanes, lanes), dtype, **small)
        first = [expand, expand_bias]
        h = F.conv2d(h, te.double().permute(0, 2, 1).reshape(wide, channels, 1, 1), ta.double().reshape(-1))
        h = limited(h)
    h = F.pad(h, [pads[1], pads[3], pads[0], pads[2]])
    taps = tw.double().permute(0, 3, 1, 2).reshape(wide, 1, *kernel)
    h = limited(F.conv2d(h, taps, tb.double().reshape(-1), strides, groups=wide))
    rows = tp.double().permute(0, 3, 1, 2).reshape(panels * panel, wide, 1, 1)
    want = F.conv2d(h, rows[:filters]).to(tx.dtype)
    layouts = f.pick("NCHW", "NHWC", "NCHW2c"), f.pick("NCHW", "NHWC")
    data = in_blocks(tx, 1, 2) if layouts[0] == "NCHW2c" else arranged(tx, "NCHW", layouts[0])
    call = nn.inverted_residual(
        f.var(as_numpy(data)),
        *(window, bias, project, *first),
        filters=filters,
        strides=strides,
        padding=pads,
        activation=activation,
        data_layout=layouts[0],
        out_layout=layouts[1],
    )
    return Case(call, arranged(want, "NCHW", layouts[1]), slack=30, feeds=f.values)


@covers("relax.nn.depth_to_space")
def _depth_to_space(f: Feeds) -> Case:
    """Of one tensor or one for each point; torch has blocks in another order, of two axes alone and without crops."""
    rank, dtype = f.integer(1, 3), f.pick(*FLOATS, "int32")
    sides, sizes, filters = ints(f, rank, 1, 3), ints(f, rank, 2, 4), f.pick(1, 2, 4)
    crops = ints(f, 2 * rank, 0, 1)
    crops = [crop if size * side > 2 else 0 for crop, size, side in zip(crops, sizes * 2, sides * 2, strict=True)]
    points, space = math.prod(sides), SPATIAL[rank]
    t = f.tensor((f.integer(1, 2), points * filters, *sizes), dtype, special=f.flag())[1]
    parts = t.unflatten(1, (*sides, filters))
    order = [0, rank + 1, *(axis for i in range(rank) for axis in (rank + 2 + i, 1 + i))]
    whole = parts.permute(order).reshape(t.shape[0], filters, *(a * b for a, b in zip(sizes, sides, strict=True)))
    for i in range(rank):
        whole = whole.narrow(2 + i, crops[i], whole.shape[2 + i] - crops[i] - crops[rank + i])
    block = f.pick(*(n for n in (1, 2) if filters % n == 0))
    layout = f"NC{space}{block}c" if block > 1 else f.pick("NC" + space, f"N{space}C")

    def laid_out(x: torch.Tensor) -> torch.Tensor:
        return in_blocks(x, 1, block) if block > 1 else arranged(x, "NC" + space, layout)

    f.values.clear()
    pieces = t.chunk(points, 1) if f.flag() else [t]
    variables = [f.var(as_numpy(laid_out(piece))) for piece in pieces]
    data = variables if len(variables) > 1 else variables[0]
    return Case(nn.depth_to_space(data, sides, crops, layout), laid_out(whole), exact=True, feeds=f.values)


@covers("relax.nn.space_to_batch")
def _space_to_batch(f: Feeds) -> Case:
    """In one layout; torch has no such operator."""
    rank, dtype = f.integer(1, 3), f.pick(*FLOATS, "int32")
    sides, images, channels = ints(f, rank, 1, 3), f.integer(1, 2), f.pick(1, 2, 4)
    sizes, before = [f.integer(1, 3) * side + f.integer(0, 1) for side in sides], ints(f, rank, 0, 2)
    after = [-(size + b) % side for size, b, side in zip(sizes, before, sides, strict=True)]
    widths = [width for pair in reversed([*zip(before, after, strict=True)]) for width in pair]
    x, t, layout = laid_out(f, (images, channels, *sizes), dtype, "NC" + SPATIAL[rank], special=f.flag())
    whole = F.pad(t, widths)
    for axis, side in reversed([*enumerate(sides)]):  # the last axis is fastest among the points of a block
        place = 2 + axis
        parts = whole.unflatten(place, (-1, side)).movedim(place + 1, 0)
        whole = parts.flatten(0, 1)
    want = arranged(whole, "NC" + SPATIAL[rank], layout)
    return Case(nn.space_to_batch(x, sides, [*before, *after], layout), want, exact=True, feeds=f.values)


@covers("relax.nn.batch_to_space")
def _batch_to_space(f: Feeds) -> Case:
    """In one layout; torch has no such operator."""
    rank, dtype = f.integer(1, 3), f.pick(*FLOATS, "int32")
    sides, sizes = ints(f, rank, 1, 3), ints(f, rank, 2, 4)
    crops = [crop if size * side > 2 else 0 for crop, size, side in zip(ints(f, rank, 0, 1), sizes, sides, strict=True)]
    images, channels = f.integer(1, 2), f.pick(1, 2, 4)
    shape = (math.prod(sides) * images, channels, *sizes)
    x, t, layout = laid_out(f, shape, dtype, "NC" + SPATIAL[rank], special=f.flag())
    whole = t
    for axis, side in enumerate(sides):
        parts = whole.unflatten(0, (side, -1)).movedim(0, 3 + axis)
        whole = parts.flatten(2 + axis, 3 + axis)
    for axis, crop in enumerate(crops):
        whole = whole.narrow(2 + axis, crop, whole.shape[2 + axis] - crop)
    want = arranged(whole, "NC" + SPATIAL[rank], layout)
    return Case(nn.batch_to_space(x, sides, [*crops, *[0] * rank], layout), want, exact=True, feeds=f.values)


def _pool(f: Feeds, name: str, rank: int) -> Case:
    largest = "max" in name
    dtype = f.pick("float32", "float64") if not largest else f.pick("float32", "float64", "bfloat16", "int32")
    kernel, strides = ints(f, rank, 1, 3), ints(f, rank, 1, 3)
    dilation = ints(f, rank, 1, 2) if largest else [1] * rank
    pads = [f.integer(0, k // 2) for k in kernel]
    sizes = [d * (k - 1) + 1 + f.integer(0, 4) for d, k in zip(dilation, kernel, strict=True)]
    ceil_mode, include = f.flag(), f.flag()
    space = SPATIAL[rank]
    x, t, layout = laid_out(f, (f.integer(1, 2), f.pick(1, 2, 4), *sizes), dtype, "NC" + space, special=f.flag())
    options: dict[str, Any] = {"ceil_mode": ceil_mode}
    options |= {"dilation": dilation} if largest else {"count_include_pad": include}
    function = getattr(F, name.removeprefix("relax.nn."))
    want = function(t.double() if dtype == "int32" else t, kernel, strides, pads, **options).to(t.dtype)
    make = getattr(nn, name.removeprefix("relax.nn."))
    out_layout = "NC" + space
    if f.integer(0, 2) == 0:
        x, want, layout = _pooled_in_blocks(f, t, want)
        out_layout = layout
    call = make(x, kernel, strides, pads, dilation, ceil_mode, include, layout, out_layout)
    return Case(call, want, feeds=f.values)


table({f"relax.nn.{kind}_pool{rank}d": rank for kind in ("max", "avg") for rank in SPATIAL}, _pool)


def _pooled_in_blocks(f: Feeds, t: torch.Tensor, want: torch.Tensor) -> tuple[Any, torch.Tensor, str]:
    """Data and result of a pool with channels in blocks, and their layout."""
    size = f.pick(*(n for n in (1, 2, 4) if t.shape[1] % n == 0))
    f.values.clear()
    x = f.var(as_numpy(in_blocks(t, 1, size)))
    return x, in_blocks(want, 1, size), f"NC{SPATIAL[t.ndim - 2]}{size}c"


def _adaptive(f: Feeds, name: str, rank: int) -> Case:
    sizes, target = ints(f, rank, 1, 6), ints(f, rank, 1, 5)
    x, t, layout = laid_out(f, (f.integer(1, 2), f.pick(1, 2, 4), *sizes), "float32", "NC" + SPATIAL[rank])
    short = name.removeprefix("relax.nn.")
    wanted = f.pick(tuple(target), target[0], None)
    plain = {None: sizes}.get(wanted) or ([wanted] * rank if isinstance(wanted, int) else list(wanted))
    want, out_layout = getattr(F, short)(t, plain), "NC" + SPATIAL[rank]
    if f.integer(0, 2) == 0:
        x, want, layout = _pooled_in_blocks(f, t, want)
        out_layout = layout
    call = getattr(nn, short)(x, wanted, layout, out_layout)
    return Case(call, want, feeds=f.values)


table({f"relax.nn.adaptive_{kind}_pool{rank}d": rank for kind in ("max", "avg") for rank in SPATIAL}, _adaptive)


@covers("relax.nn.batch_norm")
def batch_norm(f: Feeds) -> Case:
    dtype, shape = f.pick(*FLOATS), f.shape(least=2, low=2)
    x, t = f.tensor(shape, dtype, special=f.flag())
    parameters = [f.tensor((shape[1],), dtype, low=0.5, high=2) for _ in range(4)]
    (g, tg), (b, tb), (m, tm), (v, tv) = parameters
    training = f.flag()
    wide = [value.double() for value in (t, tm, tv, tg, tb)]
    want = F.batch_norm(*wide, training=False, eps=1e-3).to(t.dtype)
    after = (tm, tv)
    if training:
        axes = [i for i in range(t.ndim) if i != 1]
        want = F.batch_norm(wide[0], None, None, wide[3], wide[4], training=True, eps=1e-3).to(t.dtype)
        statistics = (wide[0].mean(axes), wide[0].var(axes, correction=0))
        after = tuple(
            (0.7 * old.double() + 0.3 * new).to(t.dtype) for old, new in zip((tm, tv), statistics, strict=True)
        )
    call = nn.batch_norm(x, g, b, m, v, axis=1 - len(shape), epsilon=1e-3, momentum=0.3, training=training)
    return Case(call, (want, *after), slack=5, feeds=f.values)


@covers("relax.nn.layer_norm")
def layer_norm(f: Feeds) -> Case:
    dtype, shape = f.pick(*FLOATS), f.shape(least=1)
    count = f.integer(1, len(shape))
    x, t = f.tensor(shape, dtype)
    (g, tg), (b, tb) = (f.tensor(shape[-count:], dtype) for _ in range(2))
    want = exact_in_float64(lambda a, c, d: F.layer_norm(a, shape[-count:], c, d), t, tg, tb)
    call = nn.layer_norm(x, g, b, axes=[i - count for i in range(count)])
    return Case(call, want, slack=2, feeds=f.values)


@covers("relax.nn.group_norm")
def group_norm(f: Feeds) -> Case:
    dtype, groups = f.pick(*FLOATS), f.integer(1, 3)
    shape = (f.integer(1, 3), groups * f.integer(1, 3), *f.shape(least=1, most=2, low=2))
    x, t = f.tensor(shape, dtype)
    (g, tg), (b, tb) = (f.tensor((shape[1],), dtype) for _ in range(2))
    want = exact_in_float64(lambda a, c, d: F.group_norm(a, groups, c, d), t, tg, tb)
    call = nn.group_norm(x, g, b, groups, 1, list(range(2, len(shape))))
    return Case(call, want, slack=2, feeds=f.values)


@covers("relax.nn.instance_norm")
def instance_norm(f: Feeds) -> Case:
    dtype, shape = f.pick(*FLOATS), (*f.shape(least=2, most=2), *f.shape(least=1, most=2, low=2))
    x, t = f.tensor(shape, dtype)
    (g, tg), (b, tb) = (f.tensor((shape[1],), dtype) for _ in range(2))
    want = exact_in_float64(lambda a, c, d: F.instance_norm(a, weight=c, bias=d), t, tg, tb)
    call = nn.instance_norm(x, g, b, 1, list(range(2, len(shape))))
    return Case(call, want, slack=2, feeds=f.values)


@covers("relax.nn.rms_norm")
def rms_norm(f: Feeds) -> Case:
    dtype, shape = f.pick(*FLOATS), f.shape(least=1)
    x, t = f.tensor(shape, dtype)
    w, tw = f.tensor(shape[-1:], dtype)
    want = exact_in_float64(lambda a, c: F.rms_norm(a, shape[-1:], c, 1e-5), t, tw)
    return Case(nn.rms_norm(x, w), want, slack=2, feeds=f.values)


@covers("relax.nn.pad")
def pad(f: Feeds) -> Case:
    mode = f.pick("constant", "reflect", "replicate", "circular")
    if mode == "constant":
        shape = f.shape(least=1, low=2)
        widths = [f.integer(-1, 3) for _ in range(2 * len(shape))]
        x, t = f.tensor(shape, f.pick("float32", "int32", "bfloat16"), special=True)
        backwards = [w for i in reversed(range(len(shape))) for w in widths[2 * i : 2 * i + 2]]
        value = f.pick(0, 2, -1)
        return Case(nn.pad(x, widths, value), F.pad(t, backwards, value=value), exact=True, feeds=f.values)
    shape = (*f.shape(least=2, most=2), *f.shape(least=1, most=2, low=3))
    inner = [f.integer(0, 2) for _ in range(2 * (len(shape) - 2))]
    x, t = f.tensor(shape, "float32", special=True)
    backwards = [w for i in reversed(range(len(inner) // 2)) for w in inner[2 * i : 2 * i + 2]]
    call = nn.pad(x, [0, 0, 0, 0, *inner], pad_mode=mode)
    return Case(call, F.pad(t, backwards, mode=mode), exact=True, feeds=f.values)


def _attention(f: Feeds, name: str, with_bias: bool) -> Case:
    dtype = f.pick(*FLOATS)
    b, s, extra, heads, shared, h, v = (f.integer(1, 3) for _ in range(7))
    causal = f.pick(None, "TopLeft", "BottomRight")
    t = s if causal == "TopLeft" else s + extra
    q, tq = f.tensor((b, s, heads * shared, h), dtype)
    k, tk = f.tensor((b, t, heads, h), dtype)
    u, tv = f.tensor((b, t, heads, v), dtype)
    scale = f.pick(None, 0.3)
    bias, tb = f.tensor((f.pick(1, b), heads * shared, s, t), dtype) if with_bias else (None, None)
    mask = torch.zeros(s, t, dtype=torch.float64)
    if causal:
        seen = torch.ones(s, t).tril(t - s if causal == "BottomRight" else 0).bool()
        mask = mask.masked_fill(~seen, float("-inf"))
    mask = mask + tb.double() if tb is not None else mask
    wide = [x.double().transpose(1, 2) for x in (tq, tk, tv)]
    wide[1:] = [x.repeat_interleave(shared, 1) for x in wide[1:]]
    want = F.scaled_dot_product_attention(*wide, attn_mask=mask, scale=scale).transpose(1, 2).to(tq.dtype)
    return Case(nn.attention(q, k, u, bias, scale, causal), want, slack=2, feeds=f.values)


table({"relax.nn.attention": False, "relax.nn.attention_bias": True}, _attention)


@covers("relax.nn.masked_attention")
def masked_attention(f: Feeds) -> Case:
    dtype, kind = f.pick(*FLOATS), f.pick("bool", "float")
    b, s, t, heads, shared, h, v = (f.integer(1, 3) for _ in range(7))
    q, tq = f.tensor((b, s, heads * shared, h), dtype)
    k, tk = f.tensor((b, t, heads, h), dtype)
    u, tv = f.tensor((b, t, heads, v), dtype)
    mask, tm = f.tensor((f.pick(1, b), f.pick(1, heads * shared), f.pick(1, s), t), "bool" if kind == "bool" else dtype)
    scale, hidden = f.pick(None, 0.3), f.pick(-math.inf, -1e4, 2.0)
    wide = [x.double().transpose(1, 2) for x in (tq, tk, tv)]
    wide[1:] = [x.repeat_interleave(shared, 1) for x in wide[1:]]
    scores = wide[0] @ wide[1].transpose(-2, -1) * (scale or h**-0.5)
    seen = torch.where(tm, scores, hidden) if kind == "bool" else scores + tm.double()
    want = (seen.softmax(-1) @ wide[2]).transpose(1, 2).to(tq.dtype)
    return Case(nn.masked_attention(q, k, u, mask, scale, hidden), want, slack=2, feeds=f.values)


@covers("relax.nn.dropout")
def dropout(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(low=0), f.pick(*FLOATS), special=True)
    return Case(nn.dropout(x, 0.3), (t, torch.ones_like(t)), exact=True, feeds=f.values)


@covers("relax.image.resize2d")
def resize2d(f: Feeds) -> Case:
    dtype = f.pick("float32", "float64")
    shape, size = (1, 2, *ints(f, 2, 1, 9)), tuple(ints(f, 2, 1, 13))
    layout = f.pick("NCHW", "NHWC")
    x, t = f.tensor(tuple(shape["NCHW".index(c)] for c in layout), dtype)
    plain = t.permute(*(layout.index(c) for c in "NCHW"))
    choice = f.pick("nearest", "nearest-exact", "half_pixel", "align_corners")
    if choice.startswith("nearest"):
        coordinates, rounding = ("asymmetric", "floor") if choice == "nearest" else ("half_pixel", "round_prefer_ceil")
        call = image.resize2d(x, size, None, layout, "nearest_neighbor", coordinates, rounding)
        want = F.interpolate(plain, size, mode=choice)
    else:
        call = image.resize2d(x, size, None, layout, "linear", choice)
        want = F.interpolate(plain, size, mode="bilinear", align_corners=choice == "align_corners")
    slack = 1 if dtype == "float32" else 1e4
    return Case(call, arranged(want, "NCHW", layout), slack=slack, feeds=f.values)


@covers("relax.image.grid_sample")
def grid_sample(f: Feeds) -> Case:
    """Some places are outside."""
    dtype, layout = f.pick("float32", "float64"), f.pick("NCHW", "NHWC", "NCHW2c")
    images = f.integer(1, 2)
    plain = torch.from_numpy(f.rng.uniform(-4, 4, (images, 2, *ints(f, 2, 1, 6))).astype(dtype))

    def laid_out(t: torch.Tensor) -> torch.Tensor:
        return in_blocks(t, 1, 2) if layout == "NCHW2c" else arranged(t, "NCHW", layout)

    x = f.var(as_numpy(laid_out(plain)))
    g, places = f.tensor((images, 2, *ints(f, 2, 1, 5)), dtype, low=-1.6, high=1.6)
    method, outside, align = f.pick("bilinear", "nearest", "bicubic"), f.pick("zeros", "border", "reflection"), f.flag()
    want = F.grid_sample(plain, places.permute(0, 2, 3, 1), method, outside, align)
    call = image.grid_sample(x, g, method, layout, outside, align)
    return Case(call, laid_out(want), slack=10 if dtype == "float32" else 1e4, feeds=f.values)


@covers("relax.nn.im2col")
def im2col(f: Feeds) -> Case:
    kernel, strides, padding, dilation = ints(f, 2, 1, 3), ints(f, 2, 1, 2), ints(f, 2, 0, 2), ints(f, 2, 1, 2)
    sizes = [d * (k - 1) + 1 + f.integer(0, 3) for d, k in zip(dilation, kernel, strict=True)]
    x, t = f.tensor((f.integer(1, 2), f.integer(1, 3), *sizes), f.pick("float32", "bfloat16", "float64"), special=True)
    call = nn.im2col(x, kernel, strides, padding, dilation)
    return Case(call, F.unfold(t, kernel, dilation, padding, strides), exact=True, feeds=f.values)


def _recurrent(f: Feeds, name: str, layer: type[torch.nn.RNNBase]) -> Case:
    dtype, reverse, activation = f.pick(*FLOATS), f.flag(), f.pick("tanh", "relu")
    steps, batch, units = f.integer(1, 4), f.integer(1, 3), f.integer(1, 20)
    sums = {"lstm": 4, "gru": 3, "rnn": 1}[name.rpartition(".")[2]] * units
    options = {"nonlinearity": activation} if name == "relax.nn.rnn" else {}
    module = layer(sums, units, **options).double()
    (x, tx), (w, tw) = f.tensor((steps, batch, sums), dtype), f.tensor((sums, units), dtype, low=-1, high=1)
    states = [f.tensor((batch, units), dtype) for _ in range(2 if name == "relax.nn.lstm" else 1)]
    b, tb = f.tensor((units,), dtype) if name == "relax.nn.gru" else (None, None)
    with torch.no_grad():  # the input is what is added to the sums: its weights are those of the identity
        for parameter in module.parameters():
            parameter.zero_()
        module.weight_ih_l0.copy_(torch.eye(sums))
        module.weight_hh_l0.copy_(tw)
        if tb is not None:
            module.bias_hh_l0[2 * units :] = tb
        given = [t.double()[None] for _, t in states]
        ordered = tx.double().flip(0) if reverse else tx.double()
        hidden, last = module(ordered, tuple(given) if len(given) == 2 else given[0])
    wants = [hidden.flip(0) if reverse else hidden, *(t[0] for t in (last if isinstance(last, tuple) else (last,)))]
    own = {"activation": activation} if name == "relax.nn.rnn" else {}
    call = getattr(nn, name.rpartition(".")[2])(
        x, *(s for s, _ in states), w, *([b] if b else []), reverse=reverse, **own
    )
    return Case(call, tuple(want.to(tx.dtype) for want in wants), slack=4, feeds=f.values)


_LAYERS = {"relax.nn.lstm": torch.nn.LSTM, "relax.nn.gru": torch.nn.GRU, "relax.nn.rnn": torch.nn.RNN}
table(_LAYERS, _recurrent)
