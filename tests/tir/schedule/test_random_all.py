"""Every primitive, at random, on programs of every kind: what is accepted keeps every result, and its trace replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule import test_random as steps
from tests.tir.schedule import test_random_moves as moves
from tests.tir.schedule.guarded import SUMS
from tests.tir.schedule.odd_programs import PROGRAMS as ODD
from tests.tir.schedule.programs import PROGRAMS as SMALL
from tests.tir.schedule.programs import keeps, of, x
from tests.tir.schedule.test_random import PHASES, Draw
from tests.tir.transform.schedules import PROGRAMS as LOWERED

from eutectic import te, topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.prim_expr import Var
from eutectic.support.errors import ScheduleError
from eutectic.tir import IndexMap, PrimFunc
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.interpret import run
from eutectic.tir.schedule import PRIMITIVES, Schedule
from eutectic.tir.schedule.validate import inputs

n = Var("n", "int64")


def attention() -> PrimFunc:
    """One head: two products, and a softmax between them."""

    def definition(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        return topi.matmul(topi.nn.softmax(topi.matmul(q, topi.transpose(k)), -1), v)

    return of(definition, x(3, 2, name="q"), x(4, 2, name="k"), x(4, 3, name="v"))


def attention_in_tiles() -> PrimFunc:
    """Three queries in tiles of two."""

    def definition(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        return topi.nn.attention_in_tiles(q, k, v, 2, 0.5)

    return of(definition, x(1, 3, 2, 2, name="q"), x(1, 2, 3, 2, name="k"), x(1, 2, 3, 2, name="v"))


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    **{
        name: SMALL[name]
        for name in ("matmul", "small conv", "softmax", "chain", "transpose", "pool", "pad", "integer sum", "dense")
    },
    "depthwise": lambda: of(
        lambda t, w: topi.nn.conv2d(t, w, 2, 1, 1, groups=2), x(1, 2, 4, 3), x(2, 1, 3, 3, name="w")
    ),
    "layer norm": LOWERED["layer norm"],
    "argmax": LOWERED["argmax"],
    "attention": attention,
    "attention in tiles": attention_in_tiles,
    "gather": LOWERED["gather"],
    "any size": lambda: of(lambda t: topi.nn.relu(topi.sum(t, 1)), x(n, 4)),
    "int8 product": lambda: of(
        lambda a, b: topi.add(topi.matmul(a, b, out_dtype="int32"), topi.cast(topi.sum(a, 1, True), "int32")),
        x(3, 4, dtype="int8", name="a"),
        x(4, 5, dtype="int8", name="b"),
    ),
    "bfloat": LOWERED["bfloat matmul"],
}


INTEGERS = {"integer sum", "int8 product", *ODD, *(name for name in SUMS if name != "of floats")}
OFTEN = (*PROGRAMS, "of floats", "two axes", "triangle", "writers", "aliased")  # the others only in slow tests
WRITTEN: dict[str, PrimFunc] = {**{name: func for name, (func, *_) in SUMS.items()}, **ODD}


@cache
def program(name: str) -> PrimFunc:
    func = WRITTEN[name] if name in WRITTEN else PROGRAMS[name]()
    return func.with_attr(FINITE_PARAMS, (1,)) if name == "small conv" else func


def block_of(sch: Schedule, draw: Draw) -> Any:
    return steps._loops(sch, draw)[0]


def loop_of(sch: Schedule, draw: Draw) -> Any:
    return steps._one(steps._loops(sch, draw)[1], draw)


MAPS: tuple[Callable[..., Any], ...] = (
    lambda *i: i[::-1],
    lambda *i: (*i[1:], i[0]),
    lambda *i: (i[0] // 2, *i[1:], i[0] % 2),
    lambda *i: (*i[:-1], i[-1] // 3, i[-1] % 3),
    lambda *i: (i[0] + 1, *i[1:]),
    lambda *i: (*i[:-1], i[-1] // 2),
)


def layout(sch: Schedule, draw: Draw) -> None:
    site = sch.get_sref(block_of(sch, draw))
    kind = draw(st.sampled_from(["read", "write"]))
    regions = site.block.reads if kind == "read" else site.block.writes
    place = draw(st.integers(0, 2))
    mapped = draw(st.sampled_from(MAPS))
    if place >= len(regions) or any(regions[place].buffer is item for item in sch.func.buffers):
        return  # another layout of a parameter is another function
    rank = len(regions[place].buffer.shape)
    from_axes = index_map(mapped, rank)
    value = draw(st.sampled_from([None, None, 0.0]))
    sch.transform_layout(site.block.name_hint, (kind, place), from_axes, value)


def index_map(mapped: Callable[..., Any], rank: int) -> IndexMap:
    return IndexMap.from_func(mapped, ndim=rank)


def block_layout(sch: Schedule, draw: Draw) -> None:
    block = block_of(sch, draw)
    found = sch.get(block)
    sch.transform_block_layout(block, index_map(draw(st.sampled_from(MAPS)), len(found.iter_vars)))


def blockize(sch: Schedule, draw: Draw) -> None:
    sch.blockize(loop_of(sch, draw))


def tensorize(sch: Schedule, draw: Draw) -> None:
    sch.tensorize(loop_of(sch, draw), draw(st.sampled_from(INTRINSICS)))


INTRINSICS = ("dot_4x4_i8i8s32",)


def pad_product(sch: Schedule, draw: Draw) -> None:
    block = block_of(sch, draw)
    count = len(sch.get(block).iter_vars)
    sch.pad_einsum(block, draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=count, max_size=count)))


def split_padding(sch: Schedule, draw: Draw) -> None:
    block, loops = steps._loops(sch, draw)
    loop = steps._one(loops, draw)
    assert isinstance(sch.can_decompose_padding(block, loop), bool)
    sch.decompose_padding(block, loop)


def without_padding(sch: Schedule, draw: Draw) -> None:
    block, loops = steps._loops(sch, draw)
    if draw(st.booleans()):
        sch.decompose_reduction(block, steps._one(loops, draw))
    number, loop = draw(st.integers(0, 2)), steps._one(sch.get_loops(block), draw)
    able = sch.can_skip_padding(block, number, loop)
    sch.skip_padding(block, number, loop)
    assert able


def partition(sch: Schedule, draw: Draw) -> None:
    sch.loop_partition(loop_of(sch, draw), [draw(st.integers(1, 3)), None])


def joined(sch: Schedule, draw: Draw) -> None:
    parts = sch.loop_partition(loop_of(sch, draw), [draw(st.integers(1, 3)), None])
    sch.loop_join(*parts)


def epilogue(sch: Schedule, draw: Draw) -> None:
    sch.fuse_reduction_epilogue(block_of(sch, draw), block_of(sch, draw))


def first_epilogue(sch: Schedule, draw: Draw) -> None:
    block = block_of(sch, draw)
    for consumer in sch.get_consumers(block):
        sch.fuse_reduction_epilogue(block, consumer)


def in_place(sch: Schedule, draw: Draw) -> None:
    """Tiles of every update that is in a block of its own."""
    block = block_of(sch, draw)
    if draw(st.booleans()):
        loop = steps._one(sch.get_loops(block), draw)
        sch.decompose_reduction(block, loop)
        sch.blockize(loop)
    sch.cache_inplace(block, draw(st.integers(0, 1)), draw(st.sampled_from(["local", "global"])))


def memory(sch: Schedule, draw: Draw) -> None:
    block = block_of(sch, draw)
    if draw(st.booleans()):
        sch.set_scope(block, 0, draw(st.sampled_from(["local", "global", "shared"])))
    else:
        sch.storage_align(block, 0, draw(st.integers(-2, 1)), draw(st.integers(1, 8)), draw(st.integers(0, 3)))


def notes(sch: Schedule, draw: Draw) -> None:
    target = draw(st.sampled_from([block_of, loop_of]))(sch, draw)
    sch.annotate(target, "user.note", draw(st.sampled_from([1, "two", [1, 2]])))
    if draw(st.booleans()):
        sch.unannotate(target, "user.note")


def ahead(sch: Schedule, draw: Draw) -> None:
    block, loops = steps._loops(sch, draw)
    number, loop, distance = draw(st.integers(0, 1)), steps._one(loops, draw), draw(st.integers(1, 3))
    sch.prefetch(block, number, loop, distance, spread=draw(st.booleans()))


def axes(sch: Schedule, draw: Draw) -> None:
    block = block_of(sch, draw)
    count = len(sch.get(block).iter_vars)
    sch.reorder_block_iter_var(block, draw(st.permutations(range(count))))


def choice(sch: Schedule, draw: Draw) -> None:
    factor = sch.sample_categorical([2, 3, 4], [0.5, 0.25, 0.25])
    sch.split(loop_of(sch, draw), [None, factor])


STEPS: tuple[Callable[[Schedule, Draw], None], ...] = (
    *(steps.split, steps.split, steps.fuse, steps.reorder, steps.swap, steps.kind, steps.kind, steps.bind, steps.unit),
    *(steps.inline, steps.decompose, steps.copies, steps.copies, steps.merge, steps.sample, choice, axes),
    *(moves.move, moves.move, moves.move, moves.reindex, epilogue, first_epilogue, first_epilogue, memory, notes),
    *(in_place, in_place, ahead, joined, joined),
    *(layout, layout, block_layout, blockize, blockize, tensorize, pad_product, split_padding, partition),
    *(without_padding, without_padding),
)
REORDERING = (*STEPS, moves.factor, moves.factor, moves.halves)  # sums of floats are then others
done: Counter[str] = Counter()


def scheduled(name: str, data: st.DataObject, most: int) -> tuple[PrimFunc, Schedule]:
    """A program, and a schedule of it in which everything legal of a random sequence was done."""
    before = program(name)
    sch = Schedule(before, seed=data.draw(st.integers(0, 1000)), error_render_level="none")
    chosen = REORDERING if name in INTEGERS else STEPS
    for step in data.draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=most)):
        mod, count = sch.mod, len(sch.trace)
        try:
            step(sch, data.draw)
        except ScheduleError:
            if len(sch.trace) == count:
                assert all(sch.mod[var] is made for var, made in mod.functions_items())
    done.update(inst.kind for inst in sch.trace)
    return before, sch


@pytest.mark.slow
@pytest.mark.parametrize("name", OFTEN)
@settings(phases=PHASES, max_examples=max(12, settings.default.max_examples // 5))
@given(data=st.data())
def test_every_primitive(name: str, data: st.DataObject):
    before, sch = scheduled(name, data, 7)
    if sch.func is not before:
        keeps(before, sch)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROGRAMS, *WRITTEN])
@settings(phases=PHASES, max_examples=max(36, settings.default.max_examples // 5))
@given(data=st.data())
def test_many_and_natively(name: str, data: st.DataObject):
    check_natively(name, data)


def check_natively(name: str, data: st.DataObject) -> None:
    """Interpreted bit for bit; compiled, where multiply-adds are fused, up to rounding."""
    before, sch = scheduled(name, data, 8)
    if sch.func is not before:
        keeps(before, sch)
    if any(loop.stmt.kind == "thread_binding" for loop in sch.state.index("main").loops.values()):
        return  # not for this machine
    for kind in ("small integers", "numbers"):
        given = inputs(before, kind)
        want, got = ([np.copy(item) for item in given] for _ in range(2))
        run(before, *want)
        build(sch.func, threads=2)(*got)
        for a, b in zip(want, got, strict=True):
            narrow = np.asarray(a).dtype.itemsize < 4
            np.testing.assert_allclose(
                np.asarray(b, "f8"), np.asarray(a, "f8"), rtol=2e-2 if narrow else 1e-5, atol=1e-2 if narrow else 1e-5
            )


def test_no_primitive_is_left_out():
    """Each is among the steps; those that only look are used by these."""
    used = {
        name for step in (*STEPS, moves.factor, moves.halves) for name in step.__code__.co_names
    } & PRIMITIVES.keys()
    used |= {"parallel", "vectorize", "unroll", "compute_inline", "reverse_compute_inline", "cache_read"}  # by name
    used |= {"cache_write", "compute_at", "reverse_compute_at", "get_block", "get_loops"}
    looking = {"get_child_blocks", "get_producers", "get_output_blocks", "can_decompose_padding"}
    assert set(PRIMITIVES) - used - looking == set()
