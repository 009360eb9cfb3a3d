"""Nearest known names, for messages about unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Names of `known` that resemble `name`, the most similar first."""
    return difflib.get_close_matches(name, list(known), n=count, cutoff=0.6)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A help sentence naming the nearest known names, or None when nothing is near.

    Names like `__wrapped__` are nobody's mistake: Python's tools ask everything for them, and need no sentence.
    """
    near = [] if name.startswith("__") and name.endswith("__") else closest(name, known)
    return f"did you mean {' or '.join(near)}?" if near else None
