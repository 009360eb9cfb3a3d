"""Random schedules with blocks around blocks, loops in parts and intrinsics: what is accepted keeps every result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import matmul
from tests.tir.schedule import test_random as steps
from tests.tir.schedule.intrinsics import INTRINSICS, registered
from tests.tir.schedule.programs import PROGRAMS, keeps
from tests.tir.schedule.test_random import PHASES, Draw
from tests.tir.schedule.test_random_blocks import stage
from tests.tir.schedule.test_random_moves import easy, keeps_stages, move, reindex

from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule

MORE = {"integer matmul": lambda: matmul(size=4, dtype="int32"), "long matmul": lambda: matmul(size=4)}
tried: Counter[tuple[str, bool]] = Counter()
known: dict[str, PrimFunc] = {}


def program(name: str) -> PrimFunc:
    if name not in known:
        known[name] = {**PROGRAMS, **MORE}[name]()
    return known[name]


def blockize(sch: Schedule, draw: Draw) -> None:
    block, loops = steps._loops(sch, draw)
    units = draw(st.booleans())
    if loops and draw(st.integers(0, 5)):
        sch.blockize(steps._one(loops, draw), units)
    else:
        sch.blockize([block], units)


def tile(sch: Schedule, draw: Draw) -> None:
    """Tiles of all loops of a block, and a block around the inner ones."""
    _, loops = steps._loops(sch, draw)
    pairs = [sch.split(loop, [None, draw(st.integers(1, 3))]) for loop in loops]
    sch.reorder(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    sch.blockize(pairs[draw(st.integers(0, len(pairs) - 1))][1], draw(st.booleans()))


def group(sch: Schedule, draw: Draw) -> None:
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    first = draw(st.integers(0, len(names) - 1))
    sch.blockize([sch.get_block(name) for name in names[first : first + draw(st.integers(2, 3))]])


def partition(sch: Schedule, draw: Draw) -> None:
    _, loops = steps._loops(sch, draw)
    factors: list[int | None] = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    if draw(st.booleans()):
        factors.insert(draw(st.integers(0, len(factors))), None)
    sch.loop_partition(steps._one(loops, draw), factors)


def epilogue(sch: Schedule, draw: Draw) -> None:
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    first = draw(st.integers(0, max(0, len(names) - 2)))
    sch.fuse_reduction_epilogue(names[first], names[min(first + 1, len(names) - 1)])


def tensorize(sch: Schedule, draw: Draw) -> None:
    """Tiles of the sizes that an intrinsic has, and the intrinsic in their place: the first one that fits."""
    block, _ = steps._loops(sch, draw)
    name, decomposes, by_block = sch.get(block).name_hint, draw(st.booleans()), draw(st.booleans())
    for intrinsic in draw(st.permutations(sorted(INTRINSICS))):
        registered(intrinsic)
        try:
            put(sch.copy(), name, intrinsic, decomposes, by_block)
        except ScheduleError:
            continue
        put(sch, name, intrinsic, decomposes, by_block)
        return
    raise ScheduleError("none fits")


def put(sch: Schedule, name: str, intrinsic: str, decomposes: bool, by_block: bool) -> None:
    loops, sizes = sch.get_loops(name), INTRINSICS[intrinsic].tile
    pairs = [sch.split(loop, [None, size]) for loop, size in zip(loops[-len(sizes) :], sizes, strict=False)]
    sch.reorder(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    if decomposes and len(pairs) == 3:
        sch.decompose_reduction(name, pairs[2][0])
    inner = pairs[0][1]
    sch.tensorize(sch.blockize(inner) if by_block else inner, intrinsic)


def give_loops(sch: Schedule) -> None:
    """A loop around each block that has none, as the steps want it."""
    for name in [sch.get(block).name_hint for block in steps.blocks(sch)]:
        block = sch.get_block(name)
        if not sch.get_loops(block):
            sch.add_unit_loop(block)


OWN = (blockize, tile, tile, group, partition, partition, tensorize)
OTHERS = (steps.split, steps.fuse, steps.reorder, steps.swap, steps.kind, steps.inline, steps.decompose, steps.copies)
STEPS = (*OWN, *OWN, *OTHERS, steps.merge, move, move, reindex, epilogue)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*PROGRAMS, *MORE) if name != "conv"])  # it is too large
@settings(phases=PHASES, max_examples=max(10, settings.default.max_examples // 5))
@given(data=st.data())
def test_random_programs(name: str, data: st.DataObject):
    before = program(name)
    sch = Schedule(before, seed=0, error_render_level="none")
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)):
        give_loops(sch)
        mod = sch.mod
        try:
            step(sch, data.draw)
        except ScheduleError:
            tried[step.__name__, False] += 1
            if step not in (tile, tensorize):  # which are several steps
                assert all(sch.mod[var] is made for var, made in mod.functions_items())
        else:
            tried[step.__name__, True] += 1
    if sch.func is not before:
        keeps(before, sch)


def apply(sch: Schedule, step: Any, count: int) -> None:
    kind, which, other, depth, factor, index = step
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    name = names[which % len(names)]
    loops = sch.get_loops(name)
    loop = loops[depth % len(loops)] if loops else None
    if kind == "blockize":
        if loop is None or factor == 4:
            sch.blockize([name], index == 0)
        else:
            sch.blockize(loop, index != 0)
    elif kind == "group":
        sch.blockize(names[which % len(names) : which % len(names) + factor])
    elif kind in ("compute_inline", "reverse_compute_inline"):
        getattr(sch, kind)(name)
    elif kind in ("compute_at", "reverse_compute_at"):
        others = sch.get_loops(names[other % len(names)])
        if others:
            getattr(sch, kind)(name, others[depth % len(others)], index=index)
    elif kind in ("cache_read", "cache_write"):
        getattr(sch, kind)(name, depth % 2, "global")
    elif kind == "fuse_reduction_epilogue":
        sch.fuse_reduction_epilogue(name, names[(which + 1) % len(names)])
    elif loop is not None:
        {
            "partition": lambda: sch.loop_partition(loop, [factor] if index else [None, factor]),
            "split": lambda: sch.split(loop, [None, factor]),
            "fuse": lambda: sch.fuse(*loops[:2]),
            "reorder": lambda: sch.reorder(*reversed(loops[:2])),
            "merge": lambda: sch.merge(loop, *sch.get_loops(names[other % len(names)])[:1]),
            "parallel": lambda: sch.parallel(loop),
            "vectorize": lambda: sch.vectorize(loop),
            "decompose_reduction": lambda: sch.decompose_reduction(name, loop),
            "rfactor": lambda: sch.rfactor(loop, 0),
        }[kind]()


OWN_KINDS = ("blockize", "partition", "group")
KINDS = (
    *OWN_KINDS,
    *OWN_KINDS,
    *("compute_inline", "reverse_compute_inline", "compute_at", "reverse_compute_at", "cache_read", "cache_write"),
    *("split", "split", "fuse", "reorder", "merge", "parallel", "vectorize", "decompose_reduction"),
    "fuse_reduction_epilogue",
)
one_step = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 4),
    st.sampled_from([-1, -1, -2, 0, 1]),
)


@settings(max_examples=settings.default.max_examples * 4)
@given(stages=st.lists(easy | stage, min_size=1, max_size=4), chosen=st.lists(one_step, min_size=1, max_size=6))
def test_random_stages(stages: list[Any], chosen: list[Any]):
    keeps_stages(stages, chosen, apply, tried)


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for kind in ("blockize", "partition", "group", "tensorize"):
        yes, no = tried[kind, True], tried[kind, False]
        if yes + no > 60:  # fewer when another process ran the tests above
            assert min(yes, no) > 0, (kind, tried)
