"""Pools: the largest element or the mean of windows, of given size or covering the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.te.reduction import lowest
from eutectic.tir import op
from eutectic.topi.nn.conv import SPATIAL
from eutectic.topi.nn.windows import Axes, padded, paddings, per_axis
from eutectic.topi.shapes import product, stage, static
from eutectic.topi.special_values import accumulator, reduce_max

Ints = int | Sequence[int]


def _out_size(size: PrimExpr, kernel: int, stride: int, pads: tuple[int, int], apart: int, ceil_mode: bool) -> Any:
    """Number of windows; in `ceil_mode` a last one may hang out, but begins before the end padding."""
    room = size + (pads[0] + pads[1] - apart * (kernel - 1) - 1)
    count = simplify((room + (stride - 1 if ceil_mode else 0)) // stride + 1)
    known, total = static(count), static(size)
    if ceil_mode and known is not None and total is not None and (known - 1) * stride >= total + pads[0]:
        return count - 1
    return count


def pool(
    data: Tensor,
    kernel: Ints,
    stride: Ints,
    dilation: Ints,
    padding: Ints,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The largest element or the mean of windows, over the spatial axes of `layout`.

    Args:
        data: The axes of `layout`, which has one, two or three of `D`, `H`, `W`.
        kernel: Elements of a window.
        stride: Step between windows.
        dilation: Step between the elements of a window.
        padding: Elements around: one number, one per axis, or all before and then all after.
        pool_type: `max` or `avg`.
        ceil_mode: Whether a last window may hang over the end.
        layout: Order of the axes.
        count_include_pad: Whether means count padding elements.

    Returns:
        Dtype of `data`; stages `pad_temp` where windows leave the data, and `pool_max`, or `pool_sum` and
        `pool_avg`. A window that holds NaN gives NaN.

    Raises:
        ValueError: an unknown type or layout, or numbers that do not go with it.

    Reference: TVM topi.nn.pool1d, pool2d, pool3d.
    """
    axes = Axes.of(layout)
    rank = axes.rank
    if pool_type not in ("max", "avg") or rank not in SPATIAL:
        raise ValueError(f"there is no {pool_type} pool of layout {layout}")
    size_of, step, apart = (
        per_axis(v, rank, what) for v, what in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    before, after = paddings(padding, rank)
    kept, sizes = axes.parted(data.shape)
    out = [
        _out_size(size, size_of[i], step[i], (before[i], after[i]), apart[i], ceil_mode) for i, size in enumerate(sizes)
    ]
    beyond = [
        _beyond(sizes[i], out[i], step[i], apart[i] * (size_of[i] - 1) + 1, before[i], after[i], ceil_mode)
        for i in range(rank)
    ]
    wide = accumulator(data.dtype) if pool_type == "avg" else data.dtype
    fill = lowest(data.dtype) if pool_type == "max" else 0
    temp = padded(data, axes, before, beyond, fill)
    shape = axes.joined(kept, out)
    reduced = _over_windows(temp, shape, axes, list(zip(size_of, step, apart, strict=True)), pool_type, wide)
    if pool_type == "max":
        return reduced
    if not any((*before, *beyond)):
        return stage(
            shape, lambda *at: (reduced(*at) / float(prod(size_of))).astype(data.dtype), "pool_avg", "elemwise"
        )
    limits = [
        (0 if count_include_pad else b, size + b + (a if count_include_pad else 0))
        for size, b, a in zip(sizes, before, after, strict=True)
    ]

    def average(*at: PrimExpr) -> PrimExpr:
        starts = [i * s for i, s in zip(axes.parted(at)[1], step, strict=True)]
        counts = [_count(i, *limit, k, d) for i, limit, k, d in zip(starts, limits, size_of, apart, strict=True)]
        return (reduced(*at) / product(counts).astype(wide)).astype(data.dtype)

    return stage(shape, average, "pool_avg", "elemwise")


def _over_windows(
    temp: Tensor,
    shape: Sequence[PrimExpr],
    axes: Axes,
    windows: Sequence[tuple[int, int, int]],
    pool_type: str,
    wide: str,
) -> Tensor:
    """The stage that reduces windows, given per spatial axis as size, step and dilation."""
    dtype = temp.shape[0].dtype
    taps = [reduce_axis((0, op.const(k, dtype)), f"rv{i}") for i, (k, _, _) in enumerate(windows)]

    def element(*at: PrimExpr) -> Any:
        others, place = axes.parted(at)
        where = [
            (i * s if s > 1 else i) + (tap * d if d > 1 else tap)
            for i, tap, (_, s, d) in zip(place, taps, windows, strict=True)
        ]
        x = temp(*axes.joined(others, where)).astype(wide)
        return (reduce_max if pool_type == "max" else te_sum)(x, taps)

    names = [f"ax{i}" for i in range(len(shape))]
    name = "pool_max" if pool_type == "max" else "pool_sum"
    reduced: Tensor = compute(shape, lambda *at: element(*at), name, "pool", varargs_names=names)
    return reduced


def _beyond(size: PrimExpr, out: PrimExpr, stride: int, reach: int, before: int, after: int, ceil_mode: bool) -> int:
    """How far the last window leaves the data at its end."""
    total, count = static(size), static(out)
    if total is None or count is None:
        return after + (stride - 1 if ceil_mode else 0)
    return max(0, stride * (count - 1) + reach - total - before)


def _count(start: PrimExpr, low: int, high: PrimExpr, kernel: int, apart: int) -> PrimExpr:
    """How many of `start`, `start + apart`, ... lie in `[low, high)`."""
    end = op.min(op.ceildiv(high - start, apart), kernel)
    return op.max(end - op.max(op.ceildiv(low - start, apart), 0), 0)


def pool1d(
    data: Tensor,
    kernel: Ints,
    stride: Ints,
    dilation: Ints,
    padding: Ints,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """`pool` over one spatial axis."""
    return pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool2d(
    data: Tensor,
    kernel: Ints,
    stride: Ints,
    dilation: Ints,
    padding: Ints,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """`pool` over two spatial axes."""
    return pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool3d(
    data: Tensor,
    kernel: Ints,
    stride: Ints,
    dilation: Ints,
    padding: Ints,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """`pool` over three spatial axes."""
    return pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def adaptive_pool(data: Tensor, output_size: Ints, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The largest element or the mean of windows that cover the data.

    Window `i` of `m` along an axis of `n` elements is `[i * n // m, ceil((i + 1) * n / m))`.

    Args:
        data: The axes of `layout`.
        output_size: Windows per spatial axis.
        pool_type: `max` or `avg`.
        layout: Order of the axes.

    Returns:
        Dtype of `data`; a stage `adaptive_pool_max`, or `adaptive_pool_sum` and `adaptive_pool_avg`.

    Raises:
        ValueError: an unknown type or layout, or a symbolic size that is not pooled to one element.
    """
    axes = Axes.of(layout)
    rank = axes.rank
    if pool_type not in ("max", "avg") or rank not in SPATIAL:
        raise ValueError(f"there is no adaptive {pool_type} pool of layout {layout}")
    counts = per_axis(output_size, rank, "output_size")
    kept, sizes = axes.parted(data.shape)
    longest = [_longest(size, m) for size, m in zip(sizes, counts, strict=True)]
    taps = [reduce_axis((0, k), f"rv{i}") for i, k in enumerate(longest)]
    wide = accumulator(data.dtype) if pool_type == "avg" else data.dtype
    shape = axes.joined(kept, [op.const(m, s.dtype) for m, s in zip(counts, sizes, strict=True)])

    def element(*at: PrimExpr) -> Any:
        others, place = axes.parted(at)
        where = [_begin(i, size, m) + tap for i, size, m, tap in zip(place, sizes, counts, taps, strict=True)]
        ragged = [
            w < _end(i, size, m)
            for w, i, size, m in zip(where, place, sizes, counts, strict=True)
            if not _even(size, m)
        ]
        x = data(*axes.joined(others, where)).astype(wide)
        if ragged:
            x = op.if_then_else(op.all(*ragged), x, lowest(wide) if pool_type == "max" else op.const(0, wide))
        return (reduce_max if pool_type == "max" else te_sum)(x, taps)

    names = [f"ax{i}" for i in range(len(shape))]
    name = f"adaptive_pool_{'max' if pool_type == 'max' else 'sum'}"
    reduced: Tensor = compute(shape, lambda *at: element(*at), name, name, varargs_names=names)
    if pool_type == "max":
        return reduced

    def average(*at: PrimExpr) -> PrimExpr:
        _, place = axes.parted(at)
        lengths = [
            k if _even(size, m) else _end(i, size, m) - _begin(i, size, m)
            for i, size, m, k in zip(place, sizes, counts, longest, strict=True)
        ]
        return (reduced(*at) / product(lengths).astype(wide)).astype(data.dtype)

    return stage(shape, average, "adaptive_pool_avg", "elemwise")


def _even(size: PrimExpr, count: int) -> bool:
    """Whether all windows have the same length."""
    known = static(size)
    return count == 1 or (known is not None and known % count == 0)


def _longest(size: PrimExpr, count: int) -> PrimExpr:
    known = static(size)
    if count == 1:
        return size
    if known is None:
        raise ValueError(f"a symbolic size {size} cannot be pooled to {count} elements")
    lengths = [-(-(i + 1) * known // count) - i * known // count for i in range(count)]
    return op.const(max(lengths, default=0), size.dtype)


def _begin(i: PrimExpr, size: PrimExpr, count: int) -> PrimExpr:
    return i * (size // count) if _even(size, count) else i * size // count


def _end(i: PrimExpr, size: PrimExpr, count: int) -> PrimExpr:
    return op.ceildiv((i + 1) * size, count)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The largest element or the mean of each channel; spatial axes stay with size one."""
    return adaptive_pool(data, 1, pool_type, layout)
