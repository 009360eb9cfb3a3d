"""From what people call an operator to its place in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eutectic.driver.plan import OperatorRecord, PlanRecord
from eutectic.support.errors import CallError
from eutectic.support.spelling import did_you_mean

_LISTED = 12


@dataclass(frozen=True)
class Place:
    """Where an operator is.

    Attributes:
        group: Number of its group.
        index: Its place in the group.
        operator: What it is.
    """

    group: int
    index: int
    operator: OperatorRecord

    def __str__(self) -> str:
        module = f" in {self.operator.module}" if self.operator.module else ""
        source = f" ({self.operator.source})" if self.operator.source else ""
        return f"{self.operator.label}{module}{source}, group {self.group}"


def places(plan: PlanRecord) -> Iterator[Place]:
    """All operators of a plan, in the order of execution."""
    for number, group in enumerate(plan.groups):
        for index, operator in enumerate(group.operators):
            yield Place(number, index, operator)


def find(plan: PlanRecord, name: str) -> tuple[Place, ...]:
    """Operators of a name; see `Explanation.find`."""
    words = name.split()
    return tuple(place for place in places(plan) if words and all(_fits(place.operator, word) for word in words))


def one_group(plan: PlanRecord, name: str) -> tuple[Place, ...]:
    """The operators of a name, which are all in one group.

    Raises:
        CallError: there are none, or they are in several groups.
    """
    candidates = find(plan, name)
    if not candidates:
        near = did_you_mean(name, sorted({word for place in places(plan) for word in _words(place.operator)}))
        raise CallError(f"the plan has no operator {name!r}", help=near or "give an operator, variable, module or line")
    if len({place.group for place in candidates}) > 1:
        listed = "; ".join(map(str, candidates[:_LISTED]))
        more = f"; and {len(candidates) - _LISTED} more" if len(candidates) > _LISTED else ""
        raise CallError(
            f"{name!r} is the name of operators in several groups: {listed}{more}",
            help=f"give its variable, or two names with a space between: {_precise(candidates[0].operator)!r}",
        )
    return candidates


def _precise(operator: OperatorRecord) -> str:
    return " ".join(part for part in (operator.variable, operator.module or operator.op) if part)


def _words(operator: OperatorRecord) -> Iterator[str]:
    """Everything that an operator can be called, as it is."""
    short = operator.op.removeprefix("relax.")
    yield from (operator.op, short, short.removeprefix("nn."), operator.variable)
    yield from (part for part in (operator.module, operator.source, operator.part_of) if part)


def _fits(operator: OperatorRecord, word: str) -> bool:
    if word in _words(operator) or operator.module.startswith(f"{word}."):
        return True
    if operator.part_of and word in (operator.part_of.removeprefix("relax."), operator.part_of.rpartition(".")[2]):
        return True
    return ":" in word and operator.source.endswith(f"/{word}")
