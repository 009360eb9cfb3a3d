"""Environment variables of Eutectic; no other module reads `os.environ`."""

from __future__ import annotations

import os
from typing import Final

VARIABLES: Final[dict[str, str]] = {
    "EUTECTIC_DNNL_LIBRARY": "path of the oneDNN shared library to load instead of the installed one",
    "EUTECTIC_THREADS": "number of threads a compiled model uses when compile() is not told",
}


def dnnl_library() -> str | None:
    """Path given by `EUTECTIC_DNNL_LIBRARY`, or None."""
    return os.environ.get("EUTECTIC_DNNL_LIBRARY") or None


def default_threads() -> int | None:
    """Thread count given by `EUTECTIC_THREADS`, or None.

    Raises:
        ValueError: the value is not a positive integer.
    """
    text = os.environ.get("EUTECTIC_THREADS")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"EUTECTIC_THREADS={text!r}: expected a positive integer")
    return int(text)
