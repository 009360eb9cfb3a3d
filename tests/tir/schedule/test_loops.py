"""Loop primitives: what they make of programs, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul, nest
from tests.tir.schedule.programs import PROGRAMS, integer_sum, keeps, refused
from tests.tir.transform.schedules import of, x

from eutectic import tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.tir import Buffer, BufferStore, PrimFunc
from eutectic.tir.schedule import LoopRV, Schedule


def scheduled(before: PrimFunc, step: Callable[..., Any], block: str = "matmul") -> Schedule:
    sch = Schedule(before, debug_mask="all")
    step(sch, *sch.get_loops(block))
    keeps(before, sch)
    return sch


MATMUL: dict[str, Callable[..., Any]] = {
    "split": lambda s, i, j, k: s.split(i, [2, None]),
    "split with a tail": lambda s, i, j, k: (s.split(i, [None, 4]), s.split(k, [None, 4])),
    "split in three": lambda s, i, j, k: s.split(j, [2, None, 2], preserve_unit_iters=False),
    "split beyond": lambda s, i, j, k: s.split(j, [2, 5]),
    "fuse": lambda s, i, j, k: s.fuse(i, j, k),
    "fuse what was split": lambda s, i, j, k: s.fuse(*s.split(i, [None, 4])),
    "reorder": lambda s, i, j, k: s.reorder(k, i),
    "kinds": lambda s, i, j, k: (s.parallel(i), s.vectorize(j), s.unroll(k)),
    "threads": lambda s, i, j, k: (s.bind(i, "blockIdx.x"), s.bind(j, "threadIdx.x")),
    "unit loops": lambda s, i, j, k: (s.add_unit_loop("matmul" and s.get_block("matmul")), s.add_unit_loop(i)),
    "axes": lambda s, i, j, k: s.reorder_block_iter_var("matmul", [2, 0, 1]),
    "hints": lambda s, i, j, k: (
        s.annotate(i, "user.a", [1, "b"]),
        s.annotate(s.get_block("matmul"), "user.c", 2.5),
        s.annotate(k, "user.gone", 1),
        s.unannotate(k, "user.gone"),
    ),
    "tiles": lambda s, i, j, k: s.reorder(*s.split(i, [2, 3])[:1], *s.split(j, [3, 2])[:1], k),
}


@pytest.mark.parametrize("name", MATMUL)
def test_matmul(golden, name: str):
    golden(scheduled(matmul(size=6), MATMUL[name]).func.script())


def test_merge(golden):
    before = of(lambda t: [topi.exp(t), topi.negative(t)], x(4, 6))

    def step(sch: Schedule, *loops: LoopRV) -> None:
        other = sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[1])
        sch.parallel(sch.merge(loops[-1], other[-1]))

    golden(scheduled(before, step, "compute").func.script())


def test_symbolic_extents(golden):
    n = Var("n", "int64")
    before = of(lambda t: topi.exp(topi.negative(t)), x(n, 6))

    def step(sch: Schedule, i: LoopRV, j: LoopRV) -> None:
        outer, inner = sch.split(i, [None, 4])
        sch.parallel(outer)
        sch.vectorize(sch.fuse(inner, j))

    sch = scheduled(before, step, "compute")
    golden(sch.func.script())
    loop = sch.get_loops("T_negative")[0]
    assert "are not proved to cover the extent n" in refused(sch, lambda: sch.split(loop, [4, 4]))
    assert "the extent of loop i0 is not a constant" in refused(sch, lambda: sch.vectorize(loop))


def test_sums_of_integers_are_reordered_but_not_run_at_once():
    def step(sch: Schedule, *loops: LoopRV) -> None:
        sch.reorder(*reversed(loops))

    sch = scheduled(integer_sum(), step, "T_sum" if "T_sum" in str(integer_sum()) else "x_red")
    name = next(s.block.name_hint for s in sch.state.index("main").blocks if s.block.iter_vars)
    for loop in sch.get_loops(name):
        if "k" in sch.get(loop).loop_var.name:
            assert "depend on each other" in refused(sch, lambda loop=loop: sch.vectorize(loop))


def test_sums_of_floats_keep_their_order():
    sch = Schedule(PROGRAMS["conv"]())
    rc, ry, rx = sch.get_loops("conv2d_nchw")[4:]
    text = refused(sch, lambda: sch.reorder(rx, ry))
    assert "reorder: the loops cannot change places: two iterations" in text or "one iteration writes" in text
    sch.reorder(rc, sch.get_loops("conv2d_nchw")[0])
    keeps(PROGRAMS["conv"](), sch)


REFUSALS: dict[str, tuple[Callable[..., Any], str]] = {
    "short": (lambda s, i, j, k: s.split(i, [3, 1]), "factors [3, 1] cover 3 of the 6 iterations of loop i"),
    "negative": (lambda s, i, j, k: s.split(i, [-1, 2]), "are not all positive"),
    "two holes": (lambda s, i, j, k: s.split(i, [None, None]), "two of the factors"),
    "predicate": (lambda s, i, j, k: s.split(i, [None, 4], disable_predication=True), "do not divide the extent 6"),
    "too many": (lambda s, i, j, k: s.split(i, [None, 2**31 - 1]), "do not fit int32"),
    "not next": (lambda s, i, j, k: s.fuse(i, k), "loop k is not all that is in loop i"),
    "wrong order": (lambda s, i, j, k: s.fuse(j, i), "loop i is not all that is in loop j"),
    "twice": (lambda s, i, j, k: s.reorder(i, i), "a loop is given twice"),
    "no loop": (lambda s, i, j, k: s.reorder(), "no loop is given"),
    "reduction": (lambda s, i, j, k: s.bind(k, "threadIdx.x"), "loop k cannot be bound to threadIdx.x"),
    "axis": (lambda s, i, j, k: s.bind(i, "thread.x"), "'thread.x' is no thread axis"),
    "bound": (
        lambda s, i, j, k: (s.bind(i, "threadIdx.x"), s.bind(j, "threadIdx.x"))[0],
        "is bound to threadIdx.x already",
    ),
    "kind": (lambda s, i, j, k: (s.parallel(i), s.vectorize(i)), "loop i is parallel already"),
    "split kind": (lambda s, i, j, k: (s.parallel(i), s.split(i, [2, 3])), "loop i is parallel, not serial"),
    "hinted": (lambda s, i, j, k: (s.annotate(i, "user.a", 1), s.fuse(i, j)), "loop i has annotations: user.a"),
    "no hint": (lambda s, i, j, k: s.unannotate(i, "a"), "there is no annotation a; there are: none"),
    "hint": (lambda s, i, j, k: s.annotate(i, "user.a", object()), "a object cannot be an annotation"),
    "permutation": (lambda s, i, j, k: s.reorder_block_iter_var("matmul", [0, 0, 1]), "is no permutation of 3 axes"),
    "merge itself": (lambda s, i, j, k: s.merge(i, j), "not in nests that follow each other"),
    "merge one": (lambda s, i, j, k: s.merge(i), "fewer than two loops"),
    "root": (lambda s, i, j, k: s.add_unit_loop(s.get_block("root")), "root of a function"),
    "a block": (
        lambda s, i, j, k: s.split(s.get_block("matmul"), [2, 3]),
        "expected a loop of this schedule, got BlockRV",
    ),
    "number": (lambda s, i, j, k: s.split(i, [2, 1.5]), "expected an integer, got float"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    step, said = REFUSALS[name]
    sch = Schedule(matmul(size=6))
    loops = sch.get_loops("matmul")
    with pytest.raises(tir.schedule.ScheduleError) as error:
        step(sch, *loops)
    assert said in str(error.value)
    keeps(matmul(size=6), sch)


def raw(extents: tuple[int, ...], body: Callable[..., tir.Stmt], *buffers: Buffer) -> Schedule:
    return Schedule(PrimFunc(buffers, nest("ijkl"[: len(extents)], extents, body)), debug_mask="all")


def loop_of(sch: Schedule, name: str) -> LoopRV:
    """A handle of a loop of a program without blocks."""
    edit = sch._edit("test")
    site = next(s for v, s in sch.state.index("main").loops.items() if v.name == name)
    made = edit.loop_rv("main", site.stmt)
    sch._bound = edit.bound
    return made


def test_programs_without_blocks(golden):
    a, b = Buffer("A", (10,)), Buffer("B", (10,))
    sch = raw((10,), lambda i: BufferStore(b, a[i] * 2.0, (i,)), a, b)
    outer, inner = sch.split(loop_of(sch, "i"), [None, 4])
    sch.parallel(outer)
    sch.vectorize(inner)
    golden(sch.func.script())


a1, a2 = Buffer("A", (9,)), Buffer("A", (9, 9))
i1, i2 = Buffer("I", (9,), "int32"), Buffer("B", (9, 9), "int32")


def _through_let(i: Var) -> tir.Stmt:
    at = Var("at", "int32")
    return tir.LetStmt(at, i1[i], BufferStore(a1, 1.0, (at,)))


CARRIED: dict[str, tuple[tuple[int, ...], Callable[..., tir.Stmt], tuple[Buffer, ...], str]] = {
    "previous": ((8,), lambda i: BufferStore(a1, a1[i], (i + 1,)), (a1,), "i"),
    "one element": ((8,), lambda i: BufferStore(a1, 1.0, (0,)), (a1,), "i"),
    "half": ((8,), lambda i: BufferStore(a1, 1.0, (i // 2,)), (a1,), "i"),
    "through memory": ((8,), lambda i: BufferStore(a1, 1.0, (i1[i],)), (a1, i1), "i"),
    "through a name": ((8,), _through_let, (a1, i1), "i"),
    "diagonal": ((8, 8), lambda i, j: BufferStore(a2, a2[i, j + 1], (i + 1, j)), (a2,), "i"),
    "effects": ((8,), lambda i: tir.Evaluate(tir.call_extern("int32", "f", i)), (a1,), "i"),
    "outer only": ((8, 8), lambda i, j: BufferStore(a1, a1[j] * 2.0, (j,)), (a1,), "i"),
    "product": ((3, 3), lambda i, j: BufferStore(a1, 1.0, (i * j,)), (a1,), "i"),
}


@pytest.mark.parametrize("name", CARRIED)
def test_dependences_are_seen(name: str):
    """Axes that say they are spatial prove nothing: what is read and written does."""
    extents, body, buffers, loop = CARRIED[name]
    sch = raw(extents, body, *buffers)
    for step in (sch.parallel, sch.vectorize, lambda rv: sch.bind(rv, "threadIdx.x")):
        assert "depend on each other" in refused(sch, lambda step=step: step(loop_of(sch, loop)))


def test_reordering_a_diagonal_is_refused(golden):
    sch = raw((8, 8), lambda i, j: BufferStore(a2, a2[i, j + 1], (i + 1, j)), a2)
    golden(refused(sch, lambda: sch.reorder(loop_of(sch, "j"), loop_of(sch, "i"))))
    fine = raw((8, 8), lambda i, j: BufferStore(a2, a2[i, j], (i + 1, j + 1)), a2)
    before = fine.func
    fine.reorder(loop_of(fine, "j"), loop_of(fine, "i"))
    assert fine.func is not before


@T.prim_func(private=True)
def private_rows(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            row = T.alloc_buffer((8,))
            for j in range(8):
                row[j] = A[vi, j] * T.float32(2)
            for j in range(8):
                B[vi, j] = row[7 - j]


def test_memory_of_an_iteration_is_its_own():
    sch = Schedule(private_rows, debug_mask="all")
    sch.parallel(sch.get_loops("row")[0])
    keeps(private_rows, sch)


@T.prim_func(private=True)
def lying(A: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("step"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi])
            A[vi + 1] = A[vi] + T.float32(1)


def test_stated_regions_are_not_believed():
    sch = Schedule(lying)
    loop = sch.get_loops("step")[0]
    assert "depend on each other" in refused(sch, lambda: sch.parallel(loop))


@T.prim_func(private=True)
def windows(A: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("step"):
            vi = T.axis.spatial(8, i)
            W = T.match_buffer(A[vi : vi + 2], (2,), offset_factor=1)
            W[1] = W[0] + T.float32(1)


def test_other_names_of_memory_are_seen():
    sch = Schedule(windows)
    loop = sch.get_loops("step")[0]
    assert "depend on each other" in refused(sch, lambda: sch.parallel(loop))


def test_shifted_loops_cannot_be_merged():
    a, b, c = (Buffer(name, (9,)) for name in "ABC")
    first = nest("i", (8,), lambda i: BufferStore(b, a[i], (i,)))
    for shift, fine in ((0, True), (1, False)):
        second = nest("j", (8,), lambda j, shift=shift: BufferStore(c, b[j + shift], (j,)))
        before = PrimFunc((a, b, c), tir.seq(first, second))
        sch = Schedule(before, debug_mask="all")
        if fine:
            sch.merge(loop_of(sch, "i"), loop_of(sch, "j"))
        else:
            text = refused(sch, lambda sch=sch: sch.merge(loop_of(sch, "i"), loop_of(sch, "j")))
            assert "would come in another order than they depend on each other" in text


def test_parallel_loops_are_proved_again_when_others_move():
    sch = raw((8, 8), lambda i, j: BufferStore(a2, a2[i, j + 1], (i + 1, j)), a2)
    sch.vectorize(loop_of(sch, "j"))
    assert "cannot change places" in refused(sch, lambda: sch.reorder(loop_of(sch, "j"), loop_of(sch, "i")))


def test_loops_of_one_iteration_leave_nothing_in_what_is_fused():
    """Their values are known, also where it is not known by what the others are divided."""
    func = of(topi.exp, x(1, Var("n", "int64"), 1, Var("m", "int64")))
    sch = Schedule(func)
    fused = sch.fuse(*sch.get_loops("compute"))
    realize = sch.state.index("main").blocks[1].stmt
    assert sch.get(fused).loop_var.name == "i0_i1_i2_i3_fused"
    values = ["0", "i0_i1_i2_i3_fused // m", "0", "i0_i1_i2_i3_fused % m"]
    assert [str(value) for value in realize.iter_values] == values
