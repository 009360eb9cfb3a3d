"""Random schedules with blocks moved under loops: whatever is accepted keeps every result, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule import test_random as steps
from tests.tir.schedule.programs import PROGRAMS, keeps
from tests.tir.schedule.test_random import PHASES, Draw, program
from tests.tir.schedule.test_random_blocks import SIZE, is_defined, stage
from tests.tir.schedule.test_random_blocks import program as stages_program

from eutectic import tir
from eutectic.support.errors import ScheduleError
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs

easy = st.fixed_dictionaries(
    {
        "extent": st.just(SIZE),
        "target": st.integers(0, 3),
        "at": st.sampled_from([0, 0, 0, 1]),
        "reads": st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 2, 3])), min_size=1, max_size=2),
        "sums": st.sampled_from([0, 0, 1]),
        "guard": st.just(True),
        "usual": st.just(True),
    }
)
MOVES = ("compute_at", "reverse_compute_at")
tried: Counter[tuple[str, bool]] = Counter()
Apply = Callable[[Schedule, Any, int], None]


def move(sch: Schedule, draw: Draw) -> None:
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    name = draw(st.sampled_from(names))
    at = names.index(name)
    kind = draw(st.sampled_from(MOVES))
    near = names[at + 1 : at + 3] if kind == "compute_at" else names[max(0, at - 2) : at]
    other = draw(st.sampled_from(near or names))
    loops = sch.get_loops(sch.get_block(other))
    loop = loops[draw(st.integers(0, len(loops) - 1))] if loops else None
    if loop is not None:
        unit, index = draw(st.sampled_from([(False, -1), (True, -1), (False, -2), (False, 1)]))
        getattr(sch, kind)(name, loop, unit, index)


def reindex(sch: Schedule, draw: Draw) -> None:
    block, _ = steps._loops(sch, draw)
    sch.reindex(block, (draw(st.sampled_from(["read", "write"])), draw(st.integers(0, 1))))


def factor(sch: Schedule, draw: Draw) -> None:
    _, loops = steps._loops(sch, draw)
    sch.rfactor(steps._one(loops, draw), draw(st.integers(-2, 2)))


def halves(sch: Schedule, draw: Draw) -> None:
    block, _ = steps._loops(sch, draw)
    sch.tree_reduce(block)


STEPS = (move, move, move, reindex, steps.split, steps.fuse, steps.reorder, steps.kind, steps.copies, steps.inline)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "conv"])  # it is too large
@settings(phases=PHASES, max_examples=max(10, settings.default.max_examples // 3))
@given(data=st.data())
def test_random_moves(name: str, data: st.DataObject):
    before = program(name)
    chosen = (*STEPS, factor, halves) if name == "integer sum" else STEPS
    sch = Schedule(before, seed=0, error_render_level="none")
    for step in data.draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=6)):
        mod = sch.mod
        try:
            step(sch, data.draw)
        except ScheduleError:
            assert all(sch.mod[var] is made for var, made in mod.functions_items())
    if sch.func is not before:
        keeps(before, sch)


def apply(sch: Schedule, step: Any, count: int) -> None:
    kind, which, other, depth, factor, index = step
    if kind in MOVES and index != 1:  # mostly a neighbour, as it would read or write what is moved
        which = min(which, count - 2) if kind == "compute_at" else 1 + which % (count - 1)
        other = which + 1 if kind == "compute_at" else which - 1
    loops = sch.get_loops(f"b{other % count}")
    loop = loops[depth % len(loops)]
    if kind == "split":
        sch.split(loop, [None, factor])
    elif kind == "fuse":
        sch.fuse(*loops[:2])
    elif kind == "reorder":
        sch.reorder(*reversed(loops[:2]))
    elif kind == "parallel":
        sch.parallel(loop)
    elif kind == "reindex":
        sch.reindex(f"b{which % count}", ("read" if index < 0 else "write", depth % 2))
    else:
        getattr(sch, kind)(f"b{which % count}", loop, index=index)


step = st.tuples(
    st.sampled_from([*MOVES, *MOVES, "split", "split", "fuse", "reorder", "parallel", "reindex"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(2, 4),
    st.sampled_from([-1, -1, -2, 0, 1]),
)


def keeps_stages(stages: list[Any], chosen: list[Any], apply: Apply, tried: Counter[tuple[str, bool]]) -> None:
    """What is accepted of some steps on random stages keeps the results; what each step led to is counted."""
    before = stages_program(stages)
    sch = Schedule(before, error_render_level="none")
    for one in chosen:
        try:
            apply(sch, one, len(stages))
        except ScheduleError:
            tried[one[0], False] += 1
        else:
            tried[one[0], True] += 1
    if sch.func is not before and is_defined(before):
        compare_programs(before, sch.func, str(sch.trace))
        compare_programs(before, tir.transform.lower(sch.func), f"lowering after {sch.trace}")


@settings(max_examples=settings.default.max_examples * 5)
@given(stages=st.lists(easy | stage, min_size=2, max_size=4), chosen=st.lists(step, min_size=1, max_size=5))
def test_random_stages(stages: list[Any], chosen: list[Any]):
    keeps_stages(stages, chosen, apply, tried)


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for kind in MOVES:
        yes, no = tried[kind, True], tried[kind, False]
        if yes + no > 60:  # fewer when another process ran the test above
            assert min(yes, no) > 0, (kind, tried)
