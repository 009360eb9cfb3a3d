"""The process's heap: what was freed goes back to the system, and when Python looks for cycles."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final


class _Pauses:
    """How many compilations of the process go on without a search for cycles, and whether to search after the last."""

    def __init__(self) -> None:
        self.lock, self.open, self.resumes = Lock(), 0, False


_pauses: Final = _Pauses()


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Let Python not look for cycles of objects meanwhile, in any thread.

    Programs are made of many small objects without cycles; a search goes through all objects of the process again and
    again, which is a tenth of the time of a compilation. What is not in a cycle is freed as always.
    """
    with _pauses.lock:
        if not _pauses.open:
            _pauses.resumes = gc.isenabled()
            gc.disable()
        _pauses.open += 1
    try:
        yield
    finally:
        with _pauses.lock:
            _pauses.open -= 1
            if not _pauses.open and _pauses.resumes:
                gc.enable()


def give_back() -> None:
    """Return freed memory to the system where the C library keeps it (glibc); elsewhere nothing happens.

    Compiling frees several copies of a model's weights, which glibc would keep for later.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
