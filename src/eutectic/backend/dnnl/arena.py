"""Placing buffers with known lifetimes in one block of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.support.aligned import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer to place.

    Attributes:
        nbytes: Size; zero is allowed.
        first: Index of the call that writes it.
        last: Index of the last call that touches it; not before `first`.
    """

    nbytes: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime]) -> tuple[tuple[int, ...], int]:
    """Offsets such that buffers alive at the same call do not overlap.

    Largest first, each at the lowest offset that is free during its life: on
    networks that is within a few percent of the largest sum alive at one call.

    Returns:
        An offset for each buffer, a multiple of `ALIGNMENT`, and the bytes of the whole.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    total = 0
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].nbytes, lifetimes[i].first, i)):
        mine, size = lifetimes[i], _round_up(lifetimes[i].nbytes)
        if not size:
            continue
        offset = 0
        for j in sorted((j for j in placed if _overlap(mine, lifetimes[j])), key=offsets.__getitem__):
            if offset + size <= offsets[j]:
                break
            offset = max(offset, offsets[j] + _round_up(lifetimes[j].nbytes))
        offsets[i] = offset
        placed.append(i)
        total = max(total, offset + size)
    return tuple(offsets), total


def _overlap(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


def _round_up(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
