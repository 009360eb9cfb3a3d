"""Attributes of tensor programs that say how far they are: scheduled, lowered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eutectic.tir.function import PrimFunc

SCHEDULED: Final = "tir.is_scheduled"
LOWERED: Final = "tir.is_lowered"
TRACE: Final = "tir.schedule_trace"  # what the default schedule did, line by line
DECISIONS: Final = "tir.decisions"  # what default schedules are to choose, as JSON: decisions by choice point
FINITE_PARAMS: Final = "tir.finite_params"  # places of parameters that never hold infinities or NaN, such as weights
CHOSEN: Final = "tir.chosen"  # what the default schedule chose, and which rules were refused, line by line

EXAMPLE_SIZES: Final = "example_sizes"  # of functions of any kind: what symbolic sizes were in the example, by name


def example_sizes(func: Any) -> Mapping[str, int]:
    """The values that symbolic sizes had in the example that a function was made from, by name.

    Args:
        func: A function of the graph, or a tensor program.
    """
    return dict(func.attr(EXAMPLE_SIZES) or {})


def finite_params(func: PrimFunc) -> frozenset[int]:
    """Places of the parameters that are known never to hold infinities or NaN."""
    return frozenset(int(place) for place in func.attr(FINITE_PARAMS) or ())


def is_lowered(func: PrimFunc) -> bool:
    """Whether a function went through `LowerTIR`."""
    return bool(func.attr(LOWERED))
