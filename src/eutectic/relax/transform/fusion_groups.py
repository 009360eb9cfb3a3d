"""Which bindings of a dataflow block become one kernel: groups around post-dominators, by fusion kind.

Every group has one member, its sink, whose value others may read; all readers of
any other member are members too. Such groups never depend on each other in a
cycle: a path that leaves a group leaves it at the sink, and a path that enters it
leads on to the sink, so that both together would be a cycle of the block itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from eutectic.arith import prove_equal
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.analysis.op_pattern import OpPatternKind as Kind

MEET: Final = "several readers"


@dataclass
class FusionNode:
    """One binding.

    Attributes:
        kind: Its fusion kind.
        shape: Sizes of its value; None when it is no tensor of known shape.
        leaves: Whether its value is visible outside the block.
        moves_only: Whether it moves elements without computing any.
        gathers: Whether it only gives results of the block another name, or puts them into a tuple.
        readers: Numbers of the bindings that read it, each once, all larger than its own.
    """

    kind: Kind
    shape: tuple[PrimExpr, ...] | None = None
    leaves: bool = False
    moves_only: bool = False
    gathers: bool = False
    readers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Obstacle:
    """Why the group that ends in a binding ends there.

    Attributes:
        rule: Which rule: `output`, `opaque`, `several readers`, `reduction`, `epilogue kind`, `epilogue shape`,
            `move kind`, `producer kind` or `group size`; `fusion_reasons.py` has a sentence for each.
        at: The binding that breaks it.
    """

    rule: str
    at: int


@dataclass(frozen=True)
class Partition:
    """What `partition` found.

    Attributes:
        groups: Groups of two and more bindings, each in program order; the last one is the sink.
        obstacles: For each binding that ends a group, alone or with others, and is read, why it ends there.
    """

    groups: list[list[int]]
    obstacles: dict[int, Obstacle]


def partition(nodes: Sequence[FusionNode], max_depth: int) -> Partition:
    """Groups of bindings, and why each ends where it does.

    A value joins what all its readers lead to, if the kinds on the way allow it: the result of a matmul
    or conv is processed element by element, nothing is put before one, a reduction takes in what it
    reduces, and moves of elements are joined last. At the end a value that only such a group reads,
    element by element or after moving it, joins the group.

    Args:
        nodes: The bindings of a block in program order.
        max_depth: Largest number of bindings in a group.

    Cost: linear in bindings and reads, times the logarithm of the number of bindings; a join looks at
    `max_depth` bindings at most.
    """
    groups = _Groups(nodes, max_depth)
    sinks = post_dominators([[] if node.leaves else node.readers for node in nodes])
    for late in (False, True):
        for number, node in enumerate(nodes):
            if node.kind is not Kind.OPAQUE and sinks[number] >= 0 and groups.root(number) == number:
                groups.join(number, sinks[number], late=late)
    for number in reversed(range(len(nodes))):
        groups.join_as_operand(number)
    return Partition(groups.listed(), groups.obstacles(sinks))


def post_dominators(readers: Sequence[Sequence[int]]) -> list[int]:
    """For each node of a graph the first one that all paths from it lead through, or -1.

    Args:
        readers: Successors of each node, with larger numbers; a node without any is an end of all paths.

    Reference: Myers, An applicative random-access stack, 1983, for the jumps.
    """
    count = len(readers)
    parent, depth, jump = [-1] * count, [0] * count, list(range(count))

    def meet(a: int, b: int) -> int:
        while depth[a] != depth[b]:
            if depth[a] < depth[b]:
                a, b = b, a
            a = jump[a] if depth[jump[a]] >= depth[b] else parent[a]
        while a != b:
            if depth[a] == 0:
                return -1
            a, b = (jump[a], jump[b]) if jump[a] != jump[b] else (parent[a], parent[b])
        return a

    for node in reversed(range(count)):
        dominator = readers[node][0] if readers[node] else -1
        for other in readers[node][1:]:
            if dominator < 0:
                break
            dominator = meet(dominator, other)
        if dominator >= 0:
            parent[node], depth[node] = dominator, depth[dominator] + 1
            far = jump[dominator]
            jump[node] = jump[far] if depth[dominator] - depth[far] == depth[far] - depth[jump[far]] else dominator
    return parent


class _Groups:
    """The groups so far: each is known by the number of its sink."""

    def __init__(self, nodes: Sequence[FusionNode], max_depth: int) -> None:
        self.nodes, self.max_depth = nodes, max_depth
        self._up = list(range(len(nodes)))
        self._kind = [node.kind for node in nodes]
        self._size = [1] * len(nodes)
        self._moves_only = [node.moves_only for node in nodes]
        self._refused: dict[int, Obstacle] = {}

    def obstacles(self, sinks: Sequence[int]) -> dict[int, Obstacle]:
        """Why groups end, by their sinks; for those that are read.

        Args:
            sinks: The post-dominator of each node.
        """
        ends = (n for n, node in enumerate(self.nodes) if self.root(n) == n and (node.readers or node.leaves))
        return {number: self._obstacle(number, sinks[number]) for number in ends}

    def _obstacle(self, number: int, sink: int) -> Obstacle:
        node = self.nodes[number]
        if node.kind is Kind.OPAQUE:
            return Obstacle("opaque", number)
        if node.leaves or any(self.nodes[reader].gathers for reader in node.readers):
            return Obstacle("output", number)
        opaque = [reader for reader in node.readers if self.nodes[reader].kind is Kind.OPAQUE]
        refused = self._refused.get(number)
        if len(opaque) == len(node.readers):
            return Obstacle("opaque", opaque[0])
        if sink < 0 or (refused is not None and self.nodes[refused.at].gathers):
            return Obstacle(MEET, number)
        if self._kind[number] is Kind.COMM_REDUCE:
            return Obstacle("reduction", number)
        return refused or Obstacle(MEET, number)

    def root(self, number: int) -> int:
        """The sink of the group of a node."""
        top = number
        while self._up[top] != top:
            top = self._up[top]
        while self._up[number] != top:
            self._up[number], number = top, self._up[number]
        return top

    def join(self, source: int, sink: int, *, late: bool) -> None:
        """Put a group and all that is between its sink and a post-dominator of that into one, if the kinds allow."""
        kind = self._kind[source]
        if (kind is Kind.INJECTIVE) != late or kind in (Kind.COMM_REDUCE, Kind.OPAQUE):
            return
        between = self.between(source, sink)
        if between is None:
            self._refused[source] = Obstacle("group size", sink)
            return
        broken = (
            Obstacle(rule, source if rule == MEET else n)
            for n in between
            if (rule := self._broken(kind, source, n, sink))
        )
        refusal = next(broken, None)
        if refusal is None and not self.merge((source, *between), sink):
            refusal = Obstacle("group size", sink)
        if refusal is not None:
            self._refused[source] = refusal

    def _broken(self, kind: Kind, source: int, number: int, sink: int) -> str:
        """The rule that a node on the way from a group of some kind breaks; empty when it may join."""
        if self.kind(number) is Kind.OPAQUE:
            return "opaque"
        if kind is Kind.OUT_ELEMWISE_FUSABLE:
            if self.kind(number) > Kind.BROADCAST:
                return "epilogue kind"
            return "" if self.same_shape(source, number) else "epilogue shape"
        if kind is Kind.INJECTIVE:
            return "" if self.kind(number) <= Kind.INJECTIVE else "move kind"
        if number == sink or not self.takes_in(number):
            return "" if number == sink and self.takes_in(number) else "producer kind"
        return "" if self.kind(number) <= Kind.INJECTIVE else MEET

    def join_as_operand(self, number: int) -> None:
        """Put a group into the group of a reduction, matmul or conv that is its only reader.

        The reader may take each element several times, as it does with a bias; then only moves are put
        there, since anything else would be computed again for each.
        """
        node = self.nodes[number]
        if self.root(number) != number or node.leaves or not node.readers or self._kind[number] > Kind.INJECTIVE:
            return
        targets = {self.root(reader) for reader in node.readers}
        if len(targets) != 1 or self.kind(*targets) not in (Kind.COMM_REDUCE, Kind.OUT_ELEMWISE_FUSABLE):
            return
        if any(self.nodes[reader].kind > Kind.INJECTIVE for reader in node.readers):
            return
        if self._moves_only[number] or all(self.same_shape(number, reader) for reader in node.readers):
            self.merge((number,), *targets)

    def kind(self, number: int) -> Kind:
        """Kind of the group of a node."""
        return self._kind[self.root(number)]

    def takes_in(self, number: int) -> bool:
        """Whether elements may be computed where a node reads them; its group may end in a matmul's epilogue."""
        return self.nodes[number].kind <= Kind.COMM_REDUCE and self.kind(number) is not Kind.OPAQUE

    def same_shape(self, a: int, b: int) -> bool:
        """Whether two values are known to have one shape."""
        left, right = self.nodes[a].shape, self.nodes[b].shape
        if left is None or right is None or len(left) != len(right):
            return False
        return all(x is y or prove_equal(x, y) for x, y in zip(left, right, strict=True))

    def between(self, source: int, sink: int) -> list[int] | None:
        """The nodes on paths from `source` to `sink`, without the first; None when there are too many."""
        seen: set[int] = set()
        todo = list(self.nodes[source].readers)
        while todo:
            number = todo.pop()
            if number not in seen:
                seen.add(number)
                if len(seen) >= self.max_depth:
                    return None
                if number != sink:
                    todo.extend(self.nodes[number].readers)
        return sorted(seen)

    def merge(self, numbers: Sequence[int], sink: int) -> bool:
        """Make one group of those of `numbers` and `sink`; False where it would be too large."""
        top = self.root(sink)
        others = {self.root(number) for number in numbers} - {top}
        if self._size[top] + sum(self._size[other] for other in others) > self.max_depth:
            return False
        for other in others:
            self._up[other] = top
            self._size[top] += self._size[other]
            self._moves_only[top] &= self._moves_only[other]
            if self._kind[other] is Kind.OUT_ELEMWISE_FUSABLE:
                self._kind[top] = Kind.OUT_ELEMWISE_FUSABLE
        return True

    def listed(self) -> list[list[int]]:
        """Members of the groups of two and more."""
        members: dict[int, list[int]] = {}
        for number in range(len(self.nodes)):
            members.setdefault(self.root(number), []).append(number)
        return [group for group in members.values() if len(group) > 1]
