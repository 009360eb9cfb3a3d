"""Images read at computed places, taken apart as torch's kernels compute them.

Torch's own rules for these operators agree with its kernels on finite data alone: they multiply what lies outside of an
image by zero, take differences of neighbours that may be infinite, and count reflections in 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_ZEROS, _BORDER, _REFLECTION = range(3)  # what lies outside of an image
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_SHARPNESS: Final = -0.75  # of bicubic interpolation
_NARROW: Final = (torch.float16, torch.bfloat16)

Size = Any  # an int, or `torch.SymInt`, which torch's own types do not take everywhere


def grid_sampler(image: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    """An image at the places of a grid.

    Args:
        image: `(n, c, h, w)`; a float dtype.
        grid: `(n, p, q, 2)`, columns and rows from -1 to 1; same dtype.
        mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding: 0 zeros, 1 the border, 2 reflection.
        align_corners: Whether -1 is the middle of the first element, not its edge.

    Returns:
        `(n, c, p, q)`. A place that is NaN is 0 where places are clipped, and outside where they are not; there the
        weights of linear and cubic interpolation are NaN.

    Reference: torch.nn.functional.grid_sample.
    """
    height, width = image.shape[2:]
    columns = _Places(width, padding, align_corners)
    rows = _Places(height, padding, align_corners)
    x, y = columns.of(grid[..., 0].unsqueeze(1)), rows.of(grid[..., 1].unsqueeze(1))
    if mode == _BICUBIC:
        return _bicubic(image, (rows, y), (columns, x))
    x, y = columns.clipped(x), rows.clipped(y)
    if mode == _NEAREST:
        return _read(image, y.round(), x.round())
    return _bilinear(image, y, x)


class _Places:
    """Places along one axis of an image, in elements.

    Args:
        size: Elements of the axis.
        padding: What lies outside.
        align_corners: As for `grid_sampler`.
    """

    def __init__(self, size: Size, padding: int, align_corners: bool) -> None:
        self._size, self._padding = size, padding
        self._factor = (size - 1) / 2 if align_corners else size / 2
        self._first = 0.0 if align_corners else -0.5
        self._period = 2 * (size - 1) if align_corners else 2 * size

    def of(self, grid: torch.Tensor) -> Any:
        """Places of a grid from -1 to 1."""
        scaled = (grid + 1) * self._factor
        return scaled + self._first if self._first else scaled

    def clipped(self, at: torch.Tensor) -> torch.Tensor:
        """Places inside the image, unless zeros lie outside; NaN becomes 0."""
        if self._padding == _ZEROS:
            return at
        if self._padding == _REFLECTION:
            at = self._reflected(at)
        return torch.where(at > 0, at, 0.0).clamp(max=self._size - 1)

    def _reflected(self, at: torch.Tensor) -> torch.Tensor:
        if statically_known_true(self._period == 0):
            return torch.zeros_like(at)
        distance = (at - self._first).abs()
        rest = distance - (distance / self._period).trunc() * self._period
        return torch.minimum(rest, self._period - rest) + self._first


def _read(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Elements at whole places `(n, 1, p, q)`; 0 outside."""
    count, channels, height, width = image.shape
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    row, column = (torch.where(inside, at, 0.0).to(torch.int64) for at in (y, x))
    each = torch.arange(count, device=image.device).view(count, 1, 1, 1)
    channel = torch.arange(channels, device=image.device).view(1, channels, 1, 1)
    return torch.where(inside, image[each, channel, row, column], 0.0)


def _bilinear(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    top, left = y.floor(), x.floor()
    below, right = y - top, x - left
    above, before = 1 - below, 1 - right
    return (
        _read(image, top, left) * (before * above)
        + _read(image, top, left + 1) * (right * above)
        + _read(image, top + 1, left) * (before * below)
        + _read(image, top + 1, left + 1) * (right * below)
    )


def _bicubic(image: torch.Tensor, rows: tuple[_Places, torch.Tensor], columns: tuple[_Places, torch.Tensor]) -> Any:
    ends, weights = [], []
    for places, at in (rows, columns):
        first = at.floor()
        ends.append([places.clipped(first + offset) for offset in range(-1, 3)])
        weights.append(_cubic_weights(at - first))

    def row(y: torch.Tensor) -> Any:
        return sum(_read(image, y, x) * weight for x, weight in zip(ends[1], weights[1], strict=True))

    return sum(row(y) * weight for y, weight in zip(ends[0], weights[0], strict=True))


def _cubic_weights(at: torch.Tensor) -> list[torch.Tensor]:
    """Of the element before, the two around a place between 0 and 1, and the one after them."""
    a = _SHARPNESS

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(at + 1), near(at), near(1 - at), far(2 - at)]


