"""Loads and stores: contiguous, strided, gathered, masked; nothing outside of an array is read or written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.backend.llvm.guarded import Guarded, noise

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import LT, Broadcast, IntImm, PrimExpr, Ramp, Var
from eutectic.support.errors import CallError
from eutectic.target import Target
from eutectic.testing.native import native, run_native
from eutectic.tir import Allocate, Buffer, BufferStore, For, PrimFunc
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function_attributes import SCHEDULED
from eutectic.tir.interpret import run
from eutectic.tir.stmt import IfThenElse, LetStmt, Stmt, seq

EXTENTS = (0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 100)
DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int64", "uint16", "bool")


def both(func: PrimFunc, *arrays: np.ndarray, outputs: int = 1) -> None:
    """Run natively and in the interpreter, and compare what is written."""
    mine, theirs = [x.copy() for x in arrays], [x.copy() for x in arrays]
    run_native(func, *mine, schedule=False)
    run(func, *theirs)
    for got, want in zip(mine[-outputs:], theirs[-outputs:], strict=True):
        np.testing.assert_array_equal(got, want)


def loop(extent: int, body: Callable[[Var], Stmt], kind: str = "serial") -> Stmt:
    var = Var("i", "int32")
    return For(var, 0, extent, kind, body(var))


@pytest.mark.parametrize("at_end", [True, False])
def test_nothing_outside_is_touched(at_end: bool):
    """Copies of all extents and dtypes in one kernel, with buffers at the edges of what may be touched."""
    inputs, outputs, guards = [], [], []
    for dtype in DTYPES:
        for extent in EXTENTS:
            x = te.placeholder((extent,), dtype, name=f"x_{dtype}_{extent}")
            inputs.append(x)
            outputs.append(te.compute((extent,), lambda i, x=x: x[i], name=f"y_{dtype}_{extent}"))
            guards.append((Guarded((extent,), dtype, at_end), Guarded((extent,), dtype, at_end)))
            guards[-1][0].fill(noise(extent, (extent,), dtype))
    func = te.create_prim_func([*inputs, *outputs])
    run_native(func, *(a.array for a, _ in guards), *(b.array for _, b in guards))
    for a, b in guards:
        np.testing.assert_array_equal(b.array, a.array)
        a.check()
        b.check()


def shapes_that_tile() -> list[tuple[str, tuple[tuple[int, ...], ...], Callable[..., te.Tensor]]]:
    """Programs whose schedules have tiles and remainders: name, shapes of inputs, definition."""
    cases = []
    for n in (1, 7, 8, 9, 17, 33, 100):
        cases += [
            (f"transpose_{n}", ((n, 17),), topi.transpose),
            (f"every_other_{n}", ((2 * n,),), lambda x, n=n: te.compute((n,), lambda i: x[2 * i], name="e")),
            (f"odd_ones_{n}", ((2 * n,),), lambda x, n=n: te.compute((n,), lambda i: x[2 * i + 1], name="o")),
            (f"backwards_{n}", ((n,),), lambda x: topi.flip(x, 0)),
            (f"third_{n}", ((3 * n, 2),), lambda x, n=n: te.compute((n, 2), lambda i, j: x[3 * i + 2, j], name="t")),
            (f"rows_{n}", ((3, n),), lambda x: topi.sum(x, 1)),
            (f"columns_{n}", ((n, 9),), lambda x: topi.max(x, 0)),
            (f"softmax_{n}", ((2, n),), topi.nn.softmax),
            (f"pad_{n}", ((2, n),), lambda x: topi.nn.pad(x, (1, 2), (0, 3))),
            (f"concat_{n}", ((n, 3), (n, 5)), lambda x, y: topi.concatenate([x, y], 1)),
            (f"product_{n}", ((5, n), (n, 11)), topi.matmul),
            (f"product_t_{n}", ((n, 6), (13, 6)), topi.nn.dense),
        ]
    cases += [
        ("conv", ((1, 3, 9, 11), (5, 3, 3, 3)), lambda x, w: topi.nn.conv2d(x, w, 2, 1, 1)),
        ("depthwise", ((1, 8, 7, 9), (8, 1, 3, 3)), lambda x, w: topi.nn.conv2d(x, w, 1, 1, 1, groups=8)),
        ("pool", ((1, 3, 9, 9),), lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")),
    ]
    return cases


@pytest.mark.parametrize("at_end", [True, False])
def test_schedules_stay_inside(at_end: bool):
    """Ten programs to a kernel; every argument ends at a page that cannot be touched."""
    cases = shapes_that_tile()
    for first in range(0, len(cases), 10):
        inputs, outputs, given = [], [], []
        for name, shapes, define in cases[first : first + 10]:
            xs = [te.placeholder(shape, "float32", name=f"{name}_{k}") for k, shape in enumerate(shapes)]
            inputs, outputs = [*inputs, *xs], [*outputs, define(*xs)]
            given += [Guarded(shape, "float32", at_end) for shape in shapes]
        results = [Guarded([int(n) for n in out.shape], "float32", at_end) for out in outputs]
        for seed, guard in enumerate(given):
            guard.fill(noise(seed, guard.array.shape))
        func = te.create_prim_func([*inputs, *outputs])
        run_native(func, *(g.array for g in given), *(g.array for g in results))
        for guard in (*given, *results):
            guard.check()


# ---- vectors of all kinds, beside the interpreter


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float64"])
def test_strided_vectors(dtype: str):
    x, y = Buffer("x", (64,), dtype), Buffer("y", (20, 64), dtype)
    parts: list[Stmt] = []
    for row, (base, stride, lanes) in enumerate(
        [(0, 1, 8), (3, 1, 13), (0, 2, 8), (5, 2, 3), (63, -1, 8), (40, -3, 5), (1, 7, 4), (9, 0, 4), (30, -2, 4)]
    ):
        take = BufferLoad(x, (Ramp(base, stride, lanes),))
        parts.append(BufferStore(y, take, (row, Ramp(2, 1, lanes))))
        if stride:
            parts.append(BufferStore(y, take, (row + 10, Ramp(base, stride, lanes))))
    both(PrimFunc((x, y), seq(*parts)), noise(0, (64,), dtype), np.zeros((20, 64), x_dtype(dtype)))


def x_dtype(dtype: str) -> np.dtype:
    return noise(0, (1,), dtype).dtype


PLACES = ((56, 1, 8), (3, 1, 5), (0, 3, 8), (63, -1, 8), (0, 2, 8), (9, 2, 5), (1, 2, 16), (33, 2, 4))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "float16"])
def test_predicates(dtype: str):
    """Lanes whose predicate is false read zero and store nothing, also at the edge of memory."""
    x, flags, y = Buffer("x", (64,), dtype), Buffer("flags", (64,), "bool"), Buffer("y", (16, 64), dtype)
    parts: list[Stmt] = []
    for row, (base, stride, lanes) in enumerate(PLACES):
        at = Ramp(base, stride, lanes)
        mask = BufferLoad(flags, (Ramp(base % 50, 1, lanes),))
        parts.append(BufferStore(y, BufferLoad(x, (at,), mask), (row, Ramp(0, 1, lanes))))
        parts.append(BufferStore(y, BufferLoad(x, (at,)), (row + 8, at), mask))
    values, masks = noise(1, (64,), dtype), noise(2, (64,), "bool")
    got, want = np.zeros((2, 16, 64), values.dtype)
    run_native(PrimFunc((x, flags, y), seq(*parts)), values, masks, got, schedule=False)
    for row, (base, stride, lanes) in enumerate(PLACES):
        at = base + stride * np.arange(lanes)
        mask = masks[base % 50 + np.arange(lanes)]
        want[row, :lanes] = np.where(mask, values[at], np.zeros(1, values.dtype))
        want[row + 8, at[mask]] = values[at[mask]]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "bfloat16"])
@pytest.mark.parametrize("lanes", [4, 8, 12])
def test_one_element_for_the_lanes_that_want_it(dtype: str, lanes: int):
    """It is read if any lane wants it; otherwise it may be nowhere."""
    x, flags, y = Buffer("x", (5,), dtype), Buffer("flags", (3, lanes), "bool"), Buffer("y", (3, lanes), dtype)
    masks = [BufferLoad(flags, (row, Ramp(0, 1, lanes))) for row in range(3)]
    places = [Broadcast(IntImm("int64", at), lanes) for at in (4, 2, 1 << 40)]
    takes = [BufferLoad(x, (at,), mask) for at, mask in zip(places, masks, strict=True)]
    stores = [BufferStore(y, take, (row, Ramp(0, 1, lanes))) for row, take in enumerate(takes)]
    values, wanted = noise(1, (5,), dtype), np.zeros((3, lanes), bool)
    wanted[0, ::3], wanted[1, -1] = True, True
    got = np.ones((3, lanes), values.dtype)
    func = PrimFunc((x, flags, y), seq(*stores)).with_attr(SCHEDULED, True)
    NativePrimFunc(func, Target("llvm"), 1, bounds="trusted")(values, wanted, got)
    want = np.where(wanted, values[[4, 2, 0]][:, None], np.zeros(1, values.dtype))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_other_element_up_to_the_end_of_memory(lanes: int):
    """What lanes do not want, and what is between the lanes, is not read behind the last element."""
    data = Guarded((2 * lanes - 3,), "float32")
    values = data.fill(noise(3, (2 * lanes - 3,)))
    x, y, n = Buffer("x", (2 * lanes - 3,)), Buffer("y", (lanes,)), Var("n", "int64")
    mask = LT(Ramp(IntImm("int64", 0), IntImm("int64", 1), lanes), Broadcast(n, lanes))
    take = BufferLoad(x, (Ramp(IntImm("int64", 0), IntImm("int64", 2), lanes),), mask)
    func = PrimFunc((x, y, n), BufferStore(y, take, (Ramp(0, 1, lanes),)))
    for count in range(lanes):
        got, want = np.ones(lanes, "float32"), np.zeros(lanes, "float32")
        want[:count] = values[: 2 * count : 2]
        run_native(func, values, got, count, schedule=False)
        np.testing.assert_array_equal(got, want)


def test_gather_and_scatter():
    x, at, y = Buffer("x", (50,)), Buffer("at", (24,), "int32"), Buffer("y", (3, 50))

    def body(i: Var) -> Stmt:
        places = BufferLoad(at, (Ramp(i * 8, 1, 8),))
        return seq(
            BufferStore(y, BufferLoad(x, (places,)), (0, Ramp(i * 8, 1, 8))),
            BufferStore(y, BufferLoad(x, (Ramp(i * 8, 1, 8),)), (1, places)),
            BufferStore(y, BufferLoad(x, (Broadcast(BufferLoad(at, (i,)), 4),)), (2, Ramp(i * 4, 1, 4))),
        )

    places = np.random.default_rng(0).permutation(50)[:24].astype("int32")
    both(PrimFunc((x, at, y), loop(3, body)), noise(0, (50,)), places, np.zeros((3, 50), "float32"))


def test_bools_of_other_bytes_are_true():
    x, y = Buffer("x", (16,), "bool"), Buffer("y", (16,), "bool")
    given, got = np.array([0, 1, 2, 255] * 4, np.uint8).view(bool), np.zeros(16, bool)
    run_native(PrimFunc((x, y), loop(16, lambda i: BufferStore(y, x[i], (i,)))), given, got)
    np.testing.assert_array_equal(got.view(np.uint8), [0, 1, 1, 1] * 4)


# ---- indices that come from data


def bad_index_programs() -> dict[str, PrimFunc]:
    """Programs that read or write where the elements of `at` say."""
    x, at, y = Buffer("x", (40, 8)), Buffer("at", (16,), "int64"), Buffer("y", (16, 8))
    flat, out = Buffer("x", (40,)), Buffer("y", (40,))
    v, part = Var("place", "int64"), Buffer("part", (16,), "int64")

    def rows(i: Var, kind: str = "serial") -> Stmt:
        return loop(8, lambda j: BufferStore(y, x[at[i], j], (i, j)), kind)

    def through_variable(i: Var) -> Stmt:
        return LetStmt(v, at[i], BufferStore(out, flat[v], (i,)))

    def guarded(i: Var) -> Stmt:
        return IfThenElse(at[i] != 7, BufferStore(out, flat[at[i]], (i,)), None)

    copied = seq(
        loop(16, lambda i: BufferStore(part, at[i], (i,))), loop(16, lambda i: BufferStore(out, flat[part[i]], (i,)))
    )
    lanes = BufferLoad(at, (Ramp(0, 1, 16),))
    own = Buffer("own", (32,), "float32")
    gathered = seq(
        loop(32, lambda i: BufferStore(own, 1.0, (i,))), loop(16, lambda i: BufferStore(out, own[at[i]], (i,)))
    )
    return {
        "scalar": PrimFunc((flat, at, out), loop(16, lambda i: BufferStore(out, flat[at[i]], (i,)))),
        "row": PrimFunc((x, at, y), loop(16, rows)),
        "row_vector": PrimFunc((x, at, y), loop(16, lambda i: rows(i, "vectorized"))),
        "vector": PrimFunc((flat, at, out), BufferStore(out, BufferLoad(flat, (lanes,)), (Ramp(0, 1, 16),))),
        "scatter": PrimFunc((flat, at, out), loop(16, lambda i: BufferStore(out, flat[i], (at[i],)))),
        "scatter_vector": PrimFunc((flat, at, out), BufferStore(out, BufferLoad(flat, (Ramp(0, 1, 16),)), (lanes,))),
        "scatter_row": PrimFunc(
            (y, at, x), loop(16, lambda i: loop(8, lambda j: BufferStore(x, y[i, j], (at[i], j)), "vectorized"))
        ),
        "every_other": PrimFunc(
            (flat, at, out),
            loop(16, lambda i: BufferStore(out, BufferLoad(flat, (Ramp(at[i], 2, 4),)), (Ramp(0, 1, 4),))),
        ),
        "variable": PrimFunc((flat, at, out), loop(16, through_variable)),
        "guarded": PrimFunc((flat, at, out), loop(16, guarded)),
        "copied": PrimFunc((flat, at, out), Allocate(part.data, "int64", (16,), True, copied)),
        "own": PrimFunc((flat, at, out), Allocate(own.data, "float32", (32,), True, gathered)),
        "expression": PrimFunc((flat, at, out), loop(16, lambda i: BufferStore(out, flat[at[i] * 2 - at[15]], (i,)))),
        "as_bits": PrimFunc(
            (flat, at, out), loop(16, lambda i: BufferStore(out, flat[at[i].astype("int32").astype("int64")], (i,)))
        ),
    }


PROGRAMS = bad_index_programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_index_outside_is_reported(name: str):
    func = PROGRAMS[name]
    run_it = native(func, schedule=False)
    shapes = [[int(n) for n in buffer.shape] for buffer in func.buffer_map.values()]
    good = np.arange(16)[::-1].astype("int64")
    far = (
        ()
        if name == "as_bits"
        else (2**40,)
        if name in ("row", "row_vector", "scatter_row", "expression")
        else (-(2**62),)
    )
    for bad in (None, 40, 41, -1, 10**6, -(10**6), 2**31 - 1, -(2**31), *far):
        places = good.copy()
        if bad is not None:
            places[3] = bad
        x, out = Guarded(shapes[0]), Guarded(shapes[2])
        x.fill(noise(0, shapes[0]))
        if bad is None:
            run_it(x.array, places, out.array)
            want = np.zeros(shapes[2], "float32")
            run(func, x.array.copy(), places, want)
            np.testing.assert_array_equal(out.array, want)
        else:
            with pytest.raises(CallError, match="is outside of"):
                run_it(x.array, places, out.array)
        out.check()


@pytest.mark.parametrize("define", [
    lambda x, at: topi.take(x, at, 0, "fast"),
    lambda x, at: topi.exp(topi.take(x, at, 0, "fast")),
    lambda x, at: topi.sum(topi.take(x, at, 0, "fast"), 1),
    lambda x, at: topi.sum(topi.take(x, at, 0, "fast"), 0),
    lambda x, at: topi.matmul(topi.take(x, at, 0, "fast"), topi.transpose(x)),
])  # fmt: skip
def test_scheduled_gathers_are_checked(define: Callable[..., te.Tensor]):
    x, at = te.placeholder((40, 19), "float32", name="x"), te.placeholder((6,), "int32", name="at")
    out = define(x, at)
    run_it = native(te.create_prim_func([x, at, out]))
    table, result = Guarded((40, 19)), np.zeros([int(n) for n in out.shape], "float32")
    table.fill(noise(0, (40, 19)))
    run_it(table.array, np.array([0, 39, 7, 3, 3, 1], "int32"), result)
    for bad in (40, -1, 10**9, -(2**31)):
        with pytest.raises(CallError, match="is outside of"):
            run_it(table.array, np.array([0, 39, bad, 3, 3, 1], "int32"), result)
    run_it(table.array, np.array([0, 39, 7, 3, 3, 1], "int32"), result)  # the failure is forgotten


def test_expressions_of_no_memory():
    """A scalar buffer, a constant one, and an element that is written and read again."""
    out = Buffer("out", (), "int32")
    both(PrimFunc((out,), BufferStore(out, 7, ())), np.zeros((), "int32"))
    x = Buffer("x", (4,), "int32")

    def body(i: Var) -> PrimExpr:
        return seq(BufferStore(x, x[i] + 1, (i,)), BufferStore(x, x[i] * x[i], (i,)))

    both(PrimFunc((x,), loop(4, body)), np.arange(4, dtype="int32"))
    assert tir is not None
