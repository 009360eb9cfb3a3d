"""Blocks of points as images of their own, and back: what convolutions of windows with taps apart are without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.te import Tensor
from eutectic.topi.nn.windows import Axes, padded, paddings, per_axis
from eutectic.topi.shapes import ravel, stage, unravel


def space_to_batch(
    data: Tensor, block_shape: int | Sequence[int], padding: int | Sequence[int] = 0, layout: str = "NCHW"
) -> Tensor:
    """Points that have the same place in their blocks become an image.

    Args:
        data: The axes of `layout`.
        block_shape: Points of a block along each spatial axis, one number or one per axis; divides the padded sizes.
        padding: Zeros around: one number, one per axis, or all before and then all after.
        layout: Such as `NCHW`, `NHWC` or `NCHW16c`.

    Returns:
        `prod(block_shape)` times the images; stages `pad_temp` and `T_space_to_batch`. Image `i` of point `p` of a
        block, counted with the last axis fastest, is image `p * n + i` of the result.

    Raises:
        ValueError: a number of points or zeros that does not fit, or a layout that is none.
    """
    axes = Axes.of(layout)
    sides, (before, after) = per_axis(block_shape, axes.rank, "block_shape"), paddings(padding, axes.rank)
    whole = padded(data, axes, before, after, 0)
    others, spatial = axes.parted(whole.shape)
    image = axes.canonical.index("N")
    images = others[image]

    def element(*at: PrimExpr) -> Any:
        other, place = axes.parted(at)
        residues = unravel(other[image] // images, [as_prim(side, at[0].dtype) for side in sides])
        other[image] = other[image] % images
        points = [i * side + residue for i, side, residue in zip(place, sides, residues, strict=True)]
        return whole(*axes.joined(other, points))

    others[image] = images * prod(sides)
    shape = axes.joined(others, [size // side for size, side in zip(spatial, sides, strict=True)])
    return stage([simplify(size) for size in shape], element, "T_space_to_batch", "injective")


def batch_to_space(
    data: Tensor, block_shape: int | Sequence[int], crops: int | Sequence[int] = 0, layout: str = "NCHW"
) -> Tensor:
    """Inverse of `space_to_batch`: images of the points of blocks become one.

    Args:
        data: The axes of `layout`; `prod(block_shape)` divides the images.
        block_shape: Points of a block along each spatial axis, one number or one per axis.
        crops: Points cut off: one number, one per axis, or all before and then all after.
        layout: Such as `NCHW`, `NHWC` or `NCHW16c`.

    Returns:
        One stage `T_batch_to_space`.

    Raises:
        ValueError: a number of points or crops that does not fit, or a layout that is none.
    """
    axes = Axes.of(layout)
    sides, (before, after) = per_axis(block_shape, axes.rank, "block_shape"), paddings(crops, axes.rank)
    others, spatial = axes.parted(data.shape)
    image = axes.canonical.index("N")
    others[image] = simplify(others[image] // prod(sides))
    images = others[image]

    def element(*at: PrimExpr) -> Any:
        other, place = axes.parted(at)
        points = [i + b if b else i for i, b in zip(place, before, strict=True)]
        residues = [point % side for point, side in zip(points, sides, strict=True)]
        other[image] = ravel(residues, [as_prim(side, at[0].dtype) for side in sides]) * images + other[image]
        return data(*axes.joined(other, [point // side for point, side in zip(points, sides, strict=True)]))

    out = [size * side - (b + a) for size, side, b, a in zip(spatial, sides, before, after, strict=True)]
    return stage([simplify(size) for size in axes.joined(others, out)], element, "T_batch_to_space", "injective")
