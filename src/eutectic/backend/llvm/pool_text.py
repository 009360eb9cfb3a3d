"""The thread pool's code, in LLVM: workers, the way into them, and the barrier.

A team's record, by byte: 0 arrivals at the barrier, 64 the barrier's generation, 72 how many sleep there, 128 the
message of a failed check, 192 the work's generation (a futex, odd while the work is changed), 200 the work's
function, 208 its context, 216 its number of threads, 224 how many workers there are, 232 whether it is shared, 256
the door: how many workers are inside (a futex) and above that the generation that may enter, 264 whether the caller
sleeps, 272 how many small works are still done alone, 280 how many that were last time, 320 how many workers sleep,
384 whether a call has the team, 448 the generation and the next part of shared work, 512 how many parts of it are
done (a futex), 520 whether the caller waits for them, 576 the iterations that are done in this run (a futex), 584 how
many wait for them asleep, 640 the number of loops before this run, 704 the numbers that were told, 960 the
processors of the workers (`apart_text.py`), from 1024 on two cache lines for each thread: its cursor with the number of
its thread, and what is its own (`loop_text.py`).

Work is of two kinds. For `eutectic_run` every thread that comes goes through the same code and takes iterations of
its loops. The caller never waits for a worker to come: at its end it closes the door, and waits only for those that
are inside, who may still look at the context. Shared work (`eutectic_open`, `eutectic_close`) has parts that whoever
is free takes, each once: a worker without a processor holds nobody up, as the caller takes what is left when it has
done its own. A part may wait at a barrier for the others; who has finished a part has passed all of its barriers, so
that the others have begun.

The order of the atomics here. The door is opened with a release, entering is an acquire: who is inside sees the work.
Leaving is a release, and the caller reads the count with an acquire, so that it sees all that was done. The fields
that a worker reads before it enters are stored with a release each, behind the odd generation: one that reads a new
field reads the new generation after it. Where somebody falls asleep, the four accesses to the futex and to the count
of sleepers are seq_cst: of two threads, one sees what the other did.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Final

from eutectic.backend.llvm.apart_text import apart_text
from eutectic.backend.llvm.loop_text import LOOP_TEXT, LOOP_VALUES
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import object_code
from eutectic.runtime.team import FUTEX, MEMBER_BYTES, MEMBERS_AT, can_sleep
from eutectic.target import Target

_SPINS: Final = 2000  # pauses before a thread gives its processor away; some tens of microseconds
_PAUSE: Final = {
    "x86_64": 'call void asm sideeffect "pause", "~{memory}"()',
    "aarch64": 'call void asm sideeffect "isb", "~{memory}"()',
}

_WAITS: Final = {  # a futex, and the value that it must still have
    "sleep": ("%word", "%seen"),
    "sleep_turn": ("%turn.at", "%turn.low"),
    "sleep_door": ("%door.at", "%inside"),
    "sleep_progress": ("%progress.at", "%progress.low"),
    "sleep_parts": ("%parts.at", "%parts.low"),
}
_WAKES: Final = {name.replace("sleep", "wake"): word for name, (word, _) in _WAITS.items()}
_NOTHING: Final = "ptr null, ptr null, i32 0"


def pool_text() -> str:
    """The LLVM module with the functions named in `runtime.team`."""
    machine = platform.machine()
    pause = _PAUSE.get(machine, "")
    calls = dict.fromkeys(_WAITS, "") | dict.fromkeys(_WAKES, "")
    if can_sleep():
        number = FUTEX[machine]
        for name, (word, seen) in _WAITS.items():
            calls[name] = f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word}, i32 128, i32 {seen}, {_NOTHING})"
        for name, word in _WAKES.items():
            calls[name] = f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word}, i32 129, i32 1000000, {_NOTHING})"
    spins = {
        f"spin_{head}": _SPIN.format(spins=_SPINS, pause=pause, head=head) for head in ("wait", "join", "part", "look")
    }
    values = {"single_record": MEMBERS_AT + MEMBER_BYTES, "pause": pause, **LOOP_VALUES}
    text = (_TEXT + LOOP_TEXT).format(**values, **spins, **calls)
    return text + apart_text(machine if can_sleep() else "")


@cache
def team_code() -> bytes:
    """The object code of the thread pool: for any processor of this family, as one serves all code of a process."""
    return object_code(pool_text(), machine_of(Target("llvm -mcpu=generic")))


_SPIN: Final = """still:
  %long = icmp sgt i64 %spins, {spins}
  br i1 %long, label %sleep, label %spin
