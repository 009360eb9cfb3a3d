"""relax.nn.pixel_shuffle and relax.nn.batch_flatten: channels as points, points as channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.composed import composed
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import dims_text, int_of, product, reject, static, tensor_info

_PIXEL_SHUFFLE: Final = define_op("relax.nn.pixel_shuffle", arity=1, fusion="injective")
_BATCH_FLATTEN: Final = define_op("relax.nn.batch_flatten", arity=1, fusion="injective")


@node("relax.attrs.PixelShuffleAttrs")
class PixelShuffleAttrs(Attrs):
    """Side of the square of points that replaces a point."""

    upscale_factor: int


def pixel_shuffle(data: Expr, upscale_factor: int, *, span: Any = None) -> Call:
    """Every point becomes a square of points, which are neighbouring channels of it.

    Args:
        data: `(..., c * r * r, h, w)`; any dtype.
        upscale_factor: The side `r` of a square.
        span: Python source of the call, for errors.

    Returns:
        `(..., c, h * r, w * r)`, dtype of `data`.

    Raises:
        TypeInferenceError: fewer than three axes, or channels that do not divide.

    Reference: TVM relax.nn.pixel_shuffle; torch.nn.functional.pixel_shuffle.
    """
    factor = int_of(upscale_factor, "upscale_factor")
    if factor < 1:
        reject(f"upscale_factor must be at least 1, got {factor}")
    return call(_PIXEL_SHUFFLE, data, attrs=PixelShuffleAttrs(factor), span=span)


def _check_shuffle(c: Call) -> StructInfo | None:
    (info,) = tensor_args(c)
    if 0 <= info.ndim < 3:
        refuse(c, f"pixel_shuffle needs three axes, got {dims_text(info.dims)}")
    if info.dims is None or (channels := static(info.dims[-3])) is None:
        return tensor_info(None, info.dtype, info.ndim)
    if channels % attrs_of(c, PixelShuffleAttrs).upscale_factor ** 2:
        refuse(c, f"pixel_shuffle: {channels} channels do not divide by the points of a square")
    return None


def _shuffle(c: Call) -> Expr:
    (info,), r = tensor_args(c), attrs_of(c, PixelShuffleAttrs).upscale_factor
    assert info.dims is not None
    *outer, channels, height, width = info.dims
    n, depth = len(outer), simplify(channels // (r * r))
    apart = reshape(c.args[0], [*outer, depth, r, r, height, width])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return reshape(permute_dims(apart, order), [*outer, depth, simplify(height * r), simplify(width * r)])


composed(_PIXEL_SHUFFLE, _shuffle, _check_shuffle)


@_PIXEL_SHUFFLE.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    (data,) = tensor_args(c)
    return data.ndim > 3


@_PIXEL_SHUFFLE.reference
def _reference_shuffle(attrs: PixelShuffleAttrs, x: Array) -> Array:
    r = attrs.upscale_factor
    *outer, channels, height, width = x.shape
    apart = x.reshape(*outer, channels // (r * r), r, r, height, width)
    n = len(outer)
    side_by_side = apart.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return side_by_side.reshape(*outer, channels // (r * r), height * r, width * r)


def batch_flatten(data: Expr, *, span: Any = None) -> Call:
    """Everything but the first axis along one axis.

    Args:
        data: `(n, ...)`; any dtype.
        span: Python source of the call, for errors.

    Returns:
        `(n, number of elements of a row)`, dtype of `data`.

    Raises:
        TypeInferenceError: no axes.

    Reference: TVM relax.nn.batch_flatten.
    """
    return call(_BATCH_FLATTEN, data, span=span)


def _check_flatten(c: Call) -> StructInfo | None:
    (info,) = tensor_args(c)
    if info.ndim == 0:
        refuse(c, "batch_flatten of a tensor without axes")
    return None if info.dims is not None else tensor_info(None, info.dtype, 2)


def _flatten(c: Call) -> Expr:
    (info,) = tensor_args(c)
    assert info.dims is not None
    return reshape(c.args[0], [info.dims[0], product(info.dims[1:])])


composed(_BATCH_FLATTEN, _flatten, _check_flatten)


@_BATCH_FLATTEN.reference
def _reference_flatten(attrs: None, x: Array) -> Array:
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))
