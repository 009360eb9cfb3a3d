"""Loops whose iterations are taken by whichever thread runs: each once, in any order, beside processes that compete."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.batch import run_with
from tests.backend.llvm.test_team import PROGRAMS, SIZE, loop

from eutectic import te, topi
from eutectic.backend.llvm.kernels import lowered_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.pieces import MANY, PIECE, pieces_worth
from eutectic.ir.prim_expr import Var
from eutectic.runtime.team import can_sleep
from eutectic.target import Target
from eutectic.testing.native import native
from eutectic.tir import Buffer, BufferStore, For, LetStmt, PrimFunc
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.interpret import run
from eutectic.tir.stmt import Stmt, seq

pytestmark = pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
ROOT = Path(__file__).parents[3]


@contextmanager
def busy_process() -> Iterator[subprocess.Popen[bytes]]:
    """Another process computes all the time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def counting(extents: list[int]) -> PrimFunc:
    """Loops after each other, each of which adds one to every element of its own and of its predecessor."""
    buffers = [Buffer(f"x{i}", (max(extent, 1),), "int32") for i, extent in enumerate(extents)]
    loops: list[Stmt] = []
    for k, (buffer, extent) in enumerate(zip(buffers, extents, strict=True)):
        before = buffers[k - 1]

        def body(i: Var, buffer: Buffer = buffer, before: Buffer = before) -> Stmt:
            work = Var("j", "int32")  # enough for several pieces
            step = BufferStore(buffer, buffer[i] * 3 + before[i % before.shape[0]] + work, (i,))
            return For(work, 0, 2000, "serial", step)

        loops.append(loop(extent, body))
    return PrimFunc(tuple(buffers), seq(*loops))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 5, 7, 11, 16, 31, 100, 257]), min_size=2, max_size=6))
def test_every_iteration_is_done_once(extents: list[int]):
    """Iterations are not repeatable here: one that is done twice, or never, changes the numbers."""
    func = counting(extents)
    function = native(func, schedule=False, threads=4)
    results = []
    for threads in (1, 2, 3, 4, 4):
        arrays = [np.arange(max(extent, 1), dtype="int32") for extent in extents]
        run_with(function, threads, *arrays)
        results.append([array.tobytes() for array in arrays])
    assert all(result == results[0] for result in results)


def test_what_a_loop_is_worth():
    x, v = Buffer("x", (SIZE,), "float32"), Var("n", "int32")

    def adding(extent: object) -> For:
        inner = Var("j", "int32")
        outer = loop(SIZE, lambda i: For(inner, 0, extent, "serial", BufferStore(x, x[i] + 1.0, (i,))))  # type: ignore[arg-type]
        assert isinstance(outer, For)
        return outer

    assert pieces_worth(adding(1)) == 1
    # a load, an addition and a store in each of 64 x 10,000 iterations
    assert pieces_worth(adding(10_000)) == SIZE * 10_000 * 3 // PIECE
    assert pieces_worth(adding(v)) == MANY


_STRESS = """
import sys
import numpy as np
from tests.backend.llvm.batch import run_with
from tests.backend.llvm.test_shared_loops import network
function, arrays = network(int(sys.argv[1]))
wanted = [np.zeros_like(array) for array in arrays[1:]]
run_with(function, 1, arrays[0], *wanted)
for call in range(int(sys.argv[2])):
    for array in arrays[1:]:
        array[:] = call
    function(*arrays)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays[1:], wanted)), call
print("same bits")
"""


def network(threads: int) -> tuple[object, list[np.ndarray]]:
    """A few operators in one program, and its arguments."""
    x = te.placeholder((131, 70), "float32", name="x")
    exp = topi.exp(x)
    product = topi.matmul(exp, topi.transpose(x))
    func = te.create_prim_func([x, topi.nn.softmax(product), topi.sum(exp, 0)])
    data = np.random.default_rng(0).standard_normal((131, 70)).astype("float32")
    return native(func, threads=threads), [data, np.zeros((131, 131), "float32"), np.zeros(70, "float32")]


@pytest.mark.serial
@pytest.mark.parametrize("threads", [2, 4, 8])
def test_the_bits_of_one_thread_beside_a_busy_process(threads: int):
    """More threads than processors, and another process: threads lose their processor at any place."""
    environment = {**os.environ, "EUTECTIC_THREADS": str(threads), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", _STRESS, str(threads), "1500"]
    with busy_process():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "same bits\n"), done.stderr


