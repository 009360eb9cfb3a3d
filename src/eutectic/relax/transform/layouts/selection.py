"""The cheapest choice for every node of a graph, where costs are of nodes and of pairs of neighbours.

This is the partitioned boolean quadratic problem (PBQP). Nodes of one or two neighbours are taken away, and what they
cost at best becomes a part of what their neighbours cost: that is exact, and solves chains, trees, and graphs that are
built of chains in series and in parallel, such as residual networks. Of other nodes the one with the most neighbours is
decided by what looks best around it.

Reference: B. Scholz and E. Eckstein, "Register allocation for irregular architectures", LCTES 2002; for layouts of
networks A. Anderson and D. Gregg, "Optimal DNN primitive selection with partitioned boolean quadratic programming",
CGO 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

import numpy as np

Costs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


@dataclass
class Problem:
    """Nodes with a cost for each of their choices, and pairs of nodes with a cost for each pair of choices.

    Infinite costs forbid; a problem must have a solution of finite cost.

    Attributes:
        nodes: Costs of the choices by node.
        pairs: For each node its neighbours, with costs indexed by its own choice and that of the neighbour.
    """

    nodes: dict[int, Costs] = field(default_factory=dict)
    pairs: dict[int, dict[int, Costs]] = field(default_factory=dict)

    def node(self, costs: Costs) -> int:
        """Add a node; gives its number."""
        number = len(self.nodes)
        self.nodes[number] = np.array(costs, np.float64)
        self.pairs[number] = {}
        return number

    def pair(self, first: int, second: int, costs: Costs) -> None:
        """Add costs of pairs of choices, indexed by that of the first node and that of the second."""
        known = self.pairs[first].get(second)
        total = np.array(costs, np.float64) if known is None else known + costs
        self.pairs[first][second], self.pairs[second][first] = total, total.T

    def cost(self, chosen: dict[int, int]) -> float:
        """What a choice for every node costs."""
        alone = sum(float(costs[chosen[number]]) for number, costs in self.nodes.items())
        return alone + sum(
            float(costs[chosen[first], chosen[second]])
            for first, others in self.pairs.items()
            for second, costs in others.items()
            if first < second
        )


def solve(problem: Problem) -> dict[int, int]:
    """A choice for every node: the cheapest, where the graph can be reduced, else a good one.

    Args:
        problem: It is not changed.
    """
    left = Problem(dict(problem.nodes), {number: dict(others) for number, others in problem.pairs.items()})
    removed: list[tuple[int, Costs, dict[int, Costs]]] = []
    queue = [(len(others), number) for number, others in left.pairs.items()]  # also has what they were before
    heapify(queue)
    while queue:
        degree, number = heappop(queue)
        if number not in left.nodes or degree != len(left.pairs[number]):
            continue
        if degree > 2:
            heappush(queue, (degree, number))
            number = max(left.nodes, key=lambda n: len(left.pairs[n]))
            left.nodes[number] = _decided(left, number)
        others = left.pairs[number]
        removed.append((number, left.nodes[number], others))
        _remove(left, number)
        for other in others:
            heappush(queue, (len(left.pairs[other]), other))
    chosen: dict[int, int] = {}
    for number, costs, others in reversed(removed):
        known = [pairs[:, chosen[other]] for other, pairs in others.items()]
        chosen[number] = int(np.argmin(sum(known, start=costs)))
    return chosen


def _remove(left: Problem, number: int) -> None:
    """Take a node away; what it costs at best is then said by its neighbours."""
    costs, others = left.nodes.pop(number), left.pairs.pop(number)
    for other in others:
        del left.pairs[other][number]
    match list(others.items()):
        case [(other, pairs)]:
            left.nodes[other] = left.nodes[other] + (costs[:, None] + pairs).min(axis=0)
        case [(first, one), (second, two)]:
            left.pair(first, second, (costs[:, None, None] + one[:, :, None] + two[:, None, :]).min(axis=0))
        case several:
            at = int(np.argmin(costs))  # decided: all other choices are infinite
            for other, pairs in several:
                left.nodes[other] = left.nodes[other] + pairs[at]


def _decided(left: Problem, number: int) -> Costs:
    """The costs of a node of which only the choice remains that looks best with its neighbours."""
    costs = left.nodes[number].copy()
    for other, pairs in left.pairs[number].items():
        costs += (pairs + left.nodes[other][None, :]).min(axis=1)
    at = int(np.argmin(costs))
    decided = np.full_like(costs, np.inf)
    decided[at] = left.nodes[number][at]
    return decided
