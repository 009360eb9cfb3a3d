"""What isl proves about index sets is so on every point of small sets, and known questions are answered."""

from __future__ import annotations

import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.arith.expressions import literal

from eutectic.arith.sets import Region, covers, covers_together, disjoint, is_empty, is_injective
from eutectic.ir.prim_expr import Cast, Max, Min, PrimExpr, SizeVar, Var, evaluate
from eutectic.tir import Range

pytest.importorskip("islpy")
P, J, X = Var("p"), Var("j"), Var("x")
N = SizeVar("n")


def affine() -> st.SearchStrategy[PrimExpr]:
    leaves = st.sampled_from([P, J]) | st.integers(-4, 4).map(literal)

    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        two = st.tuples(inner, inner)
        by_constant = st.tuples(inner, st.integers(1, 4))
        return st.one_of(
            two.map(lambda p: p[0] + p[1]),
            two.map(lambda p: p[0] - p[1]),
            two.map(lambda p: Min(*p)),
            two.map(lambda p: Max(*p)),
            by_constant.map(lambda p: p[0] * p[1]),
            by_constant.map(lambda p: p[0] // p[1]),
            by_constant.map(lambda p: p[0] % p[1]),
        )

    return st.recursive(leaves, grow, max_leaves=5)


def regions() -> st.SearchStrategy[Region]:
    ends = st.tuples(st.integers(-3, 3), st.integers(0, 4))
    index = affine() | affine().map(lambda expr: Cast("int64", expr))
    made = st.tuples(index, ends, ends, affine(), affine())
    return made.map(lambda p: Region((p[0],), {P: p[1], J: p[2]}, p[3] <= p[4]))


def reached(region: Region) -> list[tuple[int, ...]]:
    boxes = [range(low, low + extent) for low, extent in region.iters.values()]  # type: ignore[misc]
    found = []
    for values in product(*boxes):
        point = dict(zip(region.iters, values, strict=True))
        if isinstance(region.predicate, bool) or evaluate(region.predicate, point):
            found.append(tuple(evaluate(index, point) for index in region.indices))
    return found


@given(regions(), regions())
def test_answers_are_those_of_enumeration(a: Region, b: Region):
    first, second = reached(a), reached(b)
    assert covers(a, b) == (set(second) <= set(first))
    assert disjoint(a, b) == (not set(first) & set(second))
    assert is_empty(a) == (not first)
    assert is_injective(a) == (len(set(first)) == len(first))


@given(st.lists(regions(), min_size=1, max_size=3), regions())
def test_several_regions_cover_together_what_their_union_does(parts: list[Region], b: Region):
    union = {point for part in parts for point in reached(part)}
    assert covers_together(parts, b) == (set(reached(b)) <= union)


def test_parts_of_symbolic_sizes():
    halves = [Region.box([(0, X)]), Region.box([(X, N - X)])]
    assert covers_together(halves, Region.box([(0, N)]))
    assert not covers_together(halves, Region.box([(0, N + 1)]))
    unknown = Region((P * J,), {P: (0, 4), J: (0, 4)})
    assert covers_together([unknown, *halves], Region.box([(0, N)]))  # what is not affine adds nothing
    assert not covers_together([unknown, halves[0]], Region.box([(0, N)]))
    assert not covers_together(halves, unknown)
    assert not covers_together([Region.box([(0, 4), (0, 4)])], Region.box([(0, 4)]))


def test_symbolic_sizes():
    tiles = Region((P * 4 + J,), {P: (0, (N + 3) // 4), J: (0, 4)}, P * 4 + J < N)
    assert covers(tiles, Region.box([Range(0, N)]))
    assert covers(Region.box([(0, N)]), tiles)
    assert is_injective(tiles)
    assert not is_injective(Region((P + J,), {P: (0, N), J: (0, 2)}))
    assert is_injective(Region((P + J,), {P: (0, N), J: (0, 2)}), N <= 1)
    assert disjoint(Region.box([(0, X)]), Region.box([(X, N)]))
    assert not disjoint(Region.box([(0, N)]), Region.box([(0, N)]))
    assert is_empty(Region.box([(0, N)]), N < 1)


def test_what_is_not_quasi_affine_is_not_proved():
    assert not is_injective(Region((P * J,), {P: (1, 1), J: (0, 4)}))
    assert not is_empty(Region((P // N,), {P: (0, 0)}))
    assert not covers(Region.box([(0, 4)]), Region((Cast("int32", Cast("int8", P)),), {P: (0, 4)}))
    assert not covers(Region.box([(0, 4)]), Region.box([(0, 4), (0, 4)]))


def test_a_missing_islpy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "islpy", None)
    with pytest.raises(ImportError, match="need islpy; install it with `pip install islpy`"):
        is_empty(Region((P,), {P: (0, 1)}))
