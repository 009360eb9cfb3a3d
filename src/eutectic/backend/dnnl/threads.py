"""OpenMP thread counts per call, and a living thread pool after fork.

libgomp keeps its pool per calling thread. In a forked child the pool of the
thread that forked consists of threads that no longer exist, and the next
parallel region would wait for them for ever. Such a thread hands its work to a
fresh one, which gets a pool of its own.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from eutectic.backend.dnnl.library import Library

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


class _Worker:
    """A daemon thread that runs one function after the other."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], threading.Lock]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="eutectic-dnnl", daemon=True).start()

    def call(self, function: Callable[[], _T]) -> _T:
        result: list[_T] = []
        failure: list[BaseException] = []

        def job() -> None:
            try:
                result.append(function())
            except BaseException as error:  # raised again in the calling thread
                failure.append(error)

        done = threading.Lock()
        done.acquire()
        self._jobs.put((job, done))
        try:
            done.acquire()
        except BaseException:
            # An interrupt must not free buffers that the kernel still writes.
            done.acquire()
            raise
        if failure:
            raise failure[0]
        return result[0]

    def _work(self) -> None:
        while True:
            job, done = self._jobs.get()
            job()
            # Nothing of the call may be kept alive while waiting for the next one.
            del job
            done.release()


class _ForkState:
    """Which thread of this process lost its pool, and who works for it."""

    def __init__(self) -> None:
        self.registered = False
        self.stale_thread: int | None = None
        self.worker: _Worker | None = None

    def after_fork_in_child(self) -> None:
        self.stale_thread = threading.get_ident()
        self.worker = None


_state = _ForkState()


def watch_forks() -> None:
    """Notice forks from now on; called at the first compile, so that importing changes nothing."""
    if not _state.registered:
        _state.registered = True
        os.register_at_fork(after_in_child=_state.after_fork_in_child)


def pool_is_lost() -> bool:
    """Whether the calling thread must not start a parallel region."""
    return _state.stale_thread is not None and _state.stale_thread == threading.get_ident()


def on_living_pool(function: Callable[..., _T], *args: Any) -> _T:
    """Call the function where OpenMP works: here, or on the worker thread of a forked child."""
    if not pool_is_lost():
        return function(*args)
    if _state.worker is None:
        _state.worker = _Worker()
    return _state.worker.call(lambda: function(*args))