def linear(image: torch.Tensor, sizes: Sequence[Size], align_corners: bool, factors: Sequence[float | None]) -> Any:
    """Linear interpolation along all axes but two: weighted sums of elements, also where a weight is 0.

    Args:
        image: `(n, c, *old)`; a dtype that is not a float is left to torch.
        sizes: The new sizes.
        align_corners: Whether the first and last elements stay where they are.
        factors: By how much an axis grows; None is the quotient of its sizes.

    Returns:
        `(n, c, *sizes)`; 16-bit floats are computed in float32.

    Reference: torch.nn.functional.interpolate with mode linear or trilinear.
    """
    if not image.is_floating_point():
        return NotImplemented
    wide = image.float() if image.dtype in _NARROW else image
    axes = zip(image.shape[2:], sizes, factors, strict=True)
    ends = [_ends(old, new, align_corners, factor, wide) for old, new, factor in axes]

    def along(axis: int, place: torch.Tensor) -> torch.Tensor:
        return place.view(-1, *[1] * (len(ends) - 1 - axis))

    def corner(high: tuple[int, ...]) -> Any:
        places = [along(axis, ends[axis][which]) for axis, which in enumerate(high)]
        return torch.ops.aten._unsafe_index(wide, [None, None, *places])

    values = [corner(high) for high in product((0, 1), repeat=len(ends))]
    for axis in reversed(range(len(ends))):
        weight = along(axis, ends[axis][2])
        values = [low * (1 - weight) + high * weight for low, high in zip(values[::2], values[1::2], strict=True)]
    return values[0].to(image.dtype)


def _ends(
    old: Size, new: Size, align_corners: bool, factor: float | None, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Between which old elements each new one lies, and the weight of the second."""
    index = torch.arange(new, device=like.device)
    if statically_known_true(old == new):
        return index, index, torch.zeros_like(index, dtype=like.dtype)
    ratio = 1 / factor if factor is not None and factor > 0 else old / new
    if align_corners:
        ratio = (old - 1) / (new - 1) if not statically_known_true(new == 1) else 0.0
    place = index.to(like.dtype)
    place = place * ratio if align_corners else ((place + 0.5) * ratio - 0.5).clamp(min=0)
    low = place.to(torch.int64).clamp(max=old - 1)
    # None where sizes that vary are the same.
    step: Size = torch.sym_min(1, torch.sym_max(old - new, new - old))  # type: ignore[no-untyped-call]  # as torch has it
    return low, (low + step).clamp(max=old - 1), (place - low).clamp(0, 1)


def _linear_rule(image: torch.Tensor, sizes: Sequence[Size], align_corners: bool, *factors: float | None) -> Any:
    """By the operators' overloads `default`, whose factors come one by one."""
    return linear(image, sizes, align_corners, factors or [None] * len(sizes))


def _linear_vec_rule(image: torch.Tensor, sizes: Any, align_corners: bool, factors: Any) -> Any:
    """By the overloads `vec`, which have sizes or factors."""
    if sizes is not None:
        return linear(image, sizes, align_corners, [None] * len(sizes))
    return linear(image, [*map(_times, image.shape[2:], factors)], align_corners, factors)


def _times(size: Size, factor: float) -> Size:
    """A size that grows; without floats where it varies, as far as possible."""
    if factor == int(factor):
        return size * int(factor)
    return torch.sym_int(size * factor)  # type: ignore[no-untyped-call]  # as torch has it


RULES: Final[dict[str, Callable[..., Any]]] = {
    "aten.grid_sampler_2d.default": grid_sampler,
    **{f"aten.upsample_{name}.default": _linear_rule for name in ("linear1d", "trilinear3d")},
    **{f"aten.upsample_{name}.vec": _linear_vec_rule for name in ("linear1d", "trilinear3d")},
}
"""By the names of operators, the functions that take them apart."""
