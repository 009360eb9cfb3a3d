"""Random layouts of buffers and blocks among other steps: whatever is accepted keeps every result, bit for bit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule import test_random as steps
from tests.tir.schedule import test_random_moves as moves
from tests.tir.schedule.programs import PROGRAMS, keeps
from tests.tir.schedule.test_random import PHASES, Draw, program
from tests.tir.schedule.test_random_blocks import is_defined, stage
from tests.tir.schedule.test_random_blocks import program as stages_program

from eutectic import tir
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.support.errors import ScheduleError
from eutectic.tir import IndexMap, IntImm
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs

tried: Counter[tuple[str, bool]] = Counter()


def index_map(shape: list[int], draw: Draw, *, exact: bool) -> IndexMap:
    """Splits, fuses, shifts and permutations of the indices of a shape."""
    inputs = [Var(f"i{k}", "int64") for k in range(len(shape))]
    items: list[tuple[PrimExpr, int]] = list(zip(inputs, shape, strict=True))
    for _ in range(draw(st.integers(1, 3))):
        if not items:
            break
        k = draw(st.integers(0, len(items) - 1))
        expr, size = items[k]
        step = draw(st.sampled_from(["split", "split", "fuse", "permute"] + ([] if exact else ["shift", "drop"])))
        if step == "split":
            factors = [c for c in range(1, max(size, 1) + 1) if not exact or size % c == 0]
            c = draw(st.sampled_from(factors))
            items[k : k + 1] = [(expr // c, -(-size // c)), (expr % c, c)]
        elif step == "fuse" and k + 1 < len(items):
            other, count = items.pop(k + 1)
            items[k] = (expr * count + other, size * count)
        elif step == "drop" and size > 1 and draw(st.booleans()):
            items[k] = (expr // 2, -(-size // 2))  # two elements in one place
        elif step == "shift":
            items[k] = (expr + 1, size + 1)
        else:
            items = draw(st.permutations(items))
    return IndexMap(tuple(inputs), tuple(expr for expr, _ in items))


def mirror(shape: list[int], draw: Draw) -> IndexMap:
    """Some indices from the end, which only a given inverse undoes."""
    turned = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))

    def f(*at: Any) -> Any:
        return [size - 1 - i if turn else i for i, size, turn in zip(at, shape, turned, strict=True)]

    return IndexMap.from_func(f, len(shape), f)


def sizes(exprs: Any) -> list[int]:
    return [size.value if isinstance(size, IntImm) else 4 for size in exprs]


def layout(sch: Schedule, draw: Draw) -> None:
    """Another layout of a buffer that is not the caller's."""
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    block = sch.get_block(draw(st.sampled_from(names)))
    found = sch.get(block)
    choices = [("read", k, r.buffer) for k, r in enumerate(found.reads)]
    choices += [("write", k, r.buffer) for k, r in enumerate(found.writes)]
    choices = [item for item in choices if item[2] not in sch.func.buffers]
    if not choices:
        return
    kind, number, buffer = draw(st.sampled_from(choices))
    made = index_map(sizes(buffer.shape), draw, exact=draw(st.booleans()))
    pad = draw(st.sampled_from([None, None, 1]))
    attempt("layout", lambda: sch.transform_layout(block, (kind, number), made, pad))


def block_layout(sch: Schedule, draw: Draw) -> None:
    """Other axes of a block."""
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    block = sch.get_block(draw(st.sampled_from(names)))
    extents = sizes(axis.dom.extent for axis in sch.get(block).iter_vars)
    made = mirror(extents, draw) if draw(st.integers(0, 3)) == 0 else index_map(extents, draw, exact=True)
    attempt("block layout", lambda: sch.transform_block_layout(block, made))


def attempt(name: str, step: Any) -> None:
    try:
        step()
    except ScheduleError:
        tried[name, False] += 1
        raise
    tried[name, True] += 1


STEPS = (
    *(layout, layout, block_layout, block_layout, block_layout),
    *(moves.move, moves.reindex, steps.split, steps.fuse, steps.reorder, steps.swap),
    *(steps.kind, steps.copies, steps.copies, steps.inline, steps.decompose),
)


def fuse_epilogue(sch: Schedule, draw: Draw) -> None:
    names = [sch.get(block).name_hint for block in steps.blocks(sch)]
    sch.fuse_reduction_epilogue(draw(st.sampled_from(names)), draw(st.sampled_from(names)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "conv"])  # it is too large