spin:
  {pause}
  %more = add i64 %spins, 1
  br label %{head}"""

_TEXT: Final = """
declare i64 @syscall(i64, ...)
declare i64 @llvm.smin.i64(i64, i64)

; Nobody goes on before all threads have arrived.
define void @eutectic_barrier(ptr %team, i64 %threads) nounwind {{
entry:
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %out, label %arrive
arrive:
  %turn.at = getelementptr i8, ptr %team, i64 64
  %turn = load atomic i64, ptr %turn.at acquire, align 8
  %before = atomicrmw add ptr %team, i64 1 acq_rel
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %threads
  br i1 %last, label %release, label %wait
release:
  store atomic i64 0, ptr %team monotonic, align 8
  %next = add i64 %turn, 1
  store atomic i64 %next, ptr %turn.at seq_cst, align 8
  %asleep.at = getelementptr i8, ptr %team, i64 72
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %wake, label %out
wake:
  {wake_turn}
  br label %out
wait:
  %spins = phi i64 [ 0, %arrive ], [ %more, %spin ], [ 0, %sleep ]
  %now = load atomic i64, ptr %turn.at acquire, align 8
  %passed = icmp ne i64 %now, %turn
  br i1 %passed, label %out, label %still
{spin_wait}
sleep:
  %sleepers.at = getelementptr i8, ptr %team, i64 72
  %s = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %turn.low = trunc i64 %turn to i32
  {sleep_turn}
  %w = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %wait
out:
  ret void
}}

