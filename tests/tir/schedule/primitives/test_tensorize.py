"""tensorize: implementations in the place of what they are described to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, nest
from tests.tir.schedule.intrinsics import column_wise, described, product, registered
from tests.tir.schedule.programs import chain, keeps, refused
from tests.tir.transform.schedules import of, x

from eutectic import tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.testing.native import native
from eutectic.tir import Buffer, BufferStore, PrimFunc, TensorIntrin
from eutectic.tir.schedule import LoopRV, Schedule
from eutectic.tir.schedule.tensor_intrin import _REGISTERED


@pytest.fixture(autouse=True)
def _names() -> Iterator[None]:
    """What a test registers is forgotten."""
    before = dict(_REGISTERED)
    yield
    _REGISTERED.clear()
    _REGISTERED.update(before)


def inner(sch: Schedule, name: str, *factors: int) -> LoopRV:
    """Tiles of all loops of a block; the first of the inner loops."""
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(sch.get_loops(name), factors, strict=True)]
    sch.reorder(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    return pairs[0][1]


# ---- what is done


def whole(sch: Schedule) -> None:
    registered("test.matmul_2x2x4")
    sch.tensorize(inner(sch, "matmul", 2, 2, 4), "test.matmul_2x2x4")


def update(sch: Schedule) -> None:
    registered("test.update_2x2x2")
    sch.tensorize(sch.blockize(inner(sch, "matmul", 2, 2, 2)), "test.update_2x2x2")


def decomposed(sch: Schedule) -> None:
    registered("test.update_2x2x1")
    registered("test.zeros")
    first = inner(sch, "matmul", 2, 2, 1)
    init = sch.decompose_reduction("matmul", sch.get_loops("matmul")[2])
    sch.tensorize(sch.get_loops(init)[-2], "test.zeros")
    sch.tensorize(first, "test.update_2x2x1", preserve_unit_iters=False)


def fused(sch: Schedule) -> None:
    registered("test.exp")
    sch.tensorize(inner(sch, "compute", 2, 3), "test.exp")
    sch.parallel(sch.get_loops("compute_o")[0])


STEPS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]] = {
    "a whole sum": (lambda: matmul(size=4), whole),
    "the terms of a sum": (lambda: matmul(size=4), update),
    "initial values and terms apart": (lambda: matmul(size=4), decomposed),
    "element-wise": (chain, fused),
    "integers": (
        lambda: matmul(size=4, dtype="int32"),
        lambda s: (
            registered("test.update_2x2x2_i32"),
            s.tensorize(inner(s, "matmul", 2, 2, 2), "test.update_2x2x2_i32"),
        ),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(golden, name: str):
    make, step = STEPS[name]
    before = make()
    sch = Schedule(before, debug_mask="all")
    step(sch)
    keeps(before, sch)
    golden(sch.func.script())


# ---- those that are there, natively


def test_outer_products_natively():
    before = matmul(size=64)
    sch = Schedule(before)
    i, j, k = sch.get_loops("matmul")
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    init = sch.decompose_reduction("matmul", k)
    sch.tensorize(sch.get_loops(init)[-2], "fill_4x16_f32")
    sch.tensorize(i1, "matmul_4x16x1_f32")
    sch.parallel(i0)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64), np.float32) for _ in range(2))
    got = np.empty_like(a)
    native(sch.func, schedule=False)(a, b, got)
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)
    want = np.empty_like(a)
    native(before, schedule=False)(a, b, want)
    np.testing.assert_array_equal(got, want)


@T.prim_func(private=True)
def products_of_bytes(A: T.Buffer((8, 16), "int8"), B: T.Buffer((12, 16), "int8"), C: T.Buffer((8, 12), "int32")):
    for i, j, k in T.grid(8, 12, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", B[vj, vk]) * T.Cast("int32", A[vi, vk])


def test_dot_products_of_bytes_natively():
    """Also with the operands of the product exchanged, which integers do not mind."""
    sch = Schedule(products_of_bytes)
    i, j, k = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, [None, 4]), sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_4x4_i8i8s32")
    sch.parallel(i)
    keeps(products_of_bytes, sch)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((8, 16), (12, 16)))
    got = np.empty((8, 12), np.int32)
    native(sch.func, schedule=False)(a, b, got)
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32).T)


# ---- where regions lie


@T.prim_func(private=True)
def batches(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(4), T.int64(4)))
    B = T.match_buffer(b, (n, T.int64(4), T.int64(4)))
    C = T.match_buffer(c, (n, T.int64(4), T.int64(4)))
    for s, i, j, k in T.grid(n, T.int64(4), T.int64(4), T.int64(4)):
        with T.block("C"):
            vs, vi, vj, vk = T.axis.remap("SSSR", [s, i, j, k])
            with T.init():
                C[vs, vi, vj] = T.float32(0)
            C[vs, vi, vj] = C[vs, vi, vj] + A[vs, vi, vk] * B[vs, vk, vj]


@pytest.mark.parametrize("at", [0, 1])
def test_batches_of_unknown_number(at: int):
    """Leading axes of single elements, sizes that are variables, and indices of 64 bits."""
    sch = Schedule(batches, debug_mask="all")
    s, i, j, k = sch.get_loops("C")
    if at:
        (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [2, 2]) for loop in (i, j, k))
        sch.reorder(i0, j0, k0, i1, j1, k1)
        registered("test.update_2x2x2")
        sch.tensorize(i1, "test.update_2x2x2")
    else:
        made = product(4, 4, 4, init=True)
        TensorIntrin.register("test.matmul_4x4x4", made.desc(), made.impl())
        sch.tensorize(i, "test.matmul_4x4x4")
    sch.parallel(s)
    keeps(batches, sch)


def test_parts_of_a_loop():
    """Loops that do not begin at zero."""
    registered("test.exp")
    before = chain()
    sch = Schedule(before, debug_mask="all")
    _, part, _ = sch.loop_partition(sch.get_loops("compute")[0], [1, 2, 1])
    j0, j1 = sch.split(sch.get_loops("compute_partition_1")[1], [None, 3])
    sch.reorder(j0, part, j1)
    sch.tensorize(part, "test.exp")
    keeps(before, sch)


def with_layout(step: int | None = None, **options: Any) -> PrimFunc:
    """The product of 2 by 2 elements with buffers whose strides and offsets are variables."""
    buffers = [
        Buffer(
            name,
            (2, 2),
            strides=(Var(f"s{name}", "int32") if step is None else step, 1),
            elem_offset=Var(f"o{name}", "int32"),
            **options,
        )
        for name in "ABC"
    ]
    a, b, c = buffers
    body = nest("kij", (2, 2, 2), lambda k, i, j: BufferStore(c, c[i, j] + a[i, k] * b[k, j], (i, j)))
    return PrimFunc(tuple(buffers), body)


LAYOUTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "any strides": ({}, None),
    "the right stride": ({"step": 4}, None),
    "another stride": ({"step": 2}, "has stride 4 on axis 0, and A is of stride 2"),
    "even offsets": ({"offset_factor": 2}, None),
    "offsets in fours": ({"offset_factor": 4}, "is not proved to begin at a multiple of 4 elements, as A does"),
    "alignment": ({"data_alignment": 16}, None),
    "more alignment": ({"data_alignment": 128}, "is of memory aligned to 64 bytes, and A to 128"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str):
    options, said = LAYOUTS[name]
    TensorIntrin.register("test.layout", described(2, 2, 2), with_layout(**options))
    before = matmul(size=4)
    sch = Schedule(before, debug_mask="all")
    at = sch.blockize(inner(sch, "matmul", 2, 2, 2))
    if said is None:
        sch.tensorize(at, "test.layout")
        keeps(before, sch)
        got, want = (np.empty((4, 4), np.float32) for _ in range(2))
        a, b = (np.arange(16, dtype=np.float32).reshape(4, 4) + n for n in range(2))
        native(sch.func, schedule=False)(a, b, got)
        native(before, schedule=False)(a, b, want)
        np.testing.assert_array_equal(got, want)
    else:
        assert said in refused(sch, lambda: sch.tensorize(at, "test.layout"))


def test_a_stride_of_two_buffers_is_one_number():
    step = Var("s", "int32")
    buffers = [Buffer(name, (2, 2), strides=(step, 1)) for name in "ABC"]
    a, b, c = buffers
    body = nest("kij", (2, 2, 2), lambda k, i, j: BufferStore(c, c[i, j] + a[i, k] * b[k, j], (i, j)))
    TensorIntrin.register("test.one_stride", described(2, 2, 2), PrimFunc(tuple(buffers), body))
    sch = Schedule(matmul(size=4), debug_mask="all")
    sch.tensorize(inner(sch, "matmul", 2, 2, 2), "test.one_stride")
    other = Schedule(of(topi.matmul, x(4, 6), x(6, 4, name="w")))
    loop = inner(other, "T_matmul", 2, 2, 2)
    assert "has stride 4 on axis 0, and B is of stride s" in refused(
        other, lambda: other.tensorize(loop, "test.one_stride")
    )


def external(declared: bool) -> PrimFunc:
    """An implementation that is a call of a function with pointers."""
    strides = {"strides": (Var("s", "int32"), 1)} if declared else {}
    buffers = [Buffer(name, (2, 2), elem_offset=Var(f"o{name}", "int32"), **strides) for name in "ABC"]
    root = tir.Block(
        (),
        tuple(b.full_region() for b in buffers),
        (buffers[2].full_region(),),
        "root",
        tir.Evaluate(tir.call_extern("int32", "product", *(b.data for b in buffers))),
    )
    return PrimFunc(tuple(buffers), tir.BlockRealize((), True, root))


def test_what_cannot_be_run_is_trusted_when_asked_for():
    with pytest.raises(ScheduleError, match=r"cannot be run by the interpreter.*\n.*check=False"):
        TensorIntrin.register("test.external", described(2, 2, 2), external(True))
    assert TensorIntrin.get("test.external", allow_missing=True) is None
    made = TensorIntrin.register("test.external", described(2, 2, 2), external(True), check=False)
    assert not made.is_checked
    sch = Schedule(matmul(size=4), debug_mask="all")
    at = sch.blockize(inner(sch, "matmul", 2, 2, 2))
    sch.tensorize(at, "test.external")
    tir.verify_well_formed(sch.func)
    assert "product" in sch.func.script()


def test_rows_with_gaps_have_no_pointer():
    TensorIntrin.register("test.external", described(2, 2, 2), external(False), check=False)
    sch = Schedule(matmul(size=4))
    at = sch.blockize(inner(sch, "matmul", 2, 2, 2))
    said = refused(sch, lambda: sch.tensorize(at, "test.external"))
    assert "the region of A in block matmul_o has gaps between its rows, and A is used through a pointer" in said


# ---- refusals


@T.prim_func(private=True)
def transposed(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


@T.prim_func(private=True)
def exchanged(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(-0.0)
            C[vi, vj] = A[vi, vk] * B[vk, vj] + C[vi, vj]


@T.prim_func(private=True)
def in_place(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * C[vk, vj]


@T.prim_func(private=True)
def renamed(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    with T.block("root"):
        D = T.match_buffer(C[0:4, 0:4], (4, 4))
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                D[vi, vj] = D[vi, vj] + A[vi, vk] * C[vk, vj]


@T.prim_func(private=True)
def every_other(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk * 2] * B[vk, vj]


@T.prim_func(private=True)
def gathered(
    A: T.Buffer((4, 4), "float32"),
    B: T.Buffer((4, 4), "float32"),
    at: T.Buffer((4,), "int32"),
    C: T.Buffer((4, 4), "float32"),
):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[at[vi], vk] * B[vk, vj]


@T.prim_func(private=True)
def triangle(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.where(k <= i)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tensorized(sch: Schedule, intrinsic: str = "test.update_2x2x2", block: str = "C", *factors: int) -> None:
    registered(intrinsic)
    sch.tensorize(inner(sch, block, *(factors or (2, 2, 2))), intrinsic)


def on_all(sch: Schedule) -> None:
    TensorIntrin.register("test.all", described(4, 4, 4), column_wise(4, 4, 4))
    sch.tensorize(sch.get_loops("C")[0], "test.all")


def in_lanes(sch: Schedule) -> None:
    registered("test.update_2x2x2")
    first = inner(sch, "matmul", 2, 2, 2)
    sch.vectorize(sch.get_loops("matmul")[0])
    sch.tensorize(first, "test.update_2x2x2")


def unrolled(sch: Schedule) -> None:
    registered("test.update_2x2x2")
    first = inner(sch, "matmul", 2, 2, 2)
    sch.unroll(sch.get_loops("matmul")[4])
    sch.tensorize(first, "test.update_2x2x2")


def in_shared(sch: Schedule) -> None:
    sch.cache_read("matmul", 0, "shared")
    tensorized(sch, "test.update_2x2x2", "matmul")


REFUSALS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], Any], str]] = {
    "unknown": (
        chain,
        lambda s: s.tensorize(s.get_loops("compute")[1], "dot_4x4_i8i8s3"),
        "no tensor intrinsic is called dot_4x4_i8i8s3",
    ),
    "sizes": (
        lambda: matmul(size=6),
        lambda s: tensorized(s, "test.update_2x2x2", "matmul", 2, 3, 2),
        "has 3 iterations",
    ),
    "whole": (lambda: matmul(size=4), lambda s: tensorized(s, "test.matmul_2x2x4", "matmul", 2, 2, 2), "2 iterations"),
    "goes on": (
        lambda: matmul(size=8),
        lambda s: tensorized(s, "test.matmul_2x2x4", "matmul", 2, 2, 4),
        "test.matmul_2x2x4 stores initial values, and the reduction of block matmul_o goes on over axis vk_o",
    ),
    "no initial values": (
        lambda: matmul(size=4),
        lambda s: (
            s.decompose_reduction("matmul", s.get_loops("matmul")[0]),
            tensorized(s, "test.matmul_2x2x4", "matmul_update", 2, 2, 4),
        ),
        "test.matmul_2x2x4 stores initial values, and block matmul_update_o does not",
    ),
    "dtype": (
        lambda: matmul(size=4, dtype="int32"),
        lambda s: tensorized(s, "test.update_2x2x2", "matmul"),
        "C is int32 where C is float32",
    ),
    "transposed": (lambda: transposed, lambda s: tensorized(s), "does not run like B[vk_i, vj_i], from one place on"),
    "exchanged": (lambda: exchanged, lambda s: tensorized(s), "is computed where"),
    "negative zero": (
        lambda: exchanged,
        lambda s: (
            s.decompose_reduction("C", s.get_loops("C")[0]),
            registered("test.zeros"),
            s.tensorize(inner(s, "C_init", 2, 2), "test.zeros"),
        ),
        "T.float32(-0.0) is computed where T.float32(0.0) is described",
    ),
    "in place": (lambda: in_place, on_all, "C would be both"),
    "another name": (lambda: renamed, on_all, "would be both"),
    "every other": (lambda: every_other, lambda s: tensorized(s), "does not run like"),
    "gathered": (lambda: gathered, lambda s: tensorized(s), "does not run like"),
    "condition": (lambda: triangle, on_all, "block C runs under a condition"),
    "another computation": (chain, lambda s: tensorized(s, "test.exp", "T_negative", 2, 3), "is computed where"),
    "lanes": (lambda: matmul(size=4), in_lanes, "iterations of loop i_0 are lanes of vectors"),
    "unrolled": (lambda: matmul(size=4), unrolled, "loop j_1 is not serial, or has annotations"),
    "scope": (lambda: matmul(size=4), in_shared, "the region of A_shared in block matmul_o is in shared memory"),
    "a block of one store": (
        lambda: matmul(size=4),
        lambda s: (registered("test.update_2x2x1"), s.tensorize("matmul", "test.update_2x2x1")),
        "there is a store where a loop is described",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    make, step, said = REFUSALS[name]
    before = make()
    sch = Schedule(before)
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert said in str(error.value)
    assert name == "unknown" or "  --> tir main" in str(error.value)
    if sch.func is not before:
        keeps(before, sch)


def test_a_blockized_reduction_is_decomposed_and_tensorized():
    registered("test.update_2x2x2")
    registered("test.zeros")
    before = matmul(size=4)
    sch = Schedule(before, debug_mask="all")
    outer = sch.blockize(inner(sch, "matmul", 2, 2, 2))
    init = sch.decompose_reduction(outer, sch.get_loops(outer)[2])
    assert sch.get(init).name_hint == "matmul_o_init"
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(init)] == ["matmul_init"]
    sch.tensorize(init, "test.zeros")
    sch.tensorize(outer, "test.update_2x2x2")
    keeps(before, sch)


def test_memory_with_other_names_keeps_its_kind():
    sch = Schedule(matmul(size=4))
    sch.cache_write("matmul", 0, "global")
    registered("test.update_2x2x2")
    block = sch.get_block("matmul")
    first = sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.tensorize(inner(sch, "matmul_update", 2, 2, 2), "test.update_2x2x2")
    assert "is used under another name" in refused(sch, lambda: sch.set_scope(first, 0, "local"))
