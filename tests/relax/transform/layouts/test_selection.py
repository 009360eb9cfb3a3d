"""The cheapest choices: exact where graphs can be reduced, allowed and good where they cannot."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eutectic.relax.transform.layouts.selection import Problem, solve


def random_problem(rng: np.random.Generator, edges: list[tuple[int, int]], count: int) -> Problem:
    """Costs of which some are forbidden; the first choices are always allowed."""
    made = Problem()
    sizes = rng.integers(1, 4, count)
    for size in sizes:
        made.node(rng.integers(0, 9, size))
    for first, second in edges:
        costs = rng.integers(0, 9, (sizes[first], sizes[second])).astype(float)
        costs[rng.random(costs.shape) < 0.3] = np.inf
        costs[0, 0] = 5.0
        made.pair(first, second, costs)
    return made


def cheapest(problem: Problem) -> float:
    return min(
        problem.cost(dict(enumerate(chosen)))
        for chosen in product(*(range(len(costs)) for costs in problem.nodes.values()))
    )


SEEDS = st.integers(0, 2**31)


@given(SEEDS, st.integers(1, 8))
def test_exact_on_trees(seed: int, count: int):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, [(int(rng.integers(0, n)), n) for n in range(1, count)], count)
    assert problem.cost(solve(problem)) == cheapest(problem)


@given(SEEDS, st.integers(1, 3))
def test_exact_on_chains_of_diamonds(seed: int, diamonds: int):
    """As residual networks are."""
    edges = [(3 * d + a, 3 * d + b) for d in range(diamonds) for a, b in ((0, 1), (1, 3), (0, 2), (2, 3), (0, 3))]
    problem = random_problem(np.random.default_rng(seed), edges, 3 * diamonds + 1)
    before = {number: costs.copy() for number, costs in problem.nodes.items()}
    assert problem.cost(solve(problem)) == cheapest(problem)
    assert all(np.array_equal(before[number], costs) for number, costs in problem.nodes.items())


@given(SEEDS)
def test_good_on_dense_graphs(seed: int):
    """Nothing is promised there; costs without forbidden pairs stay within twice the least in these cases."""
    rng = np.random.default_rng(seed)
    made = Problem()
    for _ in range(5):
        made.node(rng.integers(1, 9, 3))
    for first in range(5):
        for second in range(first):
            made.pair(first, second, rng.integers(0, 9, (3, 3)))
    assert made.cost(solve(made)) <= 2 * cheapest(made)


def test_pairs_of_the_same_nodes_add_up():
    made = Problem()
    a, b = made.node(np.array([0.0, 1.0])), made.node(np.array([0.0, 1.0]))
    made.pair(a, b, np.array([[4.0, 0.0], [0.0, 4.0]]))
    made.pair(b, a, np.array([[4.0, 9.0], [0.0, 4.0]]))
    assert solve(made) == {a: 0, b: 1}
    assert made.cost({a: 0, b: 1}) == 1.0


def test_long_chains_need_no_recursion():
    made = Problem()
    numbers = [made.node(np.array([1.0, 0.0])) for _ in range(20000)]
    for first, second in pairwise(numbers):
        made.pair(first, second, np.array([[0.0, 9.0], [9.0, 0.0]]))
    assert set(solve(made).values()) == {1}
