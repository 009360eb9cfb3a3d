"""Why two groups of which one reads the other are not one: a rule in a few words, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.driver.plan import GroupRecord, MissRecord, OperatorRecord
from eutectic.relax.analysis.concat_pattern import JOINED
from eutectic.relax.dpl.remarks import FusionRemark

_LAYOUT: Final = "relax.layout_transform"


@dataclass(frozen=True)
class Edge:
    """A group that reads the result of another.

    Attributes:
        groups: All groups.
        source: Number of the first.
        reader: Number of the second.
        value: The operator whose result is read, by its place in the first.
        user: The operator that reads it, by its place in the second.
        misses: Patterns of libraries that nearly matched.
        remark: What `FuseOps` said about it, if it did.
        were_fused: Whether `FuseOps` was run.
    """

    groups: Sequence[GroupRecord]
    source: int
    reader: int
    value: int
    user: int
    misses: Sequence[MissRecord]
    remark: FusionRemark | None
    were_fused: bool = True

    @property
    def both(self) -> tuple[GroupRecord, GroupRecord]:
        """The groups."""
        return self.groups[self.source], self.groups[self.reader]

    @property
    def operators(self) -> tuple[OperatorRecord, OperatorRecord]:
        """The operators at its ends."""
        first, second = self.both
        return first.operators[self.value], second.operators[self.user]


def edge_reason(edge: Edge) -> tuple[str, str]:
    """The rule that keeps the groups of an edge apart, and a sentence that names both operators."""
    first, second = edge.both
    kinds = {first.kind, second.kind}
    if "host" in kinds:
        return "host operator", _host(edge)
    if first.backend != second.backend and "view" not in kinds:
        return _rule(edge, "another backend"), _other_backend(edge)
    if kinds == {"library"}:
        return _library(edge)
    if "view" in kinds:
        return "view", _view(edge)
    if edge.remark is not None:
        return _fusion(edge, edge.remark)
    value, user = (operator.label for operator in edge.operators)
    if not edge.were_fused:
        return "no fusion", f"{value} and {user} are two kernels because the pipeline has no pass FuseOps"
    return "another block", f"{value} and {user} are in two blocks of the graph, and groups are made within one"


def _fusion(edge: Edge, remark: FusionRemark) -> tuple[str, str]:
    """What `FuseOps` said; where an end of the edge changes a layout, that is the rule."""
    for operator in edge.operators:
        if _LAYOUT in (operator.op, operator.part_of):
            change = f"{operator.label} brings the value to another layout in memory, which the kernel beside it needs"
            return "layout", f"{change}: {remark.reason}"
    return remark.constraint, remark.reason


def _host(edge: Edge) -> str:
    first, second = edge.both
    value, user = edge.operators
    operator, group, other = (value, first, user) if first.kind == "host" else (user, second, value)
    why = f": {group.note}" if group.note else ""
    return f"{operator.label} runs in Python{why}; {other.label} is native code"


def _view(edge: Edge) -> str:
    first, _ = edge.both
    value, user = edge.operators
    view, other = (value, user) if first.kind == "view" else (user, value)
    if view.op == JOINED:
        how = "uses it as it is" if first.kind == "view" else "is computed in its place there"
        return f"{view.label} only has its parts one after another in memory, which costs nothing; {other.label} {how}"
    return f"{view.label} only gives the same memory another shape, which costs nothing; {other.label} uses it as it is"


def _other_backend(edge: Edge) -> str:
    first, second = edge.both
    value, user = edge.operators
    both = f"{value.label} is computed by {first.backend}, {user.label} by {second.backend}"
    outside, library = (value, second) if first.kind != "library" else (user, first)
    return f"{both}; {_not_taken(edge, outside, library.backend)}"


def _not_taken(edge: Edge, operator: OperatorRecord, backend: str) -> str:
    """Why a library does not compute an operator."""
    miss = _miss(edge, operator)
    if miss is not None:
        return f"{miss.pattern} does not take {operator.label}: {miss.reason}"
    return f"no pattern of {backend} takes {operator.label}"


def _library(edge: Edge) -> tuple[str, str]:
    """Between two composites of one library."""
    first, second = edge.both
    value, user = edge.operators
    both = f"{value.label} and {user.label} are two primitives of {first.backend}"
    miss = _miss(edge, user, value)
    if miss is not None:
        return miss.constraint or "pattern", f"{both}: {miss.pattern} does not take both, as {miss.reason}"
    if edge.user:
        root = second.operators[0].label
        return (
            "another root",
            f"{user.label} is done in the primitive of {root}, which takes {value.label} as an operand",
        )
    together = "" if first.region == second.region else ", in two calls of it"
    return "no pattern", f"{both}{together}: no pattern of it has {user.label} behind {value.label}"


def _rule(edge: Edge, otherwise: str) -> str:
    """The rule of the miss that a sentence is about."""
    first, _ = edge.both
    value, user = edge.operators
    miss = _miss(edge, value if first.kind != "library" else user)
    return miss.constraint if miss is not None and miss.constraint == "precision" else otherwise


def _miss(edge: Edge, operator: OperatorRecord, other: OperatorRecord | None = None) -> MissRecord | None:
    """The pattern that came nearest to an operator; with another operator, one whose reason is about that too."""
    own = [miss for miss in edge.misses if miss.variable == operator.variable and _is_library(edge, miss)]
    if other is None:
        return own[0] if own else None
    about = [miss for miss in own if _mentions(miss, other)]
    return about[0] if about else None


def _is_library(edge: Edge, miss: MissRecord) -> bool:
    return miss.pattern.partition(".")[0] in {group.backend for group in edge.both}


def _mentions(miss: MissRecord, operator: OperatorRecord) -> bool:
    words = miss.reason.replace(",", " ").replace("(", " ").replace(")", " ").replace(":", " ").split()
    return operator.variable in words or operator.op in words
