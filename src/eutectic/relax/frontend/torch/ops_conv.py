"""Convolutions: `conv`, then `reshape` of the bias to the channel axis, then `add`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.op import add, expand_dims, nn, reshape, squeeze

_PLAIN: Final[dict[int, tuple[Callable[..., Call], str, str]]] = {
    1: (nn.conv1d, "NCW", "OIW"),
    2: (nn.conv2d, "NCHW", "OIHW"),
    3: (nn.conv3d, "NCDHW", "OIDHW"),
}
_TRANSPOSED: Final[dict[int, tuple[Callable[..., Call], str, str]]] = {
    1: (nn.conv1d_transpose, "NCW", "IOW"),
    2: (nn.conv2d_transpose, "NCHW", "IOHW"),
    3: (nn.conv3d_transpose, "NCDHW", "IODHW"),
}


def _spread(value: Any, rank: int) -> list[int]:
    """One number, or one per axis, as one per axis."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * rank if len(values) == 1 else values


def _kernel(ctx: Context, weight: Expr) -> list[int]:
    sizes = [as_int(size) for size in dims_of(weight)[2:]]
    if any(size is None for size in sizes):
        ctx.refuse("the size of its kernel varies")
    return [size for size in sizes if size is not None]


def _padding(ctx: Context, weight: Expr, padding: Any, dilation: list[int], rank: int) -> list[int]:
    """Zeros before each axis, then after each when the two differ; `same` puts the odd one after."""
    if not isinstance(padding, str):
        return _spread(padding, rank)
    if padding == "valid":
        return [0] * rank
    totals = [d * (k - 1) for d, k in zip(dilation, _kernel(ctx, weight), strict=True)]
    before = [total // 2 for total in totals]
    after = [total - total // 2 for total in totals]
    return before if before == after else [*before, *after]


def _with_bias(ctx: Context, out: Expr, bias: Expr | None, channels: Any, rank: int) -> Expr:
    if bias is None:
        return out
    return ctx.call(add, out, ctx.call(reshape, bias, (1, channels, *[1] * rank)))


def _batched(ctx: Context, x: Expr, rank: int, convolve: Callable[[Expr], Expr]) -> Expr:
    """`convolve` of `x`, or of a batch of one where torch lets the batch axis be left out."""
    if ndim_of(x) == rank + 2:
        return convolve(x)
    return ctx.call(squeeze, convolve(ctx.call(expand_dims, x, 0)), 0)


def _conv(
    ctx: Context, x: Expr, weight: Expr, bias: Expr | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Expr:
    rank = ndim_of(weight) - 2
    operator, data_layout, kernel_layout = _PLAIN[rank]
    steps = _spread(dilation, rank)

    def convolve(data: Expr) -> Expr:
        out = ctx.call(
            operator,
            data,
            weight,
            strides=_spread(stride, rank),
            padding=_padding(ctx, weight, padding, steps, rank),
            dilation=steps,
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_dtype=dtype_of(data),
        )
        return _with_bias(ctx, out, bias, dims_of(weight)[0], rank)

    return _batched(ctx, x, rank, convolve)


def _conv_transposed(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Any,
    padding: Any,
    extra: Any,
    options: Sequence[Any],
) -> Expr:
    groups, dilation = options
    rank = ndim_of(weight) - 2
    operator, data_layout, kernel_layout = _TRANSPOSED[rank]

    def convolve(data: Expr) -> Expr:
        out = ctx.call(
            operator,
            data,
            weight,
            strides=_spread(stride, rank),
            padding=_spread(padding, rank),
            output_padding=_spread(extra, rank),
            dilation=_spread(dilation, rank),
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_dtype=dtype_of(data),
        )
        return _with_bias(ctx, out, bias, dims_of(weight)[1] * groups, rank)

    return _batched(ctx, x, rank, convolve)


@converts(*(f"aten.conv{rank}d.{form}" for rank in (1, 2, 3) for form in ("default", "padding")))
def conv(
    ctx: Context, x: Expr, weight: Expr, bias: Expr | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Expr:
    """Convolution over one to three axes, with explicit padding, `same` or `valid`."""
    return _conv(ctx, x, weight, bias, stride, padding, dilation, groups)


@converts("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Expr:
    """Transposed convolution over one to three axes."""
    return _conv_transposed(ctx, x, weight, bias, stride, padding, output_padding, (groups, dilation))


@converts("aten.convolution.default")
def convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Expr:
    """The general form, which core ATen has."""
    if transposed:
        return _conv_transposed(ctx, x, weight, bias, stride, padding, output_padding, (groups, dilation))
    return _conv(ctx, x, weight, bias, stride, padding, dilation, groups)
