"""relax.nn.depth_to_space: blocks of channels as blocks of points, the last step of a convolution by residues."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim, floordiv, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout, check_out_layout, in_one_layout
from eutectic.relax.op.lowering import lower, rearranged
from eutectic.relax.op.nn.conv import check_ranks
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import at_least, differ, paddings, per_axis, reject, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as layout_of

_DEPTH_TO_SPACE: Final = define_op("relax.nn.depth_to_space", arity=1, fusion="injective")


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
    data: Expr,
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
        data: `(n, o * prod(block_shape), *spatial)` in `layout`; any dtype. One to three spatial axes.
        block_shape: Points of a block along each spatial axis: one value or one per axis.
        crops: Points cut off: one value, one per axis, or all before and then all after.
        layout: Order of the axes of `data`; channels may be in blocks that divide `o`, such as `NCHW16c`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, ...)` with `size * block_shape - before - after` per spatial axis, dtype of `data`.

    Raises:
        TypeInferenceError: another rank, channels that do not divide into points, or nothing is left.

    Reference: ONNX DepthToSpace in mode DCR, with crops as TensorFlow's batch_to_space has them.
    """
    rank = _rank(layout)
    canonical = "NC" + SPATIAL[rank]
    attrs = DepthToSpaceAttrs(
        per_axis(block_shape, rank, "block_shape"),
        paddings(crops, rank),
        check_layout(layout, canonical, "layout", blocked=True),
        check_out_layout(out_layout, layout, canonical),
    )
    return call(_DEPTH_TO_SPACE, data, attrs=attrs, span=span)


def _rank(layout: str) -> int:
    """Number of spatial axes of a layout."""
    rank = sum(letter in "DHW" for letter in layout)
    if rank not in SPATIAL:
        reject(f"layout {layout!r} has {rank} spatial axes, expected 1 to 3", help="try 'NCHW'")
    return rank


@_DEPTH_TO_SPACE.identity
def _moves_nothing(c: Call) -> bool:
    attrs = attrs_of(c, DepthToSpaceAttrs)
    return prod(attrs.block_shape) == 1 and not any(attrs.crops) and attrs.layout == attrs.out_layout


@_DEPTH_TO_SPACE.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, DepthToSpaceAttrs)
    check_ranks(c, (info,), (attrs.layout,))
    if info.dims is None:
        return tensor_info(None, info.dtype, layout_of(attrs.out_layout).ndim)
    rank = len(attrs.block_shape)
    canonical = "NC" + SPATIAL[rank]
    n, channels, *sizes = arrange_dims(info.dims, attrs.layout, canonical)
    points = prod(attrs.block_shape)
    if differ(floormod(channels, points), as_prim(0)):
        refuse(
            c,
            f"{short_name(c)}: {size_text(channels)} channels do not divide into {points} points",
            help="the channels of the data are those of the result, times the points of a block",
        )
    out = []
    for i, (size, side) in enumerate(zip(sizes, attrs.block_shape, strict=True)):
        left = simplify(size * side - (attrs.crops[i] + attrs.crops[rank + i]))
        out.append(at_least(c, left, 1, f"spatial size {i} of the result", "cut less off: crops are too large"))
    shape = (n, simplify(floordiv(channels, points)), *out)
    return tensor_info(arrange_dims(shape, canonical, attrs.out_layout), info.dtype)


_DEPTH_TO_SPACE.in_layouts(in_one_layout)


@_DEPTH_TO_SPACE.reference
def _reference(attrs: DepthToSpaceAttrs, data: Array) -> Array:
    rank = len(attrs.block_shape)
    canonical = "NC" + SPATIAL[rank]
    x = arrange(data, attrs.layout, canonical)
    n, channels, *sizes = x.shape
    parts = x.reshape(n, *attrs.block_shape, channels // prod(attrs.block_shape), *sizes)
    order = [0, rank + 1, *(axis for i in range(rank) for axis in (rank + 2 + i, 1 + i))]
    extents = [size * side for size, side in zip(sizes, attrs.block_shape, strict=True)]
    whole = parts.transpose(order).reshape(n, -1, *extents)
    ends = [size - crop for size, crop in zip(extents, attrs.crops[rank:], strict=True)]
    kept = tuple(slice(first, end) for first, end in zip(attrs.crops[:rank], ends, strict=True))
    return arrange(whole[(slice(None), slice(None), *kept)], canonical, attrs.out_layout)


def _program(data: Tensor, attrs: DepthToSpaceAttrs) -> Tensor:
    out = topi.nn.depth_to_space(data, attrs.block_shape, attrs.crops, attrs.layout)
    return rearranged(out, attrs.layout, attrs.out_layout)


lower(_DEPTH_TO_SPACE, _program, name="depth_to_space", options=lambda attrs: {"attrs": attrs})
