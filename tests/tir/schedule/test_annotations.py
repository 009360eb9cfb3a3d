"""annotate knows its keys, and prefetch looks ahead: each reaches what reads it, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.programs import matmul
from tests.tir.schedule.programs import chain, keeps, of, refused, x

from eutectic import topi
from eutectic.backend.llvm.kernels import lowered_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.script import from_source
from eutectic.support.errors import ScheduleError
from eutectic.target import Target
from eutectic.testing.native import native
from eutectic.tir import PrimFunc
from eutectic.tir.annotation_keys import KEYS, objection
from eutectic.tir.schedule import Schedule

VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "buffer_dim_align": ([[[0, 1, 8, 1]], [[0, 0, 4, 0], [1, 1, 2, 1]]], [3, [], [[0, 1, 8]], [[0, 1, 0, 1]], [["A"]]]),
    "prefetch": (
        [[["A", 1]], [["A", 4], ["B", 2]], [["A", 4, "spread"], ["B", 2]]],
        ["A", [], [["A", 0]], [["A"]], [[1, "A"]], [["A", True]], [["A", 4, "even"]], [["A", 4, "spread", 2]]],
    ),
}


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("key", KEYS)
def test_each_key_takes_what_it_says(key: str):
    good, bad = VALUES[key]
    for value in good:
        assert objection(key, plain(value), KEYS[key].holder) is None
    for value in bad:
        assert objection(key, plain(value), KEYS[key].holder).message == (
            f"{key} takes {KEYS[key].takes}, got {plain(value)!r}"
        )


REFUSALS: dict[str, tuple[Callable[[Schedule], Any], tuple[str, ...]]] = {
    "near": (
        lambda s: s.annotate(loop(s), "prefech", 1),
        ("nothing reads annotation 'prefech'", "did you mean prefetch"),
    ),
    "far": (
        lambda s: s.annotate(loop(s), "pragma_auto_unroll", 16),
        ("known keys: buffer_dim_align, prefetch", "a key of your own begins with user., as user.pragma_auto_unroll"),
    ),
    "empty": (lambda s: s.annotate(loop(s), "user.", 16), ("nothing reads annotation 'user.'",)),
    "loop": (lambda s: s.annotate(loop(s), "buffer_dim_align", [[0, 1, 8, 1]]), ("of a block, not of a loop",)),
    "block": (lambda s: s.annotate(s.get_block("compute"), "prefetch", [["A", 1]]), ("of a loop, not of a block",)),
    "value": (lambda s: s.annotate(loop(s), "prefetch", "A"), ("prefetch takes a list of [name", "got 'A'")),
    "around": (lambda s: s.prefetch("compute", 0, s.get_loops("compute_1")[0]), ("is not around block compute",)),
    "buffer": (lambda s: s.prefetch("compute", 1, loop(s)), ("block compute reads no buffer 1",)),
    "distance": (lambda s: s.prefetch("compute", 0, loop(s), 0), ("distance 0 is not positive",)),
    "kind": (lambda s: (s.parallel(loop(s)), s.prefetch("compute", 0, loop(s))), ("loop i0 is parallel",)),
}


def loop(sch: Schedule) -> Any:
    return sch.get_loops("compute")[0]


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str):
    step, said = REFUSALS[name]
    with pytest.raises(ScheduleError) as error:
        step(Schedule(chain()))
    assert all(part in str(error.value) for part in said)


def test_a_loop_that_reads_the_same_elements_is_refused():
    sch = Schedule(matmul(size=4))
    _, j, _ = sch.get_loops("matmul")
    assert "reads the same elements of A" in refused(sch, lambda: sch.prefetch("matmul", 0, j))


def test_keys_of_users_stay_on_the_loop():
    sch = Schedule(chain(), debug_mask="all")
    sch.annotate(loop(sch), "user.note", {"a": [1, 2.5, "b"]})
    assert sch.get(loop(sch)).annotations["user.note"]["a"] == (1, 2.5, "b")
    keeps(chain(), sch)


def looking_ahead() -> tuple[PrimFunc, PrimFunc]:
    before = of(lambda a, b: topi.matmul(a, b), x(2, 16, name="a"), x(16, 32, name="b"))
    sch = Schedule(before)
    block = sch.get_block("T_matmul")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, [None, 16])
    sch.reorder(i, outer, k, inner)
    sch.prefetch(block, 0, k, 16)
    sch.prefetch(block, 1, k, 8)
    sch.prefetch(block, 1, k, 4)  # in the place of the one before
    sch.vectorize(inner)
    keeps(before, sch)
    return before, sch.func


def test_a_prefetch_is_in_the_text_and_the_trace(golden):
    golden(looking_ahead()[1].script())


def test_a_prefetch_reaches_the_code():
    _, func = looking_ahead()
    again = from_source(func.script())
    for made in (func, again):
        text = lowered_kernel(made, machine_of(Target("llvm"))).text
        assert text.count("call void @llvm.prefetch.p0(") == 2
        assert "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)" in text


def test_code_with_prefetches_computes_the_same():
    before, func = looking_ahead()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 16), np.float32), rng.standard_normal((16, 32), np.float32)
    want, got = np.empty((2, 32), np.float32), np.empty((2, 32), np.float32)
    native(before)(a, b, want)
    native(func)(a, b, got)
    np.testing.assert_allclose(got, a.astype("f8") @ b.astype("f8"), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
