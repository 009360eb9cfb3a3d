"""relax.nn.depth_to_space: blocks of channels as blocks of points, the last step of a convolution by residues."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

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
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import is_first_by_layout
from eutectic.relax.op.shapes import at_least, differ, dims_text, paddings, per_axis, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as layout_of

_DEPTH_TO_SPACE: Final = define_op("relax.nn.depth_to_space", arity=1, fusion="injective", traits=["generated"])


@node("relax.attrs.DepthToSpaceAttrs")
class DepthToSpaceAttrs(Attrs):
    """Options of a rearrangement of channels as points.

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


def depth_to_space(
    data: Expr | Sequence[Expr],
    block_shape: int | Sequence[int],
    crops: int | Sequence[int] = 0,
    layout: str = "NCHW",
    out_layout: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Every point becomes a block of points, which are parts of its channels.

    Channel `c` of point `p` of a block, counted with the last axis fastest, is channel `p * o + c` of the data.

    Args:
        data: `(n, o * prod(block_shape), *spatial)` in `layout`; any dtype. One to three spatial axes. Or one tensor
            `(n, o, *spatial)` for each point of a block.
        block_shape: Points of a block along each spatial axis: one value or one per axis.
        crops: Points cut off: one value, one per axis, or all before and then all after.
        layout: Order of the axes of `data`; channels may be in blocks that divide `o`, such as `NCHW16c`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, ...)` with `size * block_shape - before - after` per spatial axis, dtype of `data`.

    Raises:
        TypeInferenceError: another rank, channels that do not divide into points, another number of tensors, tensors
            of several shapes or dtypes, or nothing is left.

    Reference: ONNX DepthToSpace in mode DCR, with crops as TensorFlow's batch_to_space has them.
    """
    rank = spatial_rank(layout)
    canonical = "NC" + SPATIAL[rank]
    attrs = DepthToSpaceAttrs(
        per_axis(block_shape, rank, "block_shape"),
        paddings(crops, rank),
        check_layout(layout, canonical, "layout", blocked=True),
        check_out_layout(out_layout, layout, canonical),
    )
    return call(_DEPTH_TO_SPACE, data, attrs=attrs, span=span)


@_DEPTH_TO_SPACE.identity
def _moves_nothing(c: Call) -> bool:
    attrs = attrs_of(c, DepthToSpaceAttrs)
    return prod(attrs.block_shape) == 1 and not any(attrs.crops) and attrs.layout == attrs.out_layout


@_DEPTH_TO_SPACE.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    return all(batched) and is_first_by_layout(c)


@_DEPTH_TO_SPACE.infer
def _infer(c: Call) -> TensorStructInfo:
    attrs = attrs_of(c, DepthToSpaceAttrs)
    infos = _tensors(c)
    check_ranks(c, infos[:1], (attrs.layout,))
    dtype, rank = infos[0].dtype, len(attrs.block_shape)
    if infos[0].dims is None:
        return tensor_info(None, dtype, layout_of(attrs.out_layout).ndim)
    canonical = "NC" + SPATIAL[rank]
    n, channels, *sizes = arrange_dims(infos[0].dims, attrs.layout, canonical)
    points = prod(attrs.block_shape) if len(infos) == 1 else 1
    if differ(floormod(channels, points), as_prim(0)):
        refuse(
            c,
            f"{short_name(c)}: {size_text(channels)} channels do not divide into {points} points",
            help="the channels of the data are those of the result, times the points of a block",
        )
    shape = (n, simplify(floordiv(channels, points)), *joined_sizes(c, sizes, attrs.block_shape, attrs.crops))
    return tensor_info(arrange_dims(shape, canonical, attrs.out_layout), dtype)


def joined_sizes(
    c: Call, sizes: Sequence[PrimExpr], block_shape: Sequence[int], crops: Sequence[int]
) -> list[PrimExpr]:
    """The spatial sizes of an image whose points are blocks, after points were cut off; refuses when none is left."""
    out = []
    for i, (size, side) in enumerate(zip(sizes, block_shape, strict=True)):
        left = simplify(size * side - (crops[i] + crops[len(block_shape) + i]))
        out.append(at_least(c, left, 1, f"spatial size {i} of the result", "cut less off: crops are too large"))
    return out


def _tensors(c: Call) -> list[TensorStructInfo]:
    """The struct info of the data: of one tensor, or of one for each point."""
    points = prod(attrs_of(c, DepthToSpaceAttrs).block_shape)
    info = c.args[0].struct_info
    if not isinstance(info, TupleStructInfo):
        return tensor_args(c)
    infos = [field for field in info.fields if isinstance(field, TensorStructInfo)]
    if not len(infos) == len(info.fields) == points:
        refuse(c, f"{short_name(c)} to blocks of {points} points needs a tensor for each, got {len(info.fields)}")
    first = infos[0]
    for other in infos[1:]:
        sizes = zip(first.dims or (), other.dims or (), strict=False)
        if other.dtype != first.dtype or other.ndim != first.ndim or any(differ(a, b) for a, b in sizes):
            refuse(
                c,
                f"{short_name(c)} of {dims_text(first.dims)} {first.dtype} and {dims_text(other.dims)} {other.dtype}: "
                "the tensors of all points have one shape and dtype",
            )
    return infos


_DEPTH_TO_SPACE.in_layouts(in_one_layout)


@_DEPTH_TO_SPACE.reference
def _reference(attrs: DepthToSpaceAttrs, data: Array | Sequence[Array]) -> Array:
    rank = len(attrs.block_shape)
    canonical = "NC" + SPATIAL[rank]
    tensors = [data] if isinstance(data, np.ndarray) else data
    x = np.concatenate([arrange(each, attrs.layout, canonical) for each in tensors], axis=1)
    n, channels, *sizes = x.shape
    parts = x.reshape(n, *attrs.block_shape, channels // prod(attrs.block_shape), *sizes)
    return arrange(joined_points(np.moveaxis(parts, 0, rank), attrs.crops), canonical, attrs.out_layout)


def joined_points(parts: Array, crops: Sequence[int]) -> Array:
    """Images of the points of blocks as one.

    Args:
        parts: `(*block_shape, n, c, *spatial)`.
        crops: Points cut off before each spatial axis, then after each.
    """
    rank = parts.ndim // 2 - 1
    sides, sizes = parts.shape[:rank], parts.shape[rank + 2 :]
    order = [rank, rank + 1, *(axis for i in range(rank) for axis in (rank + 2 + i, i))]
    extents = [size * side for size, side in zip(sizes, sides, strict=True)]
    whole = parts.transpose(order).reshape(*parts.shape[rank : rank + 2], *extents)
    ends = [size - crop for size, crop in zip(extents, crops[rank:], strict=True)]
    kept = tuple(slice(first, end) for first, end in zip(crops[:rank], ends, strict=True))
    return np.ascontiguousarray(whole[(slice(None), slice(None), *kept)])


def _program(data: Tensor | Sequence[Tensor], attrs: DepthToSpaceAttrs) -> Tensor:
    out = topi.nn.depth_to_space(data, attrs.block_shape, attrs.crops, attrs.layout)
    return rearranged(out, attrs.layout, attrs.out_layout)


lower(_DEPTH_TO_SPACE, _program, name="depth_to_space", options=lambda attrs: {"attrs": attrs})
