"""What the machine can do: operations and bytes per second, measured once by short kernels and kept in the cache."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Final

from eutectic.driver.plan import GroupRecord, from_tree
from eutectic.explain.peak import copy_speed, fma_speed
from eutectic.runtime.processor import model_name
from eutectic.support import cache

COPIED: Final = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 27)
"""Bytes that are read and written when bandwidth is measured: from what a core's own cache holds to main memory."""
_VERSION: Final = "2"


@dataclass(frozen=True)
class Bandwidth:
    """How fast data of some size is read and written.

    Attributes:
        bytes: Bytes read and written together.
        speed: Bytes per second.
    """

    bytes: int
    speed: float


@dataclass(frozen=True)
class MachineSpeed:
    """The roofline of a machine.

    Attributes:
        processor: Its name.
        threads: Threads that were used.
        flops: Float32 operations per second of multiply-adds on vectors in registers; one counts two.
        bandwidths: Of copies, by size.
    """

    processor: str
    threads: int
    flops: float
    bandwidths: tuple[Bandwidth, ...]

    def bandwidth(self, size: int) -> float:
        """Bytes per second for data of a size: that of the next larger copy, or of the largest."""
        return next((row.speed for row in self.bandwidths if row.bytes >= size), self.bandwidths[-1].speed)

    def least_seconds(self, group: GroupRecord) -> float | None:
        """What a group takes at least: its operations at full speed, or its bytes; None when these are not known.

        Reference: Williams, Waterman, Patterson, Roofline, 2009; differs in that the bandwidth is that of the cache
        which the group's data fits in.
        """
        moved, constant = group.bytes_fused, group.constant_bytes
        if moved is None or constant is None or not moved:
            return None
        size = moved // group.times + constant
        return max((group.flops or 0) / self.flops, group.times * size / self.bandwidth(size))


def machine_speed(threads: int) -> MachineSpeed:
    """The speed of this machine: from the cache, or measured now, which takes about a second.

    Args:
        threads: How many work at the same time.
    """
    name = model_name()
    key = hashlib.sha256(f"machine speed {_VERSION} {name} {threads}".encode()).hexdigest()
    known = _known(cache.read(key))
    if known is not None:
        return known
    speed = measured(name, threads)
    meta = {"name": "speed of the machine", "cpu": name, "speed": asdict(speed)}
    cache.write(key, cache.Entry(meta, b""))
    return speed


def measured(name: str, threads: int) -> MachineSpeed:
    """The speed of this machine, measured now.

    Args:
        name: What to call the processor.
        threads: How many work at the same time.
    """
    rows = tuple(Bandwidth(size, copy_speed(size, threads)) for size in COPIED)
    return MachineSpeed(name, threads, fma_speed(threads), rows)


def _known(entry: cache.Entry | None) -> MachineSpeed | None:
    tree: Any = None if entry is None else entry.meta.get("speed")
    try:
        speed = None if tree is None else from_tree(MachineSpeed, tree)
    except (KeyError, TypeError):
        return None
    return speed if speed is not None and speed.bandwidths else None
