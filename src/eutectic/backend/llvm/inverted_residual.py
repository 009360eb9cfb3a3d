"""What inverted residuals gain from one kernel of ours, beside their convolutions one after the other.

One kernel neither writes nor reads tensors that are too large for a processor's own cache, and has whole vectors where
a convolution of its own would have half ones; but it expands rows twice that two bands see, and filters more slowly.
The estimates are fitted to the layers of MobileNetV2 on a processor with vectors of 512 bits; for large images, whose
tensors come from memory, they were compared with one of 256.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed, memory_speed
from eutectic.ir.services import Speeds
from eutectic.relax.transform.inverted_residual.choice import ResidualOffer, ResidualSizes

_STREAM: Final = 160.0  # bytes that are written to a shared cache, or read from it, in a nanosecond, if not measured
_REACHED: Final = 0.8  # the same, as a share of what a copy reaches
_NEAR_BYTES: Final = 1 << 20  # of a tensor that stays in the cache of one processor
_SHARED_BYTES: Final = 6 << 20  # of a tensor that stays in the cache that processors share
_TO_MEMORY: Final = 1.75  # what goes there and comes back in a nanosecond, beside what is estimated for weights
_ROWS: Final = 14  # of the result in a band
# Time of a tap beside that of a product: in one kernel, there of data that it did not expand, and in one of its own.
_FILTERED: Final = (3.0, 4.5, 1.25)
_PANEL: Final = 3  # vectors of output channels that are computed together, at most
_GAIN: Final = 0.95  # share of the time of separate kernels from which on one kernel is worth it


def residual_offers(sizes: ResidualSizes, machine: Machine, speeds: Speeds | None = None) -> Sequence[ResidualOffer]:
    """The blocks of channels for one kernel, worthwhile if that is faster; none where it cannot be cut into parts.

    Args:
        sizes: Of the inverted residual.
        machine: What the code is for.
        speeds: What it was measured to do, if it was.
    """
    vector = machine.lanes()
    lanes = next((count * vector for count in (3, 2, 1) if sizes.expanded % (count * vector) == 0), 0)
    if vector == 1 or not lanes or not _has_bands(sizes) or not _has_tiles(sizes):
        return ()
    panel = _panel(sizes.filters, machine)
    computed = -(-sizes.filters // panel) * panel
    points = sizes.batch * prod(sizes.out)
    hidden = sizes.batch * prod(sizes.space) * sizes.expanded if sizes.expands else 0
    rate = vector * lane_speed(machine, speeds)
    first = 2.0 * hidden * sizes.channels / rate
    expanded, given, alone = (each * prod(sizes.taps) for each in _FILTERED)
    together = expanded if sizes.expands else given
    halves = 2 if sizes.filters % vector else 1  # a layout in blocks has half vectors then
    rest = 2.0 * points * sizes.expanded * (computed + together) / rate
    rest_alone = 2.0 * points * sizes.expanded * (sizes.filters * halves + alone) / rate
    step = -(-sizes.space[0] // sizes.out[0])
    twice = max(0, sizes.taps[0] - step) / (_ROWS * step)
    moved = sum(_moved(4 * count, sizes.threads, machine, speeds) for count in (hidden, points * sizes.expanded))
    separate = first + rest_alone + moved
    cost = first * (1 + twice) + rest
    return [ResidualOffer(lanes, panel, cost, separate, cost < _GAIN * separate)]


def _moved(size: int, threads: int, machine: Machine, speeds: Speeds | None) -> float:
    """Nanoseconds of a thread to write a tensor and to read it again; none where its own cache holds it."""
    if size > _SHARED_BYTES:
        return 2 * size * threads / (_TO_MEMORY * memory_speed(machine, speeds))
    stream = _STREAM if speeds is None else _REACHED * speeds.shared
    return 2 * size / stream if size > _NEAR_BYTES else 0.0


def _panel(filters: int, machine: Machine) -> int:
    """Output channels that are computed together: whole vectors, or halves where these take half of the time.

    Of the sizes with which the fewest are computed in vain, the largest.
    """
    vector = machine.lanes()
    unit = vector // 2 if machine.has_fast_halves else vector
    sizes = range(unit, _PANEL * vector + 1, unit)
    return min(sizes, key=lambda size: (-(-filters // size) * size, -size))


def _has_bands(sizes: ResidualSizes) -> bool:
    """Whether rows can be cut into bands that threads share."""
    rows = sizes.out[0]
    return any(rows % size == 0 for size in range(_ROWS // 2, _ROWS + 1)) and rows > _ROWS


def _has_tiles(sizes: ResidualSizes) -> bool:
    """Whether columns can be cut into tiles of several points."""
    return all(any(width % size == 0 for size in (7, 8, 6, 5)) for width in (sizes.space[1], sizes.out[1]))
