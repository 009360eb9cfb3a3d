"""Running sums along an axis that is not the last one: neighbours along the last one in vectors.

A running sum waits for the one before, which takes a processor four cycles: as many as a vector has lanes wait for
theirs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.tir.block import SCAN
from eutectic.tir.schedule.rules.nest import joined, run_by_threads, whole_and_rest
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.roles import blocks_of
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.schedule import Schedule

_ACROSS: Final = "across"  # of its loops


@dataclass(frozen=True)
class Axes:
    """The block of a scan.

    Attributes:
        block: Its name; neighbours along the innermost of its loops lie beside each other in memory.
    """

    block: str


class Scan(Whole):
    """Vectors along the innermost axis, which threads share with the others."""

    name = "scan"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """The block of a scan, which is no stage: it reads what it wrote.

        Args:
            sch: The schedule.
            stages: None are found in such a program.
            processor: What it will run on.
        """
        roles = {} if stages else blocks_of(sch, SCAN)
        return Axes(roles[_ACROSS].name_hint) if _ACROSS in roles else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """One vector of float32; of wider sums several, which do not wait for each other."""
        return {"width": processor.lanes()}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """One vector, or two."""
        return [{"width": processor.lanes()}, {"width": 2 * processor.lanes()}]

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule the block.

        Raises:
            ScheduleError: a primitive refuses.
        """
        *around, innermost = sch.get_loops(axes.block)
        outer, _ = sch.split(innermost, [None, decisions["width"]])
        parts, blocks = whole_and_rest(sch, outer, axes.block)
        for block in blocks:
            sch.vectorize(sch.get_loops(block)[-1])
        run_by_threads(sch, [*around, *joined(sch, parts)])