; Runs work(context, thread, threads, team) in the threads that come; returns the message of a failed check, or null.
; When another call has the team, the calling thread does everything alone.
; Bit 32 of %wanted marks small work. That is done alone for a while, the longer the more often it happens, after
; a worker was found to have no processor: waiting for it would take many times what the work takes.
define ptr @eutectic_run(ptr %team, ptr %work, ptr %context, i64 %flags) nounwind {{
entry:
  %wanted = and i64 %flags, 4294967295
  %small = icmp ne i64 %wanted, %flags
  %rest.at = getelementptr i8, ptr %team, i64 272
  %level.at = getelementptr i8, ptr %team, i64 280
  %workers.at = getelementptr i8, ptr %team, i64 224
  %workers = load i64, ptr %workers.at, align 8
  %most = add i64 %workers, 1
  %threads = call i64 @llvm.smin.i64(i64 %wanted, i64 %most)
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %alone, label %weigh
weigh:
  %rest = load i64, ptr %rest.at, align 8
  %resting = icmp sgt i64 %rest, 0
  %shy = and i1 %resting, %small
  br i1 %shy, label %skip, label %take
skip:
  %less = sub i64 %rest, 1
  store i64 %less, ptr %rest.at, align 8
  br label %alone
take:
  %busy.at = getelementptr i8, ptr %team, i64 384
  %taken = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %mine, label %together, label %alone
alone:
  %record = alloca [{single_record} x i8], align 64
  %slot.alone = getelementptr i8, ptr %record, i64 128
  store ptr null, ptr %slot.alone, align 8
  call void @join(ptr %record, i64 0, i64 0)
  call void %work(ptr %context, i64 0, i64 1, ptr %record)
  %said = load ptr, ptr %slot.alone, align 8
  ret ptr %said
together:
  %word = getelementptr i8, ptr %team, i64 192
  %changing = atomicrmw add ptr %word, i32 1 seq_cst
  %generation = add i32 %changing, 2
  %kind.at = getelementptr i8, ptr %team, i64 232
  store atomic i64 0, ptr %kind.at release, align 8
  %work.at = getelementptr i8, ptr %team, i64 200
  store atomic ptr %work, ptr %work.at release, align 8
  %context.at = getelementptr i8, ptr %team, i64 208
  store atomic ptr %context, ptr %context.at release, align 8
  %threads.at = getelementptr i8, ptr %team, i64 216
  store atomic i64 %threads, ptr %threads.at release, align 8
  %message.at = getelementptr i8, ptr %team, i64 128
  store ptr null, ptr %message.at, align 8
  %progress.at = getelementptr i8, ptr %team, i64 576
  store atomic i64 0, ptr %progress.at monotonic, align 8
  %own = call ptr @own(ptr %team, i64 0)
  %number = load i64, ptr %own, align 8
  %first.at = getelementptr i8, ptr %team, i64 640
  store atomic i64 %number, ptr %first.at monotonic, align 8
  call void @join(ptr %team, i64 0, i64 %number)
  %wide = zext i32 %generation to i64
  %open = shl i64 %wide, 32
  %door.at = getelementptr i8, ptr %team, i64 256
  store atomic i64 %open, ptr %door.at release, align 8
  %old = atomicrmw add ptr %word, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %team, i64 320
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp sgt i32 %sleepers, 0
  br i1 %some, label %wake, label %work.now
wake:
  call void @keep_off(ptr %team)
  {wake}
  br label %work.now
work.now:
  call void %work(ptr %context, i64 0, i64 %threads, ptr %team)
  %closing = atomicrmw or ptr %door.at, i64 4294967296 seq_cst
  br label %part
part: ; who is inside has the context; who is not finds the door closed
  %spins = phi i64 [ 0, %work.now ], [ %more, %spin ], [ 0, %sleep ]
  %slept = phi i64 [ 0, %work.now ], [ %slept, %spin ], [ 1, %sleep ]
  %door = load atomic i64, ptr %door.at seq_cst, align 8
  %inside = trunc i64 %door to i32
  %all = icmp eq i32 %inside, 0
  br i1 %all, label %out, label %still
{spin_part}
sleep: ; a worker has no processor: blocking gives it this one, and us another one afterwards
  %caller.at = getelementptr i8, ptr %team, i64 264
  store atomic i32 1, ptr %caller.at seq_cst, align 4
  {sleep_door}
  store atomic i32 0, ptr %caller.at seq_cst, align 4
  br label %part
out:
  call void @catch_up(ptr %team, i64 %threads)
  %slept.at = getelementptr i8, ptr %own, i64 56
  %slept.before = load i64, ptr %slept.at, align 8
  %slept.ever = or i64 %slept, %slept.before
  %level = load i64, ptr %level.at, align 8
  %doubled = shl i64 %level, 1
  %grown = add i64 %doubled, 16
  %capped = call i64 @llvm.smin.i64(i64 %grown, i64 16384)
  %part.of = lshr i64 %level, 4
  %shrunk = sub i64 %level, %part.of
  %bad = icmp ne i64 %slept.ever, 0
  %level.new = select i1 %bad, i64 %capped, i64 %shrunk
  %rest.new = select i1 %bad, i64 %capped, i64 0
  store i64 %level.new, ptr %level.at, align 8
  store i64 %rest.new, ptr %rest.at, align 8
  %message = load ptr, ptr %message.at, align 8
  store atomic i32 0, ptr %busy.at release, align 4
  ret ptr %message
}}

; A thread begins a run, in which `number` loops were before.
define internal void @join(ptr %team, i64 %thread, i64 %number) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 %thread)
  store i64 %number, ptr %own, align 8
  %total.at = getelementptr i8, ptr %own, i64 8
  store i64 0, ptr %total.at, align 8
  %mine.at = getelementptr i8, ptr %own, i64 32
  store i64 0, ptr %mine.at, align 8
  %lost.at = getelementptr i8, ptr %own, i64 48
  store i64 0, ptr %lost.at, align 8
  %slept.at = getelementptr i8, ptr %own, i64 56
  store i64 0, ptr %slept.at, align 8
  ret void
}}

; What a worker does in a run, unless the caller is at its end already.
define internal void @take_part(ptr %team, i64 %thread, i32 %generation) nounwind {{
entry:
  %door.at = getelementptr i8, ptr %team, i64 256
  %wide = zext i32 %generation to i64
  %first.look = load atomic i64, ptr %door.at monotonic, align 8
  br label %look
look:
  %door = phi i64 [ %first.look, %entry ], [ %seen, %enter ]
  %of = lshr i64 %door, 32
  %open = icmp eq i64 %of, %wide
  br i1 %open, label %enter, label %out
enter:
  %following = add i64 %door, 1
  %exchanged = cmpxchg ptr %door.at, i64 %door, i64 %following acquire monotonic
  %seen = extractvalue {{ i64, i1 }} %exchanged, 0
  %won = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %won, label %do, label %look
do: ; nothing of this changes as long as anybody is inside
  %work.at = getelementptr i8, ptr %team, i64 200
  %work = load ptr, ptr %work.at, align 8
  %context.at = getelementptr i8, ptr %team, i64 208
  %context = load ptr, ptr %context.at, align 8
  %threads.at = getelementptr i8, ptr %team, i64 216
  %threads = load i64, ptr %threads.at, align 8
  %first.at = getelementptr i8, ptr %team, i64 640
  %first = load i64, ptr %first.at, align 8
  call void @join(ptr %team, i64 %thread, i64 %first)
  call void %work(ptr %context, i64 %thread, i64 %threads, ptr %team)
  %before = atomicrmw sub ptr %door.at, i64 1 seq_cst
  %caller.at = getelementptr i8, ptr %team, i64 264
  %caller = load atomic i32, ptr %caller.at seq_cst, align 4
  %waits = icmp sgt i32 %caller, 0
  br i1 %waits, label %wake, label %out
wake:
  {wake_door}
  br label %out
out:
  ret void
}}

