"""Layouts by name: which axes an array has in memory, in which order, and which of them are cut into blocks.

    NCHW       batch, channels, rows, columns
    NHWC       the same with channels last
    NCHW16c    channels in blocks of 16: channel 35 of `NCHW` is channel 3 of block 2
    OIHW16i16o weights in blocks of 16 input by 16 output channels

A capital is an axis, or the blocks of it; a number with a small letter is what is inside of a block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from eutectic.support.aligned import aligned_array
from eutectic.tir.index_map import IndexMap

_AXIS: Final = re.compile(r"(?P<whole>[A-Z])|(?P<size>[1-9]\d*)(?P<block>[a-z])")

Size = Any  # an int, or an integer expression


@dataclass(frozen=True)
class Layout:
    """Axes in the order in which they lie in memory, the slowest first.

    Blocks are full: an axis whose size is not a multiple of its block has no such layout, as what is computed of
    elements that are not there would have to be kept apart from the rest. Make one with `layout`.

    Attributes:
        axes: Letter and size of a block; the size is 0 for capitals.

    Reference: TVM `tir.Layout`.
    """

    axes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "".join(f"{size}{letter}" if size else letter for letter, size in self.axes)

    @property
    def ndim(self) -> int:
        """Number of axes in memory."""
        return len(self.axes)

    @property
    def names(self) -> str:
        """The capitals, in order: the layout without blocks."""
        return "".join(letter for letter, size in self.axes if not size)

    @property
    def is_blocked(self) -> bool:
        """Whether an axis is cut."""
        return len(self.names) < self.ndim

    def factor_of(self, name: str) -> int:
        """Elements in a block of an axis, given by its capital; 1 when it is whole."""
        return dict(self.axes).get(name.lower(), 1)

    def whole(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        """Elements per axis of `names`, for elements per axis in memory.

        Raises:
            ValueError: another number of axes, or a block of another size.
        """
        if len(sizes) != self.ndim:
            raise ValueError(f"layout {self} has {self.ndim} axes, got {len(sizes)} sizes")
        for (letter, block), size in zip(self.axes, sizes, strict=True):
            if block and (known := _static(size)) is not None and known != block:
                raise ValueError(f"layout {self} has {block} elements in axis {letter}, got {known}")
        size_by_axis = dict(zip((letter for letter, _ in self.axes), sizes, strict=True))
        return tuple(
            size_by_axis[name] if (n := self.factor_of(name)) == 1 else size_by_axis[name] * n for name in self.names
        )

    def in_memory(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        """Elements per axis in memory, for elements per axis of `names`; the inverse of `whole`.

        Raises:
            ValueError: another number of axes, or one that cannot be cut into full blocks.
        """
        if len(sizes) != len(self.names):
            raise ValueError(f"layout {self} has the axes {', '.join(self.names)}, got {len(sizes)} sizes")
        size_by_axis = dict(zip(self.names, sizes, strict=True))
        for name, size in size_by_axis.items():
            if (known := _static(size)) is not None and known % self.factor_of(name):
                raise ValueError(f"layout {self}: axis {name} of {known} elements is not cut into full blocks")
        return tuple(block or _cut(size_by_axis[letter], self.factor_of(letter)) for letter, block in self.axes)

    def index_map(self) -> IndexMap:
        """Where the element at an index of `names` is in memory."""

        def place(*at: Any) -> list[Any]:
            index_by_axis = dict(zip(self.names, at, strict=True))
            return [
                index_by_axis[letter.upper()] % block if block else _cut(index_by_axis[letter], self.factor_of(letter))
                for letter, block in self.axes
            ]

        return IndexMap.from_func(place, len(self.names))


@dataclass(frozen=True)
class Rearrangement:
    """How an array gets from one layout to another: it is seen in more axes, these change places, and are joined.

    Attributes:
        split: Sizes of the axes that are seen.
        order: For each axis afterwards, which one it was.
        joined: Sizes in the end.
    """

    split: tuple[Size, ...]
    order: tuple[int, ...]
    joined: tuple[Size, ...]

    @property
    def moves_nothing(self) -> bool:
        """Whether elements keep their places, as only axes of one element change theirs."""
        long = [axis for axis in self.order if _static(self.split[axis]) != 1]
        return long == sorted(long)

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array in the other layout."""
        moved = array.reshape(self.split).transpose(self.order)
        return aligned_array(moved).reshape(self.joined)


@cache
def layout(text: str) -> Layout:
    """The layout of a name; the inverse of `str`.

    Raises:
        ValueError: it is none; says what is wrong.
    """
    axes: list[tuple[str, int]] = []
    at = 0
    while at < len(text):
        match = _AXIS.match(text, at)
        if match is None:
            raise ValueError(f"layout {text!r}: no axis begins at {text[at:]!r}; an axis is a capital, or such as 16c")
        letter = match["whole"] or match["block"]
        if letter in dict(axes):
            raise ValueError(f"layout {text!r} has axis {letter} twice")
        if match["block"] and letter.upper() not in dict(axes):
            raise ValueError(f"layout {text!r} has blocks {match[0]} without axis {letter.upper()} before them")
        axes.append((letter, int(match["size"] or 0)))
        at = match.end()
    return Layout(tuple(axes))


def rearrangement(source: Layout, target: Layout, sizes: Sequence[Size]) -> Rearrangement:
    """The way from one layout to another.

    Args:
        source: The layout there is.
        target: The layout that is wanted, with the same axes.
        sizes: Elements per axis in memory, of `source`.

    Raises:
        ValueError: the axes are not the same, blocks do not fit into each other, or an axis is not cut into full
            blocks.
    """
    if sorted(source.names) != sorted(target.names):
        raise ValueError(f"layout {source} has the axes {', '.join(source.names)}, layout {target} has other ones")
    whole = dict(zip(source.names, source.whole(sizes), strict=True))
    joined = target.in_memory([whole[name] for name in target.names])
    parts = {name: _parts(name, size, source, target) for name, size in whole.items()}
    before = [part for axis in source.axes for part in _of_axis(axis, source, parts)]
    after = [part for axis in target.axes for part in _of_axis(axis, target, parts)]
    places = {(name, unit): number for number, (name, unit, _) in enumerate(before)}
    order = tuple(places[name, unit] for name, unit, _ in after)
    return Rearrangement(tuple(size for _, _, size in before), order, joined)


_Part = tuple[str, int, Size]  # capital, elements of the axis that one step along the part passes, size


def _parts(name: str, size: Size, source: Layout, target: Layout) -> list[_Part]:
    """An axis cut wherever one of the layouts cuts it, the largest steps first."""
    small, large = sorted((source.factor_of(name), target.factor_of(name)))
    if large % small:
        raise ValueError(f"layouts {source} and {target} cut axis {name} into blocks that do not fit into each other")
    units = sorted({1, small, large}, reverse=True)
    counts = [_cut(size, units[0]), *(bigger // unit for bigger, unit in pairwise(units))]
    return [(name, unit, count) for unit, count in zip(units, counts, strict=True)]


def _of_axis(axis: tuple[str, int], of: Layout, parts: dict[str, list[_Part]]) -> list[_Part]:
    """The parts that an axis of a layout consists of: those inside of a block, or those outside."""
    letter, block = axis
    limit = of.factor_of(letter.upper())
    return [part for part in parts[letter.upper()] if (part[1] < limit) == bool(block)]


def _static(size: Size) -> int | None:
    value = getattr(size, "value", size)
    return value if isinstance(value, int) else None


def _cut(size: Size, block: int) -> Size:
    return size if block == 1 else size // block
