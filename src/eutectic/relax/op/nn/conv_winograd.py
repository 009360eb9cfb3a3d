"""relax.nn.conv2d_winograd, conv3d_winograd: convolutions of 3x3 windows from weights that are transformed already."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout, in_layouts_of_data_and_result
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.nn.conv_reference import pad_spatial
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import at_least, differ, dims_text, paddings, size_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import SpecialValues
from eutectic.tir.data_layout import layout
from eutectic.topi.nn.winograd import NOT_FINITE
from eutectic.topi.nn.winograd_transforms import PAIRS, TAPS, convolved_squares

_OPS: Final = {
    rank: define_op(f"relax.nn.conv{rank}d_winograd", arity=2, fusion="out_fusible", traits=["generated"])
    for rank in (2, 3)
}
WINOGRAD: Final = frozenset(op.op for op in _OPS.values())
"""The operators."""
_AXES: Final = {2: "(m + 2, m + 2, o / b, c / v, v, b)", 3: "(m + 2, m + 2, o / b, k, c / v, v, b)"}


@node("relax.attrs.ConvWinogradAttrs")
class ConvWinogradAttrs(Attrs):
    """Options of a convolution by Winograd's method.

    Attributes:
        padding: Zeros before each spatial axis, then after each.
        data_layout: Order of the axes of the data, whose channels may be in blocks.
        out_layout: Order of the axes of the result.
    """

    padding: tuple[int, ...]
    data_layout: str
    out_layout: str


def conv2d_winograd(
    data: Expr,
    weight: Expr,
    padding: int | Sequence[int] = (0, 0),
    data_layout: str = "NCHW",
    out_layout: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Cross-correlation of 3x3 windows at every point, from transformed weights.

    Args:
        data: `(n, c, h, w)` in `data_layout`; float32 or float64.
        weight: `(m + 2, m + 2, o / b, c / v, v, b)`, same dtype: for each value of the transformed window the factors
            of blocks of channels (`eutectic.topi.nn.winograd_transforms.packed_weights`). `m`, the outputs of a tile
            along an axis, is 2 or 4; `v` divides `b`.
        padding: Zeros around: one value, (height, width), or (top, left, bottom, right).
        data_layout: `NCHW`, `NHWC`, or channels in blocks of `v`, such as `NCHW16c`.
        out_layout: Likewise; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, h + top + bottom - 2, w + left + right - 2)` in `out_layout`.

    Raises:
        TypeInferenceError: ranks, dtypes, channels, tiles or blocks disagree, or no window fits.

    Accuracy: see `eutectic.topi.nn.conv2d_winograd`.
    Reference: A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", CVPR 2016; TVM
    relay.nn.contrib_conv2d_winograd_without_weight_transform, whose weights are not in blocks.
    """
    return _call(2, data, weight, (padding, data_layout, out_layout), span)


