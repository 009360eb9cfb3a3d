"""Processors as the rules see them, the same wherever tests run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vectors:
    """A processor with vectors of so many bits, and so many registers for them."""

    bits: int = 512
    registers: int = 32

    def lanes(self, bits: int = 32) -> int:
        return self.bits // bits
