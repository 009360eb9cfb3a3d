"""Random schedules: whatever is accepted keeps every result, bit for bit; whatever is refused changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.tir.schedule.programs import PROGRAMS, keeps

from eutectic.support.errors import ScheduleError
from eutectic.tir import For, PrimFunc
from eutectic.tir.schedule import BlockRV, LoopRV, Schedule

Draw = Callable[..., Any]
FACTORS = st.lists(st.integers(1, 4), min_size=1, max_size=2)


def blocks(sch: Schedule) -> list[BlockRV]:
    sites = [site for site in sch.state.index("main").blocks if site.block.iter_vars]
    edit = sch._edit("test")
    made = [edit.block_rv("main", site.block) for site in sites]
    sch._bound = edit.bound
    return made


def _loops(sch: Schedule, draw: Draw) -> tuple[BlockRV, list[LoopRV]]:
    # through the trace, so that it can be replayed
    names = [sch.get(block).name_hint for block in blocks(sch)]
    block = sch.get_block(draw(st.sampled_from(names)))
    return block, sch.get_loops(block)


def _one(loops: list[LoopRV], draw: Draw) -> LoopRV:
    if not loops:
        raise ScheduleError("the block has no loops of its own")
    return loops[draw(st.integers(0, len(loops) - 1))]


def split(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    factors: list[int | None] = draw(FACTORS)
    factors.insert(draw(st.integers(0, len(factors))), None)
    sch.split(_one(loops, draw), factors)


def fuse(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    _one(loops, draw)
    first = draw(st.integers(0, len(loops) - 1))
    sch.fuse(*loops[first : first + draw(st.integers(2, 3))])


def reorder(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    sch.reorder(*draw(st.permutations(loops)))


def swap(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    sch.reorder(*draw(st.permutations(loops))[:2])


def kind(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    getattr(sch, draw(st.sampled_from(["parallel", "vectorize", "unroll"])))(_one(loops, draw))


def bind(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    sch.bind(_one(loops, draw), draw(st.sampled_from(["blockIdx.x", "threadIdx.x", "vthread.y"])))


def inline(sch: Schedule, draw: Draw) -> None:
    block, _ = _loops(sch, draw)
    getattr(sch, draw(st.sampled_from(["compute_inline", "reverse_compute_inline"])))(block)


def decompose(sch: Schedule, draw: Draw) -> None:
    block, loops = _loops(sch, draw)
    sch.decompose_reduction(block, _one(loops, draw))


def copies(sch: Schedule, draw: Draw) -> None:
    block, _ = _loops(sch, draw)
    getattr(sch, draw(st.sampled_from(["cache_read", "cache_write"])))(block, draw(st.integers(0, 1)), "global")


def merge(sch: Schedule, draw: Draw) -> None:
    _, some = _loops(sch, draw)
    _, others = _loops(sch, draw)
    if not some or not others:
        return
    depth = draw(st.integers(0, 2))
    sch.merge(*(loops[min(depth, len(loops) - 1)] for loops in (some, others)))


def sample(sch: Schedule, draw: Draw) -> None:
    _, loops = _loops(sch, draw)
    loop = _one(loops, draw)
    sch.split(loop, sch.sample_perfect_tile(loop, 2, max_innermost_factor=4))


def unit(sch: Schedule, draw: Draw) -> None:
    block, _ = _loops(sch, draw)
    sch.add_unit_loop(block)


# Without shrinking: each step towards a smaller example runs programs in the interpreter, which takes minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
QUICK = settings(phases=PHASES, max_examples=max(10, settings.default.max_examples // 4))
STEPS = (split, fuse, reorder, swap, kind, bind, inline, decompose, copies, merge, sample, unit)
done: Counter[str] = Counter()


@cache
def program(name: str) -> PrimFunc:
    return PROGRAMS[name]()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "conv"])  # it is too large
@QUICK
@given(data=st.data())
def test_random_schedules(name: str, data: st.DataObject):
    before = program(name)
    sch = Schedule(before, seed=data.draw(st.integers(0, 1000)))
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)):
        mod = sch.mod
        try:
            step(sch, data.draw)
        except ScheduleError:
            assert all(sch.mod[var] is made for var, made in mod.functions_items())
        else:
            done[step.__name__] += 1
    if sch.func is not before:
        keeps(before, sch)


@pytest.mark.parametrize("name", ["matmul", "conv", "chain"])
@QUICK
@given(data=st.data())
def test_loops_are_where_handles_say(name: str, data: st.DataObject):
    """Handles of loops and blocks that no step has replaced still stand for loops of the same variable."""
    sch = Schedule(program(name), seed=0)
    known: dict[LoopRV, Any] = {}
    for step in data.draw(st.lists(st.sampled_from((split, fuse, reorder, kind, unit)), min_size=1, max_size=6)):
        for block in blocks(sch):
            for loop in sch.get_loops(block):
                found = sch.get(loop)
                assert isinstance(found, For)
                known[loop] = found.loop_var
        try:
            step(sch, data.draw)
        except ScheduleError:
            continue
        there = sch.state.index("main").loops
        for loop, var in known.items():
            if var in there:
                assert sch.get(loop) is there[var].stmt
