"""Blocks of channels as blocks of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor
from eutectic.topi.nn.windows import Axes, paddings, per_axis
from eutectic.topi.shapes import stage


def depth_to_space(
    data: Tensor, block_shape: int | Sequence[int], crops: int | Sequence[int] = 0, layout: str = "NCHW"
) -> Tensor:
    """Every point becomes a block of points, which are parts of its channels.

    Args:
        data: The axes of `layout`; as many channels as the result has, times the points of a block.
        block_shape: Points of a block along each spatial axis, one number or one per axis.
        crops: Points cut off: one number, one per axis, or all before and then all after.
        layout: Such as `NCHW`, `NHWC` or `NCHW16c`; a block of channels is part of one point of the result.

    Returns:
        One stage `T_depth_to_space`. Point `p` of a block, counted with the last axis fastest, has the channels from
        `p` times the number of channels of the result on, as in mode `DCR` of ONNX DepthToSpace.

    Raises:
        ValueError: a number of points or crops that does not fit, or a layout that is none.
    """
    axes = Axes.of(layout)
    sides = per_axis(block_shape, axes.rank, "block_shape")
    before, after = paddings(crops, axes.rank)
    letters = "".join(letter for letter in axes.canonical if letter not in "DHW")
    others, spatial = axes.parted(data.shape)
    channel = letters.index("C")
    parts = others[channel] // prod(sides)

    def element(*at: PrimExpr) -> Any:
        other, place = axes.parted(at)
        points = [i + b if b else i for i, b in zip(place, before, strict=True)]
        point: Any = 0
        for i, side in zip(points, sides, strict=True):
            point = point * side + i % side
        other[channel] = other[channel] + point * parts
        return data(*axes.joined(other, [i // side for i, side in zip(points, sides, strict=True)]))

    others[channel] = parts
    out = [size * s - (b + a) for size, s, b, a in zip(spatial, sides, before, after, strict=True)]
    return stage([simplify(size) for size in axes.joined(others, out)], element, "T_depth_to_space", "injective")
