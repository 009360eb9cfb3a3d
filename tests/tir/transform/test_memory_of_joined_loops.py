"""Memory within loops over sizes that are not known, put together to one: each iteration has its own, and little."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic import te, tir
from eutectic.ir.prim_expr import IntImm, Mul, floordiv, floormod, mul
from eutectic.tir.analysis.index_facts import statements
from eutectic.tir.analysis.outer_terms import OuterTerms
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.stmt import Allocate
from eutectic.tir.transform.lower_tir import lowered

N = tir.Var("n", "int64")


def doubled_rows() -> tir.PrimFunc:
    """Rows of `n` matrices of `n` rows, plus one, then doubled."""
    x = te.placeholder((5, N, 8), "float32", "x")
    more = te.compute((5, N, 8), lambda *at: x(*at) + te.const(1.0, "float32"), "more")
    return te.create_prim_func([x, te.compute((5, N, 8), lambda *at: more(*at) * te.const(2.0, "float32"), "twice")])


def joined(at: int) -> Schedule:
    sch = Schedule(doubled_rows())
    sch.compute_at("more", sch.get_loops("twice")[at])
    a, b = sch.get_loops("twice")[:2]
    sch.fuse(a, b)
    return sch


def memory(func: tir.PrimFunc) -> list[list[object]]:
    found = [stmt for stmt in statements(lowered(func).body) if isinstance(stmt, Allocate)]
    return [[getattr(size, "value", None) for size in stmt.extents] for stmt in found]


def check(sch: Schedule) -> None:
    for n in (0, 1, 3):
        x = np.arange(40 * n, dtype=np.float32).reshape(5, n, 8)
        got = np.zeros_like(x)
        run(lowered(sch.func), x, got)
        np.testing.assert_array_equal(got, (x + 1) * 2)


def test_a_row_is_kept_for_each_iteration():
    sch = joined(1)
    assert memory(sch.func) == [[8]]
    check(sch)


def test_in_threads():
    sch = Schedule(doubled_rows())
    sch.compute_at("more", sch.get_loops("twice")[1])
    loops = sch.get_loops("twice")[:2]
    for loop in loops:
        sch.parallel(loop)
    sch.fuse(*loops)
    assert memory(sch.func) == [[8]]
    check(sch)


def test_what_an_iteration_did_not_write_is_not_its_own():
    """Each row reads the one before, which another iteration wrote: all rows are kept."""
    x = te.placeholder((5, N, 8), "float32", "x")
    more = te.compute((5, N, 8), lambda *at: x(*at) + te.const(1.0, "float32"), "more")
    before = te.compute((5, N, 8), lambda i, j, k: more(i, te.max(j - 1, 0), k), "before")
    sch = Schedule(te.create_prim_func([x, before]))
    sch.merge(*(sch.get_loops(name)[1] for name in ("more", "before")))
    sch.fuse(*sch.get_loops("more")[:2])
    assert memory(sch.func) != [[8]]
    for n in (1, 3):
        given = np.arange(40 * n, dtype=np.float32).reshape(5, n, 8)
        got = np.zeros_like(given)
        run(lowered(sch.func), given, got)
        np.testing.assert_array_equal(got, given[:, np.maximum(np.arange(n) - 1, 0)] + 1)


def test_equal_terms_have_one_name():
    f, g = tir.Var("f", "int64"), tir.Var("g", "int64")
    terms = OuterTerms()
    one, other = (terms.named(floordiv(f, N) + step, ()) for step in (1, 2))
    names = [value.a for value in (one, other)]  # type: ignore[attr-defined]
    assert names[0] is names[1]
    assert len(terms.values) == 1
    terms.named(floormod(f, N), ())
    terms.named(floordiv(g, N), ())
    assert len(terms.values) == 3


@pytest.mark.parametrize("inside", [0, 1])
def test_terms_that_change_within_have_none(inside: int):
    f, k = tir.Var("f", "int64"), tir.Var("k", "int64")
    terms = OuterTerms()
    changing = (f, k)[inside]
    expr = mul(mul(f, k), N)
    assert isinstance(expr, Mul)
    assert terms.named(expr, {changing}) is expr
    assert terms.values == {}
    assert terms.named(mul(IntImm("int64", 3), k), ()) is not None
