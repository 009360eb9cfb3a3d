"""Each pass by itself: its text, what it leaves alone, what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.conftest import Golden
from tests.tir.transform.schedules import PROGRAMS, arguments, check_lowered, check_schedule, result, same, x

from eutectic import te, tir
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.script import tir as T
from eutectic.support.errors import CodegenError
from eutectic.tir import Buffer, BufferStore, Evaluate, For, PrimFunc, Var, transform
from eutectic.tir.interpret import run


@T.prim_func
def blocks(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for io in T.parallel(2):
        with T.block("outer"):
            vio = T.axis.spatial(2, io)
            acc = T.alloc_buffer((4,), "float32")
            for i, ko, ki in T.grid(4, 3, 3):
                with T.block("sum"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(8, ko * 3 + ki)
                    T.where(ko * 3 + ki < 8)
                    s0 = T.int32()
                    s1 = T.int32()
                    sub = T.match_buffer(A[vio * 4 : vio * 4 + 4, 0:8], (4, 8), offset_factor=1, strides=(s0, s1))
                    with T.init():
                        acc[vi] = T.float32(0)
                    acc[vi] = acc[vi] + sub[vi, vk]
            for i, one in T.grid(4, 1):
                with T.block("out"):
                    vi, vone = T.axis.remap("SS", [i, one])
                    C[vio * 4 + vi + vone] = acc[vi]


@T.prim_func
def tiled(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for io, ko in T.grid(2, 2):
        for ki in range(4):
            for ii in T.unroll(3):
                for j in T.vectorized(6):
                    with T.block("C"):
                        vi = T.axis.spatial(6, io * 3 + ii)
                        vj = T.axis.spatial(6, j)
                        vk = T.axis.reduce(8, ko * 4 + ki)
                        with T.init():
                            C[vi, vj] = T.float32(0)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def two_parts(A: T.Buffer((10,), "float32"), C: T.Buffer((1,), "float32")):
    for k in range(5):
        with T.block("a"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(10, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk]
    for k in range(5):
        with T.block("b"):
            vi = T.axis.spatial(1, 0)
            vk = T.axis.reduce(10, k + 5)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk]


@T.prim_func
def fed_inside(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((8,), "float32")):
    for k in range(8):
        with T.block("D"):
            vk = T.axis.spatial(8, k)
            D[vk] = T.float32(2)
        for i in range(4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk] * D[vk]


@T.prim_func
def fused(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for ik in range(32):
        with T.block("C"):
            vi = T.axis.spatial(4, ik // 8)
            vk = T.axis.reduce(8, ik % 8)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def laid_out(a: T.handle, b: T.handle):
    s = T.int32()
    A = T.match_buffer(a, (4, 5), "float32", strides=(s, 1), elem_offset=8)
    B = T.match_buffer(b, (5, 4), "float32")
    for i, j in T.grid(4, 5):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj, vi] = A[vi, vj]


WRITTEN = {
    "blocks": blocks,
    "tiled": tiled,
    "two parts": two_parts,
    "fed inside": fed_inside,
    "fused": fused,
    "laid out": laid_out,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_written_programs(name: str, golden: Golden):
    func = WRITTEN[name]
    step = transform.lower_init_block(func)
    tir.verify_well_formed(step)
    arrays = arguments(func, 1)
    same(result(step, arrays), result(func, arrays), exact=True)
    golden(step.script(), "init")
    step = transform.lower_blocks(step)
    tir.verify_well_formed(step)
    same(result(step, arrays), result(func, arrays), exact=True)
    golden(check_schedule(func, 1).script())


def test_lowered_convolution(golden: Golden):
    golden(check_schedule(PROGRAMS["conv"](), 1).script())


def test_blocks_with_init_are_lowered_without_the_first_pass():
    step = transform.lower_blocks(two_parts)
    arrays = arguments(two_parts, 1)
    same(result(step, arrays), result(two_parts, arrays), exact=True)


@pytest.mark.parametrize(
    "step",
    [
        transform.lower_init_block,
        transform.lower_blocks,
        transform.flatten_buffer,
        transform.legalize_narrow_float,
        transform.vectorize_loop,
        transform.unroll_loop,
        transform.simplify_func,
        transform.remove_no_op,
    ],
)
def test_nothing_to_do_returns_the_same_function(step: Callable[[PrimFunc], PrimFunc]):
    func = transform.lower(PROGRAMS["matmul"]())
    assert step(func) is func


# ---- unrolling


def unrolled(extent: int, inner: int = 1) -> PrimFunc:
    a = Buffer("A", (extent, inner))
    i, j = Var("i"), Var("j")
    store = BufferStore(a, tir.const(1.0, "float32"), (i, j))
    return PrimFunc((a,), For(i, 0, extent, "unrolled", For(j, 0, inner, "unrolled", store)))  # type: ignore[arg-type]


def test_unrolled_loops_are_limited(golden: Golden):
    assert len(transform.lower(unrolled(64, 64)).body.body.seq) == 4096  # type: ignore[attr-defined]
    with pytest.raises(CodegenError) as caught:
        transform.lower(unrolled(65, 64))
    golden(str(caught.value))
    with PassContext(config={"tir.UnrollLoop.max_statements": 10}), pytest.raises(CodegenError, match="10"):
        transform.UnrollLoop()(IRModule({"main": unrolled(11)}))


def test_unrolled_loop_of_unknown_extent_is_serial():
    n = Var("n")
    a, i = Buffer("A", (n,)), Var("i")
    func = PrimFunc((a,), For(i, 0, n, "unrolled", BufferStore(a, 1.0, (i,))))  # type: ignore[arg-type]
    body = transform.lower(func).body
    assert isinstance(body, For)
    assert body.kind == "serial"


@T.prim_func
def copies(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in T.unroll(2):
        t_data = T.allocate([4], "float32")
        t = T.decl_buffer((4,), "float32", data=t_data)
        for j in range(4):
            t[j] = A[i * 4 + j]
        x = T.float32(2) * t[0]
        for j in T.unroll(4):
            C[i * 4 + j] = t[j] + x


def test_copies_bind_variables_of_their_own(golden: Golden):
    golden(check_schedule(copies, 2).script())


# ---- no-ops and simplification


@T.prim_func
def mostly_nothing(A: T.Buffer((8,), "float32")):
    unused_data = T.allocate([4], "float32")
    unused = T.decl_buffer((4,), "float32", data=unused_data)  # noqa: F841  # that is the point
    for i in range(0):
        A[i] = T.float32(1)
    for i in range(8):
        for _ in range(4):
            T.evaluate(0)
        if i < 9:
            A[i * 4 // 4] = T.Select(i >= 0, T.float32(2), T.float32(3))
        else:
            A[i] = T.float32(4)
        if i > 10:
            A[i] = T.float32(5)
    for i in range(1):
        y = A[i]
        T.evaluate(y)


def test_what_does_nothing_goes(golden: Golden):
    golden(check_schedule(mostly_nothing, 3).script())


def test_arithmetic_on_data_is_kept():
    """It wraps around: `a + 1 > a` does not hold for the largest integer."""
    func = transform.lower(
        te.create_prim_func([a := x(4, dtype="int32"), te.compute((4,), lambda i: tir.Cast("int32", a[i] + 1 > a[i]))])
    )
    given = np.array([1, 2**31 - 1, -1, 0], "i4")
    out = np.zeros(4, "i4")
    run(func, given, out)
    assert list(out) == [1, 0, 1, 1]


def test_calls_with_effects_are_kept():
    call = Evaluate(tir.call_extern("int32", "f", 1))
    func = PrimFunc((), tir.seq(call, Evaluate(0), call, Evaluate(1)))  # type: ignore[arg-type]
    made = transform.lower(func)
    check_lowered(made)
    assert [part.value.op.name for part in made.body.seq] == ["tir.call_extern"] * 2  # type: ignore[attr-defined]


def test_large_buffers_are_indexed_in_64_bits():
    a = Buffer("A", (70000, 70000), "int8")
    i, j = Var("i"), Var("j")
    store = BufferStore(a, 1, (i, j))
    func = PrimFunc((a,), For(i, 0, 70000, "serial", For(j, 0, 70000, "serial", store)))  # type: ignore[arg-type]
    assert 'T.Cast("int64", i) * T.int64(70000)' in transform.lower(func).script()
