"""The process's team of threads: started at the first parallel call, never stopped.

A forked child has none of the threads; there every call runs on the thread that makes it.

The code of the pool is `pool_text.py`. Threads are made by pthread_create, know
nothing of Python, and take no signals.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.backend.llvm.jit import Library
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.pool_text import RECORD_BYTES, WORKERS_AT, can_sleep, pool_text
from eutectic.support.config import default_threads, openmp_threads
from eutectic.target import Target

MOST_THREADS: Final = 256


@dataclass
class _Pool:
    """What belongs to one process.

    Attributes:
        process: Its number; another one means that this is a forked child.
        record: The team's record, which lives as long as the process.
        arguments: What the workers were started with.
    """

    process: int
    record: int
    memory: Any
    arguments: list[Any] = field(default_factory=list)


_lock = threading.Lock()
_state: dict[str, Any] = {}


def runtime_library() -> Library:
    """The pool's code, loaded."""
    with _lock:
        return _library()


def _library() -> Library:
    library: Library | None = _state.get("library")
    if library is None:
        library = _state["library"] = Library([object_code(pool_text(), machine_of(Target("llvm")))])
        library.keep_forever(("eutectic_barrier", "eutectic_run", "eutectic_worker"))
        os.register_at_fork(after_in_child=_after_fork)
    return library


def _after_fork() -> None:
    """The workers are not in the child; and the lock may be held by a thread that is not there either."""
    global _lock
    _lock = threading.Lock()
    pool: _Pool | None = _state.get("pool")
    if pool is not None:
        ctypes.memset(pool.record, 0, RECORD_BYTES)
        pool.process = os.getpid()  # zero workers: the calling thread does everything


def team(threads: int) -> int:
    """Address of the record of the process's team.

    Its size is settled at the first call for more than one thread: as many as are asked for, or as there are
    processors. A call for more uses those.
    """
    with _lock:
        library = _library()
        pool: _Pool | None = _state.get("pool")
        if pool is None:
            memory = (ctypes.c_char * (RECORD_BYTES + 64))()
            start = -(-ctypes.addressof(memory) // 64) * 64
            pool = _state["pool"] = _Pool(os.getpid(), start, memory)
        if threads > 1 and not pool.arguments and can_sleep():
            size = min(max(threads, len(os.sched_getaffinity(0))), MOST_THREADS)
            for number in range(1, size):
                _start_worker(pool, library, number)
            ctypes.c_int64.from_address(pool.record + WORKERS_AT).value = size - 1
        return pool.record


def available_threads(wanted: int | None = None) -> int:
    """How many threads a call uses: what is wanted, else `EUTECTIC_THREADS`, else the processors given to us."""
    if not can_sleep():
        return 1
    chosen = wanted or default_threads()
    if chosen is None:
        chosen = openmp_threads() or len(os.sched_getaffinity(0))
    return max(1, min(chosen, MOST_THREADS))


def _start_worker(pool: _Pool, library: Library, number: int) -> None:
    argument = (ctypes.c_int64 * 2)(pool.record, number)
    pool.arguments.append(argument)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        create = ctypes.CDLL(None).pthread_create
        handle = ctypes.c_ulong()
        create.argtypes = [ctypes.c_void_p] * 4
        failed = create(ctypes.addressof(handle), None, library.address("eutectic_worker"), ctypes.addressof(argument))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if failed:
        raise MemoryError(f"no thread could be started: {os.strerror(failed)}")
    ctypes.CDLL(None).pthread_detach(handle)
