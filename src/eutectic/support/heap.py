"""The process's heap: what was freed goes back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Return freed memory to the system where the C library keeps it (glibc); elsewhere nothing happens.

    Compiling frees several copies of a model's weights, which glibc would keep for later.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