; Takes parts of shared work until none is left, or the work is another one.
define internal void @take(ptr %team, i32 %generation) nounwind {{
entry:
  %next.at = getelementptr i8, ptr %team, i64 448
  %work.at = getelementptr i8, ptr %team, i64 200
  %context.at = getelementptr i8, ptr %team, i64 208
  %count.at = getelementptr i8, ptr %team, i64 216
  %wide = zext i32 %generation to i64
  br label %look
look:
  %next = load atomic i64, ptr %next.at acquire, align 8
  %of = lshr i64 %next, 32
  %same = icmp eq i64 %of, %wide
  br i1 %same, label %weigh, label %out
weigh:
  %count = load atomic i64, ptr %count.at acquire, align 8
  %work = load atomic ptr, ptr %work.at acquire, align 8
  %context = load atomic ptr, ptr %context.at acquire, align 8
  %part = and i64 %next, 4294967295
  %left = icmp slt i64 %part, %count
  br i1 %left, label %claim, label %out
claim:
  %after = add i64 %next, 1
  %taken = cmpxchg ptr %next.at, i64 %next, i64 %after acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %do, label %look
do:
  call void %work(ptr %context, i64 %part, i64 %count, ptr %team)
  call void @finish(ptr %team, i64 %count)
  br label %look
out:
  ret void
}}

; Notes that a part of shared work is done.
define internal void @finish(ptr %team, i64 %count) nounwind {{
entry:
  %parts.at = getelementptr i8, ptr %team, i64 512
  %before = atomicrmw add ptr %parts.at, i64 1 seq_cst
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %count
  br i1 %last, label %ask, label %out
ask:
  %waits.at = getelementptr i8, ptr %team, i64 520
  %waits = load atomic i32, ptr %waits.at seq_cst, align 4
  %asleep = icmp ne i32 %waits, 0
  br i1 %asleep, label %wake, label %out
wake:
  {wake_parts}
  br label %out
out:
  ret void
}}

; Offers work(context, part, parts, team) to the team; returns the number of parts. The caller does part 0 and calls
; eutectic_close, when that is more than 1; else the work is its own: another call has the team, or there is none.
define i64 @eutectic_open(ptr %team, ptr %work, ptr %context, i64 %wanted) nounwind {{
entry:
  %workers.at = getelementptr i8, ptr %team, i64 224
  %workers = load i64, ptr %workers.at, align 8
  %most = add i64 %workers, 1
  %count = call i64 @llvm.smin.i64(i64 %wanted, i64 %most)
  %single = icmp sle i64 %count, 1
  br i1 %single, label %alone, label %take
take:
  %busy.at = getelementptr i8, ptr %team, i64 384
  %taken = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %mine, label %offer, label %alone
alone:
  ret i64 1
offer:
  %word = getelementptr i8, ptr %team, i64 192
  %changing = atomicrmw add ptr %word, i32 1 seq_cst
  %generation = add i32 %changing, 2
  %kind.at = getelementptr i8, ptr %team, i64 232
  store atomic i64 1, ptr %kind.at release, align 8
  %work.at = getelementptr i8, ptr %team, i64 200
  store atomic ptr %work, ptr %work.at release, align 8
  %context.at = getelementptr i8, ptr %team, i64 208
  store atomic ptr %context, ptr %context.at release, align 8
  %count.at = getelementptr i8, ptr %team, i64 216
  store atomic i64 %count, ptr %count.at release, align 8
  %parts.at = getelementptr i8, ptr %team, i64 512
  store atomic i64 0, ptr %parts.at release, align 8
  %wide = zext i32 %generation to i64
  %high = shl i64 %wide, 32
  %first = or i64 %high, 1
  %next.at = getelementptr i8, ptr %team, i64 448
  store atomic i64 %first, ptr %next.at release, align 8
  %settled = atomicrmw add ptr %word, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %team, i64 320
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp sgt i32 %sleepers, 0
  br i1 %some, label %wake, label %out
wake:
  call void @keep_off(ptr %team)
  {wake}
  br label %out
out:
  ret i64 %count
}}

