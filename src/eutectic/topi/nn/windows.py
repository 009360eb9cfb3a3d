"""Layouts, paddings and window positions, as convolutions and pools share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor
from eutectic.topi.nn.pad import pad

T = TypeVar("T")


def per_axis(value: int | Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """One number per spatial axis; one alone counts for all.

    Raises:
        ValueError: there is another number of them.
    """
    given = (int(value),) * rank if isinstance(value, (int, IntImm)) else tuple(int(v) for v in value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank:
        raise ValueError(f"{what} needs {rank} numbers, got {len(given)}")
    return given


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


def padded(
    data: Tensor,
    layout: str,
    canonical: str,
    before: Sequence[int],
    after: Sequence[int],
    value: PrimExpr | float,
) -> Tensor:
    """`data` with its spatial axes padded by a stage `pad_temp`; itself when there is nothing to add."""
    if not any((*before, *after)):
        return data
    widths = [arranged([0, 0, *side], canonical, layout) for side in (before, after)]
    return pad(data, widths[0], widths[1], value, "pad_temp")
