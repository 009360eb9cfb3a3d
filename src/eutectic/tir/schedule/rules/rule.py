"""The contract of a default schedule: which stages it is for, what it chooses, and the primitives that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from eutectic.tir.schedule.rules.nest import Nest
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.walk import Walk

Decisions: TypeAlias = Mapping[str, Any]
Axes = TypeVar("Axes")


class Rule(Protocol[Axes]):
    """How the loops of some stages are scheduled.

    A rule never builds loops: where it cannot say what it wants, a primitive is missing.

    Attributes:
        name: What decisions are kept under.
    """

    name: str

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """Which axis does what in a stage; None when the rule is not for it."""

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """What is chosen when nobody says otherwise: tile sizes and the like."""

    def apply(self, nest: Nest, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """Schedule the stage, by primitives.

        Args:
            nest: Its loops.
            axes: What `matches` gave.
            decisions: What `decide` gave, or somebody else.
            shared: Whether threads may share its loops.

        Raises:
            ScheduleError: a primitive refuses.
        """
