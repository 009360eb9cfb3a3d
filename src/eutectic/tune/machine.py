"""What this processor can do, measured by kernels of our own, and kept in the database beside the choices."""

from __future__ import annotations

import time
from typing import Final

from eutectic.explain.peak import copy_speed, fma_speed
from eutectic.runtime.processor import model_name
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.tune.database import Database
from eutectic.tune.lookup import processor_key
from eutectic.tune.records import SpeedRow

NEAR_BYTES: Final = 1 << 19
"""Bytes that each thread reads and writes to measure the caches that cores have for themselves."""
SHARED_BYTES: Final = 1 << 23
"""The same of all threads, for the cache that they share."""
MEMORY_BYTES: Final = 1 << 27
"""The same for main memory."""

_TRIES: Final = 4  # as another process may have a core for a while


def measured_speeds(target: Target, threads: int) -> SpeedRow:
    """The speeds of this processor, measured now; takes about a second.

    Args:
        target: Its features are those that code is made with.
        threads: How many copy at the same time.

    Raises:
        CodegenError: the target is another processor.
    """
    key = processor_key(target)
    if processor_key(Target(target.kind.name)) != key:
        raise CodegenError(
            f"the speeds of {target} cannot be measured here: it is not this processor",
            help=f'tune for target="{target.kind.name}" on the machine that code is to run on',
        )
    sizes = (threads * NEAR_BYTES, SHARED_BYTES, MEMORY_BYTES)
    near, shared, memory = (max(copy_speed(size, threads) for _ in range(_TRIES)) for size in sizes)
    flops = max(fma_speed(1) for _ in range(_TRIES))  # of several threads another process could slow one down
    return SpeedRow(key, threads, flops, near, shared, memory, model_name(), time.time())


def known_speeds(database: Database, target: Target, threads: int) -> SpeedRow:
    """The speeds in a database, measured and recorded first where it has none."""
    rows = database.speeds(processor_key(target), threads)
    if not rows:
        rows = [measured_speeds(target, threads)]
        database.record(rows)
    return rows[0]
