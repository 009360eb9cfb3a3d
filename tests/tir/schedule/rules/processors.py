"""Processors as the rules see them, the same wherever tests run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vectors:
    """A processor with vectors of so many bits, so many registers for them, and whether weights come slowly to it."""

    bits: int = 512
    registers: int = 32
    waits: bool = False

    def lanes(self, bits: int = 32) -> int:
        return self.bits // bits

    @property
    def waits_for_memory(self) -> bool:
        return self.waits or self.registers <= 16
