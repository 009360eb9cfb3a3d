"""Remarks: what the matcher decided and why; the raw material of reports and of `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.span import Span


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a match is not taken: a sentence bound to the value it is about."""

    why: str
    at: Any = None


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
    """

    kind: str
    pattern: str
    root: str
    variable: str
    reason: str = ""
    members: tuple[Member, ...] = ()
    span: Span | None = None
    function: str = ""
