"""What changed from one plan to another: groups, kernels, reasons, times.

Operators are known by their name, module and line, and by which of these it is in the order of execution; groups by
their operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from eutectic.driver.plan import OperatorRecord, PlanRecord
from eutectic.explain.data import Explained, Group
from eutectic.explain.numbers import clipped, seconds_text

Key: TypeAlias = tuple[str, str, str, int]
NOTICED: Final = 0.1  # by which share a time must differ to be told


@dataclass(frozen=True)
class Change:
    """Groups of two plans that have the same operators, or share some.

    Attributes:
        kind: `regrouped`, `kernel` for the same operators in another kernel, `time`, `only before`, `only after`.
        before: Numbers of groups of the first plan.
        after: Numbers of groups of the second.
        text: What changed, in one line.
        seconds_before: Time of the former; None when not known.
        seconds_after: Time of the latter.
    """

    kind: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    text: str
    seconds_before: float | None = None
    seconds_after: float | None = None


@dataclass(frozen=True)
class ReasonChange:
    """Two operators that are kept apart for another reason, or only in one of two plans.

    Attributes:
        value: The operator that is read.
        user: The operator that reads it.
        before: The reason in the first plan; empty where they are together or not neighbours.
        after: The same in the second.
    """

    value: OperatorRecord
    user: OperatorRecord
    before: str
    after: str

    def __str__(self) -> str:
        was, now = (reason or "together, or not neighbours" for reason in (self.before, self.after))
        return f"{self.value.label} -> {self.user.label}: before: {was}; after: {now}"


@dataclass(frozen=True)
class PlanDiff:
    """Everything that changed.

    Attributes:
        changes: Of groups, in the order of execution.
        reasons: Of boundaries.
        seconds_before: Time of a call of the first; None when not measured.
        seconds_after: The same of the second.
    """

    changes: tuple[Change, ...]
    reasons: tuple[ReasonChange, ...]
    seconds_before: float | None = None
    seconds_after: float | None = None

    def __bool__(self) -> bool:
        return bool(self.changes or self.reasons)

    def __str__(self) -> str:
        lines = [f"{change.kind}: {change.text}" for change in self.changes]
        lines += [f"reason: {reason}" for reason in self.reasons]
        if self.seconds_before is not None and self.seconds_after is not None:
            lines.append(f"a call: {seconds_text(self.seconds_before)} -> {seconds_text(self.seconds_after)}")
        return "\n".join(lines) or "nothing changed"


def diff(before: Explained, after: Explained) -> PlanDiff:
    """What changed from one explanation to another, of one model.

    Args:
        before: The first.
        after: The second.
    """
    old, new = _keys(before.plan), _keys(after.plan)
    pairs = _components(old, new)
    changes = tuple(change for pair in pairs if (change := _change(before, after, *pair, old, new)) is not None)
    return PlanDiff(changes, tuple(_reasons(before.plan, after.plan, old, new)), before.seconds, after.seconds)


def _keys(plan: PlanRecord) -> dict[Key, tuple[int, int]]:
    """The place of each operator."""
    seen: Counter[tuple[str, str, str]] = Counter()
    out: dict[Key, tuple[int, int]] = {}
    for number, group in enumerate(plan.groups):
        for index, operator in enumerate(group.operators):
            name = (operator.op, operator.module, operator.source)
            out[*name, seen[name]] = (number, index)
            seen[name] += 1
    return out


def _components(
    old: Mapping[Key, tuple[int, int]], new: Mapping[Key, tuple[int, int]]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Groups of both plans that share operators, directly or by way of others."""
    parent: dict[tuple[str, int], tuple[str, int]] = {}

    def root(item: tuple[str, int]) -> tuple[str, int]:
        while parent.setdefault(item, item) != item:
            item = parent[item]
        return item

    for key in dict.fromkeys([*old, *new]):
        sides = [(side, places[key][0]) for side, places in (("old", old), ("new", new)) if key in places]
        for item in sides:
            parent[root(item)] = root(sides[0])
    members: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for item in list(parent):
        members.setdefault(root(item), []).append(item)
    halves = ("old", "new")
    pairs = [tuple(tuple(sorted(n for s, n in items if s == side)) for side in halves) for items in members.values()]
    return sorted((pair[0], pair[1]) for pair in pairs)


def _change(
    before: Explained,
    after: Explained,
    olds: tuple[int, ...],
    news: tuple[int, ...],
    old: Mapping[Key, tuple[int, int]],
    new: Mapping[Key, tuple[int, int]],
) -> Change | None:
    first, second = [before.groups[n] for n in olds], [after.groups[n] for n in news]
    times = _seconds(first), _seconds(second)
    if not first or not second:
        side, groups = ("only before", first) if first else ("only after", second)
        return Change(side, olds, news, _named(groups), *times)
    same = {k for k, place in old.items() if place[0] in olds} == {k for k, place in new.items() if place[0] in news}
    if len(first) > 1 or len(second) > 1 or not same:
        return Change("regrouped", olds, news, f"{_named(first)} -> {_named(second)}{_spent(*times)}", *times)
    was, now = first[0].record, second[0].record
    if (was.kind, was.backend, was.pattern) != (now.kind, now.backend, now.pattern):
        return Change("kernel", olds, news, f"{_named(first)} -> {_named(second)}{_spent(*times)}", *times)
    if times[0] and times[1] and abs(times[1] / times[0] - 1) > NOTICED:
        return Change("time", olds, news, f"{_named(second)}{_spent(*times)}", *times)
    return None


def _seconds(groups: Sequence[Group]) -> float | None:
    known = [group.seconds for group in groups if group.seconds is not None]
    return sum(known) if known and len(known) == len(groups) else None


def _spent(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f": {seconds_text(before)} -> {seconds_text(after)}"


def _named(groups: Sequence[Group]) -> str:
    return " + ".join(
        f"{group.number} {group.record.backend or group.record.kind} {clipped(group.record.pattern)}"
        for group in groups
    )


def _reasons(
    before: PlanRecord, after: PlanRecord, old: Mapping[Key, tuple[int, int]], new: Mapping[Key, tuple[int, int]]
) -> Iterator[ReasonChange]:
    first, second = _by_operators(before, old), _by_operators(after, new)
    for pair in dict.fromkeys([*first, *second]):
        was, now = first.get(pair), second.get(pair)
        known = now or was
        if known is not None and (was is None or now is None or was[0] != now[0]):
            _, _, value, user = known
            yield ReasonChange(value, user, was[1] if was else "", now[1] if now else "")


def _by_operators(
    plan: PlanRecord, places: Mapping[Key, tuple[int, int]]
) -> dict[tuple[Key, Key], tuple[str, str, OperatorRecord, OperatorRecord]]:
    """Rule, reason and operators of each boundary, by its operators."""
    key_of = {place: key for key, place in places.items()}
    out = {}
    for step in plan.boundaries:
        ends = (step.source, step.value), (step.reader, step.user)
        value, user = (plan.groups[group].operators[index] for group, index in ends)
        out[key_of[ends[0]], key_of[ends[1]]] = (step.rule, step.reason, value, user)
    return out
