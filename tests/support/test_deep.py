"""Recursion as deep as a program, without a change to what belongs to the process."""

from __future__ import annotations

import contextvars
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eutectic import PassContext
from eutectic.support.deep import as_here, carried, deep
from eutectic.target import Target

DEEP = 20_000


@deep
def count_down(n: int) -> int:
    return 0 if n == 0 else 1 + count_down(n - 1)


def test_depth_and_limit():
    limit = sys.getrecursionlimit()
    assert count_down(DEEP) == DEEP
    assert sys.getrecursionlimit() == limit
    assert not [thread for thread in threading.enumerate() if thread.name == "eutectic-stack"]


def test_functions_in_between_have_room():
    def even(n: int) -> bool:
        return n == 0 or all(map(odd, [n - 1]))

    @deep
    def odd(n: int) -> bool:
        return n != 0 and sum([even(m) for m in (n - 1,)]) == 1

    assert even(4000)


def test_errors_come_through():
    @deep
    def fail(n: int) -> int:
        if n == 0:
            raise KeyError("at the bottom")
        return fail(n - 1)

    with pytest.raises(KeyError, match="at the bottom"):
        fail(2000)
    assert count_down(2000) == 2000  # what was counted is forgotten


def test_what_belongs_to_a_thread_is_found_on_the_other_stacks():
    state, variable = carried(threading.local()), contextvars.ContextVar("variable")
    state.value = 7
    variable.set(8)

    @deep
    def at_the_bottom(n: int) -> tuple[object, ...]:
        if n:
            return at_the_bottom(n - 1)
        return state.value, variable.get(), PassContext.current().opt_level, Target.current(), np.geterr()["over"]

    with PassContext(opt_level=1), Target("llvm") as target, np.errstate(over="raise"):
        assert at_the_bottom(2000) == (7, 8, 1, target, "raise")


def test_a_thread_that_goes_on_beside_sees_what_is_here_and_changes_nothing():
    variable = contextvars.ContextVar("beside")
    variable.set(8)

    def look() -> tuple[object, ...]:
        with PassContext(opt_level=0), Target("llvm -mcpu=x86-64-v3"):
            inner = PassContext.current().opt_level
        return inner, variable.get(), PassContext.current().opt_level, Target.current()

    with ThreadPoolExecutor(2) as pool, PassContext(opt_level=1), Target("llvm") as target:
        seen = [pool.submit(as_here(look)) for _ in range(8)]
        assert [future.result() for future in seen] == [(0, 8, 1, target)] * 8
        assert (PassContext.current().opt_level, Target.current()) == (1, target)


def test_threads_count_apart():
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(count_down(3000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3000] * 4