@settings(phases=PHASES, max_examples=max(10, settings.default.max_examples // 3))
@given(data=st.data())
def test_random_layouts(name: str, data: st.DataObject):
    before = program(name)
    chosen = (*STEPS, fuse_epilogue) if name == "integer sum" else STEPS  # which may round floats in another way
    sch = Schedule(before, seed=0, error_render_level="none")
    for step in data.draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=6)):
        mod = sch.mod
        try:
            step(sch, data.draw)
        except ScheduleError:
            assert all(sch.mod[var] is made for var, made in mod.functions_items())
    if sch.func is not before:
        keeps(before, sch)


def stages_step(sch: Schedule, kind: str, count: int, draw: Draw) -> None:
    name = f"b{draw(st.integers(0, count - 1))}"
    if kind == "layout":
        block = sch.get(sch.get_block(name))
        buffers = {r.buffer.name: r.buffer for r in (*block.reads, *block.writes) if r.buffer.name in "BC"}
        if buffers:
            buffer = draw(st.sampled_from(sorted(buffers)))
            made = index_map(sizes(buffers[buffer].shape), draw, exact=False)
            attempt(kind, lambda: sch.transform_layout(name, buffer, made, draw(st.sampled_from([None, 2.5]))))
    elif kind == "block layout":
        extents = sizes(axis.dom.extent for axis in sch.get(sch.get_block(name)).iter_vars)
        made = index_map(extents, draw, exact=True) if draw(st.booleans()) else mirror(extents, draw)
        attempt(kind, lambda: sch.transform_block_layout(name, made))
    elif kind.startswith("cache"):
        getattr(sch, kind)(name, draw(st.integers(0, 1)), "global")
    elif kind == "decompose_reduction":
        sch.decompose_reduction(name, draw(st.sampled_from(sch.get_loops(name))))
    elif kind in ("compute_at", "reverse_compute_at"):
        other = f"b{draw(st.integers(0, count - 1))}"
        getattr(sch, kind)(name, draw(st.sampled_from(sch.get_loops(other))))
    else:
        getattr(sch, kind)(name)


KINDS = (
    *("layout", "layout", "block layout", "block layout", "cache_read", "cache_write"),
    *("decompose_reduction", "compute_at", "reverse_compute_at", "compute_inline", "reverse_compute_inline"),
)


@settings(max_examples=settings.default.max_examples * 3)
@given(
    stages=st.lists(moves.easy | stage, min_size=2, max_size=4),
    chosen=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    data=st.data(),
)
def test_random_stages(stages: list[Any], chosen: list[str], data: st.DataObject):
    before = stages_program(stages)
    sch = Schedule(before, error_render_level="none")
    for kind in chosen:
        try:
            stages_step(sch, kind, len(stages), data.draw)
        except ScheduleError:
            continue
    if sch.func is not before and is_defined(before):
        tir.verify_well_formed(sch.func)
        compare_programs(before, sch.func, str(sch.trace))
        compare_programs(before, tir.transform.lower(sch.func), f"lowering after {sch.trace}")
        assert is_defined(sch.func), sch.trace


ordered = st.fixed_dictionaries(
    {
        "extent": st.just(6),
        "target": st.just(3),  # the result, so that every difference is seen
        "at": st.integers(0, 4),
        "reads": st.lists(st.tuples(st.sampled_from([0, 0, 3]), st.integers(0, 4)), min_size=1, max_size=2),
        "sums": st.integers(0, 2),
        "guard": st.booleans(),
        "usual": st.just(False),
    }
)


@settings(max_examples=settings.default.max_examples * 4)
@given(only=ordered, data=st.data())
def test_random_orders(only: Any, data: st.DataObject):
    """One block whose points overwrite, read and add to what others of them store."""
    before = stages_program([only])
    sch = Schedule(before, error_render_level="none")
    for _ in range(data.draw(st.integers(1, 2))):
        try:
            stages_step(sch, "block layout", 1, data.draw)
        except ScheduleError:
            tried["order", False] += 1
        else:
            tried["order", True] += 1
    if sch.func is not before:
        compare_programs(before, sch.func, str(sch.trace))


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for kind in ("layout", "block layout", "order"):
        yes, no = tried[kind, True], tried[kind, False]
        if yes + no > 60:  # fewer when another process ran the tests above
            assert min(yes, no) > 0, (kind, tried)
            assert yes > no // 4, (kind, tried)
