"""The team's code: sizes, barriers, and how many threads a call uses."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.pool_text import team_code
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.team import BARRIER, MOST_THREADS, WORKERS_AT, available_threads, can_sleep, team
from eutectic.runtime.team import team_code as loaded_team_code
from eutectic.support.errors import LoadError
from eutectic.target import Target

# Each thread adds its number to a place of its own, then, behind the barrier, all places to its second one.
_WORK = """
declare void @eutectic_barrier(ptr, i64)

define void @work(ptr %context, i64 %thread, i64 %threads, ptr %team) {
entry:
  %mine = getelementptr i64, ptr %context, i64 %thread
  %next = add i64 %thread, 1
  store i64 %next, ptr %mine
  call void @eutectic_barrier(ptr %team, i64 %threads)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %more, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %grown, %loop ]
  %at = getelementptr i64, ptr %context, i64 %i
  %term = load i64, ptr %at
  %grown = add i64 %sum, %term
  %more = add i64 %i, 1
  %again = icmp slt i64 %more, %threads
  br i1 %again, label %loop, label %out
out:
  %offset = add i64 %thread, 256
  %result = getelementptr i64, ptr %context, i64 %offset
  store i64 %grown, ptr %result
  ret void
}
"""


@pytest.mark.skipif(not can_sleep(), reason="this platform has no team")
def test_all_threads_meet_at_the_barrier():
    runtime = loaded_team_code(team_code())
    imports = {BARRIER: runtime.address(BARRIER)}
    library = ObjectCode([object_code(_WORK, machine_of(Target("llvm")))], imports)
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    run = call(runtime.address("eutectic_run"))
    record = team(team_code(), 2)
    workers = ctypes.c_int64.from_address(record + WORKERS_AT).value
    assert workers >= 1
    for wanted in (1, 2, 2, 1, workers + 1, workers + 5) * 50:
        context = (ctypes.c_int64 * 512)()
        assert run(record, library.address("work"), ctypes.addressof(context), wanted) is None
        threads = min(wanted, workers + 1)
        assert list(context[:threads]) == list(range(1, threads + 1))
        assert list(context[256 : 256 + threads]) == [threads * (threads + 1) // 2] * threads
        assert not any(context[threads:256])


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
