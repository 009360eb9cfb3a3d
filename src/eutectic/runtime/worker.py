"""A thread that works for one that must not: libraries lose their threads at a fork, for the thread that forked."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class Worker:
    """A daemon thread that runs one function after the other."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], threading.Lock]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="eutectic-worker", daemon=True).start()

    def call(self, function: Callable[[], _T]) -> _T:
        """Run a function there, and wait for its result."""
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


_workers: dict[int, Worker] = {}  # by process: a forked child has none of its parent's threads


def elsewhere(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function on the worker thread of this process."""
    process = os.getpid()
    if process not in _workers:
        _workers.clear()
        _workers[process] = Worker()
    return _workers[process].call(lambda: function(*args))
