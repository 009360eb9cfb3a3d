"""transform_block_layout: a block runs through other axes over the same points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.programs import matmul
from tests.tir.schedule.programs import chain, integer_sum, keeps, refused, small_conv
from tests.tir.transform.schedules import of, x

from eutectic import tir, topi
from eutectic.ir.structural import structural_equal
from eutectic.script import tir as T
from eutectic.tir import Block, IndexMap, PrimFunc
from eutectic.tir.schedule import Schedule


def mirrored(size: int) -> IndexMap:
    return IndexMap.from_func(lambda i: size - 1 - i, inverse_index_map=lambda i: size - 1 - i)


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "tiles of a product": (
        lambda: matmul(size=6),
        lambda s: s.transform_block_layout("matmul", lambda i, j, k: (i // 2, j // 3, k // 3, i % 2, k % 3, j % 3)),
    ),
    "a flat chain": (
        chain,
        lambda s: (
            s.transform_block_layout("compute", lambda i, j: i * 6 + j),
            s.transform_block_layout("compute_1", lambda *at: at[::-1]),
        ),
    ),
    "a padded convolution": (
        small_conv,
        lambda s: (
            s.transform_block_layout("pad_temp", lambda n, c, h, w: (n, h, w, c)),
            s.transform_block_layout("conv2d_nchw", lambda n, f, y, x, *r: (n, y, x, f, *r)),
        ),
    ),
    "integers in another order": (
        integer_sum,
        lambda s: s.transform_block_layout(s.get_child_blocks("root")[0], lambda j, i, k: (k, j, i)),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script() + "\n" + "\n".join(sch.trace.as_python()))


def test_handles_follow_the_block():
    sch = Schedule(chain())
    block = sch.get_block("compute")
    i, _ = sch.get_loops(block)
    sch.transform_block_layout(block, lambda i, j: (j // 2, i, j % 2))
    found = sch.get(block)
    assert isinstance(found, Block)
    assert [axis.dom.extent for axis in found.iter_vars] == [3, 4, 2]
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(block)] == ["ax0", "i0", "ax2"]
    assert "loop i0 is gone" in refused(sch, lambda: sch.unroll(i))
    sch.parallel(sch.get_loops(block)[0])
    sch.vectorize(sch.get_loops(block)[2])
    keeps(chain(), sch)


def test_a_map_and_its_inverse_give_the_block_again():
    before = of(lambda t: topi.exp(t), x(4, 6))
    sch = Schedule(before)
    there = IndexMap.from_func(lambda i, j: (j // 2, i, j % 2))
    sch.transform_block_layout("compute", there)
    sch.transform_block_layout("compute", there.inverse([4, 6]))
    assert structural_equal(sch.mod["main"], before)


# ---- what makes it hard


@T.prim_func(private=True)
def nested(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    """A block with memory, a match_buffer, loops and blocks of its own, where other blocks are around it."""
    for t in range(2):
        with T.block("outer"):
            vt = T.axis.spatial(2, t)
            B = T.alloc_buffer((6, 2), "float32")
            for i, j in T.grid(2, 6):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D = T.match_buffer(A[vt * 2 + vi, vj : vj + 1], (1,), offset_factor=1)
                    E = T.alloc_buffer((2,), "float32")
                    for k in range(2):
                        with T.block("E"):
                            vk = T.axis.spatial(2, k)
                            E[vk] = D[0] * T.Cast("float32", vk + vj)
                    B[vj, vi] = E[0] - E[1]
            for i, j in T.grid(2, 6):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.where(i + j != 3)
                    C[vt * 2 + vi, vj] = B[vj, vi]


@pytest.mark.parametrize("f", [lambda i, j: (j, i), lambda i, j: i * 6 + j, lambda i, j: (j // 2, i, j % 2)])
def test_blocks_with_anything_in_them(f: Any):
    sch = Schedule(nested, debug_mask="all")
    sch.transform_block_layout("B", f)
    sch.transform_block_layout("C", f)
    keeps(nested, sch)


@T.prim_func(private=True)
def prefix(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    """Sums along rows, each from the one before."""
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vj > 0, C[vi, vj - 1], T.float32(0)) + A[vi, vj]


def test_dependences_keep_their_direction():
    for f in (lambda i, j: (j, i), lambda i, j: i * 8 + j, lambda i, j: (j // 2, i, j % 2), lambda i, j: (3 - i, j)):
        made = IndexMap.from_func(f)
        if f(1, 1) == (2, 1):
            made = IndexMap.from_func(f, inverse_index_map=f)
        sch = Schedule(prefix, debug_mask="all")
        sch.transform_block_layout("C", made)
        keeps(prefix, sch)
    sch = Schedule(prefix)
    said = refused(sch, lambda: sch.transform_block_layout("C", lambda i, j: (j % 2, i, j // 2)))
    assert "cannot run in this order" in said
    back = IndexMap.from_func(lambda i, j: (i, 7 - j), inverse_index_map=lambda i, j: (i, 7 - j))
    assert "an element of C" in refused(sch, lambda: sch.transform_block_layout("C", back))


@T.prim_func(private=True)
def overwritten(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
    """The last write counts."""
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v // 2] = A[v]


def test_the_last_write_stays_the_last():
    sch = Schedule(overwritten)
    assert "two iterations write" in refused(sch, lambda: sch.transform_block_layout("C", mirrored(8)))
    sch.transform_block_layout("C", lambda i: (i % 4 // 2, i // 4, i % 2))
    keeps(overwritten, sch)


@T.prim_func(private=True)
def sized(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 8), "float32")
    C = T.match_buffer(b, (n,), "float32")
    for i, k in T.grid(n, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


def test_symbolic_sizes():
    for f in (lambda i, k: (k, i), lambda i, k: (k // 4, i, k % 4), lambda i, k: (i, k // 2, k % 2)):
        sch = Schedule(sized, debug_mask="all")
        sch.transform_block_layout("C", f)
        keeps(sized, sch)
    sch = Schedule(sized)
    said = refused(sch, lambda: sch.transform_block_layout("C", lambda i, k: (i // 2, i % 2, k)))
    assert "on [n, 8], the axes of block C, is not proved to be bijective" in said
    assert "cannot run" in refused(sch, lambda: sch.transform_block_layout("C", lambda i, k: (i, k % 2, k // 2)))


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (1, 6)])
def test_small_shapes(shape: tuple[int, int]):
    before = of(lambda t: topi.exp(t), x(*shape))
    for f in (lambda i, j: (j, i), lambda i, j: (0, j, i), lambda i, j: (j, i, 0, 0)):
        sch = Schedule(before)
        sch.transform_block_layout("compute", f)
        keeps(before, sch)


def test_axes_of_one_point_need_no_loop():
    before = of(lambda t: topi.exp(t), x(1, 6))
    sch = Schedule(before)
    block = sch.get_block("compute")
    sch.fuse(*sch.get_loops(block))
    sch.transform_block_layout(block, lambda i, j: (j // 2, i, j % 2))
    assert [sch.get(loop).static_extent for loop in sch.get_loops(block)] == [3, 1, 2]
    keeps(before, sch)


@T.prim_func(private=True)
def scalar(A: T.Buffer((1,), "float32")):
    for _t in range(3):
        with T.block("A"):
            A[0] = A[0] + T.float32(1)


def test_a_block_without_axes():
    sch = Schedule(scalar)
    block = sch.get_block("A")
    sch.transform_block_layout(block, lambda: (0,))
    assert len(sch.get_loops(block)) == 2
    keeps(scalar, sch)


def test_integers_may_be_summed_in_any_order():
    before = of(lambda t: topi.sum(t, 1), x(3, 8, dtype="int32"))
    sch = Schedule(before, debug_mask="all")
    sch.transform_block_layout("x_red", lambda i, k: (k % 2, i, k // 2))
    keeps(before, sch)
    floats = Schedule(of(lambda t: topi.sum(t, 1), x(3, 8)))
    said = refused(floats, lambda: floats.transform_block_layout("x_red", lambda i, k: (k % 2, i, k // 2)))
    assert "sums of floats are not reassociated" in said


# ---- refusals


@T.prim_func(private=True)
def opaque(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[v])
            T.evaluate(T.call_extern("int32", "store", T.address_of(A[v])))


@T.prim_func(private=True)
def scan(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.scan(8, i)
            A[v] = T.float32(1)


@T.prim_func(private=True)
def part(A: T.Buffer((8,), "float32")):
    for i in range(6):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.float32(1)


@T.prim_func(private=True)
def triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)


def with_loop(s: Schedule, step: str, *args: Any) -> Any:
    loop = s.get_loops("compute")[0]
    getattr(s, step)(loop, *args)
    return s.transform_block_layout("compute", lambda i, j: (j, i))


def unit(s: Schedule) -> Any:
    s.add_unit_loop(s.get_block("compute"))
    return s.transform_block_layout("compute", lambda i, j: (j, i))


def merged(s: Schedule) -> Any:
    s.merge(s.get_loops("compute")[0], s.get_loops("compute_1")[0])
    return s.transform_block_layout("compute", lambda i, j: (j, i))


flip = lambda i, j: (j, i)  # noqa: E731
REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "root": (chain, lambda s: s.transform_block_layout("root", lambda: ()), "the root of a function has no axes"),
    "rank": (chain, lambda s: s.transform_block_layout("compute", lambda i: i), "takes 1 indices, and block compute"),
    "padding": (
        chain,
        lambda s: s.transform_block_layout("compute", lambda i, j: (i // 3, i % 3, j)),
        "on [4, 6], the axes of block compute, is not proved to be bijective",
    ),
    "offset": (chain, lambda s: s.transform_block_layout("compute", lambda i, j: (i + 1, j)), "to be bijective"),
    "not injective": (chain, lambda s: s.transform_block_layout("compute", lambda i, j: (i, i)), "to be bijective"),
    "no inverse": (
        chain,
        lambda s: s.transform_block_layout("compute", lambda i, j: (3 - i, j)),
        "give inverse_index_map",
    ),
    "a wrong inverse": (
        chain,
        lambda s: s.transform_block_layout("compute", IndexMap.from_func(flip, inverse_index_map=lambda i, j: (i, j))),
        "is not proved to be the inverse",
    ),
    "mixed types": (
        lambda: matmul(size=6),
        lambda s: s.transform_block_layout("matmul", lambda i, j, k: (i * 6 + k, j)),
        "axis 0 of the map is made of vi (data_par), vk (comm_reduce)",
    ),
    "initial values": (
        lambda: of(lambda t: topi.sum(t, 1), x(3, 8, dtype="int32")),
        lambda s: s.transform_block_layout(
            "x_red", IndexMap.from_func(lambda i, k: (i, 7 - k), inverse_index_map=lambda i, k: (i, 7 - k))
        ),
        "would begin its reduction at another point",
    ),
    "scan": (lambda: scan, lambda s: s.transform_block_layout("A", lambda i: (i // 2, i % 2)), "v (ordered)"),
    "opaque": (lambda: opaque, lambda s: s.transform_block_layout("A", lambda i: (i // 2, i % 2)), "is not known"),
    "a part of an axis": (lambda: part, lambda s: s.transform_block_layout("A", lambda i: (i // 2, i % 2)), "both run"),
    "a triangle": (lambda: triangle, lambda s: s.transform_block_layout("A", flip), "the bounds of loop j depend"),
    "split": (chain, lambda s: with_loop(s, "split", [2, 2]), "no loop of its own"),
    "parallel": (chain, lambda s: with_loop(s, "parallel"), "is parallel, not serial"),
    "annotated": (chain, lambda s: with_loop(s, "annotate", "user.note", 1), "has annotations"),
    "a loop between": (chain, unit, "is not all that is in the loops of its axes"),
    "another block": (chain, merged, "is not all that is in the loops of its axes"),
}
STEPS_BEFORE = ("split", "parallel", "annotated", "a loop between", "another block")


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    sch = Schedule(make())
    if name in STEPS_BEFORE:
        with pytest.raises(tir.ScheduleError) as error:
            step(sch)
        message = str(error.value)
    else:
        message = refused(sch, lambda: step(sch))
    assert said in message
    assert "  --> tir main" in message


def test_a_refusal_in_full(golden):
    sch = Schedule(matmul(size=4))
    golden(refused(sch, lambda: sch.transform_block_layout("matmul", lambda i, j, k: (i, j, k % 2, k // 2))))
