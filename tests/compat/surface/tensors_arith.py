"""Examples of `tvm.arith`."""

from __future__ import annotations

from functools import partial

from tests.compat.surface.examples import example
from tvm import arith, ir, tir

X, Y, N = (tir.Var(name, "int32") for name in "xyn")
same = ir.structural_equal


@example("tvm.arith.Analyzer", *(f"tvm.arith.Analyzer.{n}" for n in ("bind", "simplify", "rewrite_simplify")))
@example("tvm.arith.Analyzer.canonical_simplify", "tvm.arith.Analyzer.modular_set", "tvm.arith.ModularSet")
def _simplify() -> None:
    analyzer = arith.Analyzer()
    analyzer.bind(X, tir.Range(0, 4))
    for simplify in (analyzer.simplify, analyzer.rewrite_simplify, analyzer.canonical_simplify):
        assert same(simplify((X + Y * 4) // 4), Y)
        assert same(simplify((X + Y * 4) % 4), X)
    assert same(analyzer.simplify(X + 0, steps=3), X)
    residue = analyzer.modular_set(Y * 4 + 1)
    assert isinstance(residue, arith.ModularSet)
    assert (residue.coeff, residue.base) == (4, 1)
    analyzer.bind(N, X + 1)
    assert same(analyzer.simplify(N - 1), X)


@example("tvm.arith.Analyzer.can_prove", "tvm.arith.Analyzer.can_prove_equal", "tvm.arith.Analyzer.constraint_scope")
@example("tvm.arith.Analyzer.try_compare", "tvm.arith.CompareResult", "tvm.arith.ProofStrength")
def _proofs() -> None:
    analyzer = arith.Analyzer()
    assert not analyzer.can_prove(X > 0)
    assert analyzer.can_prove_equal(lhs=X + Y, rhs=Y + X)
    with analyzer.constraint_scope(X > 3):
        assert analyzer.can_prove(X > 0, arith.ProofStrength.SYMBOLIC_BOUND)
    assert not analyzer.can_prove(X > 0)
    results = arith.CompareResult
    assert analyzer.try_compare(X, X + 1) == results.LT
    assert analyzer.try_compare(X + 1, X) == results.GT
    assert analyzer.try_compare(X, X) == results.EQ
    assert analyzer.try_compare(X, Y) == results.UNKNOWN


@example("tvm.arith.Analyzer.const_int_bound", "tvm.arith.Analyzer.const_int_bound_is_bound")
@example("tvm.arith.ConstIntBound", "tvm.arith.Analyzer.update")
def _bounds() -> None:
    analyzer = arith.Analyzer()
    analyzer.bind(X, tir.Range(0, 10))
    bound = analyzer.const_int_bound(X * 2 + 1)
    assert isinstance(bound, arith.ConstIntBound)
    assert (bound.min_value, bound.max_value) == (1, 19)
    assert analyzer.const_int_bound_is_bound(X)
    assert not analyzer.const_int_bound_is_bound(Y)
    analyzer.update(X, arith.ConstIntBound(5, arith.ConstIntBound.POS_INF))
    assert analyzer.const_int_bound(X) == arith.ConstIntBound(5, 9)
    analyzer.update(X, arith.ConstIntBound(0, 100), override=True)
    assert analyzer.const_int_bound(X) == arith.ConstIntBound(0, 100)
    analyzer.update(Y, arith.ModularSet(4, 0))
    residue = analyzer.modular_set(Y + 1)
    assert (residue.coeff, residue.base) == (4, 1)


@example("tvm.arith.Analyzer.int_set", "tvm.arith.IntSet", "tvm.arith.IntervalSet", "tvm.arith.IntSet.vector")
@example(*(f"tvm.arith.IntSet.{name}" for name in ("single_point", "is_nothing", "is_everything")))
@example("tvm.arith.estimate_region_upper_bound")
def _sets() -> None:
    analyzer = arith.Analyzer()
    result = analyzer.int_set(X * 2 + N, {X: arith.IntervalSet(0, 10)})
    assert isinstance(result, arith.IntSet)
    assert same(result.min_value, N)
    assert same(result.max_value, N + 20)
    result = analyzer.int_set(X // 4 - Y, {X: arith.IntervalSet(0, 10), Y: arith.IntervalSet(N, N + 1)})
    assert same(result.max_value, analyzer.simplify(2 - N))
    assert same(result.min_value, analyzer.simplify(-1 - N))
    assert analyzer.int_set(X % 8, {X: arith.IntervalSet(0, 100)}).max_value.value == 7
    assert analyzer.int_set(tir.max(X, 3), {X: arith.IntervalSet(0, 10)}).min_value.value == 3
    lanes = arith.IntSet.vector(tir.Ramp(tir.const(2), tir.const(3), 4))
    assert (lanes.min_value.value, lanes.max_value.value) == (2, 11)
    assert arith.IntSet.single_point(X).min_value is X
    assert not arith.IntSet.single_point(X).is_everything()
    assert arith.IntervalSet(3, 2).is_nothing()
    assert not lanes.is_nothing()
    assert analyzer.int_set(X * Y, {X: arith.IntervalSet(0, 3)}).is_everything()
    (region,) = arith.estimate_region_upper_bound([tir.Range.from_min_extent(X, 2)], {X: tir.Range(0, 16)}, True)
    assert (region.min_value.value, region.max_value.value) == (0, 16)


@example("tvm.arith.detect_linear_equation", "tvm.arith.deduce_bound")
def _linear() -> None:
    x, y, rest = arith.detect_linear_equation(X * 3 + Y + N + 1, [X, Y])
    assert (x.value, y.value) == (3, 1)
    assert same(rest, N + 1)
    assert arith.detect_linear_equation(X * X, [X]) == []
    analyzer = arith.Analyzer()
    assert arith.deduce_bound(X, X * 3 < 10, {}, {}).max_value.value == 3
    assert arith.deduce_bound(X, 0 - X * 3 < 10, {}, {}).min_value.value == -3
    domains = {Y: arith.IntervalSet(0, 5)}
    assert same(arith.deduce_bound(X, X + Y < N, domains, domains).max_value, analyzer.simplify(N - 6))
    for low in (arith.deduce_bound(X, X * 2 + Y >= 10, {}, domains).min_value.value,):
        assert [all(2 * x + y >= 10 for y in range(6)) for x in (low - 1, low)] == [False, True]


@example(
    *(f"tvm.arith.{n}" for n in ("detect_iter_map", "inverse_affine_iter_map", "IterMapLevel", "iter_map_simplify"))
)
@example(*(f"tvm.arith.{n}" for n in ("IterMark", "IterSplitExpr", "IterSumExpr", "normalize_to_iter_sum")))
@example("tvm.arith.subspace_divide")
def _maps() -> None:
    axes = {X: tir.Range(0, 16)}
    level = arith.IterMapLevel.Bijective
    known = arith.detect_iter_map([X // 4, X % 4], axes, check_level=level)
    assert not known.errors
    assert all(isinstance(item, arith.IterSumExpr) for item in known.indices)
    digit = known.indices[0].args[0]
    assert isinstance(digit, arith.IterSplitExpr)
    assert isinstance(digit.source, arith.IterMark)
    assert (digit.lower_factor, digit.extent, digit.scale, digit.source.source) == (4, 4, 1, X)
    back = arith.inverse_affine_iter_map(known.indices, [Y, N])[X]
    at = partial(tir.stmt_functor.substitute, back)
    assert [arith.Analyzer().simplify(at({Y: i, N: j})).value for i, j in ((0, 0), (1, 2), (3, 3))] == [0, 6, 15]
    assert not arith.detect_iter_map([X * X], axes).indices
    assert arith.detect_iter_map([X * X], axes).errors
    both = {X: tir.Range(0, 16), Y: tir.Range(0, 4)}
    assert [item.scale for item in arith.normalize_to_iter_sum(X * 4 + Y, both).args] == [4, 1]
    assert same(arith.iter_map_simplify([(X * 4 + Y) // 4], both)[0], X)
    ((outer, inner), (one, other)) = arith.subspace_divide([X * 4 + Y], both, [Y])
    assert (outer.extent, inner.extent, one.extent, other.extent) == (16, 4, 1, 1)
