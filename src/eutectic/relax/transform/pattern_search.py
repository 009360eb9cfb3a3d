"""Finding the matches of a pattern table in one function, and the reasons for those that are not taken.

`FuseOpsByPattern` chooses among what is found here, and outlines it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import get_var2val, users_of, walk_blocks
from eutectic.relax.base import Expr
from eutectic.relax.dpl.match import Matcher, required_ops, root_ops
from eutectic.relax.dpl.pattern import CallPattern, TupleGetItemPattern
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.roles import ROLES, places_of
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call, DataflowBlock, Function, Var, VarBinding
from eutectic.relax.transform.fusion_log import FusionLog
from eutectic.relax.transform.group_rules import leaking_value, needs_its_result, outside_block, shared_match
from eutectic.relax.transform.grouping import reads_of


class FunctionFacts:
    """What a search needs to know of a function; made once per version of it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.var2val = get_var2val(function)
        self.val2var = {value: var for var, value in self.var2val.items()}
        self.users = users_of(function)
        self.blocks = [BlockFacts(b) for b in walk_blocks(function.body) if isinstance(b, DataflowBlock)]
        calls = (value.op for value in self.var2val.values() if isinstance(value, Call))
        self.ops = frozenset(op.name for op in calls if isinstance(op, Op))

    def can_hold(self, entry: FusionPattern) -> bool:
        """Whether the function has all operators that every match of a pattern needs."""
        return required_ops(entry.pattern) <= self.ops

    def can_miss(self, entry: FusionPattern) -> bool:
        """Whether the function has an operator that matches of a pattern end in."""
        return not (root_ops(entry.pattern) or frozenset()).isdisjoint(self.ops)


class BlockFacts:
    """A dataflow block: its bindings, their positions, and those that a match can end in."""

    def __init__(self, block: DataflowBlock) -> None:
        self.block = block
        self.order = {binding.var: i for i, binding in enumerate(block.bindings)}
        self.reads = reads_of(block.bindings)
        self.calls = [b for b in block.bindings if isinstance(b, VarBinding) and isinstance(b.value, Call)]

    def roots(self, entry: FusionPattern) -> Iterator[VarBinding]:
        """Calls, in program order, that have the operator at the root of a pattern."""
        wanted = root_ops(entry.pattern)
        for binding in self.calls:
            op = binding.value.op if isinstance(binding.value, Call) else None
            if wanted is None or (isinstance(op, Op) and op.name in wanted):
                yield binding


@dataclass(frozen=True)
class Candidate:
    """A match that nothing speaks against.

    Attributes:
        index: Position of the pattern in the table.
        entry: The pattern.
        binding: The root.
        members: Matched bindings, in program order.
        annotated: Values by name, for the attributes of the composite.
        var_of: Variable of each bound value.
    """

    index: int
    entry: FusionPattern
    binding: VarBinding
    members: Mapping[Var, Expr]
    annotated: Mapping[str, Expr]
    var_of: Mapping[Expr, Var]

    @property
    def own(self) -> set[Var]:
        """Variables of the group."""
        return set(self.members)

    @property
    def size(self) -> int:
        """Number of operators."""
        return sum(isinstance(value, Call) for value in self.members.values())

    def attrs(self, with_roles: bool) -> dict[str, Any]:
        """Attributes of the composite."""
        more = dict(self.entry.attrs_getter(self.annotated)) if self.entry.attrs_getter is not None else {}
        if with_roles and (places := places_of(self.members, self.annotated, self.var_of)):
            more[ROLES] = places
        return {"Composite": self.entry.name, "Primitive": True, **more}


