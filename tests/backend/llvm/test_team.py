"""Kernels that several threads run together: phases, barriers, memory of their own, and checks that fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.backend.llvm.batch import noise, run_with
from tests.tir.programs import block, nest

from eutectic import te, tir, topi
from eutectic.ir.prim_expr import Var
from eutectic.runtime.team import available_threads
from eutectic.support.errors import CallError
from eutectic.testing.native import native
from eutectic.tir import Allocate, Buffer, BufferStore, For, IfThenElse, LetStmt, PrimFunc, While, complete
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.interpret import run
from eutectic.tir.stmt import AssertStmt, Stmt, seq

SIZE = 64


def loop(extent: object, body: Callable[[Var], Stmt], kind: str = "parallel") -> Stmt:
    var = Var("i", "int32")
    return For(var, 0, extent, kind, body(var))  # type: ignore[arg-type]


X, Y, PART = Buffer("x", (SIZE,), "int32"), Buffer("y", (SIZE,), "int32"), Buffer("part", (20_000,), "int32")


def moved(i: Var) -> Stmt:
    return BufferStore(Y, X[(i + 1) % SIZE], (i,))


def back(i: Var) -> Stmt:
    return BufferStore(X, Y[i] + 1, (i,))


def phases() -> dict[str, PrimFunc]:
    """Programs of integers whose later loops read what earlier ones wrote."""
    x, y, v = X, Y, Var("v", "int32")
    bump = BufferStore(x, x[0] + 1, (0,))
    return {
        "phases": PrimFunc((x, y), seq(loop(SIZE, moved), loop(SIZE, back), bump, loop(SIZE, moved), loop(SIZE, back))),
        "repeated": PrimFunc((x, y), loop(9, lambda _: seq(loop(SIZE, moved), loop(SIZE, back)), "serial")),
        "variable": PrimFunc(
            (x, y),
            loop(
                9,
                lambda _: LetStmt(
                    v, x[0], seq(bump, loop(SIZE, lambda i: BufferStore(y, v + i, (i,))), loop(SIZE, back))
                ),
                "serial",
            ),
        ),
        "condition": PrimFunc(
            (x, y),
            loop(
                9,
                lambda _: IfThenElse(
                    (x[0] % 2).equal(0),
                    seq(bump, loop(SIZE, lambda i: BufferStore(y, i, (i,)))),
                    seq(bump, loop(SIZE, moved), loop(SIZE, back)),
                ),
                "serial",
            ),
        ),
        "extent": PrimFunc(
            (x, y),
            seq(
                BufferStore(x, 5, (0,)),
                For(v, 0, x[0], "serial", seq(BufferStore(x, 3, (0,)), loop(SIZE, moved), loop(SIZE, back))),
                BufferStore(y, 7, (0,)),
                loop(BufferLoad(y, (0,)), lambda i: BufferStore(y, i * 2, (i,))),
            ),
        ),
    }


def memory() -> dict[str, PrimFunc]:
    """Programs with memory of their own, and with other statements around parallel loops."""
    x, y, part, v = X, Y, PART, Var("v", "int32")
    bump = BufferStore(x, x[0] + 1, (0,))

    def own_memory(i: Var) -> Stmt:
        fill = loop(20, lambda j: BufferStore(part, i, (j * 1000 + 999,)), "serial")
        return Allocate(part.data, "int32", (20_000,), True, seq(fill, BufferStore(x, part[999] + part[19_999], (i,))))

    return {
        "own_memory": PrimFunc((x, y), loop(SIZE, own_memory)),
        "shared_memory": PrimFunc(
            (x, y),
            Allocate(
                part.data,
                "int32",
                (20_000,),
                True,
                seq(
                    loop(SIZE, lambda i: BufferStore(part, x[i], (i,))),
                    loop(SIZE, lambda i: BufferStore(y, part[SIZE - 1 - i], (i,))),
                ),
            ),
        ),
        "while": PrimFunc(
            (x, y),
            seq(BufferStore(x, 0, (0,)), While(x[0] < 5, seq(loop(SIZE, lambda i: BufferStore(y, x[0], (i,))), bump))),
        ),
        "assertion": PrimFunc((x, y), AssertStmt(x[0] >= 0, "x is negative", loop(SIZE, moved))),
        "nested": PrimFunc(
            (x, y), loop(8, lambda i: loop(8, lambda j: BufferStore(y, x[i * 8 + j] - i, (i * 8 + j,))))
        ),
        "narrow": PrimFunc((x, y), seq(loop(1, moved), loop(0, back), loop(3, lambda i: BufferStore(y, i, (i,))))),
        "let": PrimFunc((x, y), loop(SIZE, lambda i: BufferStore(y, Let(v, x[i], v * v), (i,)))),
    }


PROGRAMS = {**phases(), **memory()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_phases(name: str):
    """Races would show only at times, so every program runs often."""
    func = PROGRAMS[name]
    function = native(func, schedule=False)
    start = np.arange(SIZE, dtype="int32")
    wanted = [start.copy(), np.zeros(SIZE, "int32")]
    run(func, *wanted)
    for attempt in range(60):
        got = [start.copy(), np.zeros(SIZE, "int32")]
        run_with(function, 1 + attempt % 2, *got)
        np.testing.assert_array_equal(got[0], wanted[0])
        np.testing.assert_array_equal(got[1], wanted[1])


def test_messages_of_checks():
    x, y = np.full(SIZE, -1, "int32"), np.zeros(SIZE, "int32")
    function = native(PROGRAMS["assertion"].with_attr("global_symbol", "asserting"), schedule=False)
    for threads in (1, 2):
        with pytest.raises(CallError, match="kernel asserting: x is negative"):
            run_with(function, threads, x, y)
    np.testing.assert_array_equal(y, 0)  # what follows an assertion that fails is not done
    x[:] = 1
    function(x, y)
    np.testing.assert_array_equal(y, 1)


def test_what_follows_an_assertion_may_rely_on_it():
    n, x = Var("n", "int32"), Buffer("x", (4,), "int32")
    func = PrimFunc((x, n), AssertStmt(n < 4, 'needs n < 4, "really"', BufferStore(x, 1, (n,))))
    function, data = native(func, schedule=False), np.zeros(4, "int32")
    with pytest.raises(CallError, match=r"needs n < 4, .really."):
        function(data, 2**30)
    function(data, 3)
    assert data.tolist() == [0, 0, 0, 1]


def test_a_check_that_fails_in_some_thread():
    x, at, y = Buffer("x", (SIZE,)), Buffer("at", (SIZE,), "int32"), Buffer("y", (SIZE,))
    function = native(PrimFunc((x, at, y), loop(SIZE, lambda i: BufferStore(y, x[at[i]], (i,)))), schedule=False)
    data, places, out = noise(0, SIZE), np.arange(SIZE, dtype="int32"), np.zeros(SIZE, "float32")
    for bad in (0, 20, 63):
        places[bad] = SIZE
        with pytest.raises(CallError, match="is outside of"):
            function(data, places, out)
        places[bad] = bad
    function(data, places, out)
    np.testing.assert_array_equal(out, data)


def test_a_block_whose_condition_reads_its_neighbour_is_not_shared():
    x = Buffer("x", (SIZE,), "int32")

    def element(i: Var) -> Stmt:
        before = x[tir.max(i - 1, 0)]
        return IfThenElse(before > 3, BufferStore(x, 1, (i,)), BufferStore(x, 5, (i,)))

    func = complete(PrimFunc((x,), nest("i", (SIZE,), lambda i: block("x", {"vi": (SIZE, "S")}, (i,), element))))
    want = np.zeros(SIZE, "int32")
    run(func, want)
    function = native(func)
    for threads in (1, 2) * 20:
        got = np.zeros(SIZE, "int32")
        run_with(function, threads, got)
        np.testing.assert_array_equal(got, want)


def symbolic(define: Callable[..., te.Tensor]) -> PrimFunc:
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    x = te.placeholder((n, m), "float32", name="x")
    return te.create_prim_func([x, define(x)])


@pytest.mark.parametrize(
    ("define", "reference"),
    [
        (topi.exp, np.exp),
        (topi.transpose, np.transpose),
        (lambda x: topi.sum(x, 1), lambda x: x.sum(1)),
        (lambda x: topi.max(x, 0), lambda x: x.max(0)),
        (topi.nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        (lambda x: topi.matmul(x, x, transp_b=True), lambda x: x @ x.T),
        (lambda x: topi.nn.pad(x, (1, 0), (2, 3)), lambda x: np.pad(x, ((1, 2), (0, 3)))),
        (lambda x: topi.concatenate([x, topi.tanh(x)], 1), lambda x: np.concatenate([x, np.tanh(x)], 1)),
    ],
)
def test_symbolic_sizes(define: Callable[..., te.Tensor], reference: Callable[..., np.ndarray]):
    """One kernel for all sizes, large enough for several threads and empty ones."""
    function = native(symbolic(define))
    for shape in [(1, 1), (5, 7), (64, 33), (130, 70), (1, 200), (33, 1), (0, 5)]:
        x = noise(0, *shape)
        if 0 in shape and define.__name__ == "<lambda>" and x.size == 0:
            try:
                want = reference(x)
            except ValueError:  # NumPy has no largest of nothing
                continue
        else:
            want = reference(x)
        results = [np.full(want.shape, 77, "float32") for _ in range(2)]
        for threads, out in zip((1, 2), results, strict=True):
            run_with(function, threads, x, out)
        np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=1e-4)
        assert results[0].tobytes() == results[1].tobytes()


def test_calls_from_many_threads():
    """One program called by eight threads at once; who does not get the team works alone."""
    x = te.placeholder((160, 70), "float32", name="x")
    function = native(te.create_prim_func([x, topi.nn.softmax(topi.matmul(x, topi.transpose(x)))]))
    inputs = [noise(k, 160, 70) for k in range(8)]
    wanted = []
    for data in inputs:
        wanted.append(np.zeros((160, 160), "float32"))
        function(data, wanted[-1])
    faults: list[str] = []

    def work(k: int) -> None:
        out = np.zeros((160, 160), "float32")
        for _ in range(25):
            out[:] = 0
            function(inputs[k], out)
            if out.tobytes() != wanted[k].tobytes():
                faults.append(f"thread {k}: {np.abs(out - wanted[k]).max()}")

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not faults


@pytest.mark.skipif(available_threads(2) < 2, reason="this platform has no team")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_works_alone():
    x = te.placeholder((130, 70), "float32", name="x")
    function = native(te.create_prim_func([x, topi.exp(topi.transpose(x))]))
    data, out = noise(0, 130, 70), np.zeros((70, 130), "float32")
    function(data, out)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            again = np.zeros((70, 130), "float32")
            for _ in range(20):
                function(data, again)
            fresh = np.zeros((70, 130), "float32")
            native(te.create_prim_func([x, topi.tanh(topi.transpose(x))]))(data, fresh)
            code = 0 if again.tobytes() == out.tobytes() and np.allclose(fresh, np.tanh(data.T), atol=1e-6) else 2
        finally:
            os._exit(code)
    assert ended(child) == 0
    function(data, out)  # the parent's team is as it was


def ended(child: int) -> int:
    """Exit code of a process that must end within a minute."""
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        threading.Event().wait(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")
