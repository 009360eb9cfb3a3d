"""Constants of a library's kernel: once in memory, though the library wants them in a form of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from eutectic.runtime.packed_array import PackedArray

Array: TypeAlias = np.ndarray[Any, Any]


class Constants(Mapping[str, Array]):
    """Values by name. What a loaded library has in another form is made from that whenever it is asked for.

    Args:
        values: The values; those in another order already are made plain when they are asked for.
    """

    def __init__(self, values: Mapping[str, Array | PackedArray]) -> None:
        self._values: dict[str, Array | Callable[[], Array]] = dict(values)

    def __getitem__(self, name: str) -> Array:
        value = self._values[name]
        return value if isinstance(value, np.ndarray) else value()

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_derived(self, name: str) -> bool:
        """Whether a value is made when it is asked for."""
        return not isinstance(self._values[name], np.ndarray)

    def stored(self, name: str) -> Array | PackedArray:
        """A value in the order in which it is kept."""
        value = self._values[name]
        return value if isinstance(value, PackedArray) else self[name]

    def derive(self, name: str, make: Callable[[], Array]) -> None:
        """Let go of a value that can be made again.

        Args:
            name: Which.
            make: Makes it with the same bits, dtype and shape.
        """
        self._values[name] = make


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and dtype are the same, NaN and signed zeros included."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return bool(np.array_equal(one, other))
