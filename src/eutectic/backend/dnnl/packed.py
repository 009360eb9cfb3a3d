"""Packed constants that the regions for different sizes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from eutectic.backend.dnnl.layout import Layout

_Key: TypeAlias = tuple[Any, ...]


class PackedConstants:
    """Packed constants by name and layouts; each lives as long as a region that reads it."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[_Key, np.ndarray[Any, Any]] = WeakValueDictionary()

    def get(self, name: str, view: Layout, target: Layout, pack: Callable[[], np.ndarray]) -> np.ndarray:
        """A constant in a layout, packed when nobody has it.

        Args:
            name: Which constant.
            view: How the axes of `target` lie in the row-major constant.
            target: The layout.
            pack: Makes it.
        """
        if view.image is None or target.image is None:  # padded: the layouts of two regions are not comparable
            return pack()
        key = (name, view.shape, view.image, target.shape, target.image, target.dtype)
        packed = self._known.get(key)
        return self._known.setdefault(key, pack()) if packed is None else packed
