"""Whether two operators are executed together, and what is between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from eutectic.driver.plan import BoundaryRecord, PlanRecord
from eutectic.explain.find import Place, one_group
from eutectic.explain.numbers import clipped


@dataclass(frozen=True)
class Answer:
    """What `why` found.

    Attributes:
        a: The first operator.
        b: The second.
        together: Whether one kernel, or one primitive of a library, computes both.
        chain: Boundaries on the shortest way from one to the other along what is read; empty when together, or when
            neither needs the other.
        text: All that as sentences.
    """

    a: Place
    b: Place
    together: bool
    chain: tuple[BoundaryRecord, ...]
    text: str

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of the boundaries."""
        return tuple(boundary.reason for boundary in self.chain)

    def __str__(self) -> str:
        return self.text


def answer(plan: PlanRecord, a: str, b: str) -> Answer:
    """What is between two operators; see `Explanation.why`."""
    firsts, seconds = one_group(plan, a), one_group(plan, b)
    start, end = firsts[-1], seconds[0]
    if start.group == end.group:
        return Answer(start, end, True, (), _together(plan, start, end))
    chain = _chain(plan, start.group, end.group)
    if chain is None:
        chain = _chain(plan, end.group, start.group)
        start, end = (seconds[-1], firsts[0]) if chain is not None else (start, end)
    if chain is None:
        return Answer(start, end, False, (), _apart(plan, start, end))
    return Answer(start, end, False, tuple(chain), _between(plan, start, end, chain))


def _chain(plan: PlanRecord, start: int, end: int) -> list[BoundaryRecord] | None:
    """The shortest way along reads; None when there is none."""
    after: dict[int, list[BoundaryRecord]] = {}
    for boundary in plan.boundaries:
        after.setdefault(boundary.source, []).append(boundary)
    reached: dict[int, BoundaryRecord | None] = {start: None}
    todo = deque([start])
    while todo and end not in reached:
        for boundary in after.get(todo.popleft(), ()):
            if boundary.reader not in reached:
                reached[boundary.reader] = boundary
                todo.append(boundary.reader)
    return _way(reached, end) if end in reached else None


def _way(reached: Mapping[int, BoundaryRecord | None], end: int) -> list[BoundaryRecord]:
    way: list[BoundaryRecord] = []
    while (boundary := reached[end]) is not None:
        way.append(boundary)
        end = boundary.source
    return way[::-1]


def _together(plan: PlanRecord, a: Place, b: Place) -> str:
    group = plan.groups[a.group]
    both = f"{a.operator.label} and {b.operator.label}"
    return f"{both} are together in group {a.group}: {clipped(group.pattern)} ({group.kind})"


def _apart(plan: PlanRecord, a: Place, b: Place) -> str:
    return (
        f"{a.operator.label} is in group {a.group}, {b.operator.label} in group {b.group}; neither needs what the "
        "other computes, and groups are made along what is read"
    )


def _between(plan: PlanRecord, a: Place, b: Place, chain: list[BoundaryRecord]) -> str:
    head = (
        f"{a.operator.label} is in group {a.group} ({clipped(plan.groups[a.group].pattern)}), "
        f"{b.operator.label} in group {b.group} ({clipped(plan.groups[b.group].pattern)}); between them "
        f"{'is 1 boundary' if len(chain) == 1 else f'are {len(chain)} boundaries'}:"
    )
    return "\n".join([head, *(f"  {step.source} -> {step.reader} [{step.rule}] {step.reason}" for step in chain)])
