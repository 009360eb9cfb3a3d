"""Layouts at the borders of regions as text: axes from slowest to fastest, one of them in blocks.

`abcd` is row-major, `acdb` has channels last, `aBcd16b` has channels in blocks of 16. oneDNN calls them so, and
`layout.py` shows all of its layouts like this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

AXES: Final = "abcdefghijkl"
_FORM: Final = re.compile(r"(?P<axes>[a-lA-L]{1,12})(?:(?P<size>[1-9]\d{0,3})(?P<inner>[a-l]))?")
_NAMES: Final = {"acdb": "NHWC", "aBcd16b": "NCHW16c", "aBcd8b": "NCHW8c"}
_TEXTS: Final = {name: text for text, name in _NAMES.items()}


@dataclass(frozen=True)
class BorderLayout:
    """A layout, read from its text.

    Attributes:
        order: Axes from slowest to fastest.
        blocked: The axis in blocks; None when there is none.
        block: Elements of a block; 1 when there is none.
    """

    order: tuple[int, ...]
    blocked: int | None = None
    block: int = 1

    def shape_in_memory(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Extents of the array."""
        outer = tuple(shape[axis] // (self.block if axis == self.blocked else 1) for axis in self.order)
        return outer if self.blocked is None else (*outer, self.block)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether it is one of tensors of a shape, which are cut into full blocks."""
        is_whole = sorted(self.order) == list(range(len(shape)))
        return is_whole and (self.blocked is None or shape[self.blocked] % self.block == 0)


def border_layout(text: str) -> BorderLayout | None:
    """The layout of a text; None when it describes none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    axes, inner = match["axes"], match["inner"] or ""
    if [letter.lower() for letter in axes if letter.isupper()] != list(inner):
        return None
    order = tuple(AXES.index(letter) for letter in axes.lower())
    return BorderLayout(order, AXES.index(inner) if inner else None, int(match["size"] or 1))


def name_of(text: str) -> str:
    """The name of a layout in graphs, as in `eutectic.tir.data_layout`; empty where it has none there."""
    return _NAMES.get(text, "")


def text_of(name: str) -> str:
    """The text of a layout of a graph; empty for row-major."""
    return _TEXTS[name] if name else ""
