"""Cases of convolutions, and how their operands are laid out."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from tests.relax.op.oracle import FLOATS, Case, Feeds, as_numpy, table

from eutectic.relax.op import nn
from eutectic.topi.nn.winograd_transforms import packed_weights

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def laid_out(f: Feeds, shape: tuple[int, ...], dtype: str, canonical: str, **options: Any) -> tuple[Any, Any, str]:
    """A tensor in a random layout, and the same for torch in the canonical one."""
    layout = "".join(f.rng.permutation(list(canonical))) if f.integer(0, 3) == 0 else canonical
    x, t = f.tensor(tuple(shape[canonical.index(c)] for c in layout), dtype, **options)
    return x, t.permute(*(layout.index(c) for c in canonical)), layout


def arranged(t: torch.Tensor, canonical: str, layout: str) -> torch.Tensor:
    return t.permute(*(canonical.index(c) for c in layout)).contiguous()


def exact_in_float64(function: Any, *tensors: torch.Tensor, **options: Any) -> torch.Tensor:
    """In float64, rounded to the operands' dtype."""
    return function(*(t.double() for t in tensors), **options).to(tensors[0].dtype)


def ints(f: Feeds, rank: int, low: int, high: int) -> list[int]:
    return [f.integer(low, high) for _ in range(rank)]


def _conv(f: Feeds, name: str, rank: int) -> Case:
    dtype, groups = f.pick(*FLOATS, "int8", "int32"), f.pick(1, 1, 2, 3)
    kernel, strides, dilation = ints(f, rank, 1, 3), ints(f, rank, 1, 2), ints(f, rank, 1, 2)
    pads = ints(f, 2 * rank, 0, 2)
    sizes = [d * (k - 1) + 1 + f.integer(0, 3) for d, k in zip(dilation, kernel, strict=True)]
    per_group, out = f.integer(1, 3), groups * f.integer(1, 2)
    space = SPATIAL[rank]
    data = (f.integer(1, 2), groups * per_group, *sizes)
    x, tx, data_layout = laid_out(f, data, dtype, "NC" + space, low=-2, high=2)
    w, tw, kernel_layout = laid_out(f, (out, per_group, *kernel), dtype, "OI" + space, low=-2, high=2)
    widths = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    padded = F.pad(tx.double(), widths)
    result = function(padded, tw.double(), stride=strides, dilation=dilation, groups=groups)
    out_dtype = "int32" if dtype == "int8" else None
    if rank > 1 and f.integer(0, 2) == 0:
        return _conv_in_blocks(f, dtype, (strides, pads, dilation), out_dtype)
    want = result.to(torch.int32 if dtype == "int8" else tx.dtype)
    out_layout = f.pick(None, "NC" + space)
    call = getattr(nn, f"conv{rank}d")(
        x, w, strides, pads, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype
    )
    return Case(call, arranged(want, "NC" + space, out_layout or data_layout), slack=2, feeds=f.values)


