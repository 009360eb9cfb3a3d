"""Convolutions over one, two or three spatial axes, in any layout, with groups and dilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir import op
from eutectic.topi.elementwise import cast
from eutectic.topi.nn.windows import Axes, arranged, padded, paddings, per_axis
from eutectic.topi.shapes import sizes_text, static
from eutectic.topi.special_values import accumulator

SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}
_AXES: Final = ("nn", "ff", "yy", "xx", "zz")
_REDUCED: Final = ("ry", "rx", "rz")
Ints = int | Sequence[int]


def finished(total: Tensor, dtype: str) -> Tensor:
    """A sum in the dtype of the result."""
    return cast(total, dtype) if total.dtype != dtype else total


def wide_dtype(dtype: str) -> str:
    """The dtype in which products are summed for a result of some dtype."""
    return accumulator(dtype) if is_float(dtype) else dtype


def convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    layouts: tuple[str, str, str],
    out_dtype: str | None,
) -> Tensor:
    """Cross-correlation; `conv1d`, `conv2d` and `conv3d` say what the arguments are.

    Raises:
        ValueError: ranks or layouts do not fit, or channels do not go with `groups`.
    """
    data_layout, kernel_layout, out_layout = layouts
    canonical, kernel_canonical = "NC" + SPATIAL[rank], "OI" + SPATIAL[rank]
    step, apart = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    before, after = paddings(padding, rank)
    n, channels, *sizes = arranged(data.shape, data_layout, canonical)
    filters, depth, *kernel = arranged(weight.shape, kernel_layout, kernel_canonical)
    known = (static(channels), static(depth), static(filters))
    if None not in known and (known[0] != (known[1] or 0) * groups or (known[2] or 0) % groups):
        raise ValueError(
            f"convolution of {sizes_text(data.shape)} with {sizes_text(weight.shape)} does not go with {groups} groups"
        )
    temp = padded(data, Axes.of(data_layout), before, after, 0)
    out = [
        simplify((size + (b + a) - (k - 1) * d - 1) // s + 1)
        for size, b, a, k, d, s in zip(sizes, before, after, kernel, apart, step, strict=True)
    ]
    rc = reduce_axis((0, depth), "rc")
    taps = [reduce_axis((0, k), name) for k, name in zip(kernel, _REDUCED, strict=False)]
    over = arranged([rc, *taps], canonical[1:], data_layout.replace("N", ""))
    dtype = out_dtype or data.dtype
    wide = wide_dtype(dtype)

    def element(*at: PrimExpr) -> Any:
        image, filter_at, *place = arranged(at, out_layout, canonical)
        channel: Any = rc if groups == 1 else filter_at // (filters // groups) * depth + rc
        where = [
            (i * s if s > 1 else i) + (tap * d if d > 1 else tap)
            for i, s, tap, d in zip(place, step, taps, apart, strict=True)
        ]
        x = temp(*arranged([image, channel, *where], canonical, data_layout))
        w = weight(*arranged([filter_at, rc, *taps], kernel_canonical, kernel_layout))
        return te_sum(x.astype(wide) * w.astype(wide), over)

    shape = arranged([n, filters, *out], canonical, out_layout)
    names = arranged(_AXES[: rank + 2], canonical, out_layout)
    name = f"{'group_' if groups > 1 else ''}conv{rank}d_{data_layout.lower()}"
    return finished(compute(shape, lambda *at: element(*at), name, name, varargs_names=names), dtype)


def _constructor(rank: int) -> Callable[..., Tensor]:
    canonical, kernel = "NC" + SPATIAL[rank], "OI" + SPATIAL[rank]

    def definition(
        data: Tensor,
        weight: Tensor,
        strides: Ints = 1,
        padding: Ints = 0,
        dilation: Ints = 1,
        groups: int = 1,
        data_layout: str = canonical,
        kernel_layout: str = kernel,
        out_layout: str | None = None,
        out_dtype: str | None = None,
    ) -> Tensor:
        layouts = (data_layout, kernel_layout, out_layout or data_layout)
        return convolution(rank, data, weight, strides, padding, dilation, groups, layouts, out_dtype)

    definition.__name__ = definition.__qualname__ = f"conv{rank}d"
    definition.__doc__ = f"""Cross-correlation over {rank} spatial axes.

    Args:
        data: The axes of `data_layout`.
        weight: The axes of `kernel_layout`; `I` counts the channels of one group.
        strides: Step between windows.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        dilation: Step between the taps of a window.
        groups: Number of independent groups of channels.
        data_layout: Order of the axes of the data.
        kernel_layout: Order of the axes of the weights.
        out_layout: Order of the axes of the result; None takes that of the data.
        out_dtype: Dtype of the result; None takes that of the data.

    Returns:
        Stages `pad_temp` where there is padding, and `conv{rank}d_...`, with `group_` in front where there are
        groups; floats of 16 bits are summed in float32, and cast by one more stage.

    Raises:
        ValueError: ranks or layouts do not fit, or channels do not go with `groups`.

    Reference: TVM topi.nn.conv.
    """
    return definition


conv1d, conv2d, conv3d = _constructor(1), _constructor(2), _constructor(3)


def transposed_convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: Ints,
    padding: Ints,
    output_padding: Ints,
    dilation: Ints,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    """The adjoint of `convolution`; `conv1d_transpose` and its like say what the arguments are.

    Raises:
        ValueError: ranks do not fit.
    """
    canonical, kernel_canonical = "NC" + SPATIAL[rank], "IO" + SPATIAL[rank]
    step, apart = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    before, after = paddings(padding, rank)
    extra = per_axis(output_padding, rank, "output_padding")
    n, _, *sizes = arranged(data.shape, canonical, canonical)
    _, per_group, *kernel = arranged(weight.shape, kernel_canonical, kernel_canonical)
    out = [
        simplify((size - 1) * s - (b + a) + (k - 1) * d + (e + 1))
        for size, s, b, a, k, d, e in zip(sizes, step, before, after, kernel, apart, extra, strict=True)
    ]
    dtype = out_dtype or data.dtype
    wide = wide_dtype(dtype)
    product, inner = _products(data, weight, groups, wide)
    if max(step) > 1:  # conditions would break the rows of the product; they are asked of its results instead
        product, inner = _columns(product, inner, (n, groups, *kernel, per_group, *sizes)), []
    taps = [reduce_axis((0, k), name) for k, name in zip(kernel, _REDUCED, strict=False)]

    def element(image: PrimExpr, channel: PrimExpr, *place: PrimExpr) -> Any:
        conditions: list[PrimExpr] = []
        index: list[PrimExpr] = []
        for i, tap, size, s, b, d in zip(place, taps, sizes, step, before, apart, strict=True):
            from_start = i + b - tap * d
            at = from_start // s
            conditions += [] if s == 1 else [(from_start % s).equal(0)]
            conditions += [at >= 0, at < size]
            index.append(at)
        group = (channel // per_group, channel % per_group) if groups > 1 else (0, channel)
        term = product(image, group[0], *taps, group[1], *index)
        return te_sum(op.if_then_else(op.all(*conditions), term, op.const(0, wide)), [*inner, *taps])

    shape = (n, simplify(per_group * groups), *out)
    name = f"{'group_' if groups > 1 else ''}conv{rank}d_transpose_{canonical.lower()}"
    total = compute(shape, lambda *at: element(*at), name, name, varargs_names=list(_AXES[: rank + 2]))
    return finished(total, dtype)


def _products(data: Tensor, weight: Tensor, groups: int, wide: str) -> tuple[Callable[..., Any], list[Any]]:
    """The product of one input channel at `(n, group, *tap, filter, *place)`, and the axis of the channels."""
    depth, rank = data.shape[1] // groups, len(data.shape) - 2
    rc = reduce_axis((0, depth), "rc")

    def product(image: PrimExpr, group: Any, *at: PrimExpr) -> Any:
        taps, filter_at, place = at[:rank], at[rank], at[rank + 1 :]
        source: Any = rc if groups == 1 else group * depth + rc
        return data(image, source, *place).astype(wide) * weight(source, filter_at, *taps).astype(wide)

    return product, [rc]


def _columns(product: Callable[..., Any], over: list[Any], shape: Sequence[Any]) -> Tensor:
    """What each element of the data puts at each tap: sums over channels, without conditions."""
    columns: Tensor = compute(shape, lambda *at: te_sum(product(*at), over), "columns", "columns")
    return columns


def _transposed(rank: int) -> Callable[..., Tensor]:
    def definition(
        data: Tensor,
        weight: Tensor,
        strides: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        dilation: Ints = 1,
        groups: int = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        return transposed_convolution(rank, data, weight, strides, padding, output_padding, dilation, groups, out_dtype)

    definition.__name__ = definition.__qualname__ = f"conv{rank}d_transpose"
    definition.__doc__ = f"""The adjoint of `conv{rank}d`, gathered element by element.

    Args:
        data: `(n, i, *spatial)`.
        weight: `(i, o / groups, *kernel)`.
        strides: Step between the windows written.
        padding: Elements cut off: one number, one per axis, or all before and then all after.
        output_padding: Elements added at the end of each axis.
        dilation: Step between the taps of a window.
        groups: Number of independent groups of channels.
        out_dtype: Dtype of the result; None takes that of the data.

    Returns:
        `(n, o, ...)` with `(size - 1) * stride - pads + dilation * (kernel - 1) + output_padding + 1` per axis. With
        strides a stage `columns` has the products of all elements and taps, of which those are added that meet.

    Raises:
        ValueError: ranks do not fit.

    Reference: TVM topi.nn.conv{rank}d_transpose, which dilates and pads the data first.
    """
    return definition


conv1d_transpose, conv2d_transpose, conv3d_transpose = _transposed(1), _transposed(2), _transposed(3)
