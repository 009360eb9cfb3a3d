"""Advice about the order of a pattern table: an entry that an earlier one keeps from ever matching."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eutectic.relax.dpl.match import most_calls
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.transform.pattern_search import Candidate, Search
from eutectic.support.errors import EutecticAdvice


@dataclass
class OrderAdvice:
    """Finds patterns that would have fused more than an earlier one of the list left to them.

    Only matches in the function at hand count: a pattern that could shadow another
    in some other graph is none of its business.

    Attributes:
        patterns: The table.
        search: Over the function as it was before fusion.
        advised: Pairs that were warned about already; extended.
    """

    patterns: Sequence[FusionPattern]
    search: Search
    advised: set[tuple[int, int]]

    def warn(self, taken: Sequence[Candidate]) -> None:
        """Warn once for each pair of patterns, given what was taken."""
        for earlier, larger in self._shadowed(taken):
            pair = (earlier.index, larger.index)
            if pair in self.advised:
                continue
            self.advised.add(pair)
            first, second = earlier.entry.name, larger.entry.name
            warnings.warn(
                f"pattern {first} comes before {second} and takes what {second} would fuse with more operators: "
                f"{larger.size} instead of {earlier.size} at {larger.binding.var.name_hint}; put {second} before "
                f'{first}, or use FuseOpsByPattern(..., priority="largest")',
                EutecticAdvice,
                stacklevel=6,  # the caller of the pass: warn, take_in_order, run, run_pass and __call__ are between
            )

    def _shadowed(self, taken: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
        """Pairs of a match that was taken and a larger one around it, of a later pattern."""
        facts = self.search.facts
        for index, entry in enumerate(self.patterns):
            most = most_calls(entry.pattern)
            smaller = [c for c in taken if c.index < index and c.size < most]
            if not smaller or not facts.can_hold(entry):
                continue
            for block in facts.blocks:
                for binding in block.roots(entry):
                    for larger in self.search.attempt(index, entry, binding, block, ())[:1]:
                        yield from ((c, larger) for c in smaller if c.own < larger.own and c.size < larger.size)