def conv3d_winograd(
    data: Expr,
    weight: Expr,
    padding: int | Sequence[int] = (0, 0, 0),
    data_layout: str = "NCDHW",
    out_layout: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Cross-correlation of windows of `k` slices of 3x3 at every point, from transformed weights.

    Args:
        data: `(n, c, d, h, w)` in `data_layout`; float32 or float64.
        weight: `(m + 2, m + 2, o / b, k, c / v, v, b)`, same dtype: those of `conv2d_winograd` for each slice.
        padding: Zeros around: one value, one per axis, or all before and then all after.
        data_layout: `NCDHW`, `NDHWC`, or channels in blocks of `v`, such as `NCDHW16c`.
        out_layout: Likewise; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, d + front + back - k + 1, h + top + bottom - 2, w + left + right - 2)` in `out_layout`.

    Raises:
        TypeInferenceError: ranks, dtypes, channels, tiles or blocks disagree, or no window fits.

    Accuracy: see `eutectic.topi.nn.conv2d_winograd`.
    Reference: as for `conv2d_winograd`, of each slice.
    """
    return _call(3, data, weight, (padding, data_layout, out_layout), span)


def _call(rank: int, data: Expr, weight: Expr, options: tuple[Any, str, str | None], span: Any) -> Call:
    padding, data_layout, out_layout = options
    canonical = f"NC{SPATIAL[rank]}"
    attrs = ConvWinogradAttrs(
        paddings(padding, rank),
        check_layout(data_layout, canonical, "data_layout", blocked=True),
        check_layout(out_layout or data_layout, canonical, "out_layout", blocked=True),
    )
    return call(_OPS[rank], data, weight, attrs=attrs, span=span)


def _infer(c: Call) -> TensorStructInfo:
    data, weight = tensor_args(c)
    attrs = attrs_of(c, ConvWinogradAttrs)
    spatial = len(attrs.padding) // 2
    canonical, last = f"NC{SPATIAL[spatial]}", f"N{SPATIAL[spatial]}C"
    for info in (data, weight):
        if info.dtype not in ("", "float32", "float64") or info.dtype != data.dtype:
            refuse(c, f"{short_name(c)} of {data.dtype} data with {weight.dtype} weights: both are float32 or float64")
    rank = layout(attrs.out_layout).ndim
    if data.dims is None or weight.dims is None:
        return tensor_info(None, data.dtype, rank)
    sizes = [static(size) or 0 for size in weight.dims]
    fits = len(sizes) == spatial + 4 and sizes[0] == sizes[1] and sizes[0] - TAPS + 1 in PAIRS
    if not fits or sizes[-1] % max(sizes[-2], 1):
        refuse(c, f"{short_name(c)} needs weights {_AXES[spatial]} with m 2 or 4, got {dims_text(weight.dims)}")
    _, _, filters, *window, depth, lanes, panel = sizes
    blocks = {name: layout(name).factor_of("C") for name in (attrs.data_layout, attrs.out_layout)}
    for name, count in blocks.items():
        if (name not in (canonical, last) and name != f"{canonical}{count}c") or count not in (1, lanes):
            refuse(c, f"{short_name(c)} in layout {name} with weights for {lanes} channels at a time")
    if len(data.dims) != layout(attrs.data_layout).ndim:
        refuse(c, f"{short_name(c)} needs data with the axes of {attrs.data_layout}, got {dims_text(data.dims)}")
    n, channels, *space = arrange_dims(data.dims, attrs.data_layout, canonical)
    if differ(channels, as_prim(depth * lanes, channels.dtype)):
        refuse(c, f"{short_name(c)} of {size_text(channels)} channels with weights for {depth * lanes}")
    out = []
    for axis, (size, taps) in enumerate(zip(space, (*window, TAPS, TAPS), strict=True)):
        extent = size + (attrs.padding[axis] + attrs.padding[axis + spatial] - taps + 1)
        what = f"no window of {taps} fits {size_text(size)}; the size"
        out.append(at_least(c, extent, 1, what, "pad the data"))
    dims = (n, as_prim(filters * panel, "int64"), *out)
    return tensor_info(arrange_dims(dims, canonical, attrs.out_layout), data.dtype)


def _work(c: Call) -> float:
    """What the convolution is worth, as a sum of products: others count that, too."""
    info, weight = c.struct_info, c.args[1].struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(weight, TensorStructInfo) or info.dims is None:
        return inf
    sizes = [static(size) for size in (*info.dims, *(weight.dims or (None,))[3:-1])]
    total = 2.0 * TAPS * TAPS
    for size in sizes:
        total *= inf if size is None else size
    return total


def _reference(attrs: ConvWinogradAttrs, data: Array, weight: Array) -> Array:
    rank = len(attrs.padding) // 2
    canonical = f"NC{SPATIAL[rank]}"
    x = pad_spatial(arrange(data, attrs.data_layout, canonical), attrs.padding, 0)
    out = _of_images(x, weight) if rank == 2 else _of_volumes(x, weight)
    if not np.isfinite(out).all():
        raise SpecialValues(NOT_FINITE)
    return arrange(out.astype(data.dtype, copy=False), canonical, attrs.out_layout)


def _of_volumes(x: Array, weight: Array) -> Array:
    """Each slice of the result as an image, whose channels are those of all slices of a window."""
    window = weight.shape[3]
    factors = weight.reshape(*weight.shape[:3], -1, *weight.shape[5:])
    slices = []
    for first in range(x.shape[2] - window + 1):
        seen = np.moveaxis(x[:, :, first : first + window], 2, 1)
        slices.append(_of_images(seen.reshape(x.shape[0], -1, *x.shape[3:]), factors))
    return np.stack(slices, 2)


def _of_images(x: Array, weight: Array) -> Array:
    tile = weight.shape[0] - TAPS + 1
    height, width = (size - TAPS + 1 for size in x.shape[2:])
    down, right = -(-height // tile), -(-width // tile)
    x = pad_spatial(x, (0, 0, down * tile - height, right * tile - width), 0)
    side = tile + TAPS - 1
    squares = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))[:, :, ::tile, ::tile]
    factors = weight.transpose(0, 1, 2, 5, 3, 4).reshape(side, side, -1, x.shape[1])
    tiles = convolved_squares(squares.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1], side, side), factors, tile)
    laid_out = tiles.reshape(x.shape[0], down, right, -1, tile, tile).transpose(0, 3, 1, 4, 2, 5)
    out: Array = laid_out.reshape(x.shape[0], -1, down * tile, right * tile)
    return out[..., :height, :width]


def _options(attrs: ConvWinogradAttrs) -> dict[str, Any]:
    return {name: getattr(attrs, name) for name in ("padding", "data_layout", "out_layout")}


for _rank, _op in _OPS.items():
    _op.infer(_infer)
    _op.work(_work)
    _op.reference(_reference)
    _op.in_layouts(in_layouts_of_data_and_result)
    lower(_op, getattr(topi.nn, f"conv{_rank}d_winograd"), options=_options, name=f"conv{_rank}d_winograd")
