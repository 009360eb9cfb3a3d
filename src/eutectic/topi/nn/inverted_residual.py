"""Inverted residual blocks: more channels by a 1x1 convolution, windows in each channel, fewer channels again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir.block import INVERTED_RESIDUAL
from eutectic.tir.data_layout import layout as tensor_layout
from eutectic.tir.op import all, const, if_then_else
from eutectic.topi.nn.windows import arranged, paddings
from eutectic.topi.shapes import sizes_text, static
from eutectic.topi.special_values import nan_max, nan_min

Element = Callable[..., Any]


def inverted_residual(
    data: Tensor,
    window: Tensor,
    window_bias: Tensor,
    project: Tensor,
    expand: Tensor | None = None,
    expand_bias: Tensor | None = None,
    *,
    filters: int,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    lower: float = -inf,
    upper: float = inf,
    data_layout: str = "NHWC",
    out_layout: str | None = None,
) -> Tensor:
    """Expand, filter each channel, and project; the first two are limited to bounds.

    Channels between are counted in blocks of `v`, those of the result in panels of `p`, which may be more than there
    are: the factors of the others are zero.

    Args:
        data: `(n, c, h, w)` in `data_layout`, float.
        window: `(e / v, kh, kw, v)`: the window of each channel; same dtype, as all others.
        window_bias: `(e / v, v)`.
        project: `(o / p, e / v, v, p)`.
        expand: `(e / v, c, v)`; without it the channels of the data are filtered.
        expand_bias: `(e / v, v)`.
        filters: Output channels.
        strides: Of the windows: one number, or one per axis.
        padding: Zeros around what is filtered: one number, one per axis, or all before and then all after.
        lower: Least value of what is expanded, and of what is filtered.
        upper: Largest value of both.
        data_layout: `NHWC`, `NCHW`, or channels in blocks, such as `NCHW16c`.
        out_layout: `NHWC` or `NCHW`; None takes that of the data.

    Returns:
        `(n, filters, oh, ow)` in `out_layout`; stages `expand`, `hidden`, `depthwise_sum`, `depthwise`, `products`,
        `project` and `inverted_residual`.

    Raises:
        ValueError: ranks or channels do not go together.

    Accuracy: the projection is summed in blocks of `v` terms.
    Reference: M. Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018.
    """
    image = _Image(data, data_layout)
    blocks, lanes, depth = window.shape[0], window.shape[3], None if expand is None else expand.shape[1]
    read = static(simplify(blocks * lanes)) if depth is None else static(depth)
    if len(project.shape) != 4 or static(image.channels) != read or (expand is None) != (expand_bias is None):
        raise ValueError(f"inverted residual of {sizes_text(data.shape)} in {data_layout}: operands do not go together")
    steps = [strides, strides] if isinstance(strides, int) else list(strides)
    before, after = paddings(padding, 2)
    out = [
        simplify((size + b + a - tap) // step + 1)
        for size, b, a, tap, step in zip(image.space, before, after, window.shape[1:3], steps, strict=True)
    ]
    bounds = (lower, upper)
    value = _hidden_values(image, expand, expand_bias, (blocks, lanes), bounds)
    hidden = _padded(value, image, before, (out, steps, window), data.dtype)
    filtered = _filtered(hidden, window, window_bias, (out, steps), bounds)
    total = _projected(filtered, project)
    target, panel = out_layout or data_layout, project.shape[3]

    def element(*place: Any) -> PrimExpr:
        n, o, y, x = arranged(place, target, "NCHW")
        chosen: PrimExpr = total(n, y, x, o // panel, o % panel)
        return chosen

    names = arranged(["nn", "ff", "yy", "xx"], "NCHW", target)
    shape = arranged([image.batch, filters, *out], "NCHW", target)
    result: Tensor = compute(shape, element, "inverted_residual", varargs_names=names)
    return result


class _Image:
    """The data, by channels and places."""

    def __init__(self, data: Tensor, layout: str) -> None:
        self._data, self._block = data, tensor_layout(layout).factor_of("C")
        self._names = "NCHW" if self._block > 1 else layout
        self.batch, channels, *self.space = arranged(data.shape[:4], self._names, "NCHW")
        self.channels = simplify(channels * self._block)

    def at(self, n: Any, c: Any, y: Any, x: Any) -> PrimExpr:
        """One element."""
        if self._block > 1:
            return self._data(n, c // self._block, y, x, c % self._block)
        return self._data(*arranged([n, c, y, x], "NCHW", self._names))


def _hidden_values(
    image: _Image, expand: Tensor | None, bias: Tensor | None, blocks: tuple[Any, Any], bounds: tuple[float, float]
) -> Element:
    """What is filtered, by block, row, column and channel of the block."""
    count, lanes = blocks
    if expand is None or bias is None:
        return lambda n, e, y, x, v: image.at(n, e * lanes + v, y, x)
    rc = reduce_axis((0, expand.shape[1]), "rc")
    wide = compute(
        (image.batch, count, *image.space, lanes),
        lambda n, e, y, x, v: te_sum(image.at(n, rc, y, x) * expand(e, rc, v), [rc]),
        "expand",
        attrs={INVERTED_RESIDUAL: "expand"},
    )
    return lambda n, e, y, x, v: _bounded(wide(n, e, y, x, v) + bias(e, v), bounds)


def _padded(
    value: Element, image: _Image, before: Sequence[int], windows: tuple[Any, Any, Tensor], dtype: str
) -> Tensor:
    """The rows and columns that windows see, zeros around."""
    out, steps, window = windows
    blocks, *taps, lanes = window.shape
    spans = [simplify((size - 1) * step + tap) for size, step, tap in zip(out, steps, taps, strict=True)]

    def element(n: Any, e: Any, y: Any, x: Any, v: Any) -> PrimExpr:
        inside: list[Any] = []
        for index, low, size, span in zip((y, x), before, image.space, spans, strict=True):
            rest = static(simplify(span - size - low))
            inside += [index >= low] if low else []
            inside += [index < size + low] if rest is None or rest > 0 else []
        read = value(n, e, y - before[0], x - before[1], v)
        return if_then_else(all(*inside), read, const(0, dtype)) if inside else read

    hidden: Tensor = compute(
        (image.batch, blocks, *spans, lanes), element, "hidden", attrs={INVERTED_RESIDUAL: "hidden"}
    )
    return hidden


def _filtered(
    hidden: Tensor, window: Tensor, bias: Tensor, places: tuple[Any, Any], bounds: tuple[float, float]
) -> Tensor:
    """The windows of each channel."""
    out, (down, right) = places
    blocks, *taps, lanes = window.shape
    ky, kx = reduce_axis((0, taps[0]), "ky"), reduce_axis((0, taps[1]), "kx")
    shape = (hidden.shape[0], blocks, *out, lanes)
    sums = compute(
        shape,
        lambda n, e, y, x, v: te_sum(hidden(n, e, y * down + ky, x * right + kx, v) * window(e, ky, kx, v), [ky, kx]),
        "depthwise_sum",
        attrs={INVERTED_RESIDUAL: "depthwise_sum"},
    )
    filtered: Tensor = compute(
        shape,
        lambda n, e, y, x, v: _bounded(sums(n, e, y, x, v) + bias(e, v), bounds),
        "depthwise",
        attrs={INVERTED_RESIDUAL: "depthwise"},
    )
    return filtered


def _projected(filtered: Tensor, project: Tensor) -> Tensor:
    """The last convolution: products of each block of channels, and their sum, in panels."""
    batch, blocks, *out, lanes = filtered.shape
    panels, _, _, panel = project.shape
    rv, re = reduce_axis((0, lanes), "rv"), reduce_axis((0, blocks), "re")
    products = compute(
        (batch, blocks, *out, panels, panel),
        lambda n, e, y, x, o, p: te_sum(filtered(n, e, y, x, rv) * project(o, e, rv, p), [rv]),
        "products",
        attrs={INVERTED_RESIDUAL: "products"},
    )
    total: Tensor = compute(
        (batch, *out, panels, panel),
        lambda n, y, x, o, p: te_sum(products(n, re, y, x, o, p), [re]),
        "project",
        attrs={INVERTED_RESIDUAL: "project"},
    )
    return total


def _bounded(value: PrimExpr, bounds: tuple[float, float]) -> PrimExpr:
    lower, upper = bounds
    if lower != -inf:
        value = nan_max(value, const(lower, value.dtype))
    return value if upper == inf else nan_min(value, const(upper, value.dtype))
