"""What default schedules need to know of a processor."""

from __future__ import annotations

from typing import Final, Protocol

FEW_REGISTERS: Final = 16
"""Vector registers of processors with vectors of 256 bits, of which caches and waits for memory were measured apart."""


class Processor(Protocol):
    """A processor with vectors, as the rules see it."""

    @property
    def registers(self) -> int:
        """Vector registers."""

    @property
    def waits_for_memory(self) -> bool:
        """Whether sums wait for weights from beyond the caches of a core, unless these are asked for long before."""

    def lanes(self, bits: int = 32) -> int:
        """Elements of so many bits in a vector."""
