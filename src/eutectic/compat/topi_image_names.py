"""`tvm.topi.image`: resizing with TVM's arguments, and what reads images along grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, max, reduce_axis
from eutectic.topi import expand_dims as _expand_dims
from eutectic.topi import squeeze as _squeeze
from eutectic.topi.image import resize2d as _resize2d
from eutectic.topi.nn import pad as _pad
from eutectic.topi.nn.windows import paddings as _paddings
from eutectic.topi.nn.windows import per_axis as _per_axis
from eutectic.topi.shapes import stage as _stage


def resize2d(
    data: Tensor,
    roi: Any,
    size: Sequence[Any],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float | None = None,
    bicubic_exclude: int | None = None,
    extrapolation_value: float | None = None,
    out_dtype: str | None = None,
    output_shape: Any = None,
) -> Tensor:
    """An image under another height and width; see `eutectic.topi.image.resize2d`.

    `roi`, the bicubic arguments and `extrapolation_value` belong to methods that are not here, and are not looked at.

    Raises:
        ValueError: the method is cubic, the coordinates are those of `tf_crop_and_resize`, or another argument is
            unknown.
    """
    sizes = size if output_shape is None else output_shape[-2:] if layout == "NCHW" else output_shape[1:3]
    mode = coordinate_transformation_mode
    return _resize2d(data, sizes, layout, method, mode, rounding_method or "round", out_dtype)


def resize1d(
    data: Tensor,
    roi: Any,
    size: Sequence[Any],
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float | None = None,
    bicubic_exclude: int | None = None,
    extrapolation_value: float | None = None,
    out_dtype: str | None = None,
    output_shape: Any = None,
) -> Tensor:
    """A line under another length: `resize2d` of an image that is one pixel high."""
    sizes = size if output_shape is None else output_shape[layout.index("W") :][:1]
    place = layout.index("W")
    wide = _expand_dims(data, place)
    image = layout.replace("W", "HW")
    mode, rounding = coordinate_transformation_mode, rounding_method or "round"
    return _squeeze(_resize2d(wide, (1, *sizes), image, method, mode, rounding, out_dtype), place)


def affine_grid(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """Coordinates of the pixels of an image, from -1 to 1, under affine maps.

    Args:
        data: `(n, 2, 3)`, the maps.
        target_shape: Height and width.

    Returns:
        `(n, 2, height, width)`, x and y.
    """
    height, width = (int(size) for size in target_shape)

    def element(n: PrimExpr, part: PrimExpr, row: PrimExpr, column: PrimExpr) -> PrimExpr:
        x = column.astype(data.dtype) * (2.0 / (width - 1)) - 1.0
        y = row.astype(data.dtype) * (2.0 / (height - 1)) - 1.0
        return data(n, part, 0) * x + data(n, part, 1) * y + data(n, part, 2)

    return _stage((data.shape[0], 2, height, width), element, "affine_grid", "affine_grid")


def dilation2d_nchw(
    input: Tensor, filter: Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: str | None = None
) -> Tensor:
    """Of each window the largest sum of an element and the filter's: `(channels, h, w)`."""
    return _dilated(input, filter, stride, padding, dilations, out_dtype, "NCHW")


def dilation2d_nhwc(
    input: Tensor, filter: Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: str | None = None
) -> Tensor:
    """The same of NHWC data with filters `(h, w, channels)`."""
    return _dilated(input, filter, stride, padding, dilations, out_dtype, "NHWC")


def _dilated(
    data: Tensor, weight: Tensor, stride: Any, padding: Any, dilations: Any, dtype: str | None, layout: str
) -> Tensor:
    rows, columns = layout.index("H"), layout.index("W")
    steps, apart = _per_axis(stride, 2, "stride"), _per_axis(dilations, 2, "dilations")
    before, after = _paddings(padding, 2)
    first, last = ([ends[a == columns] if a in (rows, columns) else 0 for a in range(4)] for ends in (before, after))
    whole = _pad(data, first, last, float("-inf"))
    kernel = [weight.shape[layout.replace("N", "").index(letter)] for letter in "HW"]
    taps = [reduce_axis((0, size), name) for size, name in zip(kernel, ("ry", "rx"), strict=True)]
    shape = [*data.shape]
    for axis, size, step, gap in zip((rows, columns), kernel, steps, apart, strict=True):
        shape[axis] = (whole.shape[axis] - (size - 1) * gap - 1) // step + 1

    def element(*at: PrimExpr) -> Any:
        place: list[Any] = list(at)
        for axis, tap, step, gap in zip((rows, columns), taps, steps, apart, strict=True):
            place[axis] = at[axis] * step + tap * gap
        channel = at[layout.index("C")]
        filter_at = [channel, *taps] if layout == "NCHW" else [*taps, channel]
        return max((whole(*place) + weight(*filter_at)).astype(dtype or data.dtype), taps)

    tensor: Tensor = compute(shape, lambda *at: element(*at), "dilation2d", varargs_names=list(layout.lower()))
    return tensor
