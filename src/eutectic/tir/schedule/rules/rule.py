"""The contract of a default schedule: which stages it is for, what it chooses, and the primitives that it uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.nest import Nest
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.rules.walk import Walk
from eutectic.tir.schedule.schedule import Schedule

Decisions: TypeAlias = Mapping[str, Any]
"""Numbers, texts, truth values, and lists of these, by name: what JSON can hold."""
Axes = TypeVar("Axes")
Form = TypeVar("Form", bound=Nest)


class Rule(Protocol[Axes, Form]):
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

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """What is worth a measurement, what `decide` gives first; a rule without this offers that alone."""
        return (self.decide(axes, processor),)

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> Form:
        """Bring a stage into the form that the rule works on, with the axes that it shares with others outermost."""

    def apply(self, nest: Form, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """Schedule the stage, by primitives.

        Args:
            nest: What `nest` gave; loops over shared axes may have been merged since with those of other stages.
            axes: What `matches` gave.
            decisions: What `decide` gave, or somebody else.
            shared: Whether threads may share its loops.

        Raises:
            ScheduleError: a primitive refuses.
        """


class JointRule(Protocol[Axes]):
    """How all stages of a program are scheduled together.

    Attributes:
        name: What decisions are kept under.
    """

    name: str

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Which block and which axis does what; None when the rule is not for these stages."""

    def kept(self, sch: Schedule, stages: Sequence[Stage]) -> Collection[Buffer]:
        """What is better stored than computed wherever it is read, of all stages of a program."""

    def left_to_others(self, axes: Axes, decisions: Decisions) -> tuple[str, ...]:
        """Names of the stages that are scheduled by rules of their own, before this one."""

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """What is chosen when nobody says otherwise."""

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """What is worth a measurement, what `decide` gives first; a rule without this offers that alone."""
        return (self.decide(axes, processor),)

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule the stages, by primitives.

        Raises:
            ScheduleError: a primitive refuses.
        """


class Whole:
    """What joint rules have in common that schedule all stages themselves, and store what is stored anyway."""

    def kept(self, sch: Schedule, stages: Sequence[Stage]) -> Collection[Buffer]:
        """Nothing."""
        return ()

    def left_to_others(self, axes: Any, decisions: Decisions) -> tuple[str, ...]:
        """No stage."""
        return ()
