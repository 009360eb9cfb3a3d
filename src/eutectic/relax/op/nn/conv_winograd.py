"""relax.nn.conv2d_winograd: convolutions of 3x3 windows from weights that are transformed already."""

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
from eutectic.relax.op.layout import arrange, arrange_dims, check_layout, in_layouts_of_data_and_result
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

_WINOGRAD: Final = define_op("relax.nn.conv2d_winograd", arity=2, fusion="out_fusible", traits=["generated"])
WINOGRAD: Final = _WINOGRAD.op
"""The operator."""
_AXES: Final = "(m + 2, m + 2, o / b, c / v, v, b)"


@node("relax.attrs.Conv2DWinogradAttrs")
class Conv2DWinogradAttrs(Attrs):
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
    attrs = Conv2DWinogradAttrs(
        paddings(padding, 2),
        check_layout(data_layout, "NCHW", "data_layout", blocked=True),
        check_layout(out_layout or data_layout, "NCHW", "out_layout", blocked=True),
    )
    return call(_WINOGRAD, data, weight, attrs=attrs, span=span)


@_WINOGRAD.infer
def _infer(c: Call) -> TensorStructInfo:
    data, weight = tensor_args(c)
    attrs = attrs_of(c, Conv2DWinogradAttrs)
    for info in (data, weight):
        if info.dtype not in ("", "float32", "float64") or info.dtype != data.dtype:
            refuse(c, f"{short_name(c)} of {data.dtype} data with {weight.dtype} weights: both are float32 or float64")
    rank = layout(attrs.out_layout).ndim
    if data.dims is None or weight.dims is None:
        return tensor_info(None, data.dtype, rank)
    sizes = [static(size) or 0 for size in weight.dims]
    if len(sizes) != 6 or sizes[0] != sizes[1] or sizes[0] - TAPS + 1 not in PAIRS or sizes[5] % max(sizes[4], 1):
        refuse(c, f"{short_name(c)} needs weights {_AXES} with m 2 or 4, got {dims_text(weight.dims)}")
    blocks = {name: layout(name).factor_of("C") for name in (attrs.data_layout, attrs.out_layout)}
    for name, count in blocks.items():
        if (name not in ("NCHW", "NHWC") and name != f"NCHW{count}c") or count not in (1, sizes[4]):
            refuse(c, f"{short_name(c)} in layout {name} with weights for {sizes[4]} channels at a time")
    if len(data.dims) != layout(attrs.data_layout).ndim:
        refuse(c, f"{short_name(c)} needs data with the axes of {attrs.data_layout}, got {dims_text(data.dims)}")
    n, channels, *space = arrange_dims(data.dims, attrs.data_layout, "NCHW")
    if differ(channels, as_prim(sizes[3] * sizes[4], channels.dtype)):
        refuse(c, f"{short_name(c)} of {size_text(channels)} channels with weights for {sizes[3] * sizes[4]}")
    out = []
    for axis, size in enumerate(space):
        extent = size + (attrs.padding[axis] + attrs.padding[axis + 2] - TAPS + 1)
        what = f"no window of {TAPS} fits {size_text(size)}; the size"
        out.append(at_least(c, extent, 1, what, "pad the data"))
    return tensor_info(
        arrange_dims((n, as_prim(sizes[2] * sizes[5], "int64"), *out), "NCHW", attrs.out_layout), data.dtype
    )


@_WINOGRAD.work
def _work(c: Call) -> float:
    """What the convolution is worth, as a sum of products: others count that, too."""
    info, weight = c.struct_info, c.args[1].struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(weight, TensorStructInfo) or info.dims is None:
        return inf
    sizes = [static(size) for size in (*info.dims, *(weight.dims or (None,))[3:5])]
    total = 2.0 * TAPS * TAPS
    for size in sizes:
        total *= inf if size is None else size
    return total


@_WINOGRAD.reference
def _reference(attrs: Conv2DWinogradAttrs, data: Array, weight: Array) -> Array:
    tile = weight.shape[0] - TAPS + 1
    x = pad_spatial(arrange(data, attrs.data_layout, "NCHW"), attrs.padding, 0)
    height, width = (size - TAPS + 1 for size in x.shape[2:])
    down, right = -(-height // tile), -(-width // tile)
    x = pad_spatial(x, (0, 0, down * tile - height, right * tile - width), 0)
    side = tile + TAPS - 1
    squares = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))[:, :, ::tile, ::tile]
    factors = weight.transpose(0, 1, 2, 5, 3, 4).reshape(side, side, -1, x.shape[1])
    tiles = convolved_squares(squares.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1], side, side), factors, tile)
    laid_out = tiles.reshape(x.shape[0], down, right, -1, tile, tile).transpose(0, 3, 1, 4, 2, 5)
    out = laid_out.reshape(x.shape[0], -1, down * tile, right * tile)
    if not np.isfinite(out[..., :height, :width]).all():
        raise SpecialValues(NOT_FINITE)
    return arrange(out[..., :height, :width].astype(data.dtype, copy=False), "NCHW", attrs.out_layout)


_WINOGRAD.in_layouts(in_layouts_of_data_and_result)


def _options(attrs: Conv2DWinogradAttrs) -> dict[str, Any]:
    return {name: getattr(attrs, name) for name in ("padding", "data_layout", "out_layout")}


lower(
    _WINOGRAD,
    lambda data, weight, **options: topi.nn.conv2d_winograd(data, weight, **options),
    options=_options,
    name="conv2d_winograd",
)
