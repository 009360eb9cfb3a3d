"""The reference interpreter on whole programs: statements, blocks, memory, order of iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul, softmax

from eutectic import tir
from eutectic.ir.dtype import to_numpy
from eutectic.ir.prim_expr import Var
from eutectic.script import tir as T
from eutectic.support.errors import CallError, CodegenError, InternalError
from eutectic.tir import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
)
from eutectic.tir.interpret import run


def floats(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- whole programs against NumPy


def test_matmul_adds_in_the_order_of_the_loops():
    a, b, c = floats(16, 16), floats(16, 16, seed=1), np.full((16, 16), np.nan, "float32")
    run(matmul(), a, b, c, check=True)
    expected = np.zeros((16, 16), "float32")
    for k in range(16):
        expected += a[:, k, None] * b[None, k, :]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_matmul_of_integers_wraps(dtype):
    numbers = np.arange(256).reshape(16, 16).astype(dtype)
    c = np.empty_like(numbers)
    run(matmul(dtype=dtype), numbers, numbers.T, c)
    np.testing.assert_array_equal(c, numbers @ numbers.T)


def test_symbolic_sizes_come_from_the_arrays():
    n = Var("n", "int64")
    a, b, c = floats(3, 3), floats(3, 3, seed=1), np.empty((3, 3), "float32")
    run(matmul(size=n), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_softmax():
    x, y = floats(4, 8), np.empty((4, 8), "float32")
    run(softmax(), x, y, check=True)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)
    x[1, 2] = np.nan
    run(softmax(), x, y)
    np.testing.assert_array_equal(np.isnan(y).all(1), [False, True, False, False])


@T.prim_func
def conv(x: T.Buffer((1, 2, 5, 5)), w: T.Buffer((3, 2, 3, 3)), y: T.Buffer((1, 3, 5, 5))):
    padded = T.alloc_buffer((1, 2, 7, 7))
    for c, i, j in T.grid(2, 7, 7):
        with T.block("pad"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            padded[0, vc, vi, vj] = T.if_then_else(
                vi >= 1 and vi < 6 and vj >= 1 and vj < 6, x[0, vc, vi - 1, vj - 1], T.float32(0)
            )
    for o, i, j, c, p, q in T.grid(3, 5, 5, 2, 3, 3):
        with T.block("conv"):
            vo, vi, vj, vc, vp, vq = T.axis.remap("SSSRRR", [o, i, j, c, p, q])
            with T.init():
                y[0, vo, vi, vj] = T.float32(0)
            y[0, vo, vi, vj] = y[0, vo, vi, vj] + padded[0, vc, vi + vp, vj + vq] * w[vo, vc, vp, vq]


def test_convolution():
    x, w = np.round(floats(1, 2, 5, 5) * 4), np.round(floats(3, 2, 3, 3) * 4)  # whole numbers: sums are exact
    y = np.empty((1, 3, 5, 5), "float32")
    run(conv, x, w, y, check=True)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(y, np.einsum("ncijpq,ocpq->noij", windows, w))


# ---- out of bounds


@pytest.mark.parametrize("index", [-1, 4])
def test_accesses_out_of_bounds(index, golden):
    a, b, i = Buffer("A", (4,)), Buffer("B", (4,)), Var("i")
    arrays = np.zeros(4, "float32"), np.zeros(4, "float32")
    message = rf"index \({index},\) is outside of buffer A of shape \(4,\)"
    load = PrimFunc((i, a, b), BufferStore(b, a[i], (0,)))
    with pytest.raises(InternalError, match=message):
        run(load, index, *arrays)
    with pytest.raises(InternalError, match=message) as error:
        run(PrimFunc((i, a, b), For(Var("k"), 0, 2, "serial", BufferStore(a, 1.0, (i,)))), index, *arrays)
    golden(str(error.value))


def test_errors_show_the_line_of_a_script():
    @T.prim_func
    def late(a: T.Buffer((4,), "int32")):
        for i in range(5):
            a[i] = i

    with pytest.raises(InternalError) as error:
        run(late, np.zeros(4, "int32"))
    assert "test_interpret.py" in str(error.value)
    assert "a[i] = i" in str(error.value)


def test_declared_buffers_stay_in_their_memory():
    @T.prim_func
    def beyond(out: T.Buffer((1,), "int32")):
        data = T.allocate([4], "int32", "global")
        a = T.decl_buffer((8,), "int32", data=data)
        a[3] = 1
        out[0] = a[3]
        a[4] = 1

    out = np.zeros(1, "int32")
    with pytest.raises(
        InternalError, match=r"buffer a of shape \(8,\) reaches beyond the memory of data: index \(4,\)"
    ):
        run(beyond, out)
    assert out[0] == 1


# ---- blocks


@T.prim_func
def sums(x: T.Buffer((2, 5), "int32"), y: T.Buffer((2,), "int32")):
    for i, ko, ki in T.grid(2, 3, 2):
        with T.block("sum"):
            vi = T.axis.spatial(2, i)
            vk = T.axis.reduce(5, ko * 2 + ki)
            T.where(ko * 2 + ki < 5)
            with T.init():
                y[vi] = 100
            y[vi] = y[vi] + x[vi, vk]


def test_init_runs_where_all_reductions_begin_and_predicates_guard():
    x, y = np.arange(10, dtype="int32").reshape(2, 5), np.zeros(2, "int32")
    run(sums, x, y)
    np.testing.assert_array_equal(y, 100 + x.sum(1))


def test_two_reductions_and_a_range_that_does_not_begin_at_zero():
    @T.prim_func
    def func(y: T.Buffer((1,), "int32"), count: T.Buffer((1,), "int32")):
        for i, j in T.grid(2, 3):
            with T.block("b"):
                vi = T.axis.reduce((4, 6), i + 4)
                vj = T.axis.reduce(3, j)
                with T.init():
                    y[0] = 0
                    count[0] = count[0] + 1
                y[0] = y[0] + vi * 10 + vj

    y, count = np.zeros(1, "int32"), np.zeros(1, "int32")
    run(func, y, count)
    assert (y[0], count[0]) == (sum(i * 10 + j for i in (4, 5) for j in range(3)), 1)


def test_axes_stay_in_their_range():
    @T.prim_func
    def func(y: T.Buffer((9,), "int32")):
        for i in range(5):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                y[vi] = vi

    with pytest.raises(InternalError, match=r"axis vi of block b is bound to 4, outside of range\(0, 4\)"):
        run(func, np.zeros(9, "int32"))


def test_memory_of_a_block_is_fresh_poison():
    @T.prim_func
    def func(y: T.Buffer((3, 2), "float32"), z: T.Buffer((3, 2), "int16")):
        for i in range(3):
            with T.block("b"):
                vi = T.axis.spatial(3, i)
                f = T.alloc_buffer((1,), "float32")
                n = T.alloc_buffer((1,), "int16")
                y[vi, 0] = f[0]
                z[vi, 0] = n[0]
                f[0] = T.float32(1)
                n[0] = T.int16(1)
                y[vi, 1] = f[0]
                z[vi, 1] = n[0]

    y, z = np.zeros((3, 2), "float32"), np.zeros((3, 2), "int16")
    run(func, y, z)
    np.testing.assert_array_equal(y, [[np.nan, 1]] * 3)
    np.testing.assert_array_equal(z, [[0x6D6D, 1]] * 3)
    with pytest.raises(InternalError, match=r"buffer f is read at \(0,\) before it is written there"):
        run(func, y, z, check=True)


def test_regions_under_another_name():
    @T.prim_func
    def func(x: T.Buffer((4, 6), "int32"), y: T.Buffer((2,), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                s0, s1, start = T.int32(), T.int32(), T.int32()
                tile = T.match_buffer(
                    x[vi * 2 : vi * 2 + 2, vj * 3 : vj * 3 + 3], (2, 3), "int32", strides=(s0, s1), elem_offset=start
                )
                row = T.match_buffer(x[vi * 2, vj * 3 : vj * 3 + 3], (3,), "int32")
                tile[1, 2] = tile[1, 2] + row[0] + s0 * 1000
                y[vj] = start

    x, y = np.arange(24, dtype="int32").reshape(4, 6), np.zeros(2, "int32")
    expected = x.copy()
    for i in (0, 2):
        for j in (0, 3):
            expected[i + 1, j + 2] += expected[i, j] + 6000
    run(func, x, y)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, [12, 15])


def test_regions_outside_of_their_buffer():
    @T.prim_func
    def func(x: T.Buffer((4,), "int32")):
        with T.block("b"):
            tile = T.match_buffer(x[2:5], (3,), "int32")
            tile[0] = 1

    with pytest.raises(InternalError, match=r"region \[2:5\] is outside of buffer x of shape \(4,\)"):
        run(func, np.zeros(4, "int32"))


# ---- other statements


def test_control():
    @T.prim_func
    def func(n: T.int32, y: T.Buffer((3,), "int32")):
        y[0] = n
        y[1] = 0
        while y[0] != 1:
            if y[0] % 2 == 0:
                y[0] = y[0] // 2
            else:
                y[0] = y[0] * 3 + 1
            y[1] = y[1] + 1
        with T.LetStmt(y[1] * 2) as twice:
            y[1] = 0
            y[2] = twice

    y = np.zeros(3, "int32")
    run(func, 6, y)
    np.testing.assert_array_equal(y, [1, 0, 16])


def test_assertions():
    @T.prim_func
    def func(n: T.int32):
        assert n > 0, "n must be positive"
        T.evaluate(0)

    run(func, 1)
    with pytest.raises(CallError, match="assertion failed: n must be positive"):
        run(func, 0)


def test_threads_run_one_after_another():
    @T.prim_func
    def func(y: T.Buffer((6,), "int32")):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(3, thread="threadIdx.x"):
                y[b * 3 + t] = b * 10 + t

    @T.prim_func
    def launched(y: T.Buffer((6,), "int32")):
        b = T.launch_thread("blockIdx.x", 2)
        t = T.launch_thread("threadIdx.x", 3)
        y[b * 3 + t] = b * 10 + t

    for f in (func, launched):
        y = np.zeros(6, "int32")
        run(f, y)
        np.testing.assert_array_equal(y, [0, 1, 2, 10, 11, 12])


def test_a_barrier_among_threads_is_refused():
    @T.prim_func
    def func(y: T.Buffer((2,), "int32")):
        t = T.launch_thread("threadIdx.x", 2)
        y[t] = t
        T.evaluate(T.tvm_storage_sync("shared"))

    with pytest.raises(CodegenError, match="a barrier cannot be interpreted among several threads"):
        run(func, np.zeros(2, "int32"))


def test_vector_accesses():
    a, b = Buffer("a", (8,), "int32"), Buffer("b", (8,), "int32")
    at, mask = tir.Ramp(1, 2, 4), tir.Ramp(0, 1, 4) < tir.Broadcast(2, 4)
    copy = PrimFunc((a, b), BufferStore(b, a.vload((4,), "int32x4") + 1, (at,)))
    x, y = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(copy, x, y)
    np.testing.assert_array_equal(y, [0, 5, 0, 6, 0, 7, 0, 8])
    masked = PrimFunc((a, b), BufferStore(b, a.vload((6,), "int32x4", mask), (tir.Ramp(6, 1, 4),), mask))
    run(masked, x, y)
    np.testing.assert_array_equal(y, [0, 5, 0, 6, 0, 7, 6, 7])
    with pytest.raises(InternalError, match=r"index \(8,\) is outside of buffer a"):
        run(PrimFunc((a, b), BufferStore(b, a.vload((6,), "int32x4"), (at,))), x, y)


def test_memory_read_as_another_dtype():
    @T.prim_func
    def func(out: T.Buffer((4,), "uint8")):
        data = T.allocate([1], "int32", "global")
        whole = T.decl_buffer((1,), "int32", data=data)
        part = T.decl_buffer((4,), "uint8", data=data)
        whole[0] = 0x01020304
        for i in range(4):
            out[i] = part[i]

    out = np.zeros(4, "uint8")
    run(func, out, check=True)
    np.testing.assert_array_equal(out, [4, 3, 2, 1])


def test_memory_with_gaps():
    @T.prim_func
    def func(out: T.Buffer((2, 3), "int32")):
        a = T.alloc_buffer((2, 3), "int32", strides=(8, 2), elem_offset=4)
        for i, j in T.grid(2, 3):
            a[i, j] = i * 10 + j
        for i, j in T.grid(2, 3):
            out[i, j] = a[i, j]

    out = np.zeros((2, 3), "int32")
    run(func, out, check=True)
    np.testing.assert_array_equal(out, [[0, 1, 2], [10, 11, 12]])


def test_memory_that_is_not_needed_has_no_elements():
    @T.prim_func
    def func(out: T.Buffer((1,), "int32"), needed: T.bool):
        data = T.allocate([1], "int32", "global", condition=needed)
        a = T.decl_buffer((1,), "int32", data=data)
        a[0] = 3
        out[0] = a[0]

    out = np.zeros(1, "int32")
    run(func, out, True)
    assert out[0] == 3
    with pytest.raises(InternalError, match="reaches beyond the memory of data"):
        run(func, out, False)


def test_threads_launched_again_are_the_same():
    @T.prim_func
    def func(y: T.Buffer((3,), "int32")):
        t = T.launch_thread("threadIdx.x", 3)
        with T.launch_thread("threadIdx.x", 3) as again:
            y[t] = y[t] + again + 1

    y = np.zeros(3, "int32")
    run(func, y)
    np.testing.assert_array_equal(y, [1, 2, 3])


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint64"])
def test_buffers_of_every_dtype(dtype):
    a, b, i = Buffer("a", (3, 2), dtype), Buffer("b", (3,), dtype), Var("i")
    func = PrimFunc((a, b), For(i, 0, 3, "serial", BufferStore(b, tir.max(a[i, 0], a[i, 1]), (i,))))
    x = np.array([[0, 1], [3, 2], [0, 0]]).astype(to_numpy(dtype))
    y = np.zeros(3, to_numpy(dtype))
    run(func, x, y)
    np.testing.assert_array_equal(y.astype("float32"), x.astype("float32").max(1))
    z = np.zeros((3, 2), to_numpy(dtype))[:, 1]
    run(func, x[::-1, ::-1], z)
    np.testing.assert_array_equal(z.astype("float32"), x.astype("float32").max(1)[::-1])


def test_buffers_of_vectors():
    a = Buffer("a", (2,), "float32x4")
    with pytest.raises(CallError, match=r"a is a buffer of vectors \(float32x4\), which no array holds"):
        run(PrimFunc((a,), Evaluate(0)), np.zeros(2, "float32"))

    @T.prim_func
    def func(out: T.Buffer((8,), "int32")):
        data = T.allocate([8], "int32", "global")
        one = T.decl_buffer((8,), "int32", data=data)
        four = T.decl_buffer((2,), "int32x4", data=data)
        four[1] = T.Ramp(5, 1, 4)
        four[0] = four[1] * T.Broadcast(2, 4)
        for i in range(8):
            out[i] = one[i]

    out = np.zeros(8, "int32")
    run(func, out, check=True)
    np.testing.assert_array_equal(out, [10, 12, 14, 16, 5, 6, 7, 8])


def test_deep_nests():
    y = Buffer("y", (1,), "int32")
    for depth in (200, 3000):
        stmt: Any = BufferStore(y, y[0] + 1, (0,))
        for k in range(depth):
            wrap = (lambda s, k=k: For(Var(f"i{k}"), 0, 1, "serial", s), lambda s, k=k: LetStmt(Var(f"v{k}"), 1, s))
            stmt = wrap[k % 2](stmt)
        out = np.zeros(1, "int32")
        run(PrimFunc((y,), stmt), out)
        assert out[0] == 1
    value: Any = y[0]
    for _ in range(3000):
        value = tir.Add(1, value)
    run(PrimFunc((y,), BufferStore(y, value, (0,))), out)
    assert out[0] == 3001


def test_names_end_with_their_statement():
    y, v, i = Buffer("y", (1,), "int32"), Var("v"), Var("i")
    read = BufferStore(y, v, (0,))
    out = np.zeros(1, "int32")
    for wrong in (
        SeqStmt((LetStmt(v, 1, read), read)),
        SeqStmt((For(v, 0, 1, "serial", read), read)),
        SeqStmt((For(i, 0, 1, "thread_binding", read, "threadIdx.x"), read)),
    ):
        with pytest.raises(InternalError, match="variable v has no value here"):
            run(PrimFunc((y,), wrong), out)
    with pytest.raises(InternalError, match="buffer z has no memory here: its data is not bound"):
        run(PrimFunc((), BufferStore(Buffer("z", (1,)), 1.0, (0,))))
    size = Var("size")
    data = Var("data", "handle")
    with pytest.raises(InternalError, match="memory of -1 elements is asked for data"):
        run(PrimFunc((size,), Allocate(data, "int8", (size,), True, Evaluate(0))), -1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (2, 2)}, r"the shape of buffer tile is 2 in its declaration, and 3 in the region"),
        ({"shape": (3,)}, r"buffer tile drops axes of extents \[2\] of x"),
        ({"strides": (4, 1)}, r"the strides of buffer tile is 4 in its declaration, and 6 in the region"),
        ({"elem_offset": 4}, r"buffer tile begins at element 8, not at 4"),
        ({"elem_offset": Var("start"), "offset_factor": 16}, r"begins at element 8, not at a multiple of 16"),
    ],
)
def test_regions_that_do_not_fit_their_name(changes, message):
    x = Buffer("x", (4, 6), "int32")
    tile = Buffer("tile", **{"shape": (2, 3), "dtype": "int32", **changes})
    store = BufferStore(tile, 1, (0,) * tile.ndim)
    block = Block((), (), (), "b", store, match_buffers=(MatchBufferRegion(tile, x[1:3, 2:5]),))
    with pytest.raises(InternalError, match=message):
        run(PrimFunc((x,), BlockRealize((), True, block)), np.zeros((4, 6), "int32"))
