"""What it takes to hand a cache line to another processor and back."""

from __future__ import annotations

import ctypes
import os

import pytest

from eutectic.explain import exchange


def test_each_other_processor_is_measured():
    found = exchange.exchanges()
    assert set(found) <= set(sorted(os.sched_getaffinity(0))[1:])
    assert all(2e-9 < seconds < 1e-3 for seconds in found.values())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_threads_of_the_caller_stay_where_they_were():
    before = os.sched_getaffinity(0)
    exchange.exchanges()
    assert os.sched_getaffinity(0) == before


def test_one_processor_has_nobody_to_exchange_with(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert exchange.exchanges() == {}


def test_nothing_is_measured_where_threads_cannot_be_put_on_a_processor(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert exchange.exchanges() == {}


@pytest.mark.parametrize(("held", "first", "answered", "left"), [(0, 0, 1, 1), (7, 7, 1, 8), (1, 0, 0, 1)])
def test_a_thread_answers_the_number_that_it_waits_for_and_gives_up_on_others(
    held: int, first: int, answered: int, left: int
):
    function, code = exchange._exchange()
    line = ctypes.c_int64(held)
    assert function(ctypes.addressof(line), first, 1) == answered
    assert line.value == left
    assert code is not None


def test_a_processor_without_time_is_left_out(monkeypatch: pytest.MonkeyPatch):
    """The other thread answers fewer numbers than it was asked."""
    answer, code = exchange._exchange()
    monkeypatch.setattr(
        exchange, "_exchange", lambda: (lambda flag, first, count: answer(flag, first, count // 2), code)
    )
    assert exchange.exchanges() == {}
