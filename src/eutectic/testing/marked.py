"""Texts with a marked place, for tests of where errors point."""

from __future__ import annotations

import re


def marked(text: str) -> tuple[str, int, int]:
    """A text without its marks « and », and the 1-based line and column of the first."""
    before = text[: text.index("«")]
    return re.sub("[«»]", "", text), before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
