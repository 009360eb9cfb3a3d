"""Normalisations of images whose channels lie in blocks: sums run over points, with a vector of channels at each."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Final

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.te import Tensor, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir import op
from eutectic.topi.shapes import product, sizes_text, stage, static
from eutectic.topi.special_values import accumulator

Value = Callable[..., PrimExpr]
_MOST_PARTS: Final = 8  # of the points of a row, that are summed apart


def group_norm_in_blocks(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, num_groups: int | None, epsilon: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 in each group of channels, then each channel scaled and shifted.

    What is summed of a channel is put together for the channels of its group; then each channel has a mean and a factor
    of its own, which lie as the channels do. Groups that lie inside of blocks need nothing of other blocks.

    Args:
        data: `(n, c / b, ..., b)`, such as an image in `NCHW16c`, of a float dtype and a known number of channels.
        gamma: `(c,)`, the new scale; None for none.
        beta: `(c,)`, the new mean; None for none.
        num_groups: Number of groups; divides `c`. None for one for each channel.
        epsilon: Added to the variance.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeError: not a float dtype.
        ValueError: the channels are not known, or `num_groups` does not divide them.

    Accuracy: the variance is that of two passes; floats of 16 bits are computed in float32.
    """
    if not is_float(data.dtype):
        raise TypeError(f"a normalisation needs a float dtype, got {data.dtype}")
    blocks, lanes = static(data.shape[1]), static(data.shape[-1])
    groups = None if num_groups is None else index(num_groups)
    if blocks is None or lanes is None or (groups is not None and (groups < 1 or blocks * lanes % groups)):
        sizes = sizes_text(data.shape)
        raise ValueError(
            f"channels of {sizes}, of which the last are in blocks, cannot be cut into {num_groups} groups"
        )
    each = blocks * lanes // groups if groups is not None else 1
    wide = accumulator(data.dtype)
    mean = _mean(data, lambda *at: data(*at).astype(wide), each, "mean")

    def apart(*at: PrimExpr) -> PrimExpr:
        return data(*at).astype(wide) - mean(at[0], at[1], at[-1])

    variance = _mean(data, lambda *at: apart(*at) * apart(*at), each, "variance")

    def factor(n: PrimExpr, block: PrimExpr, lane: PrimExpr) -> PrimExpr:
        spread = op.sqrt(variance(n, block, lane) + epsilon)
        return (as_prim(1, wide) if gamma is None else gamma(block * lanes + lane).astype(wide)) / spread

    factors = stage(mean.shape, factor, "T_factor")

    def element(*at: PrimExpr) -> PrimExpr:
        scaled = apart(*at) * factors(at[0], at[1], at[-1])
        return (scaled if beta is None else scaled + beta(at[1] * lanes + at[-1]).astype(wide)).astype(data.dtype)

    return stage(data.shape, element, "T_group_norm")


def _mean(data: Tensor, value: Value, each: int, name: str) -> Tensor:
    """The mean of a value over all points and the channels of a group, for each channel: `(n, c / b, b)`."""
    batch, blocks, *points, lanes = data.shape
    parts = _parts(data, value, f"{name}_parts")
    count = (product(points) * IntImm(lanes.dtype, each)).astype(parts.dtype)
    part, size = reduce_axis((0, parts.shape[2]), "p"), static(lanes)
    assert size is not None
    place = (batch, blocks, lanes)
    sums = stage(place, lambda n, block, lane: te_sum(parts(n, block, part, lane), part), f"{name}_sums")
    if each == 1:
        return stage(place, lambda *at: sums(*at) / count, name)
    k = reduce_axis((0, each), "k")
    if size % each == 0:  # all channels of a group are in one block
        near = stage(place, lambda n, block, lane: te_sum(sums(n, block, lane // each * each + k), k), f"{name}_groups")
        return stage(place, lambda *at: near(*at) / count, name)
    groups = (static(blocks) or 0) * size // each
    totals = stage(
        (batch, IntImm(lanes.dtype, groups)),
        lambda n, group: te_sum(sums(n, (group * each + k) // size, (group * each + k) % size), k),
        f"{name}_groups",
    )
    return stage(place, lambda n, block, lane: totals(n, (block * size + lane) // each) / count, name)


def _parts(data: Tensor, value: Value, name: str) -> Tensor:
    """Sums of a value over all points, `(n, c / b, p, b)`: each part has every p-th point of a row.

    No addition waits for the one before it, and several sums are more exact than one.
    """
    batch, blocks, *outer, row, lanes = data.shape
    length = static(row)
    count = 1 if length is None else next(size for size in range(_MOST_PARTS, 0, -1) if length % size == 0)
    over = [reduce_axis((0, size), f"k{axis}") for axis, size in enumerate((*outer, row // count))]
    return stage(
        (batch, blocks, IntImm(lanes.dtype, count), lanes),
        lambda n, block, part, lane: te_sum(value(n, block, *over[:-1], over[-1] * count + part, lane), over),
        name,
    )
