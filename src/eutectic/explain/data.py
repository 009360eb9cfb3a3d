"""The plan of a compiled model with what was measured: the data of an `Explanation`, which all its views read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eutectic.driver.plan import BoundaryRecord, GroupRecord, MissRecord, OperatorRecord, PlanRecord
from eutectic.explain.machine import MachineSpeed


@dataclass(frozen=True)
class Timing:
    """What was measured together.

    Attributes:
        groups: Numbers of the groups; several when only the call of a library, or of a loaded model, can be timed.
        seconds: Median time of one run.
        how: What a library calls its implementation; empty when not known.
    """

    groups: tuple[int, ...]
    seconds: float
    how: str = ""


@dataclass(frozen=True)
class Group:
    """A group with what was measured.

    Attributes:
        number: Its place in the order of execution, from 0.
        record: What it is.
        seconds: Median time; None when not measured, or measured together with others.
        roofline: Time that the machine needs at least for the group's operations and bytes, divided by `seconds`;
            None when one of these is not known.
        how: What a library calls its implementation.
    """

    number: int
    record: GroupRecord
    seconds: float | None = None
    roofline: float | None = None
    how: str = ""

    @property
    def operators(self) -> tuple[OperatorRecord, ...]:
        """Its operators, in the order of execution."""
        return self.record.operators


@dataclass(frozen=True)
class Explained:
    """What a compiled model executes, how long that takes, and why it is not fewer kernels: the data alone.

    Attributes:
        plan: Groups, boundaries, and patterns that nearly matched.
        timings: What was measured, in the order of execution; empty when nothing was.
        seconds: Median time of a whole call; None when not measured.
        machine: What the machine can do; None when nothing was measured.
        threads: Threads of a call.
        notes: Sentences about the compilation as a whole.
    """

    plan: PlanRecord
    timings: tuple[Timing, ...] = ()
    seconds: float | None = None
    machine: MachineSpeed | None = None
    threads: int = 1
    notes: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of execution."""
        alone = {timing.groups[0]: timing for timing in self.timings if len(timing.groups) == 1}
        return tuple(self._group(number, record, alone.get(number)) for number, record in enumerate(self.plan.groups))

    def _group(self, number: int, record: GroupRecord, timing: Timing | None) -> Group:
        if timing is None:
            return Group(number, record)
        least = self.machine.least_seconds(record) if self.machine is not None else None
        share = least / timing.seconds if least is not None and timing.seconds > 0 else None
        return Group(number, record, timing.seconds, share, timing.how)

    @property
    def boundaries(self) -> tuple[BoundaryRecord, ...]:
        """Why groups of which one reads the other are two."""
        return self.plan.boundaries

    @property
    def misses(self) -> tuple[MissRecord, ...]:
        """Patterns of libraries that nearly matched."""
        return self.plan.misses
