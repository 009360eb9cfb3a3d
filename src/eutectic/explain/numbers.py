"""Numbers and names for people: seconds, bytes and operations with a unit, three digits each; long names cut."""

from __future__ import annotations

from typing import Final

_TIME: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_COUNT: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def seconds_text(value: float | None) -> str:
    """`12.3 us`; a dash when not known."""
    if value is None:
        return "-"
    scale, unit = next((row for row in _TIME if value >= row[0]), _TIME[-1])
    return f"{value / scale:.3g} {unit}"


def count_text(value: float | None, unit: str) -> str:
    """`1.5 MB` for a number of bytes and the unit `B`; a dash when not known."""
    if value is None:
        return "-"
    scale, prefix = next((row for row in _COUNT if value >= row[0]), _COUNT[-1])
    number = value / scale
    return f"{number:.0f} {prefix}{unit}" if number >= 100 else f"{number:.3g} {prefix}{unit}"


def share_text(value: float | None) -> str:
    """`45 %`; a dash when not known."""
    return "-" if value is None else f"{value:.0%}".replace("%", " %")


def clipped(text: str, most: int = 60) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
