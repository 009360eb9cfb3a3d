"""Pooling over windows, adaptive pooling, and resampling of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from eutectic.ir.prim_expr import as_prim, mul
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of
from eutectic.relax.frontend.torch.ops_shape import transposed
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.frontend.torch.varying import in_windows
from eutectic.relax.op import divide, expand_dims, image, max, nn, permute_dims, squeeze, sum
from eutectic.relax.op.shapes import same

_SAMPLING: Final = ("bilinear", "nearest", "bicubic")
_OUTSIDE: Final = ("zeros", "border", "reflection")
_MOST_WINDOWS: Final = 32  # along an axis whose size varies
_MAX: Final = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
_MEAN: Final = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
_ADAPTIVE_MAX: Final = {1: nn.adaptive_max_pool1d, 2: nn.adaptive_max_pool2d, 3: nn.adaptive_max_pool3d}
_ADAPTIVE_MEAN: Final = {1: nn.adaptive_avg_pool1d, 2: nn.adaptive_avg_pool2d, 3: nn.adaptive_avg_pool3d}


def _rank(ctx: Context) -> int:
    name = str(ctx.node.target)
    return next(rank for rank in (1, 2, 3) if f"pool{rank}d" in name)


def _spread(value: Any, rank: int) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * rank if len(values) == 1 else values


def _batched(ctx: Context, x: Expr, rank: int, pool: Callable[[Expr], Expr]) -> Expr:
    """`pool` of `x`, or of a batch of one where torch lets the batch axis be left out."""
    if ndim_of(x) == rank + 2:
        return pool(x)
    return ctx.call(squeeze, pool(ctx.call(expand_dims, x, 0)), 0)


@converts(*(f"aten.max_pool{rank}d.default" for rank in (1, 2, 3)))
def max_pool(
    ctx: Context, x: Expr, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool = False
) -> Expr:
    """Largest element of windows; the stride defaults to the window."""
    rank = _rank(ctx)
    size = _spread(kernel, rank)
    steps = _spread(stride, rank) if stride else size
    options = {"padding": _spread(padding, rank), "dilation": _spread(dilation, rank), "ceil_mode": bool(ceil_mode)}
    return _batched(ctx, x, rank, lambda data: ctx.call(_MAX[rank], data, size, steps, **options))


@converts(
    "aten.max_pool1d_with_indices.default",
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
)
def max_pool_with_indices(
    ctx: Context, x: Expr, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool = False
) -> list[Expr | None]:
    """The form of core ATen; its indices cannot be had."""
    return [max_pool(ctx, x, kernel, stride, padding, dilation, ceil_mode), None]


@converts(*(f"aten.avg_pool{rank}d.default" for rank in (1, 2, 3)))
def avg_pool(
    ctx: Context,
    x: Expr,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Expr:
    """Mean of windows."""
    if divisor_override is not None:
        ctx.refuse(f"divisor_override={divisor_override}")
    rank = _rank(ctx)
    size = _spread(kernel, rank)
    steps = _spread(stride, rank) if stride else size
    options = {
        "padding": _spread(padding, rank),
        "ceil_mode": bool(ceil_mode),
        "count_include_pad": bool(count_include_pad),
    }
    return _batched(ctx, x, rank, lambda data: ctx.call(_MEAN[rank], data, size, steps, **options))


def _adaptive(ctx: Context, x: Expr, size: Any, operators: dict[int, Callable[..., Call]]) -> Expr:
    rank = _rank(ctx)
    wanted = _spread(size, rank)
    one_by_one = any(not isinstance(new, int) for new in wanted)
    for axis, new in enumerate(wanted, ndim_of(x) - rank):
        old = dims_of(x)[axis]
        if (one_by_one or (as_int(old) is None and new != 1)) and not same(old, as_prim(new, "int64")):
            x = _over_varying(ctx, x, axis, new, is_mean=operators == _ADAPTIVE_MEAN)
    if one_by_one:
        return x
    return _batched(ctx, x, rank, lambda data: ctx.call(operators[rank], data, wanted))


def _over_varying(ctx: Context, x: Expr, axis: int, count: Any, is_mean: bool) -> Expr:
    """One axis pooled, whose windows have sizes that vary: each looks at all elements, and leaves out the others'."""
    if not isinstance(count, int) or count > _MOST_WINDOWS:
        ctx.refuse(f"it pools an axis whose size varies to more than {_MOST_WINDOWS} elements")
    dtype = dtype_of(x)
    rows, widths = in_windows(ctx, ctx.wide(x), axis, count, 0 if is_mean else -math.inf)
    out = ctx.call(sum if is_mean else max, rows, -1)
    out = ctx.call(divide, out, ctx.cast(widths, dtype_of(out))) if is_mean else out
    order = list(range(ndim_of(x) - 1))
    order.insert(axis, ndim_of(x) - 1)
    return ctx.cast(transposed(ctx, out, order), dtype)


