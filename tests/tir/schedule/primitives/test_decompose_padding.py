"""decompose_padding and can_decompose_padding: what becomes of paddings, and which are left as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.schedule.programs import keeps, small_conv, small_pool
from tests.tir.transform.schedules import of, x

from eutectic import tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.schedule import Schedule


def padded(rows: Any = 5, dtype: str = "float32", before: Any = (1, 2), after: Any = (1, 1)) -> PrimFunc:
    """A matrix with a border."""
    return of(lambda t: topi.nn.pad(t, before, after, tir.const(1, dtype)), x(rows, 6, dtype=dtype))


def at(block: str, number: int) -> Callable[[Schedule], Any]:
    """The step at one of the loops around a block."""
    return lambda s: s.decompose_padding(block, s.get_loops(block)[number])


def split_columns(s: Schedule) -> None:
    s.split(s.get_loops("PadInput")[1], [None, 4])
    at("PadInput", 0)(s)


def reordered(s: Schedule) -> None:
    i, j = s.get_loops("PadInput")
    s.reorder(*s.split(i, [None, 4]), j)
    outer, inner, j = s.get_loops("PadInput")
    s.reorder(outer, j, inner)
    at("PadInput", 1)(s)


def threads(s: Schedule) -> None:
    s.bind(s.get_loops("PadInput")[0], "blockIdx.x")
    s.bind(s.get_loops("PadInput")[1], "threadIdx.x")
    at("PadInput", 1)(s)


def in_a_convolution(s: Schedule) -> None:
    s.compute_at("pad_temp", s.get_loops("conv2d_nchw")[1])
    at("pad_temp", 2)(s)


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "all at once": (padded, at("PadInput", 0)),
    "row by row": (padded, at("PadInput", 1)),
    "a size that is not known": (lambda: padded(Var("n", "int64")), at("PadInput", 0)),
    "one side": (lambda: padded(before=(0, 2), after=(1, 0)), at("PadInput", 0)),
    "split loops": (padded, split_columns),
    "reordered loops": (padded, reordered),
    "fused loops": (padded, lambda s: (s.fuse(*s.get_loops("PadInput")), at("PadInput", 0)(s))),
    "loops at once": (padded, lambda s: (s.parallel(s.get_loops("PadInput")[0]), at("PadInput", 1)(s))),
    "vectors": (padded, lambda s: (s.vectorize(s.get_loops("PadInput")[1]), at("PadInput", 1)(s))),
    "threads": (padded, threads),
    "a convolution": (small_conv, at("pad_temp", 1)),
    "under a loop of a convolution": (small_conv, in_a_convolution),
    "a maximum over windows": (small_pool, at("pad_temp", 0)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


def test_only_the_border_is_filled(golden):
    before = padded()
    sch = Schedule(before, debug_mask="all")
    fill = sch.decompose_padding("PadInput", sch.get_loops("PadInput")[0], border_only=True)
    keeps(before, sch)
    sch.loop_partition(sch.get_loops(fill)[1], [2, 6, 1])
    keeps(before, sch)
    golden(sch.func.script())


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_sizes_and_dtypes(rows: int, dtype: str):
    before = padded(rows, dtype)
    for number in (0, 1):
        sch = Schedule(before, debug_mask="all")
        at("PadInput", number)(sch)
        keeps(before, sch)


def test_handles_of_the_block_are_those_of_the_copy():
    sch = Schedule(padded())
    block = sch.get_block("PadInput")
    loops = sch.get_loops(block)
    fill = sch.decompose_padding(block, loops[0])
    assert [sch.get(rv).name_hint for rv in (fill, block)] == ["PadInput_pad_const", "PadInput"]
    assert [sch.get(loop).static_extent for loop in loops] == [5, 6]
    assert [sch.get(loop).static_extent for loop in sch.get_loops(fill)] == [7, 9]


def test_what_comes_of_it_can_be_scheduled_on():
    before = small_conv()
    sch = Schedule(before, debug_mask="all")
    fill = sch.decompose_padding("pad_temp", sch.get_loops("pad_temp")[0])
    sch.parallel(sch.fuse(*sch.get_loops(fill)[:2]))
    sch.vectorize(sch.get_loops("pad_temp")[3])
    sch.cache_read("pad_temp", 0, "global")
    keeps(before, sch)


def test_asking_changes_nothing():
    sch = Schedule(padded(), seed=3)
    block, loops = sch.get_block("PadInput"), sch.get_loops("PadInput")
    mod, steps, bound = sch.mod, len(sch.trace), dict(sch._bound)
    assert sch.can_decompose_padding(block, loops[1]) is True
    assert sch.can_decompose_padding("PadInput", loops[0]) is True
    assert all(sch.mod[var] is made for var, made in mod.functions_items())
    assert (len(sch.trace), sch._bound) == (steps, bound)
    other = Schedule(padded(), seed=3)
    assert sch.fork_seed() == other.fork_seed()
    sch.decompose_padding(block, loops[0])
    assert sch.can_decompose_padding(block, loops[0]) is False
    assert sch.can_decompose_padding("nothing", loops[0]) is False


# ---- refusals


@T.prim_func(private=True)
def even(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.if_then_else(v % 2 == 0, A[v], T.float32(0))


@T.prim_func(private=True)
def diagonal(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.if_then_else(v + w < 4, A[v + w], T.float32(0))


@T.prim_func(private=True)
def border_from_memory(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = T.if_then_else(v >= 1 and v < 9, A[v - 1], A[0])


@T.prim_func(private=True)
def division(A: T.Buffer((8,), "int32"), B: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = T.if_then_else(v < 8, A[v], 7 // (v - 4))


@T.prim_func(private=True)
def colliding(A: T.Buffer((8,), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v // 2] = T.if_then_else(v >= 1 and v < 9, A[v - 1], T.float32(0))


@T.prim_func(private=True)
def watched(A: T.Buffer((4, 4), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((4,), "float32")):
    for r in range(4):
        for i in range(6):
            with T.block("B"):
                vr, v = T.axis.remap("SS", [r, i])
                B[v] = T.if_then_else(v >= 1 and v < 5, A[vr, v - 1], T.float32(0))
        with T.block("C"):
            vr = T.axis.spatial(4, r)
            C[vr] = B[3] + B[0]


@T.prim_func(private=True)
def another_name(A: T.Buffer((4,), "float32"), B: T.Buffer((12,), "float32")):
    with T.block("outer"):
        T.reads(A[0:4], B[0:12])
        T.writes(B[0:12])
        lower = T.match_buffer(B[0:6], (6,))
        for _r in range(2):
            for i in range(6):
                with T.block("B"):
                    v = T.axis.spatial(6, i)
                    lower[v] = T.if_then_else(v >= 1 and v < 5, A[v - 1], T.float32(0))
            for i in range(6):
                with T.block("copy"):
                    v = T.axis.spatial(6, i)
                    B[v + 6] = B[v]


@T.prim_func(private=True)
def onto_itself(B: T.Buffer((8,), "float32")):
    with T.block("outer"):
        T.reads(B[0:8])
        T.writes(B[0:8])
        other = T.match_buffer(B[0:8], (8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = T.if_then_else(v < 7, other[v + 1], T.float32(0))


@T.prim_func(private=True)
def bounded_by_memory(A: T.Buffer((8,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((10,), "float32")):
    for i in range(n[0]):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = T.if_then_else(v < 8, A[v], T.float32(0))


@T.prim_func(private=True)
def until_a_number_in_memory(A: T.Buffer((8,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((10,), "float32")):
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = T.if_then_else(v < n[0], A[v], T.float32(0))


def at_b(s: Schedule) -> Any:
    return s.decompose_padding("B", s.get_loops("B")[0])


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "no choice": (
        lambda: of(lambda t: topi.exp(t), x(4)),
        lambda s: s.decompose_padding("compute", s.get_loops("compute")[0]),
        "does not choose between elements and a border",
    ),
    "a reduction": (small_pool, at("pool_max", 0), "it is a reduction"),
    "not around": (
        small_conv,
        lambda s: s.decompose_padding("pad_temp", s.get_loops("conv2d_nchw")[0]),
        "loop nn is not around block pad_temp",
    ),
    "no bounds": (lambda: even, at_b, "`v % T.int32(2) == T.int32(0)` is not a bound of an axis of block B"),
    "two axes": (lambda: diagonal, at_b, "`v + w < T.int32(4)` is not a bound of an axis"),
    "border from memory": (lambda: border_from_memory, at_b, "computed everywhere, but it reads memory"),
    "a division": (lambda: division, at_b, "computed everywhere, but it divides integers"),
    "two points of an element": (lambda: colliding, at_b, "could be copied at one point of block B, and filled"),
    "a reader in the loop": (lambda: watched, at_b, "B is accessed in loop r outside of block B"),
    "a reader under another name": (lambda: another_name, at_b, "B is accessed in loop _r outside of block B"),
    "onto itself": (lambda: onto_itself, at_b, "knows the memory of B by several names"),
    "a loop from memory": (lambda: bounded_by_memory, at_b, "depend on memory"),
    "a condition from memory": (lambda: until_a_number_in_memory, at_b, "`v < n[0]` is not a bound of an axis"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    before = sch.func
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert "  --> tir main" in str(error.value)
    assert sch.func is before


def test_inside_of_what_reads_it_a_padding_can_be_decomposed():
    sch = Schedule(watched, debug_mask="all")
    sch.decompose_padding("B", sch.get_loops("B")[1])
    keeps(watched, sch)


@T.prim_func(private=True)
def in_parallel(A: T.Buffer((4,), "float32"), B: T.Buffer((6,), "float32")):
    for _r in T.parallel(2):
        for i in range(6):
            with T.block("B"):
                v = T.axis.spatial(6, i)
                B[v] = T.if_then_else(v >= 1 and v < 5, A[v - 1], T.float32(0))


def test_a_border_is_not_filled_over_what_another_iteration_copied():
    sch = Schedule(in_parallel)
    with pytest.raises(ScheduleError, match="iterations of the parallel loop _r could write one element of B"):
        sch.decompose_padding("B", sch.get_loops("B")[1])
    sch.decompose_padding("B", sch.get_loops("B")[0])
    keeps(in_parallel, sch)


@T.prim_func(private=True)
def turned_round(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        with T.block("B"):
            v = T.axis.spatial(9, 8 - i)
            B[8 - v] = T.if_then_else(2 * v >= 5 and v - 5 < 3, A[v - 3], T.float32(1))


def test_bounds_with_factors_and_backward_axes():
    before = turned_round
    sch = Schedule(before, debug_mask="all")
    at_b(sch)
    keeps(before, sch)
    assert "T.where(i < 6 and i >= 1)" in sch.func.script()


@T.prim_func(private=True)
def one_column(A: T.Buffer((5,), "float32"), B: T.Buffer((5, 3), "float32")):
    for i, j in T.grid(5, 3):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.Select(w == 1, A[v], T.float32(2))


def test_an_equality_is_a_box_of_one_value():
    sch = Schedule(one_column, debug_mask="all")
    at_b(sch)
    keeps(one_column, sch)
    assert "for i, j in T.grid(5, 1)" in sch.func.script()


def test_a_refusal_shows_the_condition(golden):
    sch = Schedule(diagonal)
    with pytest.raises(ScheduleError) as error:
        at_b(sch)
    golden(str(error.value))