@dataclass
class Search:
    """Tries patterns at bindings of one function.

    Attributes:
        facts: The function.
        multiple_outputs: Whether intermediate values may be read outside a match.
        log: Where refusals go; None drops them.
    """

    facts: FunctionFacts
    multiple_outputs: bool
    log: FusionLog | None

    def first(self, index: int, entry: FusionPattern) -> dict[int, list[Candidate]]:
        """Matches of one pattern in program order, by the identity of the block; larger ones replace what they hold."""
        by_block: dict[int, list[Candidate]] = {}
        for block in self.facts.blocks:
            taken: list[Candidate] = []
            for binding in block.roots(entry):
                for candidate in self.attempt(index, entry, binding, block, taken)[:1]:
                    taken = [c for c in taken if not c.own <= candidate.own]
                    taken.append(candidate)
            if taken:
                by_block[id(block.block)] = taken
        return by_block

    def largest(self, entries: Sequence[FusionPattern]) -> dict[int, list[Candidate]]:
        """Matches of all patterns, those with most operators first, by the identity of the block."""
        by_block: dict[int, list[Candidate]] = {}
        usable = [(i, e) for i, e in enumerate(entries) if self.facts.can_hold(e) or self._logs(e)]
        for block in self.facts.blocks:
            candidates = [
                candidate
                for index, entry in usable
                for binding in block.roots(entry)
                for candidate in self.attempt(index, entry, binding, block, (), every=True)
            ]
            candidates.sort(key=lambda c: (-c.size, c.index, block.order[c.binding.var]))
            taken: list[Candidate] = []
            for candidate in candidates:
                if any(candidate.own <= other.own for other in taken):
                    continue
                refusal = self._clash(candidate, block, taken)
                if refusal is None:
                    taken.append(candidate)
                elif self.log is not None:
                    self.log.missed(candidate.entry, candidate.binding, refusal, self.facts.val2var)
            if taken:
                by_block[id(block.block)] = taken
        return by_block

    def _logs(self, entry: FusionPattern) -> bool:
        return self.log is not None and self.facts.can_miss(entry)

    def attempt(
        self,
        index: int,
        entry: FusionPattern,
        binding: VarBinding,
        block: BlockFacts,
        taken: Sequence[Candidate],
        *,
        every: bool = False,
    ) -> list[Candidate]:
        """Matches at a binding that nothing speaks against: the first way to match, or every one.

        Logs why there is none.
        """
        matcher = Matcher(self.facts.var2val)
        first: Refusal | None = None
        out: list[Candidate] = []
        for _ in matcher.solve(entry.pattern, binding.value):
            members = self._members(matcher, block)
            annotated = _annotated(matcher, entry)
            refusal = self._refusal(members, binding, block, taken) or self._check(entry, annotated, members, binding)
            if refusal is None and all(set(members) != other.own for other in out):
                out.append(Candidate(index, entry, binding, members, annotated, self.facts.val2var))
                if not every:
                    return out
            first = first or refusal
        if not out and self.log is not None:
            self.log.note(entry, binding, first, matcher, self.facts.val2var)
        return out

    def _members(self, matcher: Matcher, block: BlockFacts) -> dict[Var, Expr]:
        """Bindings matched by call and field patterns; wildcards never join."""
        out: dict[Var, Expr] = {}
        for pattern, value in matcher.matches.items():
            if isinstance(pattern, (CallPattern, TupleGetItemPattern)) and value in self.facts.val2var:
                out[self.facts.val2var[value]] = value
        return dict(sorted(out.items(), key=lambda item: block.order.get(item[0], -1)))

    def _refusal(
        self, members: Mapping[Var, Expr], binding: VarBinding, block: BlockFacts, taken: Sequence[Candidate]
    ) -> Refusal | None:
        """What speaks against a group, whatever the pattern."""
        refusal = outside_block(members, binding.var, block.order) or self._overlap(set(members), binding, taken)
        if refusal is None and not self.multiple_outputs:
            refusal = leaking_value(members, binding.var, self.facts.users)
        return refusal or self._cycle(set(members), binding, block, taken)

    def _overlap(self, own: set[Var], binding: VarBinding, taken: Sequence[Candidate]) -> Refusal | None:
        for earlier in taken:
            if earlier.own <= own:
                continue  # it is replaced by the larger match
            other, whose = earlier.binding.var, "another match of the pattern"
            refusal = shared_match(own, binding.value, earlier.own, other, whose)
            if refusal is not None:
                return refusal
        return None

    def _cycle(
        self, own: set[Var], binding: VarBinding, block: BlockFacts, taken: Sequence[Candidate]
    ) -> Refusal | None:
        """Whether a path leaves the group and comes back, other groups counting as one step."""
        group_of = {var: c.own for c in taken for var in c.members if not c.own <= own}
        return needs_its_result(own, binding.value, block.reads, group_of)

    def _clash(self, candidate: Candidate, block: BlockFacts, taken: Sequence[Candidate]) -> Refusal | None:
        """Why a match cannot be taken beside those that were taken before it, of any pattern."""
        own, binding = candidate.own, candidate.binding
        for other in taken:
            whose = f"the match of {other.entry.name} at {other.binding.var.name_hint}"
            refusal = shared_match(own, binding.value, other.own, other.binding.var, whose)
            if refusal is not None:
                return refusal
        return self._cycle(own, binding, block, taken)

    def _check(
        self, entry: FusionPattern, annotated: Mapping[str, Expr], members: Mapping[Var, Expr], binding: VarBinding
    ) -> Refusal | None:
        if entry.check is None:
            return None
        assert isinstance(binding.value, Call)
        usages = {v: [u for u in readers if u is not None] for v, readers in self.facts.users.items()}
        verdict = entry.check(
            PatternCheckContext(binding.value, annotated, members, usages, self.facts.val2var, self.facts.var2val)
        )
        if isinstance(verdict, Refusal):
            return verdict
        return None if verdict in (True, None) else Refusal(f"the check of {entry.name} refused it", binding.value)


def _annotated(matcher: Matcher, entry: FusionPattern) -> dict[str, Expr]:
    named = {p.name: value for p, value in matcher.matches.items() if p.name is not None}
    listed = {name: matcher.matches[p] for name, p in entry.annotation_patterns.items() if p in matcher.matches}
    return {**named, **listed}
