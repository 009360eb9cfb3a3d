"""relax.image.grid_sample: images read at the places of a grid."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.layout import arrange, arrange_dims, check_layout, in_the_layout_of_the_result
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import differ, dims_text, reject, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.topi.image.grid_sample import PADDINGS, SHARPNESS, TAPS

_SAMPLE: Final = define_op("relax.image.grid_sample", arity=2, fusion="out_fusible")

_OUT_FUSIBLE: Final = 4  # as `AnnotateTIROpPattern` has it


@node("relax.attrs.GridSampleAttrs")
class GridSampleAttrs(Attrs):
    """Options of grid_sample.

    Attributes:
        method: How elements around a place are put together.
        layout: Order of the axes of the data and the result, whose channels may be in blocks.
        padding_mode: What lies outside of an image.
        align_corners: Whether -1 and 1 are the middles of the outermost elements.
    """

    method: str
    layout: str
    padding_mode: str
    align_corners: bool


def grid_sample(
    data: Expr,
    grid: Expr,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    *,
    span: Any = None,
) -> Call:
    """Images read at coordinates from -1 to 1.

    Args:
        data: `(n, c, h, w)` in `layout`; a float dtype.
        grid: `(n, 2, p, q)`, columns and rows from -1 to 1; same dtype.
        method: `bilinear`, `nearest` (halves to even) or `bicubic`.
        layout: Order of the axes; channels may be in blocks, such as `NCHW16c`.
        padding_mode: What lies outside: `zeros`, the nearest element (`border`), or the mirrored image (`reflection`).
        align_corners: Whether -1 and 1 are the middles of the outermost elements, or their outer edges.
        span: Python source of the call, for errors.

    Returns:
        `(n, c, p, q)` in `layout`.

    Raises:
        TypeInferenceError: another rank, dtype or number of images, no two coordinates, or an unknown option.

    A place that is NaN is 0 where places are clipped, and outside where they are not; the weights of linear and cubic
    interpolation are NaN there.

    Accuracy: places, weights and sums in no less than float32.
    Reference: torch.nn.functional.grid_sample; TVM relax.image.grid_sample.
    """
    for choice, known in ((method, TAPS), (padding_mode, PADDINGS)):
        if choice not in known:
            reject(f"grid_sample does not know {choice!r}", help=f"choose one of {', '.join(known)}")
    attrs = GridSampleAttrs(
        method, check_layout(layout, "NCHW", "layout", blocked=True), padding_mode, bool(align_corners)
    )
    return call(_SAMPLE, data, grid, attrs=attrs, span=span)


_SAMPLE.in_layouts(in_the_layout_of_the_result)


@_SAMPLE.infer
def _infer(c: Call) -> TensorStructInfo:
    (data, grid), attrs = tensor_args(c), attrs_of(c, GridSampleAttrs)
    check_ranks(c, (data, grid), (attrs.layout, "NCHW"))
    if any(info.dtype and not is_float(info.dtype) for info in (data, grid)):
        refuse(c, f"{short_name(c)} of {data.dtype} at {grid.dtype}: both are floats", help="cast with astype first")
    if data.dtype and grid.dtype and data.dtype != grid.dtype:
        refuse(
            c, f"{short_name(c)} of {data.dtype} at {grid.dtype}: both have one dtype", help="cast with astype first"
        )
    if data.dims is None or grid.dims is None:
        return tensor_info(None, data.dtype, data.ndim)
    n, channels, *_ = arrange_dims(data.dims, attrs.layout, "NCHW")
    if differ(grid.dims[1], as_prim(2)) or differ(n, grid.dims[0]):
        refuse(
            c,
            f"{short_name(c)} of {dims_text(data.dims)} at {dims_text(grid.dims)}: a grid is (n, 2, rows, columns)",
            help="bring the coordinates to the second axis with permute_dims",
        )
    return tensor_info(arrange_dims((n, channels, *grid.dims[2:]), "NCHW", attrs.layout), data.dtype)


@_SAMPLE.reference
def _reference(attrs: GridSampleAttrs, data: Array, grid: Array) -> Array:
    image, at = widen(arrange(data, attrs.layout, "NCHW")), widen(grid)
    columns, rows = (_taps(at[:, number], image.shape[3 - number], attrs) for number in range(2))
    each = np.arange(len(image))[:, None, None]
    total: Any = 0
    for row, below in rows:
        for column, right in columns:
            values = np.moveaxis(image[each, :, np.maximum(row, 0), np.maximum(column, 0)], -1, 1)
            is_outside = ((row < 0) | (column < 0))[:, None]
            total = total + np.where(is_outside, image.dtype.type(0), values) * (below * right)[:, None]
    return cast(arrange(np.ascontiguousarray(total), "NCHW", attrs.layout), dtype_of(data))


def _taps(coordinate: Array, size: int, attrs: GridSampleAttrs) -> list[tuple[Array, Array]]:
    """The indices of elements along an axis, -1 for zeros, and their weights."""
    first = 0.0 if attrs.align_corners else -0.5
    extent = size - 1 if attrs.align_corners else size
    at = (coordinate + 1) * coordinate.dtype.type(extent / 2) + coordinate.dtype.type(first)
    if attrs.method == "nearest":
        return [(_whole(np.rint(_clipped(at, size, first, extent, attrs)), size, attrs), np.ones_like(at))]
    if attrs.method == "bicubic":
        low = np.floor(at)
        places = (_clipped(low + offset, size, first, extent, attrs) for offset in range(-1, 3))
        weights = (_cubic(np.abs(at - low - offset), abs(offset - 0.5) < 1) for offset in range(-1, 3))
        return [(_whole(place, size, attrs), weight) for place, weight in zip(places, weights, strict=True)]
    at = _clipped(at, size, first, extent, attrs)
    low = np.floor(at)
    second = low + 1 if attrs.padding_mode == "zeros" else np.minimum(low + 1, size - 1)
    return [(_whole(low, size, attrs), 1 - (at - low)), (_whole(second, size, attrs), at - low)]


def _clipped(at: Array, size: int, first: float, extent: int, attrs: GridSampleAttrs) -> Array:
    if attrs.padding_mode == "zeros":
        return at
    if attrs.padding_mode == "reflection":
        distance = np.abs(at - first)
        rest = distance - np.trunc(distance / (2 * extent)) * (2 * extent) if extent else np.zeros_like(at)
        at = np.minimum(rest, 2 * extent - rest) + at.dtype.type(first) if extent else rest
    return np.asarray(np.minimum(np.where(at > 0, at, at.dtype.type(0)), at.dtype.type(size - 1)))


def _whole(at: Array, size: int, attrs: GridSampleAttrs) -> Array:
    kept = np.where((at >= 0) & (at < size), at, -1) if attrs.padding_mode == "zeros" else at
    return np.asarray(kept.astype(np.int64))


def _cubic(distance: Array, is_near: bool) -> Array:
    a = distance.dtype.type(SHARPNESS)
    if is_near:
        return np.asarray(((a + 2) * distance - (a + 3)) * distance * distance + 1)
    return np.asarray(((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a)


@_SAMPLE.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    """What it reads at computed places is computed before, and once: a copy into another layout would be none."""
    options = dict(attrs_of(c, GridSampleAttrs).items())
    alone = {"op_pattern": _OUT_FUSIBLE}
    return builder.call_te(
        topi.image.grid_sample, *c.args, primfunc_name_hint="grid_sample", primfunc_attrs=alone, **options
    )
