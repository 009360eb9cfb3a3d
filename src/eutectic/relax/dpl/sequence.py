"""Use constraints between patterns, and the context that collects them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from eutectic.support.deep import carried

if TYPE_CHECKING:
    from eutectic.relax.dpl.pattern import DFPattern
    from eutectic.relax.expr import DataflowBlock, Var


class PatternContext:
    """Collects "is used by" edges and constraints between the patterns made inside it.

    Args:
        incremental: Whether the edges of the enclosing context are kept too.
    """

    _local: ClassVar[threading.local] = carried(threading.local())

    def __init__(self, incremental: bool = False) -> None:
        outer = current_context() if incremental else None
        self.edges: list[tuple[Any, Any, int, bool]] = list(outer.edges) if outer else []
        self.constraints: list[Any] = list(outer.constraints) if outer else []

    def add_edge(self, producer: DFPattern, consumer: DFPattern, index: int, *, only_use: bool) -> None:
        """`consumer` reads `producer`, at argument `index` unless -1; alone when `only_use`."""
        self.edges.append((producer, consumer, index, only_use))

    def add_constraint(self, constraint: Any) -> None:
        """A condition over several patterns."""
        self.constraints.append(constraint)

    def match_dfb(
        self, dfb: DataflowBlock, start_hint: Var | None = None, must_include_hint: bool = False
    ) -> dict[DFPattern, Any] | None:
        """The first match in a dataflow block: for each pattern its variable; None when there is none.

        Each pattern has a variable of its own. A variable that nothing reads can only match
        as the reader of another one, and an output of the block has a reader outside of it.

        Args:
            dfb: The block to search, in program order.
            start_hint: Matches with this variable are preferred.
            must_include_hint: Take no other matches.

        Returns:
            Patterns with the variables they matched. A pattern of an argument that is not
            a variable, such as a constant, comes with the argument.

        Raises:
            TypeError: `dfb` is not a dataflow block, or the hint is not a variable.
            PatternError: the hint must be included, but there is none.
        """
        return _BLOCK_MATCHER[0](self, dfb, start_hint, must_include_hint)

    def __enter__(self) -> PatternContext:
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._local.stack.pop()


def current_context() -> PatternContext | None:
    """The innermost entered context of this thread, or None."""
    stack = getattr(PatternContext._local, "stack", None)
    return stack[-1] if stack else None


_BLOCK_MATCHER: Final[list[Callable[[PatternContext, Any, Var | None, bool], dict[DFPattern, Any] | None]]] = []


def set_block_matcher(
    matcher: Callable[[PatternContext, Any, Var | None, bool], dict[DFPattern, Any] | None],
) -> None:
    """Let contexts match by a function that takes apart the patterns that were made in them."""
    _BLOCK_MATCHER[:] = [matcher]


class PatternSeq:
    """A chain of patterns, each read by the next.

    Args:
        patterns: Producers before consumers.
        only_use: Whether each is read by the next alone.
    """

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        self.pairs: list[tuple[int, bool]] = []
        for left, right in zip(self.patterns, self.patterns[1:], strict=False):
            self._link(left, right, -1, only_use)

    def _link(self, left: DFPattern, right: DFPattern, index: int, only_use: bool) -> None:
        self.pairs.append((index, only_use))
        context = current_context()
        if context is not None:
            context.add_edge(left, right, index, only_use=only_use)

    def _extend(self, other: DFPattern | PatternSeq, index: int, only_use: bool) -> PatternSeq:
        tail = other.patterns if isinstance(other, PatternSeq) else [other]
        self._link(self.patterns[-1], tail[0], index, only_use)
        joined = object.__new__(PatternSeq)
        joined.patterns = [*self.patterns, *tail]
        joined.pairs = [*self.pairs, *(other.pairs if isinstance(other, PatternSeq) else [])]
        return joined

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last pattern is read by the first of `other`."""
        return self._extend(other, index, only_use=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last pattern is read by the first of `other` alone."""
        return self._extend(other, index, only_use=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """The same chain of fresh copies."""
        copy = PatternSeq([pattern.dup() for pattern in self.patterns[:1]])
        for pattern, (index, only_use) in zip(self.patterns[1:], self.pairs, strict=True):
            copy = copy._extend(pattern.dup(), index, only_use)
        return copy
