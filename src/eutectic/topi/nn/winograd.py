"""Convolutions of 3x3 windows by Winograd's minimal filtering: fewer multiplications, more additions."""

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
    out_layout = out_layout or data_layout
    height, width, blocks, depth, lanes, panel = (static(size) or 0 for size in weight.shape)
    tile = height - TAPS + 1
    source = _Image(data_layout, lanes)
    channels = static(source.sizes(data.shape)[1])
    if height != width or len(weight.shape) != 6 or panel % lanes or channels != depth * lanes:
        operands = f"{sizes_text(data.shape)} in {data_layout} with {sizes_text(weight.shape)}"
        raise ValueError(f"convolution of {operands}: channels or tiles do not go together")
    before, after = paddings(padding, 2)
    batch, _, *space = source.sizes(data.shape)
    out = [simplify(size + (b + a - TAPS + 1)) for size, b, a in zip(space, before, after, strict=True)]
    tiles = [simplify((size + tile - 1) // tile) for size in out]
    surplus = [simplify(count * tile - size) for count, size in zip(tiles, out, strict=True)]
    ends = [simplify(a + more) for a, more in zip(after, surplus, strict=True)]
    temp = pad(data, source.widths(before), source.widths(ends), 0, "pad_temp")
    products = _products(temp, weight, source, (tile, batch, *tiles))
    rows = compute(
        (batch, *tiles, blocks * panel // lanes, tile, height, lanes),
        lambda n, y, x, o, r, q, at: _chosen(
            r, output_rows(tile, [products(p, q, n, y, x, *_in_panel(o, at, lanes, panel)) for p in range(height)])
        ),
        "output_rows",
        attrs={WINOGRAD: "output_rows"},
    )

    def element(n: PrimExpr, o: PrimExpr, lane: PrimExpr, y: PrimExpr, x: PrimExpr) -> Any:
        values = [rows(n, y // tile, x // tile, o, y % tile, q, lane) for q in range(width)]
        value = _chosen(x % tile, output_rows(tile, values))
        return checked(value, isfinite(value), NOT_FINITE)

    target = _Image(out_layout, lanes)
    shape = target.shape(batch, blocks * panel, *out)
    finished: Tensor = target.stage(shape, element, "conv2d_winograd", attrs={WINOGRAD: "output_transform"})
    return finished


def _products(temp: Tensor, weight: Tensor, source: _Image, sizes: Sequence[Any]) -> Tensor:
    """The transformed squares, multiplied with the weights: `(m + 2, m + 2, n, ty, tx, o / b, b)`."""
    tile, batch, *tiles = sizes
    side, _, blocks, depth, lanes, panel = weight.shape
    span = range(tile + TAPS - 1)
    rows = compute(
        (batch, *tiles, depth, side, side, lanes),
        lambda n, y, x, c, p, j, at: _chosen(
            p, input_rows(tile, [source.element(temp, n, c, at, y * tile + i, x * tile + j) for i in span])
        ),
        "input_rows",
        attrs={WINOGRAD: "input_rows"},
    )
    transformed = compute(
        (side, side, batch, *tiles, depth, lanes),
        lambda p, q, n, y, x, c, at: _chosen(q, input_rows(tile, [rows(n, y, x, c, p, j, at) for j in span])),
        "input_transform",
        attrs={WINOGRAD: "input_transform"},
    )
    rc, ri = reduce_axis((0, depth), "rc"), reduce_axis((0, lanes), "ri")
    products: Tensor = compute(
        (side, side, batch, *tiles, blocks, panel),
        lambda p, q, n, y, x, o, at: te_sum(transformed(p, q, n, y, x, rc, ri) * weight(p, q, o, rc, ri, at), [rc, ri]),
        "products",
        attrs={WINOGRAD: "products", TERMS_OF_SUM: _TERMS_OF_LARGE if _is_large(tiles) else _TERMS},
    )
    return products


def _is_large(tiles: Sequence[Any]) -> bool:
    """Whether an image has many tiles."""
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
    """How an image lies in memory, with channels counted in blocks of some lanes.

    Args:
        name: The layout.
        lanes: Channels of a block.
    """

    def __init__(self, name: str, lanes: int) -> None:
        self.lanes, factor = lanes, layout(name).factor_of("C")
        self.is_blocked, self.names = factor > 1, "NHWC" if name == "NHWC" else "NCHW"
        if name not in ("NCHW", "NHWC", f"NCHW{lanes}c"):
            raise ValueError(f"a convolution by Winograd's method of {lanes} channels at a time has no layout {name}")

    def sizes(self, shape: Sequence[Any]) -> list[Any]:
        """Sizes of `N`, `C`, `H`, `W`."""
        sizes = list(arranged(shape[:4], self.names, "NCHW"))
        return [sizes[0], simplify(sizes[1] * self.lanes), *sizes[2:]] if self.is_blocked else sizes

    def shape(self, batch: Any, channels: Any, *space: Any) -> list[Any]:
        """The sizes in memory of an image."""
        if self.is_blocked:
            return [batch, channels // self.lanes, *space, self.lanes]
        return list(arranged([batch, channels, *space], "NCHW", self.names))

    def widths(self, spatial: Sequence[Any]) -> list[Any]:
        """Widths of a padding of the spatial axes, for all axes in memory."""
        return [*arranged([0, 0, *spatial], "NCHW", self.names), *([0] * self.is_blocked)]

    def element(self, image: Tensor, n: Any, block: Any, lane: Any, *place: Any) -> Any:
        """One element of an image."""
        if self.is_blocked:
            return image(n, block, *place, lane)
        return image(*arranged([n, block * self.lanes + lane, *place], "NCHW", self.names))

    def stage(self, shape: Sequence[Any], element: Element, name: str, attrs: dict[str, Any]) -> Any:
        """A stage that computes an image by `element(n, block, lane, y, x)`."""
        if self.is_blocked:
            names = ["nn", "fo", "yy", "xx", "fi"]
            return compute(shape, lambda n, o, y, x, at: element(n, o, at, y, x), name, name, attrs, names)

        def anywhere(*at: Any) -> Any:
            n, c, y, x = arranged(at, self.names, "NCHW")
            return element(n, c // self.lanes, c % self.lanes, y, x)

        names = list(arranged(["nn", "ff", "yy", "xx"], "NCHW", self.names))
        return compute(shape, anywhere, name, name, attrs, names)
