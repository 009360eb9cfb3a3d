"""What default schedules need to know of a processor."""

from __future__ import annotations

from typing import Protocol


class Processor(Protocol):
    """A processor with vectors, as the rules see it."""

    @property
    def registers(self) -> int:
        """Vector registers."""

    def lanes(self, bits: int = 32) -> int:
        """Elements of so many bits in a vector."""
