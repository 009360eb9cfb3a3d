"""How long a cache line takes from one processor to another and back: near ones share a cache, far ones do not.

Threads that work on one network hand each other data all the time. Between processors of different caches, dies or
sockets that takes several times as long, and a virtual machine may be moved from one kind of pair to the other while it
runs. A measurement that does not know of it takes the one for a change of what it measures.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.runtime.object_code import ObjectCode
from eutectic.target import Target

FAR: Final = 150e-9
"""Seconds of an exchange from which on two processors are taken to share no cache: within one it takes 20 to 100 ns."""
_EXCHANGES: Final = 1000  # of a round
_ROUNDS: Final = 10
_PATIENCE: Final = 1 << 26  # looks at the line before a thread gives up; some tenths of a second
_LINE: Final = 128  # bytes that belong together, on any processor

_Exchange = Callable[[int, int, int], int]


def exchanges() -> dict[int, float]:
    """Seconds in which the first usable processor and each other one hand each other a cache line, there and back.

    The least of several rounds. Processors that are busy with something else are left out, and so is everything where
    threads cannot be put on a processor.
    """
    if not hasattr(os, "sched_setaffinity"):
        return {}
    first, *others = sorted(os.sched_getaffinity(0))
    found = {other: _between(first, other) for other in others}
    return {other: seconds for other, seconds in found.items() if seconds is not None}


def _between(first: int, second: int) -> float | None:
    """The exchange of two processors; None when one of them has no time for it."""
    function, code = _exchange()
    memory = ctypes.create_string_buffer(2 * _LINE)
    flag = -(-ctypes.addressof(memory) // _LINE) * _LINE

    def answer() -> int:
        os.sched_setaffinity(0, [second])  # of this thread, which ends with the pool
        return function(flag, 1, _ROUNDS * _EXCHANGES)

    def ask() -> list[float]:
        os.sched_setaffinity(0, [first])
        times: list[float] = []
        for number in range(_ROUNDS):
            start = time.perf_counter()
            if function(flag, 2 * number * _EXCHANGES, _EXCHANGES) < _EXCHANGES:
                return []
            times.append(time.perf_counter() - start)
        return times

    with ThreadPoolExecutor(2) as pool:
        answered, asked = pool.submit(answer), pool.submit(ask)
        times, done = asked.result(), answered.result()
    assert code is not None  # it must stay loaded as long as it runs
    return min(times) / _EXCHANGES if times and done == _ROUNDS * _EXCHANGES else None


@cache
def _exchange() -> tuple[_Exchange, ObjectCode]:
    """A function that waits for each second number in a line and writes the next one, so many times; what holds it."""
    machine = machine_of(Target())
    code = ObjectCode([object_code(_TEXT.format(patience=_PATIENCE), machine)])
    types = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function: _Exchange = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(code.address("exchange"))
    return function, code


_TEXT: Final = """
; Returns how many numbers it has answered: fewer than `count` when the other thread did not come.
define i64 @exchange(ptr %flag, i64 %first, i64 %count) {{
entry:
  br label %round
round:
  %i = phi i64 [ 0, %entry ], [ %i.next, %answer ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %end, label %ask
ask:
  %twice = shl i64 %i, 1
  %wanted = add i64 %first, %twice
  br label %look
look:
  %looks = phi i64 [ 0, %ask ], [ %more, %again ]
  %now = load atomic i64, ptr %flag acquire, align 8
  %come = icmp eq i64 %now, %wanted
  br i1 %come, label %answer, label %again
again:
  %more = add i64 %looks, 1
  %patient = icmp slt i64 %more, {patience}
  br i1 %patient, label %look, label %end
answer:
  %next = add i64 %wanted, 1
  store atomic i64 %next, ptr %flag release, align 8
  %i.next = add i64 %i, 1
  br label %round
end:
  ret i64 %i
}}
"""
