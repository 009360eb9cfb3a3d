"""Arrays whose elements lie in the order that a library wants; the plain array is made when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from operator import gt, itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array: TypeAlias = np.ndarray[Any, Any]
Term: TypeAlias = tuple[int, int]
Terms: TypeAlias = tuple[tuple[Term, ...], ...]
_ELEMENT: Final = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class PackedArray:
    """An array in another order, such as the blocks of 8 output channels that a kernel reads.

    The order is given by two sides of one set of axes, whose number and extents are the library's. On each side an
    axis is a number in mixed radix: terms of an extent and a stride, slowest first, strides in elements. Axes may be
    longer in `packed`, where zeros fill what is beyond the plain ones.

    Attributes:
        elements: Words of 4 bytes as they lie; one axis. They do not change.
        plain: Where the axes are in the row-major array.
        packed: Where they are in `elements`.
        dtype: Of the plain array.
        shape: Of the plain array.

    Raises:
        ValueError: the sides do not describe all of their elements, each once.
    """

    elements: Array
    plain: Terms
    packed: Terms
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.elements.dtype != _ELEMENT or self.elements.ndim != 1 or not self.elements.flags.c_contiguous:
            raise ValueError(f"elements are {self.elements.dtype}{list(self.elements.shape)}, expected words in a row")
        if not _is_dense(self.plain, self.nbytes // _ELEMENT.itemsize) or self.nbytes % _ELEMENT.itemsize:
            raise ValueError(f"{self.plain} does not cover the elements of {self.dtype}{list(self.shape)}")
        if not _is_dense(self.packed, self.elements.size):
            raise ValueError(f"{self.packed} does not cover {self.elements.size} elements")
        if len(self.plain) != len(self.packed) or any(map(gt, _extents(self.plain), _extents(self.packed))):
            raise ValueError(f"the axes {_extents(self.plain)} do not fit into {_extents(self.packed)}")

    @property
    def nbytes(self) -> int:
        """Bytes of the plain array."""
        return prod(self.shape) * self.dtype.itemsize

    def seen(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> PackedArray:
        """The same bytes as an array of another dtype and shape.

        Raises:
            ValueError: that has other bytes.
        """
        return replace(self, dtype=dtype, shape=shape)

    def __call__(self) -> Array:
        """The plain array, C-contiguous; a new one each time."""
        axes = _seen(self.elements, self.packed).reshape(_extents(self.packed))
        kept = axes[tuple(map(slice, _extents(self.plain)))]
        target = np.empty(self.nbytes // _ELEMENT.itemsize, _ELEMENT)
        view = _seen(target, self.plain, writeable=True)
        view[...] = kept.reshape(view.shape)
        return target.view(self.dtype).reshape(self.shape)


def plain(value: Any) -> Any:
    """An array in row-major order; other values as they are."""
    return value() if isinstance(value, PackedArray) else value


def _seen(words: Array, side: Terms, writeable: bool = False) -> Array:
    """Words with an axis for each term."""
    terms = [term for axis in side for term in axis]
    strides = [stride * _ELEMENT.itemsize for _, stride in terms]
    return as_strided(words, [extent for extent, _ in terms], strides, writeable=writeable)


def _extents(side: Terms) -> list[int]:
    return [prod(extent for extent, _ in axis) for axis in side]


def _is_dense(side: Terms, size: int) -> bool:
    """Whether every element of a block of memory is reached once."""
    reached = 1
    for extent, stride in sorted((term for axis in side for term in axis), key=itemgetter(1)):
        if extent < 2 or stride != reached:
            return False
        reached *= extent
    return reached == size