@pytest.mark.serial
@pytest.mark.parametrize("name", ["variable", "condition", "extent", "repeated", "own_memory"])
def test_programs_with_numbers_from_memory_beside_a_busy_process(name: str):
    """Late threads must not follow numbers that were changed meanwhile."""
    func = PROGRAMS[name]
    function = native(func, schedule=False, threads=8)
    start = np.arange(SIZE, dtype="int32")
    wanted = [start.copy(), np.zeros(SIZE, "int32")]
    run(func, *wanted)
    with busy_process():
        for attempt in range(1000):
            got = [start.copy(), np.zeros(SIZE, "int32")]
            run_with(function, 2 + attempt % 7, *got)
            assert got[0].tobytes() == wanted[0].tobytes()
            assert got[1].tobytes() == wanted[1].tobytes()


def told_often() -> PrimFunc:
    """Numbers from memory decide a hundred times, floats among them; more than are kept for late threads."""
    x, y, scale = Buffer("x", (SIZE,), "int32"), Buffer("y", (SIZE,), "int32"), Buffer("scale", (1,), "float32")
    f, n = Var("f", "float32"), Var("n", "int32")

    def element(i: Var) -> Stmt:
        return BufferStore(y, y[i] + (f * 2.0).astype("int32") + i, (i,))

    steps = seq(
        BufferStore(scale, f + 1.0, (0,)),
        BufferStore(x, (x[0] + 7) % 5, (0,)),
        LetStmt(n, BufferLoad(x, (0,)), loop(n * 3, element)),
    )
    body = LetStmt(f, BufferLoad(scale, (0,)), steps)
    return PrimFunc((x, y, scale), loop(100, lambda _: body, "serial"))


@pytest.mark.serial
def test_threads_that_come_too_late_for_a_number_do_no_more():
    func = told_often()
    function = native(func, schedule=False, threads=8)
    results = []
    with busy_process():
        for attempt in range(300):
            arrays = [np.arange(SIZE, dtype="int32"), np.zeros(SIZE, "int32"), np.zeros(1, "float32")]
            run_with(function, 1 + attempt % 8, *arrays)
            results.append([array.tobytes() for array in arrays])
    assert all(result == results[0] for result in results)


_STOPPED = """
import time
import numpy as np
from tests.backend.llvm.batch import run_with
from tests.backend.llvm.test_shared_loops import counting
from eutectic.target import Target
from eutectic.testing.native import native
function = native(counting([400, 401, 399]), schedule=False, threads=4)
start = [np.arange(n, dtype="int32") for n in (400, 401, 399)]
wanted = [array.copy() for array in start]
run_with(function, 1, *wanted)
print("ready", flush=True)
calls = 0
deadline = time.monotonic() + 4
while time.monotonic() < deadline:
    got = [array.copy() for array in start]
    function(*got)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, wanted)), calls
    calls += 1
print("same bits", calls > 0)
"""


@pytest.mark.serial
def test_a_process_that_is_stopped_in_the_middle():
    """All threads stand still at arbitrary places, and go on in any order."""
    environment = {**os.environ, "EUTECTIC_THREADS": "4", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(
        [sys.executable, "-c", _STOPPED], env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(2e-3)
            process.send_signal(signal.SIGCONT)
            time.sleep(5e-3)
        assert process.stdout.read() == "same bits True\n"
    assert process.returncode == 0


def test_two_callers_share_the_team_call_by_call():
    func = counting([100, 37, 5, 64])
    function = native(func, schedule=False, threads=4)
    start = [np.arange(n, dtype="int32") for n in (100, 37, 5, 64)]
    wanted = [array.copy() for array in start]
    run_with(function, 1, *wanted)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for call in range(100):
            got = [array.copy() for array in start]
            function(*got)
            if any(a.tobytes() != b.tobytes() for a, b in zip(got, wanted, strict=True)):
                wrong.append(1000 * seed + call)

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
        assert not caller.is_alive()
    assert not wrong


def test_a_loop_over_pieces_says_itself_what_becomes_of_it():
    """A loop within that LLVM writes out left it what it says of itself, and LLVM warned that it could not do that."""
    text = lowered_kernel(counting([5, 3]), machine_of(Target("llvm"))).text
    jumps = [line for line in text.splitlines() if re.match(r"  br label %take\d", line)]
    assert [line.endswith(", !llvm.loop !0") for line in jumps] == [False, True, False, True]
