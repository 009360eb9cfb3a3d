"""What a group of matched bindings must be before it can become a function; each broken rule is a `Refusal`.

All of a group is bound in one dataflow block, belongs to no other match, is read by
nobody outside but for its root, and does not need its own result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from eutectic.relax.base import Expr
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import DataflowVar, Var
from eutectic.relax.transform.grouping import depends_on_itself

Users = Mapping[Var, Sequence[Var | None]]
Reads = Mapping[Var, AbstractSet[Var]]


def outside_block(members: Mapping[Var, Expr], root: Var, order: Mapping[Var, int]) -> Refusal | None:
    """Refuses a group with a value that another block binds."""
    for var, value in members.items():
        if var not in order:
            return Refusal(
                f"{var.name_hint} is bound outside the dataflow block of {root.name_hint}",
                value,
                "one block",
                f"a value bound in the dataflow block of {root.name_hint}",
                "a value bound outside it",
                (var.name_hint,),
                (root.name_hint,),
            )
    return None


def shared_match(own: set[Var], value: Expr, other: set[Var], other_root: Var, whose: str) -> Refusal | None:
    """Refuses a group that shares values with one that was taken.

    Args:
        own: The group.
        value: Its root.
        other: What was taken.
        other_root: The root of that.
        whose: What to call it, such as `another match of the pattern`.
    """
    if not other & own:
        return None
    shared = _names(other & own)
    return Refusal(
        f"{', '.join(shared)} belongs to {whose} already",
        value,
        "one match per value",
        "values that no other match has",
        f"the match that ends in {other_root.name_hint}",
        shared,
        (other_root.name_hint,),
    )


def leaking_value(members: Mapping[Var, Expr], root: Var, users: Users) -> Refusal | None:
    """Refuses a group whose intermediate value is read by somebody outside."""
    for var, value in members.items():
        if var is root:
            continue
        outside = [user for user in users.get(var, ()) if user is None or user not in members]
        if isinstance(var, DataflowVar) and not outside:
            continue
        readers = tuple(dict.fromkeys("the result" if user is None else user.name_hint for user in outside))
        actual = f"{var.name_hint} is read by {', '.join(readers)}" if readers else f"{var.name_hint} leaves its block"
        return Refusal(
            f"{var.name_hint} is read elsewhere too",
            value,
            "single reader",
            "a value that only the match reads",
            actual,
            (var.name_hint,),
            readers,
        )
    return None


def needs_its_result(own: set[Var], value: Expr, reads: Reads, group_of: Mapping[Var, set[Var]]) -> Refusal | None:
    """Refuses a group from which a path of reads leaves and comes back.

    Args:
        own: The group.
        value: Its root.
        reads: What each binding of the block reads, in program order (`reads_of`).
        group_of: Variables that count as one step because they belong to one group already.
    """
    if not depends_on_itself(own, reads, group_of):
        return None
    between = _between(own, reads, group_of)
    through = tuple(var.name_hint for var in between)
    readers = _names(var for var, read in reads.items() if var in own and not read.isdisjoint(between))
    return Refusal(
        "the group would depend on its own result",
        value,
        "no cycle",
        "a group that needs nothing made from its own values",
        f"{', '.join(through)} made from the group and read by {', '.join(readers)}",
        through,
        readers,
    )


def _between(own: set[Var], reads: Reads, group_of: Mapping[Var, set[Var]]) -> list[Var]:
    """Variables outside the group, on a path from it to it; those of another group stand and fall together."""
    readers: dict[Var, set[Var]] = {}
    for reader, read in reads.items():
        for var in read:
            readers.setdefault(var, set()).add(reader)
    after, before = _closure(own, readers, group_of), _closure(own, reads, group_of)
    return [var for var in reads if var in after and var in before and var not in own]


def _closure(start: set[Var], step: Reads, group_of: Mapping[Var, set[Var]]) -> set[Var]:
    seen, todo = set(start), list(start)
    while todo:
        var = todo.pop()
        for other in step.get(var, set()):
            fresh = ({other} | group_of.get(other, set())) - seen
            seen |= fresh
            todo.extend(fresh)
    return seen


def _names(variables: Iterable[Var]) -> tuple[str, ...]:
    return tuple(sorted(var.name_hint for var in variables))
