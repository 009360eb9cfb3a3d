"""Adaptive pooling: the size of the result is given, the windows follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout, check_out_layout, in_one_layout
from eutectic.relax.op.lowering import lower, rearranged
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.numerics import Array, cast, dtype_of, exact
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import only_first
from eutectic.relax.op.shapes import dims_text, per_axis, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as layout_of


@node("relax.attrs.AdaptivePoolAttrs")
class AdaptivePoolAttrs(Attrs):
    """Sizes of the result (None keeps those of the data), and layouts."""

    output_size: tuple[int, ...] | None
    layout: str
    out_layout: str


class AdaptivePoolConstructor(Protocol):
    """A constructor of an adaptive pooling operator."""

    def __call__(
        self,
        data: Expr,
        output_size: int | Sequence[int] | None = None,
        layout: str = ...,
        out_layout: str | None = None,
        *,
        span: Any = None,
    ) -> Call:
        """Apply the operator to `data`."""
        ...


def _adaptive(
    name: str, rank: int, compute: Callable[[Array, Sequence[int]], Array], summary: str, floats: bool
) -> AdaptivePoolConstructor:
    """Define one adaptive pooling operator and return its constructor."""
    op = define_op(f"relax.nn.{name}", arity=1, fusion="out_fusible")
    op.identity(lambda c: c.attrs is not None and c.attrs["layout"] == c.attrs["out_layout"])
    canonical = "NC" + SPATIAL[rank]

    def constructor(
        data: Expr,
        output_size: int | Sequence[int] | None = None,
        layout: str = canonical,
        out_layout: str | None = None,
        *,
        span: Any = None,
    ) -> Call:
        attrs = AdaptivePoolAttrs(
            None if output_size is None else per_axis(output_size, rank, "output_size"),
            check_layout(layout, canonical, "layout", blocked=True),
            check_out_layout(out_layout, layout, canonical),
        )
        return call(op, data, attrs=attrs, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        attrs = attrs_of(c, AdaptivePoolAttrs)
        check_ranks(c, (info,), (attrs.layout,))
        if info.dtype == "bool" or (floats and info.dtype and not is_float(info.dtype)):
            wants = "a float dtype" if floats else "numbers"
            refuse(c, f"{short_name(c)} needs {wants}, got {info.dtype}", help="cast with astype first")
        if info.dims is None:
            return tensor_info(None, info.dtype, layout_of(attrs.out_layout).ndim)
        n, channels, *sizes = arrange_dims(info.dims, attrs.layout, canonical)
        if any(static(size) == 0 for size in sizes):
            refuse(c, f"{short_name(c)} of {dims_text(info.dims)}, which has no elements to pool")
        out = (n, channels, *(sizes if attrs.output_size is None else attrs.output_size))
        shaped = tensor_info(out, info.dtype)
        return tensor_info(arrange_dims(shaped.dims or (), canonical, attrs.out_layout), info.dtype)

    op.in_layouts(in_one_layout)
    op.separable(only_first)

    @op.reference
    def _reference(attrs: AdaptivePoolAttrs, data: Array) -> Array:
        x = arrange(data, attrs.layout, canonical)
        out = compute(x, x.shape[2:] if attrs.output_size is None else attrs.output_size)
        return arrange(out, canonical, attrs.out_layout)

    lower(op, _program, name=name, options=lambda attrs: {"attrs": attrs, "kind": "avg" if floats else "max"})
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = _documentation(name, rank, summary, floats)
    return constructor


def _program(data: Tensor, attrs: AdaptivePoolAttrs, kind: str) -> Tensor:
    sizes = attrs.output_size
    out = topi.identity(data) if sizes is None else topi.nn.adaptive_pool(data, sizes, kind, attrs.layout)
    return rearranged(out, attrs.layout, attrs.out_layout)


def _documentation(name: str, rank: int, summary: str, floats: bool) -> str:
    return f"""{summary}

    Window `i` of `m` along an axis of `n` elements is `[i * n // m, ceil((i + 1) * n / m))`.

    Args:
        data: `(n, c, {", ".join(SPATIAL[rank].lower())})` in `layout`; {"a float dtype" if floats else "numbers"}.
        output_size: Sizes of the spatial axes of the result, one value or one per axis; None keeps them.
        layout: Order of the axes of `data`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, c, *output_size)`, dtype of `data`.

    Raises:
        TypeInferenceError: another rank or dtype, or a spatial axis without elements.

    Accuracy: means are summed in float64.
    Reference: torch.nn.functional.{name}.
    """


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _mean(x: Array, sizes: Sequence[int]) -> Array:
    out = exact(x)
    for axis, count in enumerate(sizes, 2):
        bounds = _bounds(x.shape[axis], count)
        pieces = [out[(slice(None),) * axis + (slice(*bound),)].mean(axis=axis) for bound in bounds]
        out = np.stack(pieces, axis=axis)
    return cast(out, dtype_of(x))


def _largest(x: Array, sizes: Sequence[int]) -> Array:
    out = x
    for axis, count in enumerate(sizes, 2):
        bounds = _bounds(x.shape[axis], count)
        pieces = [np.maximum.reduce(out[(slice(None),) * axis + (slice(*bound),)], axis=axis) for bound in bounds]
        out = np.stack(pieces, axis=axis)
    return out


_MEAN = "The mean of windows that cover the data."
_LARGEST = "The largest element of windows that cover the data."

adaptive_avg_pool1d = _adaptive("adaptive_avg_pool1d", 1, _mean, _MEAN, True)
adaptive_avg_pool2d = _adaptive("adaptive_avg_pool2d", 2, _mean, _MEAN, True)
adaptive_avg_pool3d = _adaptive("adaptive_avg_pool3d", 3, _mean, _MEAN, True)
adaptive_max_pool1d = _adaptive("adaptive_max_pool1d", 1, _largest, _LARGEST, False)
adaptive_max_pool2d = _adaptive("adaptive_max_pool2d", 2, _largest, _LARGEST, False)
adaptive_max_pool3d = _adaptive("adaptive_max_pool3d", 3, _largest, _LARGEST, False)
