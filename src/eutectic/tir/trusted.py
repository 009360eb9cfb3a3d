"""Programs whose accesses need no further look: their accesses were checked, or a compiler pass made them.

That is known of objects, not written into programs: no text, and no attribute, can claim it.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from eutectic.ir.node import replace
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Stmt

# A body with the buffers of its signature: another body, and the same one under other buffers, is another program.
_TRUSTED: Final[WeakKeyDictionary[Stmt, tuple[Buffer, ...]]] = WeakKeyDictionary()


def trust(func: PrimFunc) -> PrimFunc:
    """Say that the accesses of a program are inside of their buffers, or checked when it runs; gives the program."""
    _TRUSTED[func.body] = tuple(func.buffer_map.values())
    return func


def trusted_copy(func: PrimFunc) -> PrimFunc:
    """The same program, trusted; the one that was given is not, so that others who build it have it checked."""
    return trust(func.with_body(replace(func.body)))


def is_trusted(func: PrimFunc) -> bool:
    """Whether `trust` was said of a program, also when its attributes were changed since."""
    known = _TRUSTED.get(func.body)
    buffers = func.buffer_map.values()
    return known is not None and len(known) == len(buffers) and all(a is b for a, b in zip(known, buffers, strict=True))
