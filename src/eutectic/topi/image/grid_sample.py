"""Images read at the places of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from eutectic.ir.prim_expr import PrimExpr, Select, as_prim
from eutectic.te import Tensor, compute
from eutectic.tir import op
from eutectic.topi.nn.windows import Axes
from eutectic.topi.shapes import sizes_text, stage, static
from eutectic.topi.special_values import accumulator, convert

TAPS: Final = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""Elements along an axis that a result is made of, by method."""
PADDINGS: Final = ("zeros", "border", "reflection")
"""What lies outside of an image."""
SHARPNESS: Final = -0.75
"""Of bicubic interpolation, as torch has it."""
_MOST_SMALL: Final = 2**31


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Images read at coordinates from -1 to 1.

    Args:
        data: `(n, c, h, w)` in `layout`; floats.
        grid: `(n, 2, p, q)`, columns and rows from -1 to 1; floats.
        method: `bilinear`, `nearest` (halves to even) or `bicubic`.
        layout: `NCHW`, `NHWC`, or channels in blocks, such as `NCHW16c`.
        padding_mode: What lies outside: `zeros`, the nearest element (`border`), or the mirrored image (`reflection`).
        align_corners: Whether -1 and 1 are the middles of the outermost elements, or their outer edges.

    Returns:
        `(n, c, p, q)` in `layout`; stages for places and weights along each axis, and `grid_sample`.

    Raises:
        ValueError: another method, layout or padding.

    A place that is NaN is 0 where places are clipped, and outside where they are not; the weights of linear and cubic
    interpolation are NaN there.

    Accuracy: places, weights and sums in no less than float32.
    Reference: torch.nn.functional.grid_sample; TVM topi.image.grid_sample.
    """
    axes = Axes.of(layout)
    if method not in TAPS or padding_mode not in PADDINGS:
        raise ValueError(f"grid_sample does not know {method!r} with {padding_mode!r}")
    if axes.rank != 2 or len(data.shape) != len(axes.names) or len(grid.shape) != 4:
        raise ValueError(f"an image {sizes_text(data.shape)} in {layout} and a grid {sizes_text(grid.shape)}")
    wide = accumulator(data.dtype)
    image = axes.canonical.index("N")
    others, old = axes.parted(data.shape)
    rows, columns = (
        _taps(grid, number, _Places(size, padding_mode, align_corners, wide), method)
        for number, size in ((1, old[0]), (0, old[1]))
    )

    def element(*at: PrimExpr) -> PrimExpr:
        rest, (p, q) = axes.parted(at)
        place = (rest[image], p, q)

        def read(row: int, column: int) -> PrimExpr:
            y, x = rows.at(row, *place), columns.at(column, *place)
            value = data(*axes.joined(rest, [y, x])).astype(wide)
            if padding_mode != "zeros":
                return value
            return op.if_then_else(op.all(y >= 0, x >= 0), value, as_prim(0, wide))

        def along_columns(row: int) -> PrimExpr:
            return _weighted([read(row, column) for column in range(TAPS[method])], columns, place)

        return convert(_weighted([along_columns(row) for row in range(TAPS[method])], rows, place), data.dtype)

    return stage(axes.joined(others, grid.shape[2:]), element, "grid_sample", "injective")


@dataclass(frozen=True)
class _Taps:
    """Elements along one axis, `(n, taps, p, q)`.

    Attributes:
        places: Which; -1 for what lies outside, and is zero.
        weights: Their weights; None for a single one.
    """

    places: Tensor
    weights: Tensor | None

    def at(self, tap: int, n: PrimExpr, p: PrimExpr, q: PrimExpr) -> Any:
        """The place of a tap."""
        return self.places(n, tap, p, q)


def _weighted(values: Sequence[PrimExpr], taps: _Taps, place: Sequence[PrimExpr]) -> PrimExpr:
    n, p, q = place
    if taps.weights is None:
        return values[0]
    weighted: list[PrimExpr] = [value * taps.weights(n, tap, p, q) for tap, value in enumerate(values)]
    return reduce(lambda a, b: a + b, weighted)


@dataclass(frozen=True)
class _Places:
    """Places along one axis of an image, in elements.

    Attributes:
        size: Elements of the axis.
        padding: What lies outside.
        align_corners: As for `grid_sample`.
        dtype: Of the places.
    """

    size: PrimExpr
    padding: str
    align_corners: bool
    dtype: str

    @property
    def _first(self) -> float:
        """Where the image begins."""
        return 0.0 if self.align_corners else -0.5

    @property
    def _extent(self) -> PrimExpr:
        """From where it begins to where it ends."""
        size: PrimExpr = self.size - 1 if self.align_corners else self.size
        return size.astype(self.dtype)

    def of(self, coordinate: PrimExpr) -> PrimExpr:
        """The place of a coordinate from -1 to 1."""
        scaled = (coordinate.astype(self.dtype) + 1) * (self._extent / 2)
        return scaled + self._first if self._first else scaled

    def clipped(self, at: PrimExpr) -> PrimExpr:
        """A place inside the image, unless zeros lie outside; NaN becomes 0."""
        if self.padding == "zeros":
            return at
        if self.padding == "reflection":
            at = self._reflected(at)
        zero, last = as_prim(0, self.dtype), (self.size - 1).astype(self.dtype)
        return op.min(Select(at > 0, at, zero), last)

    def _reflected(self, at: PrimExpr) -> PrimExpr:
        extent = self._extent
        period = extent * 2
        distance = op.abs(at - self._first)
        rest = distance - op.trunc(distance / period) * period
        mirrored = op.min(rest, period - rest) + self._first
        return Select(extent > 0, mirrored, as_prim(0, self.dtype))

    def whole(self, at: PrimExpr) -> PrimExpr:
        """The index of a whole place; -1 outside, if that is zero."""
        dtype = "int32" if (static(self.size) or _MOST_SMALL) < _MOST_SMALL else "int64"
        if self.padding != "zeros":
            return at.astype(dtype)
        inside = op.logical_and(at >= 0, at < self.size.astype(self.dtype))
        return Select(inside, at, as_prim(-1, self.dtype)).astype(dtype)


def _taps(grid: Tensor, number: int, places: _Places, method: str) -> _Taps:
    """The elements that each point of a grid is made of along an axis.

    Args:
        grid: The grid.
        number: Which of its coordinates.
        places: Of the axis.
        method: As for `grid_sample`.
    """
    n, _, p, q = grid.shape
    shape = (n, TAPS[method], p, q)
    name = "xy"[number]

    def made(value: Callable[[PrimExpr, PrimExpr], PrimExpr], what: str) -> Tensor:
        tensor: Tensor = compute(
            shape, lambda i, tap, y, x: value(places.of(grid(i, number, y, x)), tap), f"{what}_{name}"
        )
        return tensor

    if method == "nearest":
        return _Taps(made(lambda at, _: places.whole(op.nearbyint(places.clipped(at))), "place"), None)
    if method == "bicubic":
        index = made(lambda at, tap: places.whole(places.clipped(op.floor(at) + (tap - 1).astype(at.dtype))), "place")
        return _Taps(index, made(lambda at, tap: _cubic(at - op.floor(at), tap), "weight"))
    first = made(lambda at, tap: _second(places, op.floor(places.clipped(at)), tap), "place")
    return _Taps(first, made(lambda at, tap: _linear(places.clipped(at), tap), "weight"))


def _second(places: _Places, first: PrimExpr, tap: PrimExpr) -> PrimExpr:
    """The place of the first or second element; where the second would be behind the last, its weight is 0."""
    at = first + tap.astype(first.dtype)
    last = (places.size - 1).astype(first.dtype)
    return places.whole(at if places.padding == "zeros" else op.min(at, last))


def _linear(at: PrimExpr, tap: PrimExpr) -> PrimExpr:
    rest = at - op.floor(at)
    return Select(tap.equal(0), 1 - rest, rest)


def _cubic(rest: PrimExpr, tap: PrimExpr) -> PrimExpr:
    """The weight of the element before, the two around a place between 0 and 1, or the one after them."""
    a = SHARPNESS
    distance = op.abs(rest - (tap - 1).astype(rest.dtype))
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return Select(op.logical_or(tap.equal(1), tap.equal(2)), near, far)
