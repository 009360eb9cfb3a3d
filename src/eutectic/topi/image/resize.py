"""resize2d: an image under another height and width, by nearest element or linear interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.te import Tensor
from eutectic.te.tensor import sizes_of
from eutectic.tir import op
from eutectic.topi.nn.windows import arranged
from eutectic.topi.shapes import stage, static
from eutectic.topi.special_values import accumulator, convert

_NEAREST: Final[dict[str, Callable[[PrimExpr], PrimExpr]]] = {
    "round": lambda x: op.ceil(x - 0.5),
    "round_prefer_floor": lambda x: op.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: op.floor(x + 0.5),
    "floor": op.floor,
    "ceil": op.ceil,
}


def resize2d(
    data: Tensor,
    size: Sequence[PrimExpr | int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    out_dtype: str | None = None,
) -> Tensor:
    """An image under another height and width.

    Args:
        data: The axes of `layout`.
        size: New height and width.
        layout: Order of the axes.
        method: `nearest_neighbor` or `linear`.
        coordinate_transformation_mode: Where element i of m lies among n: `half_pixel`
            `(i + 0.5) * n / m - 0.5`, `align_corners` `i * (n - 1) / (m - 1)`, `asymmetric` `i * n / m`.
        rounding_method: For `nearest_neighbor`: `round`, `round_prefer_floor`, `round_prefer_ceil`, `floor`, `ceil`.
        out_dtype: Dtype of the result; None takes that of `data`.

    Returns:
        The axes of `layout` with the new sizes; one stage `resize`.

    Raises:
        ValueError: an unknown layout, method, mode or rounding.

    Accuracy: interpolation and its coordinates in no less than float32, first over rows, then over columns; the nearest
    element by coordinates in float32 whatever the dtype, as torch takes it.
    Reference: TVM topi.image.resize2d; torch.nn.functional.interpolate.
    """
    if method not in ("nearest_neighbor", "linear") or rounding_method not in _NEAREST:
        raise ValueError(f"resize2d does not know {method!r} with {rounding_method!r}")
    n, channels, *old = arranged(data.shape, layout, "NCHW")
    new = sizes_of(size)
    dtype = out_dtype or data.dtype

    def at_place(image: PrimExpr, channel: PrimExpr, row: PrimExpr, column: PrimExpr) -> PrimExpr:
        element: PrimExpr = data(*arranged([image, channel, row, column], "NCHW", layout))
        return element

    def nearest(image: PrimExpr, channel: PrimExpr, *place: PrimExpr) -> PrimExpr:
        indices = []
        for i, before, after in zip(place, old, new, strict=True):
            at = _NEAREST[rounding_method](_coordinate(coordinate_transformation_mode, i, before, after, "float32"))
            indices.append(op.max(op.min(at.astype(i.dtype), before - 1), 0))
        return at_place(image, channel, *indices)

    def linear(image: PrimExpr, channel: PrimExpr, *place: PrimExpr) -> PrimExpr:
        wide = accumulator(data.dtype)
        ends, weights = [], []
        for i, before, after in zip(place, old, new, strict=True):
            at = _coordinate(coordinate_transformation_mode, i, before, after, wide)
            at = op.max(op.min(at, (before - 1).astype(wide)), as_prim(0.0, wide))
            low = op.floor(at).astype(i.dtype)
            ends.append((low, op.min(low + 1, before - 1)))
            weights.append(at - low.astype(wide))

        def column(at: PrimExpr) -> PrimExpr:
            upper, lower = (at_place(image, channel, row, at).astype(wide) for row in ends[0])
            return upper * (1.0 - weights[0]) + lower * weights[0]

        return column(ends[1][0]) * (1.0 - weights[1]) + column(ends[1][1]) * weights[1]

    value: Callable[..., Any] = nearest if method == "nearest_neighbor" else linear
    shape = arranged([n, channels, *new], "NCHW", layout)
    return stage(shape, lambda *at: convert(value(*arranged(at, layout, "NCHW")), dtype), "resize", "injective")


def _coordinate(mode: str, i: PrimExpr, before: PrimExpr, after: PrimExpr, dtype: str) -> PrimExpr:
    """Where element `i` of `after` lies among `before` elements, computed in a dtype."""
    place = i.astype(dtype)
    if mode == "align_corners":
        known = static(after)
        if known is not None and known <= 1:
            return as_prim(0.0, dtype)
        return place * _ratio(before - 1, op.max(after - 1, 1), dtype)
    ratio = _ratio(before, after, dtype)
    if mode == "asymmetric":
        return place * ratio
    if mode != "half_pixel":
        raise ValueError(f"resize2d does not know the coordinates {mode!r}")
    return (place + 0.5) * ratio - 0.5


def _ratio(a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    return a.astype(dtype) / b.astype(dtype)
