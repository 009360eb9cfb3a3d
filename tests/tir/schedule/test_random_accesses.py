"""Loops over random accesses: what is proved to be free of dependences is run in other orders, and gives the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import nest
from tests.tir.schedule.test_loops import loop_of

from eutectic import tir
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.support.errors import ScheduleError
from eutectic.tir import Buffer, BufferStore, IfThenElse, PrimFunc, Stmt
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs

SIZE = 12
EXTENTS = (4, 3)
decided: Counter[tuple[str, bool]] = Counter()

SHAPES: tuple[Callable[[Var, Var, int], PrimExpr], ...] = (
    lambda i, j, c: i + c,
    lambda i, j, c: j + c,
    lambda i, j, c: i * 3 + j,
    lambda i, j, c: i + j * 4,
    lambda i, j, c: i + j + c,
    lambda i, j, c: i * 2 + c,
    lambda i, j, c: 5 - i + c,
    lambda i, j, c: (i + c) // 2,
    lambda i, j, c: (i + j * 2 + c) % 5,
    lambda i, j, c: tir.max(i, j) + c,
    lambda i, j, c: i * j + c,
    lambda i, j, c: i * 0 + c,
)
index = st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(0, 2))
condition = st.one_of(st.none(), st.tuples(st.integers(0, 3), st.booleans()))
statement = st.tuples(st.integers(0, 1), index, st.integers(0, 1), index, st.booleans(), condition)


def body(buffers: list[Buffer], statements: list[Any], i: Var, j: Var) -> Stmt:
    def at(chosen: tuple[int, int]) -> PrimExpr:
        return SHAPES[chosen[0]](i, j, chosen[1])

    made: list[Stmt] = []
    for target, where, source, origin, adds, when in statements:
        value = buffers[source][at(origin)] + 1
        store: Stmt = BufferStore(buffers[target], buffers[target][at(where)] + value if adds else value, (at(where),))
        if when is not None:
            store = IfThenElse(i < when[0] if when[1] else j >= when[0], store)
        made.append(store)
    return tir.seq(*made)


@settings(max_examples=settings.default.max_examples * 4)
@given(
    statements=st.lists(statement, min_size=1, max_size=2),
    dtype=st.sampled_from(["int32", "float32"]),
    step=st.sampled_from(["parallel i", "parallel j", "vectorize j", "reorder", "bind i"]),
)
def test_one_nest(statements: list[Any], dtype: str, step: str):
    buffers = [Buffer(name, (SIZE,), dtype) for name in "AB"]
    before = PrimFunc(tuple(buffers), nest("ij", EXTENTS, lambda i, j: body(buffers, statements, i, j)))
    sch = Schedule(before, error_render_level="none")
    what, _, name = step.partition(" ")
    try:
        if what == "reorder":
            sch.reorder(loop_of(sch, "j"), loop_of(sch, "i"))
        elif what == "bind":
            sch.bind(loop_of(sch, name), "threadIdx.x")
        else:
            getattr(sch, what)(loop_of(sch, name))
    except ScheduleError:
        decided[what, False] += 1
        return
    decided[what, True] += 1
    compare_programs(before, sch.func, step)


@settings(max_examples=settings.default.max_examples * 2)
@given(first=statement, second=statement, dtype=st.sampled_from(["int32", "float32"]))
def test_two_nests(first: Any, second: Any, dtype: str):
    buffers = [Buffer(name, (SIZE,), dtype) for name in "AB"]
    nests = [
        nest(names, EXTENTS, lambda i, j, s=s: body(buffers, [s], i, j)) for names, s in (("ij", first), ("kl", second))
    ]
    before = PrimFunc(tuple(buffers), tir.seq(*nests))
    sch = Schedule(before, error_render_level="none")
    try:
        sch.merge(loop_of(sch, "j"), loop_of(sch, "l"))
    except ScheduleError:
        decided["merge", False] += 1
        return
    decided["merge", True] += 1
    compare_programs(before, sch.func, "merge")


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for what in ("parallel", "vectorize", "reorder", "bind", "merge"):
        yes, no = decided[what, True], decided[what, False]
        if yes + no > 30:  # fewer when another process ran the tests above
            assert min(yes, no) > 3, (what, decided)