; The end of part 0: takes what nobody has begun, and waits for the rest.
define void @eutectic_close(ptr %team) nounwind {{
entry:
  %count.at = getelementptr i8, ptr %team, i64 216
  %count = load atomic i64, ptr %count.at acquire, align 8
  %word = getelementptr i8, ptr %team, i64 192
  %generation = load atomic i32, ptr %word acquire, align 4
  %parts.at = getelementptr i8, ptr %team, i64 512
  %waits.at = getelementptr i8, ptr %team, i64 520
  call void @finish(ptr %team, i64 %count)
  call void @take(ptr %team, i32 %generation)
  br label %join
join:
  %spins = phi i64 [ 0, %entry ], [ %more, %spin ], [ 0, %sleep ]
  %parts = load atomic i64, ptr %parts.at seq_cst, align 8
  %all = icmp sge i64 %parts, %count
  br i1 %all, label %out, label %still
{spin_join}
sleep:
  store atomic i32 1, ptr %waits.at seq_cst, align 4
  %parts.low = trunc i64 %parts to i32
  {sleep_parts}
  store atomic i32 0, ptr %waits.at seq_cst, align 4
  br label %join
out: ; a late worker must not find a part of this work when there is other work already
  %next.at = getelementptr i8, ptr %team, i64 448
  store atomic i64 0, ptr %next.at release, align 8
  %busy.at = getelementptr i8, ptr %team, i64 384
  store atomic i32 0, ptr %busy.at release, align 4
  ret void
}}

; What a worker does all its life; the argument is {{ team, its number }}. Work without a function ends it.
define ptr @eutectic_worker(ptr %argument) nounwind {{
entry:
  %team = load ptr, ptr %argument, align 8
  %number.at = getelementptr i8, ptr %argument, i64 8
  %thread = load i64, ptr %number.at, align 8
  call void @introduce(ptr %team, i64 %thread)
  %word = getelementptr i8, ptr %team, i64 192
  %sleepers.at = getelementptr i8, ptr %team, i64 320
  %work.at = getelementptr i8, ptr %team, i64 200
  %threads.at = getelementptr i8, ptr %team, i64 216
  %kind.at = getelementptr i8, ptr %team, i64 232
  br label %idle
idle.same:
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %now, %idle.next ], [ %seen, %idle.same ]
  br label %look
look:
  %spins = phi i64 [ 0, %idle ], [ %more, %spin ], [ 0, %woken ]
  %now = load atomic i32, ptr %word seq_cst, align 4
  %new = icmp ne i32 %now, %seen
  %odd = and i32 %now, 1
  %settled = icmp eq i32 %odd, 0
  %ready = and i1 %new, %settled
  br i1 %ready, label %begin, label %still
{spin_look}
sleep:
  %s = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  {sleep}
  %w = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %woken
woken:
  br label %look
begin: ; what is read belongs together when the generation is still the same afterwards
  %work = load atomic ptr, ptr %work.at acquire, align 8
  %threads = load atomic i64, ptr %threads.at acquire, align 8
  %kind = load atomic i64, ptr %kind.at acquire, align 8
  %again = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %again, %now
  br i1 %same, label %known, label %idle.same
known:
  %ends = icmp eq ptr %work, null
  br i1 %ends, label %out, label %mine
mine:
  %shared = icmp ne i64 %kind, 0
  br i1 %shared, label %share, label %own
share:
  call void @take(ptr %team, i32 %now)
  br label %idle.next
own:
  %takes.part = icmp slt i64 %thread, %threads
  br i1 %takes.part, label %do, label %idle.next
do:
  call void @take_part(ptr %team, i64 %thread, i32 %now)
  br label %idle.next
idle.next:
  br label %idle
out:
  ret ptr null
}}
"""
