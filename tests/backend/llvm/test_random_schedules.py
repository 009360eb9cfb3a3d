"""Programs whose loops are split, vectorized, unrolled and shared at random, beside the reference interpreter."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.backend.llvm.batch import run_with
from tests.tir.transform.schedules import PROGRAMS, arguments, result, same, schedules

from eutectic.testing.native import native

FAST, ALL = 1, 8


@pytest.mark.parametrize("count", [FAST, pytest.param(ALL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules(name: str, count: int):
    func = PROGRAMS[name]()
    seed = sum(map(ord, name)) + count
    arrays = arguments(func, seed)
    want = result(func, arrays)
    chosen = schedules(func, seed) if count == ALL else islice(schedules(func, seed), 3 + seed % 3, 4 + seed % 3)
    for what, made in chosen:
        function = native(made, schedule=False)
        for threads in (1, 2):
            got = [x.copy() for x in arrays]
            run_with(function, threads, *got)
            try:
                same(got, want, exact=False)  # multiply-adds are fused
            except AssertionError as error:
                raise AssertionError(f"{name}, {what}, {threads} threads: {error}") from None
