"""Pooling over one, two or three spatial axes: largest or mean element of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr, as_prim, floordiv
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout, check_out_layout, in_one_layout
from eutectic.relax.op.lowering import lower, rearranged
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.nn.conv_reference import taps
from eutectic.relax.op.numerics import Array, cast, dtype_of, exact, lowest
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import only_first
from eutectic.relax.op.shapes import at_least, ceil_div, paddings, per_axis, size_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as layout_of


@node("relax.attrs.PoolAttrs")
class PoolAttrs(Attrs):
    """Options of pooling; see the constructors."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool
    count_include_pad: bool
    layout: str
    out_layout: str


class PoolConstructor(Protocol):
    """A constructor of a pooling operator."""

    def __call__(
        self,
        data: Expr,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = ...,
        out_layout: str | None = None,
        *,
        span: Any = None,
    ) -> Call:
        """Apply the operator to `data`."""
        ...


def _pool(
    name: str, rank: int, compute: Callable[[PoolAttrs, Array, tuple[int, ...]], Array], summary: str, floats: bool
) -> PoolConstructor:
    """Define one pooling operator and return its constructor."""
    op = define_op(f"relax.nn.{name}", arity=1, fusion="out_fusible")
    canonical = "NC" + SPATIAL[rank]

    def constructor(
        data: Expr,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = canonical,
        out_layout: str | None = None,
        *,
        span: Any = None,
    ) -> Call:
        attrs = PoolAttrs(
            per_axis(pool_size, rank, "pool_size"),
            per_axis(strides, rank, "strides"),
            paddings(padding, rank),
            per_axis(dilation, rank, "dilation"),
            bool(ceil_mode),
            bool(count_include_pad),
            check_layout(layout, canonical, "layout", blocked=True),
            check_out_layout(out_layout, layout, canonical),
        )
        return call(op, data, attrs=attrs, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        attrs = attrs_of(c, PoolAttrs)
        check_ranks(c, (info,), (attrs.layout,))
        _check_dtype(c, info.dtype, floats)
        if info.dims is None:
            return tensor_info(None, info.dtype, layout_of(attrs.out_layout).ndim)
        n, channels, *sizes = arrange_dims(info.dims, attrs.layout, canonical)
        out = (n, channels, *(_out_size(c, attrs, i, size) for i, size in enumerate(sizes)))
        return tensor_info(arrange_dims(out, canonical, attrs.out_layout), info.dtype)

    op.in_layouts(in_one_layout)
    op.separable(only_first)

    @op.reference
    def _reference(attrs: PoolAttrs, data: Array) -> Array:
        x = arrange(data, attrs.layout, canonical)
        sizes = tuple(_static_size(attrs, i, size) for i, size in enumerate(x.shape[2:]))
        return arrange(compute(attrs, x, sizes), canonical, attrs.out_layout)

    lower(op, _program, name=name, options=lambda attrs: {"attrs": attrs, "kind": name[:3]})
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = _documentation(name, rank, summary, floats)
    return constructor


def _program(data: Tensor, attrs: PoolAttrs, kind: str) -> Tensor:
    pool = (topi.nn.pool1d, topi.nn.pool2d, topi.nn.pool3d)[len(attrs.pool_size) - 1]
    windows = (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    out = pool(data, *windows, kind, attrs.ceil_mode, attrs.layout, attrs.count_include_pad)
    return rearranged(out, attrs.layout, attrs.out_layout)


def _documentation(name: str, rank: int, summary: str, floats: bool) -> str:
    return f"""{summary}

    Args:
        data: `(n, c, {", ".join(SPATIAL[rank].lower())})` in `layout`; {"a float dtype" if floats else "numbers"}.
        pool_size: Elements of a window per axis; positive.
        strides: Step between windows; positive.
        padding: Elements around: one value, one per axis, or all before and then all after.
        dilation: Step between the elements of a window; positive.
        ceil_mode: Whether a last window may hang over the end; it must start before the end padding.
        count_include_pad: Whether means count padding elements.
        layout: Order of the axes of `data`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, c, ...)` with `(size + pads - dilation * (pool - 1) - 1) // stride + 1` per axis, dtype of `data`.

    Raises:
        TypeInferenceError: another rank or dtype, or no window fits.

    Accuracy: means are summed in float64; NaN makes every window that holds it NaN.
    Reference: torch.nn.functional.{name}; TVM relax.nn.{name}, whose ceil_mode has no limit on the last window.
    """


def _check_dtype(c: Call, dtype: str, floats: bool) -> None:
    if dtype == "bool" or (floats and dtype and not is_float(dtype)):
        wants = "a float dtype" if floats else "numbers"
        refuse(c, f"{short_name(c)} needs {wants}, got {dtype}", help="cast with astype first")


def _out_size(c: Call, attrs: PoolAttrs, i: int, size: PrimExpr) -> PrimExpr:
    rank = len(attrs.pool_size)
    known = static(size)
    pads = attrs.padding[i] + attrs.padding[rank + i]
    room = size + (pads - attrs.dilation[i] * (attrs.pool_size[i] - 1) - 1)
    what = f"no window of {attrs.pool_size[i]} fits {size_text(size)}; the size"
    help = "pad the data, or use a smaller window"
    if known is not None:
        at_least(c, room + 1, 1, what, help)
        return as_prim(_static_size(attrs, i, known))
    divided = ceil_div(room, attrs.strides[i]) if attrs.ceil_mode else floordiv(room, attrs.strides[i])
    return at_least(c, divided + 1, 1, what, help)


def _static_size(attrs: PoolAttrs, i: int, size: int) -> int:
    rank, stride = len(attrs.pool_size), attrs.strides[i]
    before, after = attrs.padding[i], attrs.padding[rank + i]
    room = size + before + after - attrs.dilation[i] * (attrs.pool_size[i] - 1) - 1
    count = (room + (stride - 1 if attrs.ceil_mode else 0)) // stride + 1
    hangs_out = attrs.ceil_mode and (count - 1) * stride >= size + before
    return count - 1 if hangs_out else count


def _padded(attrs: PoolAttrs, x: Array, sizes: Sequence[int], value: Any) -> Array:
    """`x` with padding on all sides, as far as the last window reaches."""
    count = len(sizes)
    reach = [
        s * (n - 1) + d * (k - 1) + 1
        for s, n, d, k in zip(attrs.strides, sizes, attrs.dilation, attrs.pool_size, strict=True)
    ]
    shape = [max(r, size + b) for r, size, b in zip(reach, x.shape[2:], attrs.padding[:count], strict=True)]
    out = np.full((*x.shape[:2], *shape), value, x.dtype)
    inside = (slice(b, b + size) for b, size in zip(attrs.padding[:count], x.shape[2:], strict=True))
    out[(slice(None), slice(None), *inside)] = x
    return out


def _largest(attrs: PoolAttrs, x: Array, sizes: tuple[int, ...]) -> Array:
    padded = _padded(attrs, x, sizes, lowest(dtype_of(x)))
    out = np.full((*x.shape[:2], *sizes), lowest(dtype_of(x)), x.dtype)
    for window in taps(attrs.pool_size, attrs.strides, attrs.dilation, sizes):
        np.maximum(out, padded[(slice(None), slice(None), *window)], out=out)
    return out


def _mean(attrs: PoolAttrs, x: Array, sizes: tuple[int, ...]) -> Array:
    padded = _padded(attrs, exact(x), sizes, 0)
    out = np.zeros((*x.shape[:2], *sizes))
    for window in taps(attrs.pool_size, attrs.strides, attrs.dilation, sizes):
        out += padded[(slice(None), slice(None), *window)]
    for i, count in enumerate(sizes):
        out /= _counts(attrs, i, x.shape[2 + i], count).reshape(-1, *[1] * (len(sizes) - 1 - i))
    return cast(out, dtype_of(x))


def _counts(attrs: PoolAttrs, i: int, size: int, count: int) -> Array:
    """How many elements each window along axis `i` has that count."""
    rank = len(attrs.pool_size)
    before, after = attrs.padding[i], attrs.padding[rank + i]
    low, high = (0, size + before + after) if attrs.count_include_pad else (before, before + size)
    at = np.arange(count)[:, None] * attrs.strides[i] + np.arange(attrs.pool_size[i]) * attrs.dilation[i]
    return np.asarray(((at >= low) & (at < high)).sum(axis=1).astype(np.float64))


_LARGEST = "The largest element of each window; padding never wins."
_MEAN = "The mean of each window."

max_pool1d = _pool("max_pool1d", 1, _largest, _LARGEST, False)
max_pool2d = _pool("max_pool2d", 2, _largest, _LARGEST, False)
max_pool3d = _pool("max_pool3d", 3, _largest, _LARGEST, False)
avg_pool1d = _pool("avg_pool1d", 1, _mean, _MEAN, True)
avg_pool2d = _pool("avg_pool2d", 2, _mean, _MEAN, True)
avg_pool3d = _pool("avg_pool3d", 3, _mean, _MEAN, True)
