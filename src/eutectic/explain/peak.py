"""Kernels that do nothing but multiply and add, or copy: how fast a machine can be."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Final

import numpy as np

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.runtime.object_code import ObjectCode
from eutectic.target import Target

_CHAINS: Final = 12  # independent multiply-adds: more than latency times units of any processor so far
_STEPS: Final = 400_000
_REPEATS: Final = 7
_COPY_SECONDS: Final = 0.01
_LEAST: Final = 64  # elements of a copy: no vector has more


def fma_speed(threads: int, target: Target | None = None) -> float:
    """Float32 operations per second of all threads together; a multiply-add is two.

    Args:
        threads: How many run at the same time.
        target: Whose vectors are used; None takes the widest of this processor.
    """
    function, lanes, code = _fma(str(target or Target()))
    seconds = _fastest(lambda: function(_STEPS), threads)
    assert code is not None  # it must stay loaded as long as it runs
    return threads * _STEPS * _CHAINS * lanes * 2 / seconds


def copy_speed(size: int, threads: int) -> float:
    """Bytes per second, reads and writes together, when all threads copy at the same time.

    Written by plain vector stores, as kernels write.

    Args:
        size: Bytes that all threads read and write together in one round.
        threads: How many run at the same time.
    """
    count = max(size // (2 * 4 * threads), _LEAST)
    arrays = [(np.ones(count, np.float32), np.zeros(count, np.float32)) for _ in range(threads)]
    free = list(arrays)
    rounds = max(int(_COPY_SECONDS * 20e9 / size), 1)

    function, lanes, code = _copy()
    count = max(count // lanes, 1) * lanes

    def copy() -> None:
        source, target = free.pop()
        function(source.ctypes.data, target.ctypes.data, count, rounds)
        free.append((source, target))

    seconds = _fastest(copy, threads)
    assert code is not None  # it must stay loaded as long as it runs
    return threads * count * 2 * 4 * rounds / seconds


def _fastest(work: Callable[[], object], threads: int) -> float:
    """The least seconds of several rounds in which each thread does the work once."""
    barrier = Barrier(threads)

    def run() -> tuple[float, float]:
        barrier.wait()
        start = time.perf_counter()
        work()
        return start, time.perf_counter()

    with ThreadPoolExecutor(threads) as pool:
        rounds = [[f.result() for f in [pool.submit(run) for _ in range(threads)]] for _ in range(_REPEATS)]
    return min(max(end for _, end in times) - min(start for start, _ in times) for times in rounds)


@cache
def _fma(target: str) -> tuple[Callable[[int], float], int, ObjectCode]:
    """A function that does so many steps of multiply-adds in registers, lanes of its vectors, and what holds it."""
    machine = machine_of(Target(target))
    lanes = machine.lanes(32)
    code = ObjectCode([object_code(_text(lanes), machine)])
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(code.address("multiply_add"))
    return function, lanes, code


@cache
def _copy() -> tuple[Callable[[int, int, int, int], None], int, ObjectCode]:
    """A function that copies elements from one address to another so many times, lanes of its vectors, its holder."""
    machine = machine_of(Target())
    lanes = machine.lanes(32)
    code = ObjectCode([object_code(_COPY_TEXT.format(vector=f"<{lanes} x float>", lanes=lanes), machine)])
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = ctypes.CFUNCTYPE(None, *types)(code.address("copy_repeatedly"))
    return function, lanes, code


_COPY_TEXT: Final = """
define void @copy_repeatedly(ptr %source, ptr %target, i64 %count, i64 %rounds) {{
entry:
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r.next, %done ]
  br label %loop
loop:
  %i = phi i64 [ 0, %round ], [ %next, %loop ]
  %from = getelementptr float, ptr %source, i64 %i
  %to = getelementptr float, ptr %target, i64 %i
  %value = load volatile {vector}, ptr %from, align 4
  store volatile {vector} %value, ptr %to, align 4
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  %r.next = add i64 %r, 1
  %again = icmp slt i64 %r.next, %rounds
  br i1 %again, label %round, label %end
end:
  ret void
}}
"""


def _text(lanes: int) -> str:
    """The loop as LLVM text; the sum of all chains is returned, so that none is left out."""
    vector = f"<{lanes} x float>"
    names = range(_CHAINS)
    phis = [f"  %a{i} = phi {vector} [ %start, %entry ], [ %b{i}, %loop ]" for i in names]
    steps = [f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %x, {vector} %x)" for i in names]
    sums = [f"  %s{i} = fadd {vector} {f'%s{i - 1}' if i else '%start'}, %b{i}" for i in names]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define float @multiply_add(i64 %steps) {",
            "entry:",
            "  %number = sitofp i64 %steps to float",
            f"  %one = insertelement {vector} zeroinitializer, float %number, i32 0",
            f"  %start = shufflevector {vector} %one, {vector} %one, <{lanes} x i32> zeroinitializer",
            f"  %x = fdiv {vector} %start, {_splat(lanes, '0x4270000000000000')}",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %steps",
            "  br i1 %more, label %loop, label %end",
            "end:",
            *sums,
            f"  %result = extractelement {vector} %s{_CHAINS - 1}, i32 0",
            "  ret float %result",
            "}",
        ]
    )


def _splat(lanes: int, value: str) -> str:
    return f"<{', '.join([f'float {value}'] * lanes)}>"
