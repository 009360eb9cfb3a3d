"""Python's search for cycles: not while a program is compiled, and afterwards as before."""

from __future__ import annotations

import gc
from threading import Barrier, Thread

import pytest

from eutectic.support.heap import without_cycle_search


def test_nothing_is_searched_within():
    assert gc.isenabled()
    with without_cycle_search():
        assert not gc.isenabled()
        with without_cycle_search():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_does_not_search_is_left_alone():
    gc.disable()
    try:
        with without_cycle_search():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_ends_it():
    with pytest.raises(KeyError), without_cycle_search():
        raise KeyError("x")
    assert gc.isenabled()


def test_the_last_of_several_threads_ends_it():
    first, second = Barrier(2), Barrier(2)
    seen: list[bool] = []

    def inner() -> None:
        with without_cycle_search():
            first.wait()
            second.wait()
            seen.append(gc.isenabled())

    thread = Thread(target=inner)
    with without_cycle_search():
        thread.start()
        first.wait()
    seen.append(gc.isenabled())
    second.wait()
    thread.join()
    assert seen == [False, False]
    assert gc.isenabled()
