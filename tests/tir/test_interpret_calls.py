"""The reference interpreter around programs: order of iterations, observed accesses, calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic import tir
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.prim_expr import Call, Var
from eutectic.script import tir as T
from eutectic.support.errors import CallError, CodegenError, InternalError
from eutectic.support.registry import register_global_func
from eutectic.tir import Buffer, BufferStore, Evaluate, For, PrimFunc, SeqStmt
from eutectic.tir.interpret import run, run_module

# ---- order of iterations


@T.prim_func
def harmless(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        for j in T.vectorized(2):
            y[i] = x[i] * 2 + (y[i] - y[i]) + j - j


@T.prim_func
def racy(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in T.parallel(7):
        y[i + 1] = y[i] + x[i]


def _outcome(func: PrimFunc, order: str, seed: int) -> list[int]:
    y = np.zeros(8, "int32")
    run(func, np.arange(1, 9, dtype="int32"), y, order=order, seed=seed)
    return list(map(int, y))


@given(st.integers(0, 1000))
def test_order_matters_only_where_there_is_a_race(seed):
    expected = _outcome(harmless, "forward", 0)
    assert _outcome(harmless, "reverse", seed) == _outcome(harmless, "shuffle", seed) == expected
    assert _outcome(racy, "shuffle", seed) == _outcome(racy, "shuffle", seed)


def test_a_race_is_seen():
    expected = _outcome(racy, "forward", 0)
    assert expected == [0, 1, 3, 6, 10, 15, 21, 28]
    assert _outcome(racy, "reverse", 0) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert _outcome(racy, "shuffle", 0) != expected
    with pytest.raises(ValueError, match="order 'random' is unknown; known: forward, reverse, shuffle"):
        _outcome(racy, "random", 0)


def test_serial_loops_keep_their_order():
    y, i = Buffer("y", (8,), "int32"), Var("i")
    serial = PrimFunc((y, y2 := Buffer("x", (8,), "int32")), For(i, 0, 7, "serial", BufferStore(y, y[i] + 1, (i + 1,))))
    assert y2.name == "x"
    out = np.zeros(8, "int32")
    run(serial, out, out.copy(), order="reverse")
    np.testing.assert_array_equal(out, range(8))


def test_accesses_can_be_watched():
    a, b, i = Buffer("a", (2,)), Buffer("b", (2,)), Var("i")
    func = PrimFunc((a, b), For(i, 0, 2, "serial", BufferStore(b, a[i], (1 - i,))))
    seen: list[tuple[str, tuple[int, ...], bool]] = []
    arrays = np.zeros(2, "float32"), np.zeros(2, "float32")
    run(func, *arrays, access_trace=lambda buffer, at, is_write: seen.append((buffer.name, at, is_write)))
    assert seen == [("a", (0,), False), ("b", (1,), True), ("a", (1,), False), ("b", (0,), True)]


# ---- calls


def _module() -> IRModule:
    x, out = Buffer("x", (2, 2)), Buffer("out", (2, 2))
    inner = Buffer("row", (2,))
    data, k = Var("data", "handle"), Var("k")
    row = PrimFunc((data, k), BufferStore(inner, inner[0] + 1, (1,)), buffer_map={data: inner})
    square = PrimFunc((k,), Evaluate(tir.ret(k * k)))
    calls = [
        Evaluate(Call("int32", GlobalVar("row"), (tir.address_of(x[1, 0]), 0))),
        BufferStore(out, Call("int32", GlobalVar("square"), (7,)).astype("float32"), (0, 0)),
    ]
    return IRModule({"main": PrimFunc((x, out), SeqStmt(tuple(calls))), "row": row, "square": square})


def test_functions_of_a_module_call_each_other():
    x, out = np.arange(4, dtype="float32").reshape(2, 2), np.zeros((2, 2), "float32")
    run_module(_module(), "main", x, out)
    np.testing.assert_array_equal(x, [[0, 1], [2, 3]])
    assert out[0, 0] == 49
    with pytest.raises(CodegenError, match="function row is called, but there is no module"):
        run(_module()["main"], x, out)
    with pytest.raises(ValueError, match="no function 'man'"):
        run_module(_module(), "man")


def test_external_functions_come_from_the_registry():
    seen: list[Any] = []

    def fill(array: Any, number: Any) -> int:
        array[:2] = number
        seen.append(array.shape)
        return 300

    register_global_func("test.interpret.fill", fill, override=True)
    x, out = Buffer("x", (2, 2)), Buffer("out", (1,), "int8")
    call = tir.call_extern("int8", "test.interpret.fill", tir.address_of(x[0, 1]), 5)
    given, found = np.zeros((2, 2), "float32"), np.zeros(1, "int8")
    run(PrimFunc((x, out), BufferStore(out, call, (0,))), given, found)
    np.testing.assert_array_equal(given, [[0, 5], [5, 0]])
    assert (found[0], seen) == (44, [(3,)])
    packed = PrimFunc((x,), Evaluate(tir.call_packed("test.interpret.fill", x.data, 2)))
    run(packed, given)
    np.testing.assert_array_equal(given, [[2, 2], [5, 0]])
    missing = PrimFunc((), Evaluate(tir.call_packed("test.interpret.fil")))
    with pytest.raises(CodegenError, match=r"call_packed: no global function is called 'test\.interpret\.fil'"):
        run(missing)


def test_a_function_returns_from_within():
    @T.prim_func
    def first_above(x: T.Buffer((4,), "int32"), limit: T.int32, out: T.Buffer((1,), "int32")):
        for i in range(4):
            if x[i] > limit:
                out[0] = i
                T.evaluate(T.ret(i))

    out = np.full(1, -1, "int32")
    x = np.array([1, 5, 7, 2], "int32")
    run(first_above, x, 4, out)
    assert out[0] == 1
    run(first_above, x, 9, out)
    assert out[0] == 1


def test_arguments_of_called_functions_are_checked():
    mod = _module()
    with pytest.raises(CallError, match="row takes 2 arguments, got 1"):
        run_module(mod, "row", np.zeros(2, "float32"))
    short = IRModule(
        {
            **{gv.name_hint: f for gv, f in mod.functions.items()},
            "main": PrimFunc((x := Buffer("x", (2,)),), _call_row(x)),
        }
    )
    with pytest.raises(InternalError, match=r"buffer row of shape \(2,\) reaches beyond the memory of x"):
        run_module(short, "main", np.zeros(2, "float32"))


def _call_row(x: Buffer) -> Evaluate:
    """A call of `row` with too little memory."""
    return Evaluate(Call("int32", GlobalVar("row"), (tir.address_of(x[1]), 0)))


def test_regions_and_buffers_are_given_to_external_functions():
    given: list[Any] = []
    register_global_func("test.interpret.take", lambda *args: given.extend(args), override=True)
    x = Buffer("x", (3, 4), "int8")
    run(
        PrimFunc((x,), Evaluate(tir.call_packed("test.interpret.take", x, x[1:3, 2:4], True, "text"))),
        array := _bytes(),
    )
    np.testing.assert_array_equal(given[0], array)
    np.testing.assert_array_equal(given[1], array[1:3, 2:4])
    assert given[2:] == [True, "text"]
    given[1][:] = 0
    assert array[2, 3] == 0


def _bytes() -> Any:
    return np.arange(12, dtype="int8").reshape(3, 4)
