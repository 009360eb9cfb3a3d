"""Random integer expressions and conditions over a few variables with small ranges, and all points of these ranges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from eutectic.arith import Analyzer, Interval
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    evaluate,
)

P, J, X = Var("i"), Var("j"), Var("x")
RANGES: dict[Var, tuple[int, int]] = {P: (0, 5), J: (0, 3), X: (-7, 6)}


def literal(value: int) -> IntImm:
    return IntImm("int32", value)


def exprs(max_leaves: int = 10) -> st.SearchStrategy[PrimExpr]:
    leaves = st.sampled_from([P, J, X]) | st.integers(-9, 9).map(literal)
    return st.recursive(leaves, _grown, max_leaves=max_leaves)


def _grown(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    divisor = st.sampled_from([1, 2, 3, 4, 6, 8, 12, -1, -2, -4, -5]).map(literal)
    two = st.tuples(inner, inner)
    return st.one_of(
        *(two.map(lambda p, kind=kind: kind(*p)) for kind in (Add, Sub, Mul, Min, Max, FloorDiv, FloorMod)),
        *(
            st.tuples(inner, divisor).map(lambda p, kind=kind: kind(*p))
            for kind in (Mul, FloorDiv, FloorMod, FloorDiv, FloorMod, TruncDiv, TruncMod)
        ),
        st.tuples(_compared(inner), inner, inner).map(lambda p: Select(*p)),
    )


def _compared(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    return st.tuples(st.sampled_from([EQ, NE, LT, LE, GT, GE]), inner, inner).map(lambda p: p[0](p[1], p[2]))


def conditions() -> st.SearchStrategy[PrimExpr]:
    def grow(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
        two = st.tuples(inner, inner)
        return st.one_of(two.map(lambda p: And(*p)), two.map(lambda p: Or(*p)), inner.map(Not))

    return st.recursive(_compared(exprs(5)), grow, max_leaves=4)


def points() -> Iterator[dict[Var, int]]:
    for values in product(*(range(low, high + 1) for low, high in RANGES.values())):
        yield dict(zip(RANGES, values, strict=True))


def values(expr: PrimExpr) -> list[tuple[dict[Var, int], int]]:
    """The value at every point at which it has one."""
    found = []
    for point in points():
        try:
            found.append((point, evaluate(expr, point)))
        except ZeroDivisionError:
            continue
    return found


def analyzer() -> Analyzer:
    made = Analyzer()
    for var, (low, high) in RANGES.items():
        made.bind(var, Interval(low, high))
    return made
