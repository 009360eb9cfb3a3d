"""Remarks: what the matcher decided and why; the raw material of reports and of `explain`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eutectic.ir.span import Span
from eutectic.relax.expr import Var


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a match is not taken: a sentence bound to the value it is about.

    Attributes:
        why: One sentence.
        at: The value it is about; None when it is the root's.
        constraint: Which kind of requirement failed, such as `dtype` or `single reader`; see `FusionRemark`.
        expected: What the requirement asks for.
        actual: What the value is.
        variables: Names of the values that the sentence is about.
        readers: Names of the values that read them.
    """

    why: str
    at: Any = None
    constraint: str = "check"
    expected: str = ""
    actual: str = ""
    variables: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One operator of a fused group: its name and where it comes from."""

    op: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class FusionRemark:
    """One decision of a fusion pass.

    Attributes:
        kind: `fused` or `missed`.
        pattern: Name of the pattern.
        root: Operator at the root of the match.
        variable: Variable bound to the root's value.
        reason: Why it was not fused; empty when it was.
        members: Operators of the group, in program order.
        span: Source of the root.
        function: Name of the function that the group became.
        operand: Name of the value that did not fit: a variable, or what the value is when it has no name.
        constraint: What did not hold: of a value `operator`, `argument count`, `dtype`, `shape`, `attribute`,
            `constant`, `tuple`, `condition` and the like; of a group `single reader`, `one block`,
            `one match per value`, `no cycle`; or `check`. Of `FuseOps` a rule of `fusion_groups.Obstacle`.
        expected: What was asked for.
        actual: What was there.
        variables: Names of the values the reason is about.
        readers: Names of the values that read them.
        operand_span: Source of the value that did not fit.
        bound: Of `FuseOps`, the variables themselves, as names may repeat: of a group its members, of a read that is
            not within a group what is read and what reads it. Not compared.
    """

    kind: str
    pattern: str
    root: str
    variable: str
    reason: str = ""
    members: tuple[Member, ...] = ()
    span: Span | None = None
    function: str = ""
    operand: str = ""
    constraint: str = ""
    expected: str = ""
    actual: str = ""
    variables: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    operand_span: Span | None = None
    bound: tuple[Var, ...] = field(default=(), compare=False, repr=False)

    @property
    def module(self) -> str:
        """Path of the torch module that the root belongs to; empty when not known."""
        return (self.span.module or "") if self.span is not None else ""

    @property
    def source(self) -> str:
        """File and line of the root; empty when not known."""
        return f"{self.span.file}:{self.span.line}" if self.span is not None else ""

    def __str__(self) -> str:
        """One sentence: pattern, place, reason, and who reads what is shared."""
        place = f" in {self.span}" if self.span is not None else ""
        if self.kind == "fused":
            names = ", ".join(member.op for member in self.members)
            return f"{self.pattern} at {self.variable} ({self.root}){place}: {names} became {self.function}"
        read = f" (read by {', '.join(self.readers)})" if self.readers else ""
        return f"{self.pattern} at {self.variable} ({self.root}){place}: {self.reason}{read}"
