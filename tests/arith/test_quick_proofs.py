"""Quick proofs are proofs: isl and enumeration agree with them, on random sets and on those of tiled loops."""

from __future__ import annotations

from functools import reduce
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.arith.expressions import literal

from eutectic.arith import sets
from eutectic.arith.sets import Region, proved_by_isl, proved_quickly
from eutectic.ir.prim_expr import And, Cast, Max, Min, Not, Or, PrimExpr, SizeVar, Var, evaluate
from eutectic.tir import Range

pytest.importorskip("islpy")
R, J, K = Var("r"), Var("j"), Var("k")
P, N = Var("p"), SizeVar("n")
QUESTIONS = ("covers", "disjoint", "is_empty", "is_injective")
OPERATIONS = 100_000_000  # of isl, for one question: with those it is given in proofs it may give up
VALUES = {P: (-2, 0, 1, 3), N: (0, 1, 4)}


def terms(leaves: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        two, scaled = st.tuples(inner, inner), st.tuples(inner, st.integers(1, 4))
        return st.one_of(
            two.map(lambda p: p[0] + p[1]),
            two.map(lambda p: p[0] - p[1]),
            two.map(lambda p: Min(*p)),
            two.map(lambda p: Max(*p)),
            scaled.map(lambda p: p[0] * p[1]),
            scaled.map(lambda p: p[0] // p[1]),
            scaled.map(lambda p: p[0] % p[1]),
        )

    return st.recursive(leaves, grow, max_leaves=4)


def conditions(leaves: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    kinds = [lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a.equal(b), lambda a, b: Not(a.equal(b))]
    compared = st.tuples(st.sampled_from(kinds), terms(leaves), terms(leaves)).map(lambda p: p[0](p[1], p[2]))

    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        two = st.tuples(inner, inner)
        return st.one_of(two.map(lambda p: And(*p)), two.map(lambda p: Or(*p)), inner.map(Not))

    return st.recursive(compared, grow, max_leaves=4)


def regions(rank: int, *, digits: bool) -> st.SearchStrategy[Region]:
    """Sets of tuples of sums of loops; with `digits`, of sums as tiled loops have them."""
    loops = [R, J, K]
    number = st.integers(-4, 4).map(literal)
    factors = st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8]) if digits else st.integers(-3, 3)
    sums = st.tuples(st.tuples(factors, factors, factors), st.integers(-2, 2)).map(
        lambda p: sum((var * factor for var, factor in zip(loops, p[0], strict=True)), literal(p[1]))
    )
    leaves = st.sampled_from([*loops, P, N]) | number
    index = sums | st.sampled_from(loops) | terms(leaves) if digits else terms(leaves)
    ends = st.tuples(st.integers(-2, 2) if not digits else st.just(0), st.integers(0, 4))
    extents = ends | st.sampled_from([(literal(0), N), (P, literal(3))])
    predicate = conditions(leaves) | st.just(True)
    widened = index.map(lambda expr: Cast("int64", expr))
    made = st.tuples(st.tuples(*[index | widened] * rank), st.tuples(extents, extents, extents), predicate)
    return made.map(lambda p: Region(p[0], dict(zip(loops, p[1], strict=True)), p[2]))


def reached(region: Region, fixed: dict[Var, int]) -> list[tuple[int, ...]]:
    def end(value: object) -> int:
        return evaluate(value, fixed) if isinstance(value, PrimExpr) else value  # type: ignore[return-value]

    pairs = [(end(low), end(extent)) for low, extent in region.iters.values()]  # type: ignore[misc]
    found = []
    for values in product(*(range(low, low + extent) for low, extent in pairs)):
        point = {**dict(zip(region.iters, values, strict=True)), **fixed}
        if isinstance(region.predicate, bool) or evaluate(region.predicate, point):
            found.append(tuple(evaluate(index, point) for index in region.indices))
    return found


def holds(question: str, items: list[Region], condition: PrimExpr | bool) -> bool:
    """Whether a question is answered with yes for each value of the parameters."""
    for p, n in product(VALUES[P], VALUES[N]):
        fixed = {P: p, N: n}
        if not isinstance(condition, bool) and not evaluate(condition, fixed):
            continue
        if not holds_of(question, [reached(item, fixed) for item in items]):
            return False
    return True


def holds_of(question: str, found: list[list[tuple[int, ...]]]) -> bool:
    match question:
        case "covers":
            return set(found[1]) <= set(found[0])
        case "disjoint":
            return not set(found[0]) & set(found[1])
        case "is_empty":
            return not found[0]
        case _:
            return len(set(found[0])) == len(found[0])


def check(items: list[Region], condition: PrimExpr | bool) -> int:
    """Ask all questions; how many have a quick proof."""
    quick = 0
    for question in QUESTIONS:
        asked = items if question in ("covers", "disjoint") else items[:1]
        if proved_quickly(question, asked, condition):
            quick += 1
            assert holds(question, asked, condition), question
            with patch.object(sets, "MAX_OPERATIONS", OPERATIONS):
                assert proved_by_isl(question, asked, condition), question
    return quick


GIVEN = conditions(st.sampled_from([P, N]) | st.integers(-4, 4).map(literal)) | st.just(True)


@settings(max_examples=60)
@given(st.integers(1, 2).flatmap(lambda n: st.tuples(*[regions(n, digits=True)] * 2)), GIVEN)
def test_sets_of_digits(pair: tuple[Region, Region], condition: PrimExpr | bool):
    check(list(pair), condition)


@settings(max_examples=60)
@given(st.integers(1, 2).flatmap(lambda n: st.tuples(*[regions(n, digits=False)] * 2)), GIVEN)
def test_any_sets(pair: tuple[Region, Region], condition: PrimExpr | bool):
    check(list(pair), condition)


@pytest.mark.slow
@settings(max_examples=4_000)
@given(st.booleans().flatmap(lambda d: st.tuples(*[regions(2, digits=d)] * 2)), GIVEN)
def test_many_sets(pair: tuple[Region, Region], condition: PrimExpr | bool):
    check(list(pair), condition)


def tiles(*sizes: int) -> Region:
    """All indices of one axis, by one loop for each of its digits."""
    loops = {Var(f"d{k}"): (0, size) for k, size in enumerate(sizes)}
    index: PrimExpr = literal(0)
    for var, (_, size) in loops.items():
        index = index * size + var
    return Region((index,), loops)


def test_what_tiled_loops_ask_is_proved_without_isl():
    """These are the questions of default schedules, which must not cost more than a fraction of a millisecond."""
    with patch.object(sets, "_answered", side_effect=AssertionError("isl was asked")):
        box = Region.box([(0, 4 * 14 * 16)])
        assert sets.covers(tiles(4, 14, 16), box)
        assert sets.covers(box, tiles(4, 14, 16))
        assert sets.covers(tiles(8, 7, 16), tiles(4, 14, 16))
        assert sets.is_injective(tiles(4, 14, 16))
        two = [Region((P * 16 + R, J), {R: (0, 16), J: (0, 3)}), Region((K * 16 + R, J), {R: (0, 16), J: (0, 3)})]
        assert sets.disjoint(*two, assumption=P < K)
        assert not proved_quickly("disjoint", two, P <= K)
        guarded = Region((R * 4 + J,), {R: (0, (N + 3) // 4), J: (0, 4)}, R * 4 + J < N)
        assert sets.covers(guarded, Region.box([Range(0, N)]))
        assert sets.covers(Region.box([(0, N)]), guarded)
        assert sets.is_injective(guarded)
        assert sets.is_empty(Region((), {}), And(P < K, K < P))


def test_answers_of_isl_are_remembered_by_the_whole_question():
    calls = sets._answered.cache_info
    first = Region((R * 3 + J * 2,), {R: (0, 4), J: (0, 2)})
    again = Region((K * 3 + P * 2,), {K: (0, 4), P: (0, 2)})  # the same but for names
    other = Region((R * 3 + J * 2,), {R: (0, 4), J: (0, 3)})
    assert proved_by_isl("is_injective", [first])
    before = calls()
    assert proved_by_isl("is_injective", [again])
    assert calls().hits == before.hits + 1
    assert proved_by_isl("is_injective", [other]) == (len(set(reached(other, {}))) == 12)
    assert calls().misses == before.misses + 1
    # a size is not negative, another variable could be
    free, size = Region((), {}, P < 0), Region((), {}, N < 0)
    assert proved_by_isl("is_empty", [size])
    assert not proved_by_isl("is_empty", [free])


def test_what_becomes_affine_when_simplified_is_still_proved():
    region = Region((R * N - N * R + J,), {R: (0, 4), J: (0, 4)}, R < 1)
    assert not proved_quickly("is_injective", [region])
    assert proved_by_isl("is_injective", [region])


def test_tiles_and_the_smaller_ones_of_a_rest():
    q, rest, i, j, k = (Var(name) for name in ("q", "rest", "i", "j", "k"))
    whole = Region((P * 6 + i,), {i: (0, 6)}, P < N // 6)
    last = Region((q * 6 + rest * 3 + j,), {rest: (0, N // 3 - q * 2), j: (0, 3)}, Not(q < N // 6))
    tiles = (N + 5) // 6
    inside = And(And(literal(0) <= P, tiles > P), And(literal(0) <= q, q < tiles))
    assert proved_quickly("disjoint", (whole, last), And(inside, Not(P.equal(q))))
    several = Region((q * 6 + k,), {k: (0, 7)})
    assert not proved_quickly("disjoint", (whole, several), And(inside, Not(P.equal(q))))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-1, 1)), max_size=4))
def test_cycles_of_differences(gaps: list[tuple[int, int, int]]):
    names = [Var(f"v{number}") for number in range(4)]
    conditions = [names[a] <= names[b] + gap for a, b, gap in gaps]
    region = Region((), {}, reduce(And, conditions, literal(0) <= literal(0)))
    bound = sum(abs(gap) for *_, gap in gaps)  # what can be reached from one variable
    values = product(range(-bound, bound + 1), repeat=3)
    possible = any(all((0, *v)[a] <= (0, *v)[b] + gap for a, b, gap in gaps) for v in values)
    assert proved_quickly("is_empty", (region,)) == (not possible)
