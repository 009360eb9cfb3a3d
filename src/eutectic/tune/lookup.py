"""What compiling finds in a database, registered where the driver asks for it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from eutectic.backend.registry import code_generator
from eutectic.ir.services import Measured
from eutectic.support.errors import ArgumentError
from eutectic.support.registry import register_global_func
from eutectic.support.shown import shown
from eutectic.target import Target
from eutectic.tune.database import Database

_DIGITS: Final = 12


def processor_key(target: Target) -> str:
    """What a database knows the processor of a target by: its name, and a digest of its features."""
    machine = code_generator(target).machine(target)
    return f"{machine.cpu}-{hashlib.sha256(repr(machine).encode()).hexdigest()[:_DIGITS]}"


def measured_of(source: Database | str | Path, target: Target, threads: int) -> Measured:
    """What was measured for a target.

    Args:
        source: A database, or its file.
        target: What is compiled for.
        threads: Threads of a call.

    Raises:
        ArgumentError: the source is neither.
        LoadError: the file is damaged, or none of ours.
    """
    if not isinstance(source, (Database, str, Path)):
        raise ArgumentError(f"tuned={shown(source)}: expected True, False, a path or a tune.Database")
    database = source if isinstance(source, Database) else Database(source)
    return database.measured(processor_key(target), threads)


register_global_func("eutectic.measured", measured_of)
