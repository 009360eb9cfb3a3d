"""Convolutions of 3x3 windows by Winograd's minimal filtering: fewer multiplications, more additions.

Of volumes each slice is transformed as an image, once; windows of several slices are more terms of the products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr, Select, as_prim
from eutectic.support.errors import OTHERWISE
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir.block import TERMS_OF_SUM, WINOGRAD
from eutectic.tir.data_layout import layout
from eutectic.tir.op import checked, isfinite
from eutectic.topi.nn.conv import SPATIAL
from eutectic.topi.nn.pad import pad
from eutectic.topi.nn.windows import arranged, paddings
from eutectic.topi.nn.winograd_transforms import TAPS, input_rows, output_rows
from eutectic.topi.shapes import sizes_text, static

Element = Callable[..., Any]
_TERMS: Final = 64  # that are summed at a time: what is lost in products is lost four times as much in results
_TERMS_OF_LARGE: Final = 8  # the same of large images, which wait for memory: there it costs hardly anything
_LARGE: Final = 28 * 28  # tiles of an image
NOT_FINITE: Final = f"{OTHERWISE}Winograd's method"


def conv2d_winograd(
    data: Tensor,
    weight: Tensor,
    padding: int | Sequence[int] = 0,
    data_layout: str = "NCHW",
    out_layout: str | None = None,
) -> Tensor:
    """Cross-correlation of 3x3 windows at every point, from weights that are transformed already.

    Squares of `m + 2` points, which overlap, are transformed; for each of their `(m + 2) ** 2` values there is a matrix
    product of all squares with the weights; the products are transformed back to `m * m` outputs each.

    Args:
        data: `(n, c, h, w)` in `data_layout`, float.
        weight: `(m + 2, m + 2, o / b, c / v, v, b)`, of which the first two axes are values of the transformed window;
            same dtype. `m` is 2 or 4, `v` the channels that are transformed together and divides `b`.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        data_layout: `NCHW`, `NHWC`, or with channels in blocks of `v`, such as `NCHW16c`.
        out_layout: Likewise; None takes that of the data. Blocks are those of the data, or as large as `v`.

    Returns:
        `(n, o, h + top + bottom - 2, w + left + right - 2)` in `out_layout`; stages `pad_temp`, `input_rows`,
        `input_transform`, `products`, `output_rows` and `conv2d_winograd`.

    Raises:
        ValueError: ranks or channels do not go together.

    NaN and infinities would spread over whole squares: where a result is not finite (NaN or an infinity in the data, or
    numbers above 1e36), the call is left to other code (`SpecialValues`).

    Accuracy: relative L2 error of a layer about that of direct sums with m = 2, with m = 4 three to four times, and
    twice where images are large.
    Reference: see `winograd_transforms.py`; TVM topi.nn.conv2d_winograd_without_weight_transform.
    """
    return _convolved(2, data, weight, padding, data_layout, out_layout or data_layout)


def conv3d_winograd(
    data: Tensor,
    weight: Tensor,
    padding: int | Sequence[int] = 0,
    data_layout: str = "NCDHW",
    out_layout: str | None = None,
) -> Tensor:
    """Cross-correlation of windows of `k` slices of 3x3 at every point, from weights that are transformed already.

    Slices are transformed as `conv2d_winograd` does images. What windows of several slices sum is summed between the
    transforms, so each slice of the data, and each of the result, is transformed once.

    Args:
        data: `(n, c, d, h, w)` in `data_layout`, float.
        weight: `(m + 2, m + 2, o / b, k, c / v, v, b)`, each slice of the window transformed; same dtype.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        data_layout: `NCDHW`, `NDHWC`, or with channels in blocks of `v`, such as `NCDHW16c`.
        out_layout: Likewise; None takes that of the data. Blocks are those of the data, or as large as `v`.

    Returns:
        `(n, o, d + front + back - k + 1, h + top + bottom - 2, w + left + right - 2)` in `out_layout`; the stages are
        those of `conv2d_winograd`, the last one is `conv3d_winograd`.

    Raises:
        ValueError: ranks or channels do not go together.

    Accuracy, and what is done with NaN and infinities: as for `conv2d_winograd`.
    """
    return _convolved(3, data, weight, padding, data_layout, out_layout or data_layout)


def _convolved(
    rank: int, data: Tensor, weight: Tensor, padding: int | Sequence[int], data_layout: str, out_layout: str
) -> Tensor:
    height, width, blocks, *window, depth, lanes, panel = (static(size) or 0 for size in weight.shape)
    tile = height - TAPS + 1
    source, target = _Image(data_layout, lanes, rank), _Image(out_layout, lanes, rank)
    channels = static(source.sizes(data.shape)[1])
    if height != width or len(window) != rank - 2 or panel % lanes or channels != depth * lanes:
        operands = f"{sizes_text(data.shape)} in {data_layout} with {sizes_text(weight.shape)}"
        raise ValueError(f"convolution of {operands}: channels or tiles do not go together")
    before, after = paddings(padding, rank)
    batch, _, *space = source.sizes(data.shape)
    sizes = zip(space, before, after, (*window, TAPS, TAPS), strict=True)
    out = [simplify(size + (b + a - taps + 1)) for size, b, a, taps in sizes]
    slices, tiles = out[:-2], [simplify((size + tile - 1) // tile) for size in out[-2:]]
    surplus = [simplify(count * tile - size) for count, size in zip(tiles, out[-2:], strict=True)]
    ends = [*after[:-2], *(simplify(a + more) for a, more in zip(after[-2:], surplus, strict=True))]
    temp = pad(data, source.widths(before), source.widths(ends), 0, "pad_temp")
    products = _products(temp, weight, source, tile, (batch, *slices, *tiles))

    def row(*at: PrimExpr) -> Any:
        *place, o, r, q, lane = at
        values = [products(p, q, *place, *_in_panel(o, lane, lanes, panel)) for p in range(height)]
        return _chosen(r, output_rows(tile, values))

    sizes_of_rows = (batch, *slices, *tiles, blocks * panel // lanes, tile, height, lanes)
    names = ["n", *"z"[: rank - 2], *"yxorq", "at"]
    rows = compute(sizes_of_rows, row, "output_rows", attrs={WINOGRAD: "output_rows"}, varargs_names=names)

    def element(n: PrimExpr, o: PrimExpr, lane: PrimExpr, *place: PrimExpr) -> Any:
        *slice_, y, x = place
        values = [rows(n, *slice_, y // tile, x // tile, o, y % tile, q, lane) for q in range(width)]
        value = _chosen(x % tile, output_rows(tile, values))
        return checked(value, isfinite(value), NOT_FINITE)

    shape = target.shape(batch, blocks * panel, *out)
    finished: Tensor = target.stage(shape, element, f"conv{rank}d_winograd", attrs={WINOGRAD: "output_transform"})
    return finished


def _products(temp: Tensor, weight: Tensor, source: _Image, tile: int, sizes: Sequence[Any]) -> Tensor:
    """The transformed squares, multiplied with the weights: `(m + 2, m + 2, n, ty, tx, o / b, b)`; slices follow `n`.

    Args:
        temp: The data with its padding.
        weight: The transformed weights.
        source: How the data lie.
        tile: Outputs of a tile along an axis.
        sizes: Of images, slices, and tiles along each axis, of the result.
    """
    batch, *slices, down, across = sizes
    side, _, blocks, *window, depth, lanes, panel = weight.shape
    span = range(tile + TAPS - 1)
    seen = [simplify(size + (taps - 1)) for size, taps in zip(slices, window, strict=True)]

    def row(*at: PrimExpr) -> Any:
        n, *slice_, y, x, c, p, j, lane = at
        values = [source.element(temp, n, c, lane, *slice_, y * tile + i, x * tile + j) for i in span]
        return _chosen(p, input_rows(tile, values))

    shape = (batch, *seen, down, across, depth, side, side, lanes)
    places = ["n", *"z"[: len(slices)], "y", "x"]
    names = [*places, *"cpj", "at"]
    rows = compute(shape, row, "input_rows", attrs={WINOGRAD: "input_rows"}, varargs_names=names)

    def value(*at: PrimExpr) -> Any:
        p, q, *place, c, lane = at
        return _chosen(q, input_rows(tile, [rows(*place, c, p, j, lane) for j in span]))

    shape = (side, side, batch, *seen, down, across, depth, lanes)
    attrs: dict[str, Any] = {WINOGRAD: "input_transform"}
    transformed = compute(shape, value, "input_transform", attrs=attrs, varargs_names=["p", "q", *places, "c", "at"])
    taps = [reduce_axis((0, size), "rz") for size in window]
    rc, ri = reduce_axis((0, depth), "rc"), reduce_axis((0, lanes), "ri")

    def product(*at: PrimExpr) -> Any:
        p, q, n, *slice_, y, x, o, lane = at
        there = [place + tap for place, tap in zip(slice_, taps, strict=True)]
        return te_sum(
            transformed(p, q, n, *there, y, x, rc, ri) * weight(p, q, o, *taps, rc, ri, lane), [*taps, rc, ri]
        )

    attrs = {WINOGRAD: "products", TERMS_OF_SUM: _TERMS_OF_LARGE if _is_large(sizes[1:]) else _TERMS}
    shape, names = (side, side, *sizes, blocks, panel), ["p", "q", *places, "o", "at"]
    products: Tensor = compute(shape, product, "products", attrs=attrs, varargs_names=names)
    return products


def _is_large(tiles: Sequence[Any]) -> bool:
    """Whether an image has many tiles, in all slices."""
    sizes = [static(count) for count in tiles]
    return None not in sizes and prod(size or 0 for size in sizes) >= _LARGE


def _chosen(place: PrimExpr, values: Sequence[Any]) -> Any:
    """The value at a place, of which schedules make a constant."""
    out = values[-1]
    for number in reversed(range(len(values) - 1)):
        out = Select(place.equal(as_prim(number, place.dtype)), values[number], out)
    return out


def _in_panel(block: PrimExpr, lane: PrimExpr, lanes: int, panel: int) -> tuple[PrimExpr, PrimExpr]:
    """Where an output channel is in the products."""
    return (block, lane) if panel == lanes else (block // (panel // lanes), block % (panel // lanes) * lanes + lane)


class _Image:
    """How an image or a volume lies in memory, with channels counted in blocks of some lanes.

    Args:
        name: The layout.
        lanes: Channels of a block.
        rank: Number of spatial axes.
    """

    def __init__(self, name: str, lanes: int, rank: int) -> None:
        self.lanes, factor, self.rows = lanes, layout(name).factor_of("C"), f"NC{SPATIAL[rank]}"
        last = f"N{SPATIAL[rank]}C"
        self.is_blocked, self.names = factor > 1, last if name == last else self.rows
        if name not in (self.rows, last, f"{self.rows}{lanes}c"):
            raise ValueError(f"a convolution by Winograd's method of {lanes} channels at a time has no layout {name}")

    def sizes(self, shape: Sequence[Any]) -> list[Any]:
        """Sizes of `N`, `C`, and the spatial axes."""
        sizes = list(arranged(shape[: len(self.names)], self.names, self.rows))
        return [sizes[0], simplify(sizes[1] * self.lanes), *sizes[2:]] if self.is_blocked else sizes

    def shape(self, batch: Any, channels: Any, *space: Any) -> list[Any]:
        """The sizes in memory of an image."""
        if self.is_blocked:
            return [batch, channels // self.lanes, *space, self.lanes]
        return list(arranged([batch, channels, *space], self.rows, self.names))

    def widths(self, spatial: Sequence[Any]) -> list[Any]:
        """Widths of a padding of the spatial axes, for all axes in memory."""
        return [*arranged([0, 0, *spatial], self.rows, self.names), *([0] * self.is_blocked)]

    def element(self, image: Tensor, n: Any, block: Any, lane: Any, *place: Any) -> Any:
        """One element of an image."""
        if self.is_blocked:
            return image(n, block, *place, lane)
        return image(*arranged([n, block * self.lanes + lane, *place], self.rows, self.names))

    def stage(self, shape: Sequence[Any], element: Element, name: str, attrs: dict[str, Any]) -> Any:
        """A stage that computes an image by `element(n, block, lane, *place)`."""
        places = ["zz", "yy", "xx"][-len(self.rows) + 2 :]
        if self.is_blocked:
            names = ["nn", "fo", *places, "fi"]
            return compute(shape, lambda *at: element(*at[:2], at[-1], *at[2:-1]), name, name, attrs, names)

        def anywhere(*at: Any) -> Any:
            n, c, *place = arranged(at, self.names, self.rows)
            return element(n, c // self.lanes, c % self.lanes, *place)

        names = list(arranged(["nn", "ff", *places], self.rows, self.names))
        return compute(shape, anywhere, name, name, attrs, names)
