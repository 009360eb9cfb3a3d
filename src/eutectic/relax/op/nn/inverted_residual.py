"""relax.nn.inverted_residual: a 1x1 convolution to more channels, windows in each of them, and a 1x1 convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import arrange, arrange_dims, check_layout, in_layouts_of_data_and_result
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.nn.conv_reference import convolve
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import at_least, dims_text, paddings, per_axis, size_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.tir.data_layout import layout

_INVERTED_RESIDUAL: Final = define_op(
    "relax.nn.inverted_residual", arity=(4, 6), fusion="out_fusible", traits=["generated"]
)
INVERTED_RESIDUAL: Final = _INVERTED_RESIDUAL.op
"""The operator."""
BOUNDS: Final = {"linear": (-inf, inf), "relu": (0.0, inf), "relu6": (0.0, 6.0)}
"""Least and largest value by activation."""


@node("relax.attrs.InvertedResidualAttrs")
class InvertedResidualAttrs(Attrs):
    """Options of an inverted residual.

    Attributes:
        filters: Output channels.
        strides: Of the windows, per spatial axis.
        padding: Zeros before each spatial axis, then after each.
        activation: What is done to expanded values, and to filtered ones: `linear`, `relu` or `relu6`.
        data_layout: Order of the axes of the data.
        out_layout: Order of the axes of the result.
    """

    filters: int
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    activation: str
    data_layout: str
    out_layout: str


def inverted_residual(
    data: Expr,
    window: Expr,
    window_bias: Expr,
    project: Expr,
    expand: Expr | None = None,
    expand_bias: Expr | None = None,
    *,
    filters: int,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    activation: str = "relu6",
    data_layout: str = "NCHW",
    out_layout: str | None = None,
    span: Any = None,
) -> Call:
    """Expand, filter each channel, project: what is between is not written to memory.

    A bias and a residual of the result are added by calls that follow.

    Args:
        data: `(n, c, h, w)` in `data_layout`; float32 or float64.
        window: `(e / v, kh, kw, v)`, same dtype, as all others: the window of each of `e` channels, in blocks.
        window_bias: `(e / v, v)`.
        project: `(panels, e / v, v, p)`; output channels beyond `filters` have factors of zero.
        expand: `(e / v, c, v)`; without it the channels of the data are filtered.
        expand_bias: `(e / v, v)`, given together with `expand`.
        filters: Output channels, at most `panels * p`.
        strides: Of the windows: one value, or (height, width).
        padding: Zeros around what is filtered: one value, (height, width), or (top, left, bottom, right).
        activation: What is done to expanded values, and to filtered ones: `linear`, `relu` or `relu6`.
        data_layout: `NCHW`, `NHWC`, or channels in blocks, such as `NCHW16c`.
        out_layout: `NCHW` or `NHWC`; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, filters, oh, ow)` in `out_layout`.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree, or no window fits.

    Accuracy: as three convolutions; the projection is summed in blocks of `v` terms. NaN stays NaN.
    Reference: M. Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018.
    """
    attrs = InvertedResidualAttrs(
        int(filters),
        per_axis(strides, 2, "strides"),
        paddings(padding, 2),
        activation,
        check_layout(data_layout, "NCHW", "data_layout", blocked=True),
        check_layout(out_layout or data_layout, "NCHW", "out_layout"),
    )
    first = [item for item in (expand, expand_bias) if item is not None]
    return call(_INVERTED_RESIDUAL, data, window, window_bias, project, *first, attrs=attrs, span=span)


@_INVERTED_RESIDUAL.infer
def _infer(c: Call) -> TensorStructInfo:
    infos = tensor_args(c)
    attrs = attrs_of(c, InvertedResidualAttrs)
    data, *weights = infos
    if attrs.activation not in BOUNDS:
        refuse(c, f"{short_name(c)} has no activation {attrs.activation!r}; there are {', '.join(BOUNDS)}")
    if len(infos) == 5:
        refuse(c, f"{short_name(c)} takes weights and a bias of its first convolution, or none of the two")
    if any(info.dtype not in ("", "float32", "float64") or info.dtype != data.dtype for info in infos):
        refuse(c, f"{short_name(c)} of {', '.join(info.dtype for info in infos)}: all are float32, or all float64")
    if data.dims is None or any(info.dims is None for info in weights):
        return tensor_info(None, data.dtype, 4)
    if not _fit(data.dims, [_sizes(info) for info in weights], attrs):
        listed = ", ".join(dims_text(info.dims) for info in infos if info.dims is not None)
        refuse(c, f"{short_name(c)} of {listed} to {attrs.filters} channels: the sizes do not go together")
    n, _, *space = arrange_dims(data.dims, attrs.data_layout, "NCHW")
    taps, out = _sizes(weights[0])[1:3], []
    for axis, size in enumerate(space):
        extent = (size + (attrs.padding[axis] + attrs.padding[axis + 2] - taps[axis])) // attrs.strides[axis] + 1
        what = f"no window of {taps[axis]} fits {size_text(size)}; the size"
        out.append(at_least(c, extent, 1, what, "pad the data"))
    return tensor_info(arrange_dims((n, as_prim(attrs.filters, "int64"), *out), "NCHW", attrs.out_layout), data.dtype)


def _sizes(info: TensorStructInfo) -> list[int]:
    """Sizes of a tensor of a known shape; zero for those that vary."""
    return [static(size) or 0 for size in info.dims or ()]


def _fit(dims: tuple[PrimExpr, ...], sizes: Sequence[Sequence[int]], attrs: InvertedResidualAttrs) -> bool:
    """Whether ranks, channels and blocks of the data and of all weights go together."""
    window, project = sizes[0], sizes[2]
    if len(dims) != layout(attrs.data_layout).ndim or len(window) != 4 or len(project) != 4:
        return False
    depth = static(arrange_dims(dims, attrs.data_layout, "NCHW")[1])
    blocks, *_, lanes = window
    expected = [window, [blocks, lanes], [project[0], blocks, lanes, project[3]]]
    if len(sizes) > 3:
        expected += [[blocks, depth or 0, lanes], [blocks, lanes]]
    reads = len(sizes) > 3 or depth == blocks * lanes
    return reads and [*map(list, sizes)] == expected and 0 < attrs.filters <= project[0] * project[3]


@_INVERTED_RESIDUAL.work
def _work(c: Call) -> float:
    """Products of the three convolutions."""
    attrs = attrs_of(c, InvertedResidualAttrs)
    infos = [item.struct_info for item in (c.args[0], c.args[1], c)]
    known = [info.dims for info in infos if isinstance(info, TensorStructInfo) and info.dims is not None]
    if len(known) != 3:
        return inf
    known[0] = tuple(arrange_dims(known[0], attrs.data_layout, "NCHW"))
    sizes = [[static(size) or inf for size in dims] for dims in known]
    (batch, channels, *space), (blocks, *taps, lanes), out = sizes
    wide = blocks * lanes
    first = 2.0 * channels * wide * batch * prod(space) if len(c.args) > 4 else 0.0
    return first + 2.0 * wide * prod(out) / attrs.filters * (prod(taps) + attrs.filters)


@_INVERTED_RESIDUAL.reference
def _reference(attrs: InvertedResidualAttrs, data: Array, window: Array, bias: Array, *rest: Array) -> Array:
    project, *first = rest
    lower, upper = BOUNDS[attrs.activation]
    x = arrange(data, attrs.data_layout, "NCHW")
    if first:
        weight = first[0].transpose(0, 2, 1).reshape(-1, x.shape[1], 1, 1)
        wide = convolve(x, weight, (1, 1), (0, 0, 0, 0), (1, 1), 1)
        x = np.clip(wide + first[1].reshape(1, -1, 1, 1), lower, upper).astype(data.dtype, copy=False)
    taps = window.transpose(0, 3, 1, 2).reshape(-1, 1, *window.shape[1:3])
    x = convolve(x, taps, attrs.strides, attrs.padding, (1, 1), x.shape[1])
    x = np.clip(x + bias.reshape(1, -1, 1, 1), lower, upper).astype(data.dtype, copy=False)
    last = project.transpose(0, 3, 1, 2).reshape(-1, x.shape[1], 1, 1)[: attrs.filters]
    out = convolve(x, last, (1, 1), (0, 0, 0, 0), (1, 1), 1).astype(data.dtype, copy=False)
    return arrange(out, "NCHW", attrs.out_layout)


_INVERTED_RESIDUAL.in_layouts(in_layouts_of_data_and_result)


def _options(attrs: InvertedResidualAttrs) -> dict[str, Any]:
    lower, upper = BOUNDS[attrs.activation]
    names = ("filters", "strides", "padding", "data_layout", "out_layout")
    return {"lower": lower, "upper": upper, **{name: getattr(attrs, name) for name in names}}


lower(
    _INVERTED_RESIDUAL,
    lambda *args, **options: topi.nn.inverted_residual(*args, **options),
    options=_options,
    name="inverted_residual",
)
