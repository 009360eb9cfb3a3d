"""The team's code: sizes, loops, and how many threads a call uses."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.pool_text import team_code
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.team import (
    BEGIN,
    CLOSE,
    MEET,
    MEMBER_BYTES,
    MEMBERS_AT,
    MOST_THREADS,
    NEXT,
    OPEN,
    RECORD_BYTES,
    RUN,
    WORKERS_AT,
    available_threads,
    can_sleep,
    team,
)
from eutectic.runtime.team import team_code as loaded_team_code
from eutectic.support.errors import LoadError
from eutectic.target import Target

NEXT_PART_AT = 448  # of a team's record: the generation and the next part of shared work

# Two loops. The first one's iterations mark themselves; those of the second one add up all marks of the first.
_WORK = """
declare void @eutectic_begin(ptr, i64, i64, i64, i64)
declare { i64, i64 } @eutectic_next(ptr, i64, i64)
declare void @eutectic_meet(ptr, i64, i64)

define void @work(ptr %context, i64 %thread, i64 %threads, ptr %team) {
entry:
  call void @eutectic_begin(ptr %team, i64 %thread, i64 %threads, i64 100, i64 50)
  br label %take
take:
  %pair = call { i64, i64 } @eutectic_next(ptr %team, i64 %thread, i64 %threads)
  %begin = extractvalue { i64, i64 } %pair, 0
  %end = extractvalue { i64, i64 } %pair, 1
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %mark, label %met
mark:
  %i = phi i64 [ %begin, %take ], [ %more, %mark ]
  %at = getelementptr i64, ptr %context, i64 %i
  %before = load i64, ptr %at
  %after = add i64 %before, 1
  store i64 %after, ptr %at
  %more = add i64 %i, 1
  %again = icmp slt i64 %more, %end
  br i1 %again, label %mark, label %take
met:
  call void @eutectic_meet(ptr %team, i64 %thread, i64 %threads)
  call void @eutectic_begin(ptr %team, i64 %thread, i64 %threads, i64 3, i64 1)
  br label %take.sum
take.sum:
  %pair.sum = call { i64, i64 } @eutectic_next(ptr %team, i64 %thread, i64 %threads)
  %k = extractvalue { i64, i64 } %pair.sum, 0
  %k.end = extractvalue { i64, i64 } %pair.sum, 1
  %any = icmp slt i64 %k, %k.end
  br i1 %any, label %each, label %out
each:
  %row = phi i64 [ %k, %take.sum ], [ %row.next, %store ]
  br label %add
add:
  %j = phi i64 [ 0, %each ], [ %j.next, %add ]
  %sum = phi i64 [ 0, %each ], [ %grown, %add ]
  %j.at = getelementptr i64, ptr %context, i64 %j
  %term = load i64, ptr %j.at
  %grown = add i64 %sum, %term
  %j.next = add i64 %j, 1
  %j.again = icmp slt i64 %j.next, 100
  br i1 %j.again, label %add, label %store
store:
  %offset = add i64 %row, 100
  %result = getelementptr i64, ptr %context, i64 %offset
  store i64 %grown, ptr %result
  %row.next = add i64 %row, 1
  %row.again = icmp slt i64 %row.next, %k.end
  br i1 %row.again, label %each, label %take.sum
out:
  ret void
}
"""


def loaded_work() -> tuple[Callable[..., int | None], ObjectCode]:
    """The function that runs work with the team, and the work above."""
    runtime = loaded_team_code(team_code())
    imports = {name: runtime.address(name) for name in (BEGIN, NEXT, MEET)}
    library = ObjectCode([object_code(_WORK, machine_of(Target("llvm")))], imports)
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return call(runtime.address(RUN)), library


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
def test_iterations_are_done_once_and_before_those_that_wait_for_them():
    run, library = loaded_work()
    record = team(team_code(), 2)
    workers = ctypes.c_int64.from_address(record + WORKERS_AT).value
    assert workers >= 1
    for wanted in (1, 2, 2, 1, workers + 1, workers + 5) * 500:
        context = (ctypes.c_int64 * 104)()
        assert run(record, library.address("work"), ctypes.addressof(context), wanted) is None
        assert list(context) == [1] * 100 + [100] * 3 + [0]


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
def test_nobody_waits_for_a_worker_that_does_not_come():
    """A team whose record promises three workers that do not exist: the caller does everything."""
    run, library = loaded_work()
    memory = (ctypes.c_char * (RECORD_BYTES + 64))()
    record = -(-ctypes.addressof(memory) // 64) * 64
    ctypes.c_int64.from_address(record + WORKERS_AT).value = 3
    for _ in range(100):
        context = (ctypes.c_int64 * 104)()
        assert run(record, library.address("work"), ctypes.addressof(context), 4) is None
        assert list(context) == [1] * 100 + [100] * 3 + [0]


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
def test_no_part_of_shared_work_is_left_when_it_has_ended():
    """A worker that was stopped between two looks would else take a part of the next work, whose fields it reads."""
    runtime = loaded_team_code(team_code())
    memory = (ctypes.c_char * (RECORD_BYTES + 64))()
    record = -(-ctypes.addressof(memory) // 64) * 64
    ctypes.c_int64.from_address(record + WORKERS_AT).value = 3  # none of them exists
    done: list[int] = []
    word = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, word, ctypes.c_int64, ctypes.c_int64, word)
    work = kind(lambda _context, part, _parts, _team: done.append(part))
    offer = ctypes.CFUNCTYPE(ctypes.c_int64, word, kind, word, ctypes.c_int64)(runtime.address(OPEN))
    end = ctypes.CFUNCTYPE(None, word)(runtime.address(CLOSE))
    next_part = ctypes.c_int64.from_address(record + NEXT_PART_AT)
    for _ in range(3):
        assert offer(record, work, None, 3) == 3
        assert next_part.value & 0xFFFFFFFF == 1  # part 0 is the caller's
        end(record)
        assert (done, next_part.value) == ([1, 2], 0)
        done.clear()


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_workers_keep_off_the_processor_of_the_caller():
    run, library = loaded_work()
    record = team(team_code(), 2)
    processor = ctypes.CDLL(None).sched_getcpu
    everywhere = os.sched_getaffinity(0)
    for _ in range(50):
        time.sleep(1e-2)  # the workers have gone to sleep
        before = processor()
        context = (ctypes.c_int64 * 104)()
        run(record, library.address("work"), ctypes.addressof(context), 2)
        if before == processor() and everywhere - {before} == allowed_to_worker(record):
            break
    else:
        raise AssertionError(f"the worker may run on {allowed_to_worker(record)}, the caller is on {processor()}")


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
def test_a_caller_with_one_processor_leaves_the_workers_where_they_are():
    run, library = loaded_work()
    record = team(team_code(), 2)
    everywhere, here = os.sched_getaffinity(0), allowed_to_worker(record)
    try:
        for one in sorted(everywhere)[:4]:
            os.sched_setaffinity(0, {one})
            time.sleep(1e-2)
            context = (ctypes.c_int64 * 104)()
            run(record, library.address("work"), ctypes.addressof(context), 2)
            assert list(context) == [1] * 100 + [100] * 3 + [0]
            assert allowed_to_worker(record) == here
    finally:
        os.sched_setaffinity(0, everywhere)


def allowed_to_worker(record: int) -> set[int]:
    """The processors that the first worker may run on."""
    number_at = record + MEMBERS_AT + MEMBER_BYTES + 8
    while (number := ctypes.c_int32.from_address(number_at).value) == 0:
        time.sleep(1e-3)
    return os.sched_getaffinity(number)


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EUTECTIC_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    most = MOST_THREADS if can_sleep() else 1
    assert available_threads() == min(3, most)
    assert available_threads(2) == min(2, most)
    assert available_threads(10**6) == most
    monkeypatch.setenv("EUTECTIC_THREADS", "5")
    assert available_threads() == min(5, most)


def test_the_team_is_the_same():
    code = team_code()
    assert team(code, 1) == team(code, 2) == team(code, 4)


def test_unknown_symbols():
    with pytest.raises(LoadError, match="no symbol nowhere"):
        loaded_team_code(team_code()).address("nowhere")


def test_the_process_ends_while_workers_sleep():
    code = (
        "from eutectic.backend.llvm.pool_text import team_code; from eutectic.runtime.team import team; "
        "team(team_code(), 2); print('end')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "PATH": "/usr/bin:/bin", "EUTECTIC_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