def in_blocks(t: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """A tensor whose axis is cut into blocks, the insides of which are the last axis."""
    return t.unflatten(axis, (-1, size)).movedim(axis + 1, -1).contiguous()


def _conv_in_blocks(f: Feeds, dtype: str, windows: tuple[Any, Any, Any], out_dtype: str | None) -> Case:
    """Data in blocks, or rows, to blocks; in groups that are several blocks, or each of one channel."""
    (strides, pads, dilation), groups, outer = windows, f.pick(1, 2), f.integer(1, 2)
    rank, function = len(strides), (F.conv2d, F.conv3d)[len(strides) - 2]
    rows, kernel = f"NC{SPATIAL[rank]}", f"OI{SPATIAL[rank]}"
    read, written = f.pick(1, 2, 3), f.pick(2, 3)
    is_depthwise = f.flag()
    if is_depthwise:
        read, groups = written, written * outer
    channels, filters = (groups, groups) if is_depthwise else (groups * read * outer, groups * written)
    tx = f.tensor((f.integer(1, 2), channels, *(5, 5, 6)[-rank:]), dtype, low=-2, high=2)[1]
    tw = f.tensor((filters, channels // groups, *(2, f.integer(1, 3), 2)[-rank:]), dtype, low=-2, high=2)[1]
    widths = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
    made = function(F.pad(tx.double(), widths), tw.double(), stride=strides, dilation=dilation, groups=groups)
    want = made.to(torch.int32 if out_dtype else tx.dtype)
    x = tx if read == 1 else in_blocks(tx, 1, read)
    w = tw if read == 1 or is_depthwise else in_blocks(tw, 1, read)
    layouts = (
        rows if read == 1 else f"{rows}{read}c",
        f"{kernel}{written}o" if read == 1 or is_depthwise else f"{kernel}{read}i{written}o",
        f"{rows}{written}c",
    )
    call = getattr(nn, f"conv{rank}d")(
        f.var(as_numpy(x)),
        f.var(as_numpy(in_blocks(w, 0, written))),
        strides,
        pads,
        dilation,
        groups,
        *layouts,
        out_dtype,
    )
    return Case(call, in_blocks(want, 1, written), slack=2, feeds=f.values)


table({f"relax.nn.conv{rank}d": rank for rank in SPATIAL}, _conv)


def _conv_winograd(f: Feeds, name: str, rank: int) -> Case:
    """Transformed weights; blocks of 2 channels, panels of one or two of them; windows of up to three slices."""
    tile, lanes, dtype = f.pick(2, 4), 2, f.pick("float32", "float64")
    panel, pads = lanes * f.integer(1, 2), ints(f, 2 * rank, 0, 2)
    rows, last, function = f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C", (F.conv2d, F.conv3d)[rank - 2]
    channels, filters = lanes * f.integer(1, 2), panel * f.integer(1, 2)
    window = [f.integer(1, 3)] * (rank - 2)
    sizes = [*(f.integer(taps, 5) for taps in window), f.integer(3, 9), f.integer(3, 9)]
    tx = f.tensor((f.integer(1, 2), channels, *sizes), dtype, low=-2, high=2)[1]
    tw = f.tensor((filters, channels, *window, 3, 3), dtype, low=-2, high=2)[1]
    widths = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
    want = function(F.pad(tx.double(), widths), tw.double()).to(tx.dtype)
    layouts = f.pick(rows, last, f"{rows}2c"), f.pick(rows, last, f"{rows}2c")

    def laid_out(t: torch.Tensor, layout: str) -> torch.Tensor:
        return in_blocks(t, 1, lanes) if layout == f"{rows}2c" else arranged(t, rows, layout)

    packed = packed_weights(as_numpy(tw), tile, lanes, panel)
    convolution = getattr(nn, f"conv{rank}d_winograd")
    call = convolution(f.var(as_numpy(laid_out(tx, layouts[0]))), f.var(packed), pads, *layouts)
    return Case(call, laid_out(want, layouts[1]), slack=30, feeds=f.values)


table({f"relax.nn.conv{rank}d_winograd": rank for rank in (2, 3)}, _conv_winograd)


def _conv_transpose(f: Feeds, name: str, rank: int) -> Case:
    dtype, groups = f.pick(*FLOATS), f.pick(1, 1, 2)
    kernel, strides, dilation = ints(f, rank, 1, 3), ints(f, rank, 1, 3), ints(f, rank, 1, 2)
    extra = [f.integer(0, max(s, d) - 1) for s, d in zip(strides, dilation, strict=True)]
    pads = [f.integer(0, d * (k - 1) // 2) for d, k in zip(dilation, kernel, strict=True)]
    space = SPATIAL[rank]
    shape = (f.integer(1, 2), groups * f.integer(1, 3), *ints(f, rank, 1, 4))
    x, tx, data_layout = laid_out(f, shape, dtype, "NC" + space)
    w, tw, kernel_layout = laid_out(f, (shape[1], f.integer(1, 2), *kernel), dtype, "IO" + space)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    want = exact_in_float64(
        function, tx, tw, stride=strides, padding=pads, output_padding=extra, groups=groups, dilation=dilation
    )
    call = getattr(nn, f"conv{rank}d_transpose")(
        x, w, strides, pads, extra, dilation, groups, data_layout, kernel_layout, "NC" + space
    )
    return Case(call, want, slack=2, feeds=f.values)


table({f"relax.nn.conv{rank}d_transpose": rank for rank in SPATIAL}, _conv_transpose)
