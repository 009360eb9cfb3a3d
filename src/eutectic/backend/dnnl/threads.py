"""OpenMP thread counts per call, and a living thread pool after fork.

libgomp keeps its pool per calling thread. In a forked child the pool of the
thread that forked consists of threads that no longer exist, and the next
parallel region would wait for them for ever. Such a thread hands its work to a
fresh one, which gets a pool of its own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from eutectic.backend.dnnl.library import Library
from eutectic.runtime.worker import elsewhere

_T = TypeVar("_T")


@contextmanager
def thread_count(library: Library, threads: int) -> Iterator[None]:
    """Let parallel regions started by the calling thread use `threads` threads; restored after."""
    before = library.function("omp_get_max_threads")()
    if before == threads:
        yield
        return
    set_threads = library.function("omp_set_num_threads")
    set_threads(threads)
    try:
        yield
    finally:
        set_threads(before)


_lost = ctypes.c_uint64()  # the thread of this process that lost its pool; read by native code, too
_watched: list[bool] = []


def watch_forks() -> None:
    """Notice forks from now on; called at the first compile, so that importing changes nothing."""
    if not _watched:
        _watched.append(True)
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    _lost.value = threading.get_ident()


def lost_thread() -> int:
    """Address of a word with the thread that must not start a parallel region; 0 when there is none."""
    return ctypes.addressof(_lost)


def pool_is_lost() -> bool:
    """Whether the calling thread must not start a parallel region."""
    return _lost.value == threading.get_ident()


def on_living_pool(function: Callable[..., _T], *args: Any) -> _T:
    """Call the function where OpenMP works: here, or on the worker thread of a forked child."""
    return elsewhere(function, *args) if pool_is_lost() else function(*args)
