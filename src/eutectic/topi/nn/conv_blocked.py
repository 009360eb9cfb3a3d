"""Convolutions of channels in blocks: the result has a vector of channels at each point."""

from __future__ import annotations

from typing import Any, Final

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.topi.nn.conv import Ints, finished, wide_dtype
from eutectic.topi.nn.pad import pad
from eutectic.topi.nn.windows import paddings, per_axis
from eutectic.topi.shapes import sizes_text, static

_PLACES: Final = ("zz", "yy", "xx")
_TAPS: Final = ("rz", "ry", "rx")


def conv2d_nchwc(
    data: Tensor,
    weight: Tensor,
    strides: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Cross-correlation over two spatial axes, which gives channels in blocks.

    Sums run over blocks of input channels, then over the window, then over the channels of a block: the weights of a
    vector of output channels are read in the order in which they lie.

    Args:
        data: `(n, c / v, h, w, v)`, or `(n, c, h, w)`, which counts as blocks of one channel.
        weight: `(o / b, i / v, kh, kw, v, b)`, where `i` counts the channels of one group; or without the axis of
            size `v`, when the data has none or blocks hold whole groups.
        strides: Step between windows.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        dilation: Step between the taps of a window.
        groups: Number of independent groups of channels. Blocks are parts of a group, or hold whole groups, of which
            each has as many channels in the data as in the result, such as one.
        out_dtype: Dtype of the result; None takes that of the data.

    Returns:
        `(n, o / b, oh, ow, b)`; stages `pad_temp` where there is padding, and `conv2d_nchwc`.

    Raises:
        ValueError: ranks or blocks do not go together.

    Reference: TVM topi.nn.conv2d_NCHWc and depthwise_conv2d_NCHWc, where the layouts are arguments; E. Georganas et
    al., "Anatomy of high-performance deep learning convolutions on SIMD architectures", SC 2018.
    """
    return _in_blocks(2, data, weight, strides, padding, dilation, groups, out_dtype)


def conv3d_ncdhwc(
    data: Tensor,
    weight: Tensor,
    strides: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Cross-correlation over three spatial axes, which gives channels in blocks; sums run as in `conv2d_nchwc`.

    Args:
        data: `(n, c / v, d, h, w, v)`, or `(n, c, d, h, w)`, which counts as blocks of one channel.
        weight: `(o / b, i / v, kd, kh, kw, v, b)`, or without the axis of size `v`, as for `conv2d_nchwc`.
        strides: Step between windows.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        dilation: Step between the taps of a window.
        groups: Number of independent groups of channels, as for `conv2d_nchwc`.
        out_dtype: Dtype of the result; None takes that of the data.

    Returns:
        `(n, o / b, od, oh, ow, b)`; stages `pad_temp` where there is padding, and `conv3d_ncdhwc`.

    Raises:
        ValueError: ranks or blocks do not go together.
    """
    return _in_blocks(3, data, weight, strides, padding, dilation, groups, out_dtype)


def _in_blocks(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    block = 1 if len(data.shape) == rank + 2 else static(data.shape[rank + 2]) or 0
    wide_out, kernel, inner = weight.shape[0], weight.shape[2 : rank + 2], weight.shape[rank + 2 :]
    lanes = static(inner[-1]) or 0
    has_groups = len(inner) == 1 and len(data.shape) == rank + 3
    per_group = (static(wide_out) or 0) * lanes // groups
    if has_groups:
        fits = lanes == block and per_group > 0 and lanes % per_group == 0 and static(weight.shape[1]) == per_group
    else:
        fits = len(inner) == (1 if block == 1 else 2) and static(inner[0]) in (block, lanes) and per_group % lanes == 0
    if not fits:
        operands = f"{sizes_text(data.shape)} with {sizes_text(weight.shape)}"
        raise ValueError(f"convolution of {operands}: the blocks do not go with each other, or with {groups} groups")
    step, apart = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    before, after = paddings(padding, rank)
    tail = [0] * (len(data.shape) - rank - 2)
    temp = pad(data, [0, 0, *before, *tail], [0, 0, *after, *tail], 0, "pad_temp") if any((*before, *after)) else data
    out = [
        simplify((size + (b + a) - (k - 1) * d - 1) // s + 1)
        for size, b, a, k, d, s in zip(data.shape[2 : rank + 2], before, after, kernel, apart, step, strict=True)
    ]
    dtype = out_dtype or data.dtype
    rc, ri = reduce_axis((0, weight.shape[1]), "rc"), reduce_axis((0, inner[0]), "ri")
    taps = [reduce_axis((0, k), name) for k, name in zip(kernel, _TAPS[-rank:], strict=True)]

    def element(image: PrimExpr, blocks: PrimExpr, *place: PrimExpr) -> Any:
        lane = place[-1]
        where = [
            (i * s if s > 1 else i) + (tap * d if d > 1 else tap)
            for i, s, tap, d in zip(place[:-1], step, taps, apart, strict=True)
        ]
        if has_groups:
            own = [rc] if per_group > 1 else []
            source = lane // per_group * per_group + rc if own else lane
            value, factor = temp(image, blocks, *where, source), weight(blocks, rc if own else 0, *taps, lane)
            return te_sum(value.astype(wide_dtype(dtype)) * factor.astype(wide_dtype(dtype)), [*own, *taps])
        channels = rc if groups == 1 else blocks // (per_group // lanes) * weight.shape[1] + rc
        inside = [] if block == 1 else [ri]
        value, factor = temp(image, channels, *where, *inside), weight(blocks, rc, *taps, *inside, lane)
        return te_sum(value.astype(wide_dtype(dtype)) * factor.astype(wide_dtype(dtype)), [rc, *taps, *inside])

    shape = (data.shape[0], wide_out, *out, inner[-1])
    name = ("depthwise_" if has_groups and per_group == 1 else "") + ("conv2d_nchwc" if rank == 2 else "conv3d_ncdhwc")
    names = ["nn", "fo", *_PLACES[-rank:], "fi"]
    total = compute(shape, lambda *at: element(*at), name, name, varargs_names=names)
    return finished(total, dtype)
