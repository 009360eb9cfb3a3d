"""The process's team of threads: started at the first parallel call, never stopped.

A forked child has none of the threads; there every call runs on the thread that makes it.

The code of the team is `backend/llvm/pool_text.py`; programs carry it compiled. Threads are made by pthread_create,
know nothing of Python, and take no signals.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.quota import processor_quota
from eutectic.support.config import default_threads, openmp_threads

MOST_THREADS: Final = 256
MEMBERS_AT: Final = 1024  # where a team's record has two cache lines for each thread
MEMBER_BYTES: Final = 128
SLOTS: Final = 16  # numbers that are kept for late threads; a power of two
SLOTS_AT: Final = 704
SLOT_BYTES: Final = 16
PROCESSORS_AT: Final = SLOTS_AT + SLOTS * SLOT_BYTES  # the processors of the workers, one bit for each
PROCESSOR_BYTES: Final = MEMBERS_AT - PROCESSORS_AT
RECORD_BYTES: Final = MEMBERS_AT + MEMBER_BYTES * MOST_THREADS
WORKERS_AT: Final = 224
SMALL: Final = 1 << 32  # in the number of threads: the work is small
BARRIER: Final = "eutectic_barrier"
RUN: Final = "eutectic_run"
BEGIN: Final = "eutectic_begin"
NEXT: Final = "eutectic_next"
MEET: Final = "eutectic_meet"
TELL: Final = "eutectic_tell"
TOLD: Final = "eutectic_told"
RUN_SYMBOLS: Final = (RUN, BEGIN, NEXT, MEET, TELL, TOLD)  # what native programs call
OPEN: Final = "eutectic_open"
CLOSE: Final = "eutectic_close"
_WORKER: Final = "eutectic_worker"
FUTEX: Final = {"x86_64": 202, "aarch64": 98}  # number of the system call
GETTID: Final = {"x86_64": 186, "aarch64": 178}


@dataclass
class _Team:
    """What belongs to one process.

    Attributes:
        process: Its number; another one means that this is a forked child.
        code: The team's code.
        record: The team's record, which lives as long as the process.
        arguments: What the workers were started with.
    """

    process: int
    code: ObjectCode
    record: int
    memory: Any
    arguments: list[Any] = field(default_factory=list)


_lock = threading.Lock()
_teams: list[_Team] = []  # one at most


def can_sleep() -> bool:
    """Whether idle workers can sleep on this platform; without that there is no team."""
    return sys.platform == "linux" and platform.machine() in FUTEX


def team_code(code: bytes) -> ObjectCode:
    """The team's code, loaded: the first that anybody brings serves the whole process."""
    with _lock:
        return _team(code).code


def team(code: bytes, threads: int) -> int:
    """Address of the record of the process's team.

    Its size is settled at the first call for more than one thread: as many as are asked for, or as there are
    processors. A call for more uses those.

    Args:
        code: Object code of the team, for the case that there is none yet.
        threads: How many threads a call wants.
    """
    with _lock:
        process_team = _team(code)
        if threads > 1 and not process_team.arguments and can_sleep():
            size = min(max(threads, len(os.sched_getaffinity(0))), MOST_THREADS)
            for number in range(1, size):
                _start_worker(process_team, number)
            ctypes.c_int64.from_address(process_team.record + WORKERS_AT).value = size - 1
        return process_team.record


def _team(code: bytes) -> _Team:
    if not _teams:
        loaded = ObjectCode([code])
        loaded.keep_forever()
        memory = (ctypes.c_char * (RECORD_BYTES + 64))()
        start = -(-ctypes.addressof(memory) // 64) * 64
        _teams.append(_Team(os.getpid(), loaded, start, memory))
        os.register_at_fork(after_in_child=_after_fork)
    return _teams[0]


def _after_fork() -> None:
    """The workers are not in the child; and the lock may be held by a thread that is not there either."""
    global _lock
    _lock = threading.Lock()
    for process_team in _teams:
        ctypes.memset(process_team.record, 0, RECORD_BYTES)
        process_team.process = os.getpid()  # zero workers: the calling thread does everything


def team_size() -> int:
    """Threads that the process's team has, the calling one included."""
    return 1 + ctypes.c_int64.from_address(_teams[0].record + WORKERS_AT).value if _teams else 1


def available_threads(wanted: int | None = None) -> int:
    """How many threads a call uses: what is wanted, else `EUTECTIC_THREADS`, else the processors given to us, or
    what a container's quota of processor time is worth, if that is less."""
    if not can_sleep():
        return 1
    chosen = wanted or default_threads()
    if chosen is None:
        here = len(os.sched_getaffinity(0))
        chosen = openmp_threads() or min(here, processor_quota() or here)
    return max(1, min(chosen, MOST_THREADS))


def _start_worker(process_team: _Team, number: int) -> None:
    argument = (ctypes.c_int64 * 2)(process_team.record, number)
    process_team.arguments.append(argument)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        create = ctypes.CDLL(None).pthread_create
        handle = ctypes.c_ulong()
        create.argtypes = [ctypes.c_void_p] * 4
        failed = create(ctypes.addressof(handle), None, process_team.code.address(_WORKER), ctypes.addressof(argument))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if failed:
        raise MemoryError(f"no thread could be started: {os.strerror(failed)}")
    ctypes.CDLL(None).pthread_detach(handle)
