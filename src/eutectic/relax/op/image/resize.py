"""relax.image.resize2d: an image under another height and width, by nearest element or linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, item_bytes
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr, ShapeStructInfo, as_shape
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.layout import arrange, arrange_dims, check_layout, in_the_layout_of_the_result
from eutectic.relax.op.lowering import result_dtype
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.separable import only_first
from eutectic.relax.op.shapes import dims_text, dtype_option, reject, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.topi.image.resize import COORDINATES, ROUNDINGS, coordinates

_resize = define_op("relax.image.resize2d", arity=2, fusion="injective")

_WIDE_BYTES: Final = 4  # of a float that interpolation is done in
_HEIGHT, _WIDTH = 0, 1
METHODS: Final = ("nearest_neighbor", "linear")


@node("relax.attrs.Resize2DAttrs")
class Resize2DAttrs(Attrs):
    """Options of resize2d; see its constructor."""

    roi: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = "round"
    cubic_alpha: float = -0.75
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str = "void"


def resize2d(
    data: Expr,
    size: int | PrimExpr | Sequence[int | PrimExpr] | Expr,
    roi: Sequence[float] | None = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """An image under another height and width.

    Args:
        data: `(n, c, h, w)` in `layout`; numbers, for `linear` floats.
        size: New height and width, or one value for both.
        roi: Accepted as TVM does; cropping is not supported and it must be zeros.
        layout: Order of the axes; channels may be in blocks, such as `NCHW16c`.
        method: `nearest_neighbor` or `linear`.
        coordinate_transformation_mode: Where element i of m lies among n: `half_pixel`
            `(i + 0.5) * n / m - 0.5`, `align_corners` `i * (n - 1) / (m - 1)`, `asymmetric` `i * n / m`.
        rounding_method: For `nearest_neighbor`: `round` (halves down), `round_prefer_floor`,
            `round_prefer_ceil`, `floor` or `ceil`.
        cubic_alpha: Without effect; cubic interpolation is not supported.
        cubic_exclude: Without effect.
        extrapolation_value: Without effect, as nothing lies outside.
        out_dtype: Dtype of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, c, *size)` in `layout`.

    Raises:
        TypeInferenceError: another rank, an unknown method or mode, or integers with `linear`.

    Accuracy: interpolation and its coordinates in no less than float32; the nearest element by coordinates in float32
    whatever the dtype, as torch takes it.
    Reference: TVM relax.image.resize2d; torch.nn.functional.interpolate.
    """
    shape = as_shape((size, size) if isinstance(size, (int, PrimExpr)) else size)
    choices = ((method, METHODS), (coordinate_transformation_mode, COORDINATES), (rounding_method, tuple(ROUNDINGS)))
    for choice, known in choices:
        if choice not in known:
            reject(f"resize2d does not know {choice!r}", help=f"choose one of {', '.join(known)}")
    if any(roi or ()):
        reject(f"resize2d with a region of interest {list(roi or ())}", help="crop with strided_slice first")
    attrs = Resize2DAttrs(
        tuple(float(x) for x in roi or (0, 0, 0, 0)),
        check_layout(layout, "NCHW", "layout", blocked=True),
        method,
        coordinate_transformation_mode,
        rounding_method,
        float(cubic_alpha),
        int(cubic_exclude),
        float(extrapolation_value),
        dtype_option(out_dtype),
    )
    return call(_resize, data, shape, attrs=attrs, span=span)


_resize.in_layouts(in_the_layout_of_the_result)
_resize.separable(only_first)


@_resize.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c, (0,))
    attrs, size = attrs_of(c, Resize2DAttrs), c.args[1].struct_info
    check_ranks(c, (info,), (attrs.layout,))
    if not isinstance(size, ShapeStructInfo) or size.ndim not in (-1, 2):
        refuse(c, "the size of resize2d must be a shape of two values", help="pass (height, width)")
    if attrs.method == "linear" and info.dtype and not is_float(info.dtype):
        refuse(c, f"resize2d with method linear needs a float dtype, got {info.dtype}", help="cast with astype first")
    dtype = info.dtype if attrs.out_dtype == "void" else attrs.out_dtype
    if info.dims is None or size.values is None:
        return tensor_info(None, dtype, 4)
    n, channels, *space = arrange_dims(info.dims, attrs.layout, "NCHW")
    if any(static(value) == 0 for value in (*space, *size.values)):
        refuse(c, f"resize2d of {dims_text(info.dims)} to {dims_text(size.values)}: a size is zero")
    return tensor_info(arrange_dims((n, channels, *size.values), "NCHW", attrs.layout), dtype)


def _resampled(attrs: Resize2DAttrs, x: Array, axis: int, count: int) -> Array:
    size = x.shape[axis]
    is_nearest = attrs.method == "nearest_neighbor"
    mode = attrs.coordinate_transformation_mode
    at = coordinates(mode, size, count, np.float32 if is_nearest else x.dtype)
    if is_nearest:
        places = np.clip(ROUNDINGS[attrs.rounding_method](at), 0, size - 1).astype(np.intp)
        return np.asarray(np.take(x, places, axis=axis))
    at = np.maximum(at, 0)
    low = np.minimum(np.floor(at), size - 1).astype(np.intp)
    high = low if count == size else np.minimum(low + 1, size - 1)
    spread = [1] * x.ndim
    spread[axis] = count
    weight = np.minimum(at - low, 1).astype(x.dtype).reshape(spread)
    return np.asarray(np.take(x, low, axis=axis) * (1 - weight) + np.take(x, high, axis=axis) * weight)


@_resize.reference
def _reference(attrs: Resize2DAttrs, data: Array, size: tuple[int, ...]) -> Array:
    dtype = dtype_of(data) if attrs.out_dtype == "void" else attrs.out_dtype
    x = arrange(data, attrs.layout, "NCHW")
    x = widen(x) if attrs.method == "linear" else x
    for axis, count in zip((2, 3), size, strict=True):
        x = _resampled(attrs, x, axis, count)
    return cast(arrange(x, "NCHW", attrs.layout), dtype)


@_resize.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    attrs, size = attrs_of(c, Resize2DAttrs), c.args[1].struct_info
    if not isinstance(size, ShapeStructInfo) or size.values is None:
        return c
    data, dtype, whole = c.args[0], result_dtype(c), list(size.values)
    options = (attrs.layout, attrs.method, attrs.coordinate_transformation_mode, attrs.rounding_method)
    columns = _columns_first(attrs, data.struct_info, whole)
    if columns is None:
        return builder.call_te(topi.image.resize2d, data, whole, *options, dtype)
    wide = "float32" if item_bytes(dtype) < _WIDE_BYTES else dtype
    between = builder.call_te(topi.image.resize2d, data, columns, *options, wide, [_HEIGHT])
    return builder.call_te(topi.image.resize2d, between, whole, *options, dtype, [_WIDTH])


def _columns_first(attrs: Resize2DAttrs, info: Any, size: Sequence[PrimExpr]) -> list[PrimExpr] | None:
    """The old height and the new width, where it is less work to have columns first, and rows of them then.

    Neighbours along a row come from places that only a running program knows, one by one; rows come whole.
    """
    assert isinstance(info, TensorStructInfo)
    if attrs.method != "linear" or not attrs.layout.endswith("W") or info.dims is None:
        return None
    *_, height, width = arrange_dims(info.dims, attrs.layout, "NCHW")
    old, new = (static(height), static(width)), (static(size[0]), static(size[1]))
    if old[0] is None or new[0] is None or old[1] == new[1] or old[0] >= new[0]:
        return None
    return [height, size[1]]
