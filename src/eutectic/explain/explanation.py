"""Explanation: the plan of a compiled model with what was measured, as data that goes to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType

from eutectic.driver.plan import BoundaryRecord, GroupRecord, MissRecord, OperatorRecord, PlanRecord, from_tree
from eutectic.explain.find import Place, find
from eutectic.explain.machine import MachineSpeed
from eutectic.explain.page import page
from eutectic.explain.perfetto import trace_events
from eutectic.explain.text import plain_text, print_rich, tree
from eutectic.explain.why import Answer, answer
from eutectic.support.errors import CallError, LoadError

VERSION: Final = 1


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
class Explanation:
    """What a compiled model executes, how long that takes, and why it is not fewer kernels.

    `print` shows a tree; `to_html` and `to_perfetto` write files for a browser; `why` answers about two operators.

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

    def find(self, name: str) -> tuple[Place, ...]:
        """Operators of a name; none when there is no such.

        Args:
            name: An operator (`conv2d`, `relax.nn.conv2d`), a variable, a path of a module (with all that is below
                it), or `file:line` as far as it is needed; several of these with spaces between must all hold.
        """
        return find(self.plan, name)

    def why(self, a: str, b: str) -> Answer:
        """Whether two operators are executed together, and what is between them if not.

        Args:
            a: The first, as for `find`.
            b: The second.

        Raises:
            CallError: a name fits no operator, or operators of several groups; lists these.
        """
        return answer(self.plan, a, b)

    def to_json(self) -> dict[str, Any]:
        """All of it as a tree that `json.dumps` takes."""
        return {"version": VERSION, **asdict(self)}

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Explanation:
        """Inverse of `to_json`.

        Raises:
            LoadError: it is no such tree, or of another version.
        """
        try:
            if tree["version"] != VERSION:
                raise LoadError(
                    f"this explanation has version {tree['version']}, expected {VERSION}",
                    help="explain the model again with this version",
                )
            return from_tree(Explanation, tree)
        except (KeyError, TypeError, IndexError) as error:
            raise LoadError(f"this is no explanation: {error!r}", help="write it with to_json()") from None

    def to_html(self, path: str | Path, title: str = "Explanation") -> Path:
        """Write one HTML file that needs nothing else, with the graph, a search, and the details of each group.

        Args:
            path: Where to.
            title: Heading of the page.
        """
        target = Path(path)
        target.write_text(page(self, title), encoding="utf-8")
        return target

    def to_perfetto(self, path: str | Path) -> Path:
        """Write one call as a Chrome trace, for ui.perfetto.dev or chrome://tracing.

        Args:
            path: Where to.

        Raises:
            CallError: nothing was measured.
        """
        if not self.timings:
            raise CallError("nothing was measured, so there are no times to write", help="explain with measure=True")
        target = Path(path)
        target.write_text(json.dumps(trace_events(self)), encoding="utf-8")
        return target

    def show(self) -> None:
        """Print the tree, with colours on a terminal."""
        print_rich(tree(self))

    def __rich__(self) -> RenderableType:
        return tree(self)

    def __str__(self) -> str:
        return plain_text(tree(self))

    def __repr__(self) -> str:
        times = "" if self.seconds is None else f", {self.seconds * 1e3:.3f} ms"
        return f"Explanation({len(self.plan.groups)} groups, {len(self.plan.boundaries)} boundaries{times})"