@converts(
    "aten.adaptive_avg_pool1d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool3d.default",
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
)
def adaptive_avg_pool(ctx: Context, x: Expr, size: Any) -> Expr:
    """Mean of windows that cover the data."""
    return _adaptive(ctx, x, size, dict(_ADAPTIVE_MEAN))


@converts(*(f"aten.adaptive_max_pool{rank}d.default" for rank in (1, 2, 3)))
def adaptive_max_pool(ctx: Context, x: Expr, size: Any) -> list[Expr | None]:
    """Largest element of windows that cover the data; its indices cannot be had."""
    return [_adaptive(ctx, x, size, dict(_ADAPTIVE_MAX)), None]


def _size(ctx: Context, x: Expr, size: Any, factors: Any) -> tuple[Any, Any]:
    """The new height and width, and whether torch's factors agree with their quotient."""
    wanted = tuple(ctx.out_shape[2:])
    if factors is not None and any(factor is not None for factor in factors):
        for old, new, factor in zip(dims_of(x)[2:], wanted, factors, strict=True):
            whole = Fraction(factor)
            if not same(mul(old, as_prim(whole.numerator)), mul(new, as_prim(whole.denominator))):
                ctx.refuse(f"its scale factor {factor} does not give whole sizes")
    return wanted[0], wanted[1]


def _resize(ctx: Context, x: Expr, size: Any, method: str, mode: str) -> Expr:
    rounding = "floor" if mode == "asymmetric" else "round_prefer_ceil"
    return ctx.call(
        image.resize2d,
        x,
        size,
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding if method == "nearest_neighbor" else "round",
    )


@converts("aten.grid_sampler_2d.default")
def grid_sample(ctx: Context, x: Expr, grid: Expr, mode: int, padding: int, align_corners: bool) -> Expr:
    """An image at the places of a grid."""
    places = ctx.call(permute_dims, grid, (0, 3, 1, 2))
    return ctx.call(
        image.grid_sample,
        x,
        places,
        method=_SAMPLING[mode],
        padding_mode=_OUTSIDE[padding],
        align_corners=align_corners,
    )


@converts("aten.upsample_nearest2d.default", "aten.upsample_nearest2d.vec")
def upsample_nearest(ctx: Context, x: Expr, size: Any, *factors: Any) -> Expr:
    """The element at `floor(i * old / new)`."""
    return _resize(ctx, x, _size(ctx, x, size, _factors(factors)), "nearest_neighbor", "asymmetric")


@converts("aten._upsample_nearest_exact2d.default", "aten._upsample_nearest_exact2d.vec")
def upsample_nearest_exact(ctx: Context, x: Expr, size: Any, *factors: Any) -> Expr:
    """The element nearest to the middle of the new one."""
    return _resize(ctx, x, _size(ctx, x, size, _factors(factors)), "nearest_neighbor", "half_pixel")


@converts("aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec")
def upsample_bilinear(ctx: Context, x: Expr, size: Any, align_corners: bool, *factors: Any) -> Expr:
    """Linear interpolation along both axes."""
    mode = "align_corners" if align_corners else "half_pixel"
    return _resize(ctx, x, _size(ctx, x, size, None if align_corners else _factors(factors)), "linear", mode)


def _factors(factors: tuple[Any, ...]) -> Any:
    """Scale factors as one list: torch gives them together or one by one."""
    if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
        return factors[0]
    return factors if any(factor is not None for factor in factors) else None


@converts("aten.im2col.default")
def unfold(ctx: Context, x: Expr, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Expr:
    """Windows of an image as columns: what each place of the window sees, one place after the other."""
    options = [_spread(value, 2) for value in (kernel, stride, padding, dilation)]
    return _batched(ctx, x, 2, lambda data: ctx.call(nn.im2col, data, *options))
