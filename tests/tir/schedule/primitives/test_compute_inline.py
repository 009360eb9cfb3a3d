"""compute_inline with names: a value that is read again is computed once, and only where it is computed anyway."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.programs import keeps
from tests.tir.transform.schedules import of, x

from eutectic import te, tir, topi
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.visit import post_order
from eutectic.tir import PrimFunc
from eutectic.tir.expr import Let
from eutectic.tir.schedule import Schedule

SIZE = 4
Read = Callable[[int], PrimExpr]
"""An element of the inlined buffer, so many places before the one that is computed."""
Value = Callable[[Read, PrimExpr], PrimExpr]
"""An expression of such elements, and of whether there is one before."""


def network(rounds: int) -> PrimFunc:
    """A network that sorts pairs: each value is read by two others, and more than once by each of them."""

    def definition(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        for _ in range(rounds):
            a, b = topi.minimum(a, b), topi.maximum(a, b)
            b, c = topi.minimum(b, c), topi.maximum(b, c)
        return topi.add(topi.subtract(a, b), c)

    return of(definition, x(SIZE), x(SIZE, name="b"), x(SIZE, name="c"))


def inlined(func: PrimFunc) -> Schedule:
    """The program with one block left; readers are inlined before what they read."""
    sch = Schedule(func)
    blocks = [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
    sch.compute_inline(blocks[-2::-1], name_values=True)
    return sch


def test_values_that_are_shared_stay_shared():
    keeps(network(2), inlined(network(2)))
    few, many = (len(inlined(network(rounds)).func.script()) for rounds in (4, 12))
    assert many < 4 * few


def reads(value: Value) -> PrimFunc:
    """A program that computes a value of elements of another block."""

    def definition(a: te.Tensor) -> te.Tensor:
        b = te.compute((SIZE,), lambda i: a[i] * a[i], name="b")
        return te.compute((SIZE,), lambda i: value(lambda back: b[i - back], i >= 1), name="c")

    return of(definition, x(SIZE))


def names(sch: Schedule) -> int:
    return sum(isinstance(part, Let) for part in post_order(sch.func.body))


NAMED: dict[str, tuple[Value, int]] = {
    "twice": (lambda b, inner: b(0) + b(0), 1),
    "once": (lambda b, inner: b(0) + 1, 0),
    "in a condition and its values": (lambda b, inner: tir.Select(b(0) > 1, b(0), tir.const(1.0, "float32")), 1),
    "in both of two conditions": (
        lambda b, inner: tir.Select(tir.any(b(0) > 1, b(0) < 0), tir.const(2.0, "float32"), tir.const(1.0, "float32")),
        1,
    ),
    "in a condition and behind it": (lambda b, inner: tir.if_then_else(b(0) > 1, b(0), b(0) * 2), 1),
    "behind a condition alone": (lambda b, inner: tir.if_then_else(inner, b(1) * b(1), tir.const(0.0, "float32")), 0),
    "behind a first condition alone": (
        lambda b, inner: tir.Select(
            tir.all(inner, b(1) * b(1) > 1), tir.const(2.0, "float32"), tir.const(1.0, "float32")
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_computed_anyway_gets_a_name(name: str):
    value, count = NAMED[name]
    sch = inlined(reads(value))
    assert names(sch) == count
    keeps(reads(value), sch)


def test_a_value_with_a_guard_gets_none():
    def definition(a: te.Tensor) -> te.Tensor:
        zero = tir.const(0.0, "float32")
        b = te.compute((SIZE,), lambda i: tir.if_then_else(i >= 1, a[i - 1], zero), name="b")
        return te.compute((SIZE,), lambda i: b[i] * b[i], name="c")

    sch = inlined(of(definition, x(SIZE)))
    assert names(sch) == 0
    keeps(of(definition, x(SIZE)), sch)


def values() -> st.SearchStrategy[Value]:
    """Expressions that read elements, those that need not be there behind a condition."""
    here: Value = lambda b, inner: b(0)  # noqa: E731
    before: Value = lambda b, inner: tir.if_then_else(inner, b(1), b(0))  # noqa: E731
    asked: Value = lambda b, inner: tir.Select(  # noqa: E731
        tir.all(inner, b(1) > 1, b(1) < 5), b(0), tir.const(1.0, "float32")
    )

    def joined(parts: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
        ways: list[Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]] = [
            lambda p, q, inner: p + q,
            lambda p, q, inner: tir.Select(tir.any(p > q, p != p), p, q),
            lambda p, q, inner: tir.if_then_else(p > 1, q, p),
            lambda p, q, inner: tir.if_then_else(inner, p, q),
        ]

        def way(made: tuple[Value, Value, int]) -> Value:
            first, second, which = made
            return lambda b, inner: ways[which](first(b, inner), second(b, inner), inner)

        return st.tuples(parts, parts, st.integers(0, len(ways) - 1)).map(way)

    return st.recursive(st.sampled_from([here, before, asked]), joined, max_leaves=6)


@settings(max_examples=40, deadline=None)
@given(values())
def test_nothing_is_read_that_was_not_read_before(value: Value):
    keeps(reads(value), inlined(reads(value)))
