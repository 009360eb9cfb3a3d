"""relax.nn.space_to_batch, relax.nn.batch_to_space: blocks of points as images of their own, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr, as_prim, floordiv, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import (
    SPATIAL,
    arrange,
    arrange_dims,
    check_layout,
    check_out_layout,
    in_one_layout,
    spatial_rank,
)
from eutectic.relax.op.lowering import lower, rearranged
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.nn.conv_reference import pad_spatial
from eutectic.relax.op.nn.depth_to_space import joined_points, joined_sizes
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import differ, paddings, per_axis, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as layout_of

_TO_BATCH: Final = define_op("relax.nn.space_to_batch", arity=1, fusion="injective", traits=["generated"])
_TO_SPACE: Final = define_op("relax.nn.batch_to_space", arity=1, fusion="injective", traits=["generated"])


@node("relax.attrs.SpaceToBatchAttrs")
class SpaceToBatchAttrs(Attrs):
    """Options of a rearrangement of points as images.

    Attributes:
        block_shape: Points of a block per spatial axis.
        padding: Zeros before each spatial axis, then after each.
        layout: Order of the axes of the data, whose channels may be in blocks.
        out_layout: Order of the axes of the result.
    """

    block_shape: tuple[int, ...]
    padding: tuple[int, ...]
    layout: str
    out_layout: str


@node("relax.attrs.BatchToSpaceAttrs")
class BatchToSpaceAttrs(Attrs):
    """Options of a rearrangement of images as points.

    Attributes:
        block_shape: Points of a block per spatial axis.
        crops: Points cut off before each spatial axis, then after each.
        layout: Order of the axes of the data, whose channels may be in blocks.
        out_layout: Order of the axes of the result.
    """

    block_shape: tuple[int, ...]
    crops: tuple[int, ...]
    layout: str
    out_layout: str


def space_to_batch(
    data: Expr,
    block_shape: int | Sequence[int],
    padding: int | Sequence[int] = 0,
    layout: str = "NCHW",
    out_layout: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Points that have the same place in their blocks become an image: what a window with taps apart sees.

    Image `i` of point `p` of a block, counted with the last axis fastest, is image `p * n + i` of the result.

    Args:
        data: `(n, c, *spatial)` in `layout`; any dtype. One to three spatial axes.
        block_shape: Points of a block along each spatial axis: one value or one per axis.
        padding: Zeros around: one value, one per axis, or all before and then all after.
        layout: Order of the axes of `data`; channels may be in blocks, such as `NCHW16c`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(prod(block_shape) * n, c, ...)` with `(before + size + after) / block_shape` per spatial axis.

    Raises:
        TypeInferenceError: another rank, or blocks that do not divide the padded sizes.

    Reference: TensorFlow tf.space_to_batch_nd; TVM topi.nn.space_to_batch_nd.
    """
    return call(
        _TO_BATCH, data, attrs=SpaceToBatchAttrs(*_options(block_shape, padding, layout, out_layout)), span=span
    )


