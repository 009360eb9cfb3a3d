"""resize2d: an image under another height and width, by nearest element or linear interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.te import Tensor
from eutectic.te.tensor import sizes_of
from eutectic.tir import op
from eutectic.topi.nn.windows import Axes
from eutectic.topi.shapes import same_size, sizes_text, stage, static
from eutectic.topi.special_values import accumulator, convert

_NEAREST: Final[dict[str, Callable[[PrimExpr], PrimExpr]]] = {
    "round": lambda x: op.ceil(x - 0.5),
    "round_prefer_floor": lambda x: op.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: op.floor(x + 0.5),
    "floor": op.floor,
    "ceil": op.ceil,
}
ROUNDINGS: Final[dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]] = {
    "round": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}
COORDINATES: Final = ("half_pixel", "align_corners", "asymmetric")
_MOST_TRIED: Final = 4096  # elements of an axis whose places are looked at one by one


def resize2d(
    data: Tensor,
    size: Sequence[PrimExpr | int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    out_dtype: str | None = None,
    kept: Sequence[int] = (),
) -> Tensor:
    """An image under another height and width.

    Args:
        data: The axes of `layout`.
        size: New height and width.
        layout: Order of the axes; channels may be in blocks, such as `NCHW16c`.
        method: `nearest_neighbor` or `linear`.
        coordinate_transformation_mode: Where element i of m lies among n: `half_pixel`
            `(i + 0.5) * n / m - 0.5`, `align_corners` `i * (n - 1) / (m - 1)`, `asymmetric` `i * n / m`.
        rounding_method: For `nearest_neighbor`: `round`, `round_prefer_floor`, `round_prefer_ceil`, `floor`, `ceil`.
        out_dtype: Dtype of the result; None takes that of `data`.
        kept: Axes, of height 0 and width 1, that keep their size and are not interpolated along; along others of the
            same size each element is a sum, too: of itself, and of itself times zero.

    Returns:
        The axes of `layout` with the new sizes; one stage `resize`.

    Raises:
        ValueError: an unknown layout, method, mode or rounding.

    Accuracy: interpolation in no less than float32, first over rows, then over columns; its coordinates are exact where
    sizes are known, and of the same dtype otherwise. The nearest element by coordinates in float32 whatever the dtype,
    as torch takes it.
    Reference: TVM topi.image.resize2d; torch.nn.functional.interpolate.
    """
    if method not in ("nearest_neighbor", "linear") or rounding_method not in _NEAREST:
        raise ValueError(f"resize2d does not know {method!r} with {rounding_method!r}")
    if coordinate_transformation_mode not in COORDINATES:
        raise ValueError(f"resize2d does not know the coordinates {coordinate_transformation_mode!r}")
    axes = Axes.of(layout)
    if axes.rank != 2 or len(data.shape) != len(axes.names):
        raise ValueError(f"an image {sizes_text(data.shape)} is not in layout {layout}")
    others, old = axes.parted(data.shape)
    new = sizes_of(size)
    dtype = out_dtype or data.dtype
    mode = coordinate_transformation_mode

    def nearest(rest: list[PrimExpr], place: list[PrimExpr]) -> PrimExpr:
        sizes = zip(place, old, new, strict=True)
        indices = [_nearest(mode, rounding_method, i, before, after) for i, before, after in sizes]
        return data(*axes.joined(rest, indices))

    def linear(rest: list[PrimExpr], place: list[PrimExpr]) -> PrimExpr:
        wide = accumulator(data.dtype)
        sizes = enumerate(zip(place, old, new, strict=True))
        ends = [_Ends([part[0]]) if axis in kept else _ends(mode, *part, wide) for axis, part in sizes]

        def column(at: PrimExpr) -> PrimExpr:
            return _between([data(*axes.joined(rest, [row, at])).astype(wide) for row in ends[0].places], ends[0])

        return _between([column(at) for at in ends[1].places], ends[1])

    value: Callable[..., Any] = nearest if method == "nearest_neighbor" else linear
    shape = axes.joined(others, new)
    return stage(shape, lambda *at: convert(value(*axes.parted(at)), dtype), "resize", "injective")


@dataclass(frozen=True)
class _Ends:
    """Between which old elements a new one lies along an axis.

    Attributes:
        places: The places of the elements: one, where nothing is interpolated, or two.
        weight: Of the second.
    """

    places: list[PrimExpr]
    weight: PrimExpr | None = None


def _ends(mode: str, i: PrimExpr, before: PrimExpr, after: PrimExpr, wide: str) -> _Ends:
    if same_size(before, after):  # each at its own place, in all modes
        return _Ends([i, i], as_prim(0.0, wide))
    sizes = static(before), static(after)
    if sizes[0] and sizes[1]:
        return _exact_ends(_line(mode, sizes[0], sizes[1]), i, sizes[0], sizes[1], wide)
    at = _coordinate(mode, i, before, after, wide)
    at = op.max(at, as_prim(0.0, wide))
    low = op.min(op.floor(at).astype(i.dtype), before - 1)
    step = op.if_then_else(before.equal(after), 0, 1) if static(before) is None or static(after) is None else 1
    return _Ends([low, op.min(low + step, before - 1)], op.min(at - low.astype(wide), as_prim(1.0, wide)))


@dataclass(frozen=True)
class _Line:
    """Where new element i lies among old ones: at `(factor * i + first) / parts`, in whole numbers."""

    factor: int
    first: int
    parts: int


def _line(mode: str, before: int, after: int) -> _Line:
    """Where each of `after` new elements lies among `before` old ones."""
    if mode == "align_corners":
        factor, first, parts = (before - 1, 0, after - 1) if after > 1 else (0, 0, 1)
    elif mode == "asymmetric":
        factor, first, parts = before, 0, after
    else:
        factor, first, parts = 2 * before, before - after, 2 * after
    common = gcd(factor, first, parts)
    return _Line(factor // common, first // common, parts // common)


def _exact_ends(line: _Line, i: PrimExpr, before: int, after: int, wide: str) -> _Ends:
    """By integers alone: floats are rounded, checked and converted at each point.

    After the middle of the last element both ends are that one, weighted as two would be: infinity times zero is NaN.
    """
    fits = after * line.factor + abs(line.first) < 1 << 31  # vectors of 64 bits take long to be multiplied
    at = op.max(i.astype("int32" if fits else "int64") * line.factor + line.first, 0)
    low = op.min((at // line.parts).astype(i.dtype), before - 1)
    weight = (at % line.parts).astype(wide) * as_prim(1 / line.parts, wide)
    return _Ends([low, op.min(low + 1, before - 1)], weight)


def _between(values: list[PrimExpr], ends: _Ends) -> PrimExpr:
    return values[0] if ends.weight is None else values[0] * (1.0 - ends.weight) + values[1] * ends.weight


def _nearest(mode: str, rounding: str, i: PrimExpr, before: PrimExpr, after: PrimExpr) -> PrimExpr:
    """The old element of a new one; without floats where that is the same for all elements."""
    sizes = static(before), static(after)
    if sizes[0] and sizes[1]:
        plain = _whole_ratio(mode, rounding, sizes[0], sizes[1])
        if plain is not None:
            return i // plain if sizes[1] > sizes[0] else i * plain
    at = _NEAREST[rounding](_coordinate(mode, i, before, after, "float32"))
    return op.max(op.min(at.astype(i.dtype), before - 1), 0)


@cache
def _whole_ratio(mode: str, rounding: str, before: int, after: int) -> int | None:
    """How many new elements each old one gives, or old ones are taken as one; None where that is no whole number."""
    ratio, rest = divmod(max(before, after), min(before, after))
    if rest or after > _MOST_TRIED:
        return None
    places = np.clip(ROUNDINGS[rounding](coordinates(mode, before, after, np.float32)), 0, before - 1)
    wanted = np.arange(after) // ratio if after > before else np.arange(after) * ratio
    return ratio if np.array_equal(places, wanted) else None


def coordinates(mode: str, before: int, after: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Where each of `after` new elements lies among `before` old ones, in a dtype: `_coordinate` in numbers."""
    places: npt.NDArray[Any] = np.arange(after, dtype=dtype)
    sizes: npt.NDArray[Any] = np.asarray([before, after], dtype=dtype)
    half: npt.NDArray[Any] = np.asarray(0.5, dtype=dtype)
    if mode == "align_corners":
        sizes = sizes - 1 if after > 1 else np.asarray([0, 1], dtype=dtype)
    ratio: npt.NDArray[Any] = sizes[:1] / sizes[1:]
    found: npt.NDArray[Any] = (places + half) * ratio - half if mode == "half_pixel" else places * ratio
    return found


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
    return (place + 0.5) * ratio - 0.5


def _ratio(a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    return a.astype(dtype) / b.astype(dtype)
