"""Layouts, paddings and window positions, as convolutions and pools share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as parsed
from eutectic.topi.nn.pad import pad

T = TypeVar("T")


def per_axis(value: int | Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """One number per spatial axis; one alone counts for all.

    Raises:
        ValueError: there is another number of them.
    """
    numbers = (int(value),) * rank if isinstance(value, (int, IntImm)) else tuple(int(v) for v in value)
    numbers = numbers * rank if len(numbers) == 1 else numbers
    if len(numbers) != rank:
        raise ValueError(f"{what} needs {rank} numbers, got {len(numbers)}")
    return numbers


def paddings(value: int | Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements before and after each spatial axis, of one number, one per axis, or all before and then all after.

    Raises:
        ValueError: there is another number of them.
    """
    if not isinstance(value, (int, IntImm)) and len(value) == 2 * rank:
        numbers = [int(v) for v in value]
        return tuple(numbers[:rank]), tuple(numbers[rank:])
    both = per_axis(value, rank, "padding")
    return both, both


def arranged(items: Sequence[T], layout: str, wanted: str) -> list[T]:
    """Items of the axes of `layout`, in the order of `wanted`.

    Raises:
        ValueError: the two do not have the same axes.
    """
    if sorted(layout) != sorted(wanted) or len(items) != len(layout):
        raise ValueError(f"layout {layout} of {len(items)} axes is no arrangement of {wanted}")
    return [items[layout.index(axis)] for axis in wanted]


@dataclass(frozen=True)
class Axes:
    """The axes of an array in memory: spatial ones, over which windows move, and others.

    Attributes:
        names: Letters in order; the inside of a block has a small one.
        canonical: The same letters: the others first, then the spatial ones in the order `DHW`.
        rank: Number of spatial axes.
    """

    names: str
    canonical: str
    rank: int

    @staticmethod
    def of(layout: str) -> Axes:
        """The axes of a layout such as `NCHW` or `NCHW16c`.

        Raises:
            ValueError: it is no layout, or a spatial axis is cut into blocks.
        """
        names = "".join(letter for letter, _ in parsed(layout).axes)
        spatial = "".join(letter for letter in "DHW" if letter in names)
        if any(letter in names for letter in "dhw"):
            raise ValueError(f"layout {layout} cuts a spatial axis into blocks")
        return Axes(names, "".join(letter for letter in names if letter not in spatial) + spatial, len(spatial))

    def parted(self, items: Sequence[T]) -> tuple[list[T], list[T]]:
        """Items of the axes in memory: those of the other axes, and those of the spatial ones."""
        ordered = arranged(items, self.names, self.canonical)
        return ordered[: -self.rank], ordered[-self.rank :]

    def joined(self, others: Sequence[T], spatial: Sequence[T]) -> list[T]:
        """The inverse of `parted`."""
        return arranged([*others, *spatial], self.canonical, self.names)


def padded(
    data: Tensor,
    axes: Axes,
    before: Sequence[int],
    after: Sequence[int],
    value: PrimExpr | float,
) -> Tensor:
    """`data` with its spatial axes padded by a stage `pad_temp`; itself when there is nothing to add."""
    if not any((*before, *after)):
        return data
    others = [0] * (len(axes.names) - axes.rank)
    widths = [axes.joined(others, side) for side in (before, after)]
    return pad(data, widths[0], widths[1], value, "pad_temp")
