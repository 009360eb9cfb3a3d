"""What a call says of axes by their numbers, for the same tensors in another layout."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.tir.data_layout import Layout


@dataclass(frozen=True)
class AxisPlaces:
    """Where the axes of one layout are in another one.

    Attributes:
        source: The layout that numbers of axes are for.
        target: The layout that they are wanted for.
    """

    source: Layout
    target: Layout

    def place(self, axis: int) -> int | None:
        """The number of an axis there; None for one inside of blocks.

        Args:
            axis: Its number here; negative ones count from the last.
        """
        letter, block = self.source.axes[axis]
        return None if block else self.target.axes.index((letter, 0))

    def keeps(self, axis: int) -> bool:
        """Whether as many steps go along an axis there as here."""
        letter = self.source.axes[axis][0]
        return self.source.factor_of(letter) == self.target.factor_of(letter)

    def steps(self, axis: int, count: int) -> int | None:
        """How many steps along an axis there are so many here; None where that is inside of a block.

        Args:
            axis: Its number here.
            count: Steps here, negative ones towards the beginning.
        """
        letter = self.source.axes[axis][0]
        elements, block = count * self.source.factor_of(letter), self.target.factor_of(letter)
        return None if elements % block else elements // block
