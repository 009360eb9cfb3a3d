"""Blocks of channels as blocks of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor
from eutectic.tir.op import if_then_else
from eutectic.topi.nn.windows import Axes, paddings, per_axis
from eutectic.topi.shapes import stage


def depth_to_space(
    data: Tensor | Sequence[Tensor],
    block_shape: int | Sequence[int],
    crops: int | Sequence[int] = 0,
    layout: str = "NCHW",
) -> Tensor:
    """Every point becomes a block of points, which are parts of its channels.

    Args:
        data: The axes of `layout`; as many channels as the result has, times the points of a block. Or a tensor for
            each point of a block, of one shape.
        block_shape: Points of a block along each spatial axis, one number or one per axis.
        crops: Points cut off: one number, one per axis, or all before and then all after.
        layout: Such as `NCHW`, `NHWC` or `NCHW16c`; a block of channels is part of one point of the result.

    Returns:
        One stage `T_depth_to_space`. Point `p` of a block, counted with the last axis fastest, has the channels from
        `p` times the number of channels of the result on, as in mode `DCR` of ONNX DepthToSpace.

    Raises:
        ValueError: a number of points, crops or tensors that does not fit, or a layout that is none.
    """
    axes = Axes.of(layout)
    sides = per_axis(block_shape, axes.rank, "block_shape")
    before, after = paddings(crops, axes.rank)
    tensors = [data] if isinstance(data, Tensor) else list(data)
    if len(tensors) not in (1, prod(sides)):
        raise ValueError(
            f"depth_to_space to blocks of {prod(sides)} points needs 1 tensor or as many, got {len(tensors)}"
        )
    channel = next(i for i, letter in enumerate(axes.canonical) if letter == "C")
    others, spatial = axes.parted(tensors[0].shape)
    parts = others[channel] // prod(sides) if len(tensors) == 1 else others[channel]

    def element(*at: PrimExpr) -> Any:
        other, place = axes.parted(at)
        points = [i + b if b else i for i, b in zip(place, before, strict=True)]
        source = [i // side for i, side in zip(points, sides, strict=True)]
        residues = [i % side for i, side in zip(points, sides, strict=True)]
        if len(tensors) > 1:
            return _chosen(tensors, residues, sides, axes.joined(other, source))
        other[channel] = other[channel] + _number(residues, sides) * parts
        return tensors[0](*axes.joined(other, source))

    others[channel] = parts
    out = [size * s - (b + a) for size, s, b, a in zip(spatial, sides, before, after, strict=True)]
    return stage([simplify(size) for size in axes.joined(others, out)], element, "T_depth_to_space", "injective")


def _number(residues: Sequence[Any], sides: Sequence[int]) -> Any:
    """The number of a point within its block."""
    number: Any = 0
    for residue, side in zip(residues, sides, strict=True):
        number = number * side + residue
    return number


def _chosen(tensors: Sequence[Tensor], residues: Sequence[Any], sides: Sequence[int], at: Sequence[Any]) -> Any:
    """The element of the tensor of a point; the first axis is asked first, as it changes least often."""
    values: list[Any] = [tensor(*at) for tensor in tensors]
    for residue, side in reversed([*zip(residues, sides, strict=True)]):
        values = [_of_residue(residue, values[k : k + side]) for k in range(0, len(values), side)]
    return values[0]


def _of_residue(residue: Any, values: Sequence[Any]) -> Any:
    chosen = values[-1]
    for number in reversed(range(len(values) - 1)):
        chosen = if_then_else(residue.equal(number), values[number], chosen)
    return chosen
