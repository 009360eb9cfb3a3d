"""Random stages that overwrite, shift and repeat each other's buffers: what may move does not change a result."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tir.programs import block, nest

from eutectic import tir
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.support.errors import InternalError, ScheduleError
from eutectic.tir import Buffer, BufferStore, PrimFunc, Stmt, complete
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs, inputs

SIZE = 6
NAMES = "ABCD"  # A and D are the caller's
STEPS = ("compute_inline", "reverse_compute_inline", "cache_read", "cache_write", "decompose_reduction", "merge")
tried: Counter[tuple[str, bool]] = Counter()

place = st.sampled_from([0, 0, 0, 1, 2, 3, 4])
stage = st.fixed_dictionaries(
    {
        "extent": st.sampled_from([SIZE, SIZE, SIZE, 4]),
        "target": st.integers(0, 3),
        "at": place,
        "reads": st.lists(st.tuples(st.integers(0, 3), place), min_size=1, max_size=2),
        "sums": st.sampled_from([0, 0, 1, 2]),
        "guard": st.sampled_from([True, True, True, False]),
        "usual": st.sampled_from([True, True, True, False]),
    }
)


def index(v: Var, kind: int) -> PrimExpr:
    return (v, 5 - v, v // 2, (v + 1) % 6, v * 0)[kind]


def statement(buffers: list[Buffer], number: int, s: Any) -> Stmt:
    target = buffers[s["target"]]

    def value(v: Var) -> PrimExpr:
        total: PrimExpr = tir.const(1.5, "float32")
        for source, kind in s["reads"]:
            total = total * 0.5 + buffers[source][index(v, kind)]
        return total

    def made(i: Var) -> Stmt:
        condition = True if s["guard"] else i != 2
        return block(
            f"b{number}",
            {"v": (SIZE, "S")},
            (i,),
            lambda v: BufferStore(target, value(v), (index(v, s["at"]),)),
            predicate=condition,
        )

    def summed(i: Var, k: Var) -> Stmt:
        value_of_k = k if s["sums"] == 1 else 3 - k
        return block(
            f"b{number}",
            {"v": (SIZE, "S"), "r": (4, "R")},
            (i, value_of_k),
            lambda v, r: BufferStore(target, target[index(v, s["at"])] + value(v), (index(v, s["at"]),)),
            lambda v, r: BufferStore(target, 0.0, (index(v, s["at"]),)),
        )

    if s["sums"]:
        return nest("ik", (s["extent"], 4), summed)
    return nest("i", (s["extent"],), made)


def program(stages: list[Any]) -> PrimFunc:
    buffers = [Buffer(name, (SIZE,)) for name in NAMES]
    linked: list[Any] = []
    for number, s in enumerate(stages):
        # mostly a chain through the local buffers, so that there is something to move
        source = linked[-1]["target"] if linked else 0
        chained = {"target": (1, 2, 3, 1)[number], "reads": [(source, s["reads"][0][1] % 2), *s["reads"][1:]]}
        linked.append({**s, **chained} if s["usual"] else s)
    body = tir.seq(*(statement(buffers, number, s) for number, s in enumerate(linked)))
    return complete(PrimFunc((buffers[0], buffers[3]), body), buffers[1:3])


def is_defined(func: PrimFunc) -> bool:
    """Whether the program reads only what was written."""
    try:
        run(func, *inputs(func, "numbers"), check=True)
    except InternalError:
        return False
    return True


def apply(sch: Schedule, step: str, name: str, number: int) -> None:
    if step.startswith("cache"):
        getattr(sch, step)(name, number, "global")
    elif step == "decompose_reduction":
        loops = sch.get_loops(name)
        sch.decompose_reduction(name, loops[number % len(loops)])
    elif step == "merge":
        other = f"b{int(name[1:]) + 1}"
        sch.merge(sch.get_loops(name)[0], sch.get_loops(other)[0])
    else:
        getattr(sch, step)(name)


# Two stages that copy: few of the random programs let `reverse_compute_inline` do anything.
COPY = {"extent": SIZE, "target": 0, "at": 0, "reads": [(0, 0)], "sums": 0, "guard": True, "usual": True}


@settings(max_examples=settings.default.max_examples * 8)
@example(stages=[COPY, COPY], steps=[("reverse_compute_inline", 1, 0)])
@given(
    stages=st.lists(stage, min_size=2, max_size=4),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=4),
)
def test_random_stages(stages: list[Any], steps: list[tuple[str, int, int]]):
    before = program(stages)
    sch = Schedule(before, error_render_level="none")
    for step, which, number in steps:
        try:
            apply(sch, step, f"b{which % len(stages)}", number)
        except ScheduleError:
            tried[step, False] += 1
        else:
            tried[step, True] += 1
    if sch.func is not before and is_defined(before):
        compare_programs(before, sch.func, str(sch.trace))
        compare_programs(before, tir.transform.lower(sch.func), f"lowering after {sch.trace}")


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for step in STEPS:
        yes, no = tried[step, True], tried[step, False]
        if yes + no > 60:  # fewer when another process ran the test above
            assert min(yes, no) > 0, (step, tried)
