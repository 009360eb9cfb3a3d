"""What rules choose for one program: what they say themselves, or what was measured and is given with the program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from eutectic.ir.structural import structural_digest
from eutectic.support.errors import ScheduleError
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import DECISIONS
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Decisions

_MEANS: Final = ("tir.noalias",)  # attributes that change which loops are allowed


class Decider(Protocol):
    """A rule, as far as it chooses."""

    name: str

    def decide(self, axes: Any, processor: Processor) -> Decisions:
        """See `Rule`."""


def candidates_of(rule: Decider, axes: Any, processor: Processor) -> Sequence[Decisions]:
    """What a rule says is worth a measurement; what it decides, alone, when it says nothing about that."""
    named: Callable[[Any, Processor], Sequence[Decisions]] | None = getattr(rule, "candidates", None)
    return (rule.decide(axes, processor),) if named is None else named(axes, processor)


@dataclass(frozen=True)
class ChoicePoint:
    """One question to a rule about one stage of a program, with its answer.

    Attributes:
        name: The rule and the number of the stage, as `register_tile@0`; names of blocks do not show in it.
        chosen: What is done.
        source: `default`, or `tuned` for what was given with the program.
        alternatives: Gives everything that is worth a measurement, the rule's own choice first.
        note: Why what was given is not used; empty when it is, or when there is nothing.
    """

    name: str
    chosen: Decisions
    source: str
    alternatives: Callable[[], Sequence[Decisions]]
    note: str = ""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.chosen.items())
        return f"{self.name}: {values} ({self.source}{'; ' + self.note if self.note else ''})"


class Chooser:
    """Answers for the rules that schedule one program.

    Args:
        processor: What the program will run on.
        given: Decisions by choice point, which are asked for first.

    Attributes:
        processor: As given.
        points: What was asked so far, by name.
        refusals: Which rule, or which stages, a primitive refused, and what it said: what nobody sees is slow for ever.
    """

    def __init__(self, processor: Processor, given: Mapping[str, Decisions] | None = None) -> None:
        self.processor, self._given = processor, dict(given or {})
        self.points: dict[str, ChoicePoint] = {}
        self.refusals: list[str] = []

    def choose(self, rule: Decider, axes: Any, stage: int) -> Decisions:
        """What a rule is to do with a stage.

        What was given is used where it is one of the rule's own candidates: that of another version of a rule could
        be anything.

        Args:
            rule: The rule.
            axes: What it matched.
            stage: Number of the stage; 0 for a rule of all stages.
        """
        name = f"{rule.name}@{stage}"
        decisions, source, note = rule.decide(axes, self.processor), "default", ""
        alternatives = partial(candidates_of, rule, axes, self.processor)
        tuned = self._given.get(name)
        if tuned is not None and any(dict(tuned) == dict(other) for other in alternatives()):
            # In the order of the rule; a candidate may have other parts than its own choice.
            decisions, source = {part: tuned[part] for part in (*decisions, *tuned) if part in tuned}, "tuned"
        elif tuned is not None:
            note = "what was tuned is of another version of this rule; tune again"
        self.points[name] = ChoicePoint(name, decisions, source, alternatives, note)
        return decisions

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was chosen, and what was refused, line by line."""
        return (*map(str, self.points.values()), *self.refusals)

    def give_up(self, kept: Mapping[str, ChoicePoint], what: str, error: ScheduleError) -> None:
        """Go back to what was asked at some time before: a primitive refused what came of the later answers.

        Args:
            kept: What was asked before.
            what: The rule, or the stages.
            error: What the primitive said.
        """
        self.points = dict(kept)
        self.refusals.append(f"{what} refused: {error.message}")


def workload_key(func: PrimFunc) -> str:
    """What a program is known by in a database of decisions: the same in every process, whatever its names are.

    Args:
        func: A program before it is scheduled.
    """
    bare = func
    for name, _ in func.attrs.items():
        if name not in _MEANS:
            bare = bare.without_attr(name)
    return structural_digest(bare).hex()


def given_decisions(func: PrimFunc) -> dict[str, Decisions]:
    """The decisions that a program brings with it, by choice point."""
    text = func.attr(DECISIONS)
    return {} if text is None else dict(json.loads(str(text)))


def with_decisions(func: PrimFunc, decisions: Mapping[str, Decisions]) -> PrimFunc:
    """A program that brings decisions with it; caches of kernels know it by them, too.

    Args:
        func: A program before it is scheduled.
        decisions: By choice point; values are numbers, texts, truth values and lists of these.
    """
    bare: PrimFunc = func.without_attr(DECISIONS)
    if not decisions:
        return bare
    text = json.dumps({name: dict(chosen) for name, chosen in decisions.items()}, sort_keys=True)
    decided: PrimFunc = bare.with_attr(DECISIONS, text)
    return decided


def distinct(candidates: Sequence[Decisions]) -> list[Decisions]:
    """Candidates in order, each once."""
    once: list[Decisions] = []
    for candidate in candidates:
        if candidate not in once:
            once.append(candidate)
    return once