def batch_to_space(
    data: Expr,
    block_shape: int | Sequence[int],
    crops: int | Sequence[int] = 0,
    layout: str = "NCHW",
    out_layout: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Inverse of `space_to_batch`: images of the points of blocks become one image.

    Args:
        data: `(prod(block_shape) * n, c, *spatial)` in `layout`; any dtype. One to three spatial axes.
        block_shape: Points of a block along each spatial axis: one value or one per axis.
        crops: Points cut off: one value, one per axis, or all before and then all after.
        layout: Order of the axes of `data`; channels may be in blocks, such as `NCHW16c`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, c, ...)` with `size * block_shape - before - after` per spatial axis, dtype of `data`.

    Raises:
        TypeInferenceError: another rank, images that do not divide into points, or nothing is left.

    Reference: TensorFlow tf.batch_to_space; TVM topi.nn.batch_to_space_nd.
    """
    return call(_TO_SPACE, data, attrs=BatchToSpaceAttrs(*_options(block_shape, crops, layout, out_layout)), span=span)


def _options(
    block_shape: int | Sequence[int], widths: int | Sequence[int], layout: str, out_layout: str | None
) -> tuple[tuple[int, ...], tuple[int, ...], str, str]:
    rank = spatial_rank(layout)
    canonical = "NC" + SPATIAL[rank]
    return (
        per_axis(block_shape, rank, "block_shape"),
        paddings(widths, rank),
        check_layout(layout, canonical, "layout", blocked=True),
        check_out_layout(out_layout, layout, canonical),
    )


@_TO_BATCH.infer
def _infer_batch(c: Call) -> TensorStructInfo:
    (info,), attrs = tensor_args(c), attrs_of(c, SpaceToBatchAttrs)
    check_ranks(c, (info,), (attrs.layout,))
    rank = len(attrs.block_shape)
    if info.dims is None:
        return tensor_info(None, info.dtype, layout_of(attrs.out_layout).ndim)
    n, channels, *sizes = arrange_dims(info.dims, attrs.layout, "NC" + SPATIAL[rank])
    out = []
    for i, (size, side) in enumerate(zip(sizes, attrs.block_shape, strict=True)):
        whole = simplify(size + (attrs.padding[i] + attrs.padding[rank + i]))
        if differ(floormod(whole, side), as_prim(0)):
            refuse(
                c, f"{short_name(c)}: {size_text(whole)} points do not divide into blocks of {side}", help="pad more"
            )
        out.append(simplify(floordiv(whole, side)))
    return _result(attrs, (simplify(n * prod(attrs.block_shape)), channels, *out), info.dtype)


@_TO_SPACE.infer
def _infer_space(c: Call) -> TensorStructInfo:
    (info,), attrs = tensor_args(c), attrs_of(c, BatchToSpaceAttrs)
    check_ranks(c, (info,), (attrs.layout,))
    rank, points = len(attrs.block_shape), prod(attrs.block_shape)
    if info.dims is None:
        return tensor_info(None, info.dtype, layout_of(attrs.out_layout).ndim)
    n, channels, *sizes = arrange_dims(info.dims, attrs.layout, "NC" + SPATIAL[rank])
    if differ(floormod(n, points), as_prim(0)):
        refuse(c, f"{short_name(c)}: {size_text(n)} images do not divide into {points} points of a block")
    out = joined_sizes(c, sizes, attrs.block_shape, attrs.crops)
    return _result(attrs, (simplify(floordiv(n, points)), channels, *out), info.dtype)


def _result(attrs: SpaceToBatchAttrs | BatchToSpaceAttrs, dims: tuple[PrimExpr, ...], dtype: str) -> TensorStructInfo:
    return tensor_info(arrange_dims(dims, "NC" + SPATIAL[len(attrs.block_shape)], attrs.out_layout), dtype)


@_TO_BATCH.reference
def _to_batch(attrs: SpaceToBatchAttrs, data: Array) -> Array:
    rank = len(attrs.block_shape)
    canonical = "NC" + SPATIAL[rank]
    x = pad_spatial(arrange(data, attrs.layout, canonical), attrs.padding, 0)
    n, channels, *sizes = x.shape
    pairs = [part for size, side in zip(sizes, attrs.block_shape, strict=True) for part in (size // side, side)]
    order = [*range(3, 2 * rank + 2, 2), 0, 1, *range(2, 2 * rank + 2, 2)]
    images = x.reshape(n, channels, *pairs).transpose(order).reshape(-1, channels, *pairs[::2])
    return arrange(images, canonical, attrs.out_layout)


@_TO_SPACE.reference
def _to_space(attrs: BatchToSpaceAttrs, data: Array) -> Array:
    rank = len(attrs.block_shape)
    canonical = "NC" + SPATIAL[rank]
    x = arrange(data, attrs.layout, canonical)
    n, channels, *sizes = x.shape
    parts = x.reshape(*attrs.block_shape, n // prod(attrs.block_shape), channels, *sizes)
    return arrange(joined_points(parts, attrs.crops), canonical, attrs.out_layout)


@_TO_BATCH.identity
@_TO_SPACE.identity
def _moves_nothing(c: Call) -> bool:
    attrs = c.attrs
    assert isinstance(attrs, (SpaceToBatchAttrs, BatchToSpaceAttrs))
    widths = attrs.padding if isinstance(attrs, SpaceToBatchAttrs) else attrs.crops
    return prod(attrs.block_shape) == 1 and not any(widths) and attrs.layout == attrs.out_layout


def _batch_program(data: Tensor, attrs: SpaceToBatchAttrs) -> Tensor:
    out = topi.nn.space_to_batch(data, attrs.block_shape, attrs.padding, attrs.layout)
    return rearranged(out, attrs.layout, attrs.out_layout)


def _space_program(data: Tensor, attrs: BatchToSpaceAttrs) -> Tensor:
    out = topi.nn.batch_to_space(data, attrs.block_shape, attrs.crops, attrs.layout)
    return rearranged(out, attrs.layout, attrs.out_layout)


_TO_BATCH.in_layouts(in_one_layout)
_TO_SPACE.in_layouts(in_one_layout)
lower(_TO_BATCH, _batch_program, name="space_to_batch", options=lambda attrs: {"attrs": attrs})
lower(_TO_SPACE, _space_program, name="batch_to_space", options=lambda attrs: {"attrs": attrs})
