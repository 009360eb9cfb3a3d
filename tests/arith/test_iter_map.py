"""Recognised index maps have the property that was checked; their inverses and divisions are exact."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic.script  # noqa: F401  # registers the printer
from eutectic.arith.iter_map import (
    IterMap,
    IterMark,
    IterRefusal,
    IterSplit,
    IterSum,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    iter_sum_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from eutectic.ir.prim_expr import PrimExpr, SizeVar, Var, evaluate
from eutectic.tir import Range

P, J, K = Var("p"), Var("j"), Var("k")
Iters = dict[Var, tuple[int, int]]


def all_points(iters: Iters) -> list[dict[Var, int]]:
    boxes = [range(low, low + extent) for low, extent in iters.values()]
    return [dict(zip(iters, values, strict=True)) for values in product(*boxes)]


def reached(indices: list[PrimExpr], iters: Iters) -> list[tuple[int, ...]]:
    return [tuple(evaluate(index, point) for index in indices) for point in all_points(iters)]


def box(found: IterMap) -> set[tuple[int, ...]]:
    return set(product(*(range(item.base, item.base + item.extent) for item in found.indices)))


@st.composite
def maps(draw: st.DrawFn) -> tuple[list[PrimExpr], Iters]:
    """Split and fused variables in a random order, now and then with a wrong factor."""
    extents = st.sampled_from([1, 2, 3, 4, 6, 8])
    iters = {var: (draw(st.integers(-1, 2)), draw(extents)) for var in (P, J, K)[: draw(st.integers(1, 3))]}
    digits: list[tuple[PrimExpr, int]] = [(var - low, extent) for var, (low, extent) in iters.items()]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(digits) - 1))
        value, extent = digits.pop(at)
        if draw(st.booleans()):
            factor = draw(st.sampled_from([f for f in range(1, 9) if extent % f == 0] + [2, 3]))
            digits += [(value // factor, -(-extent // factor)), (value % factor, factor)]
        elif digits:
            other, size = digits.pop(draw(st.integers(0, len(digits) - 1)))
            digits.append((value * (size + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))) + other, extent * size))
        else:
            digits.append((value, extent))
    if len(digits) > 1 and draw(st.integers(0, 5)) == 0:
        digits.pop()
    return [value + draw(st.integers(0, 1)) for value, _ in draw(st.permutations(digits))], iters


@given(maps())
def test_what_is_detected_is_so(case: tuple[list[PrimExpr], Iters]):
    indices, iters = case
    seen = reached(indices, iters)
    found = detect_iter_map(indices, iters)
    if isinstance(found, IterMap):
        assert len(set(seen)) == len(seen)
        assert set(seen) == box(found)
        outputs = [Var(f"o{k}") for k in range(len(indices))]
        inverse = inverse_affine_iter_map(found, outputs)
        for point, values in zip(all_points(iters), seen, strict=True):
            at = dict(zip(outputs, values, strict=True))
            assert {var: evaluate(expr, at) for var, expr in inverse.items()} == point
    onto = detect_iter_map(indices, iters, check="surjective")
    if isinstance(onto, IterMap):
        assert set(seen) == box(onto)
    made = iter_map_simplify(indices, iters)
    assert reached(made, iters) == seen


@given(maps())
def test_sums_and_their_divisions_are_the_indices(case: tuple[list[PrimExpr], Iters]):
    indices, iters = case
    for index in indices:
        item = normalize_to_iter_sum(index, iters)
        if isinstance(item, IterSum):
            assert reached([iter_sum_to_expr(item, iters, "int32")], iters) == reached([index], iters)
    found = detect_iter_map(indices, iters, check="surjective")
    if isinstance(found, IterRefusal):
        return
    inner_vars = list(iters)[1:]
    pairs = subspace_divide(found, inner_vars)
    if isinstance(pairs, IterRefusal):
        return
    for index, (outer, inner) in zip(indices, pairs, strict=True):
        whole = iter_sum_to_expr(outer, iters, "int32") * inner.extent + iter_sum_to_expr(inner, iters, "int32")
        assert reached([whole], iters) == reached([index], iters)


@given(st.permutations([2, 3, 4]), st.permutations([0, 1, 2]))
def test_all_splits_and_reorders_of_one_loop_are_found(factors: list[int], order: list[int]):
    a, b, c = factors
    digits: list[PrimExpr] = [P // (b * c), P // c % b, P % c]
    assert isinstance(detect_iter_map([digits[k] for k in order], {P: (0, a * b * c)}), IterMap)
    fused = (P * b + J) * c + K
    assert isinstance(detect_iter_map([fused], {P: (0, a), J: (0, b), K: (0, c)}), IterMap)
    other = [fused // (a * c), fused % (a * c)]
    assert isinstance(detect_iter_map(other, {P: (0, a), J: (0, b), K: (0, c)}), IterMap)


@pytest.mark.parametrize(
    ("indices", "iters", "why"),
    [
        ([P * J], {P: (0, 4), J: (0, 4)}, "index 0: Mul is not affine in the inputs"),
        ([J, P * P], {P: (0, 4), J: (0, 4)}, "index 1: Mul is not affine in the inputs"),
        ([P + J], {P: (0, 4), J: (0, 4)}, "index 0: a digit has factor 1 where 4 makes it compact"),
        ([P * 8 + J], {P: (0, 4), J: (0, 4)}, "index 0: a digit has factor 8 where 4 makes it compact"),
        ([P * 2], {P: (0, 4)}, "index 0: values between multiples of 2 are not hit"),
        ([P, P % 2], {P: (0, 4)}, "digits of p overlap"),
        ([P // 2], {P: (0, 4)}, "a digit of p is not used"),
        ([P], {P: (0, 4), J: (0, 2)}, "j is not used"),
        ([P // 3], {P: (0, 8)}, "index 0: 3 does not divide the extent 8"),
        ([P + K], {P: (0, 4)}, "index 0: variable k, which is no input is not affine in the inputs"),
        ([P], {P: Range(0, SizeVar("n"))}, "the range of p is not constant and positive"),
        ([3 - P], {P: (0, 4)}, "index 0: a digit is subtracted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_say_why(indices: list[PrimExpr], iters: Iters, why: str):
    found = detect_iter_map(indices, iters)
    assert isinstance(found, IterRefusal)
    assert found.why == why


def test_a_split_is_read_as_digits():
    mark = IterMark(P, 32)
    found = detect_iter_map([P // 8, P % 8], {P: Range(0, 32)})
    assert isinstance(found, IterMap)
    assert found.indices == (IterSum((IterSplit(mark, 8, 4, 1),), 0), IterSum((IterSplit(mark, 1, 8, 1),), 0))
    inverse = inverse_affine_iter_map(found, [J, K])
    assert re.sub(r"T\.int32\((-?\d+)\)", r"\1", str(inverse[P])) == "j % 4 * 8 + k % 8"


def test_predicates_must_follow_from_the_ranges():
    assert isinstance(detect_iter_map([P], {P: (0, 4)}, P < 4), IterMap)
    refused = detect_iter_map([P], {P: (0, 4)}, P < 3)
    assert isinstance(refused, IterRefusal)
    assert refused.kind == "predicate"
    with pytest.raises(ValueError, match="no inverse"):
        inverse_affine_iter_map(IterMap((), {}, "none"), [])
