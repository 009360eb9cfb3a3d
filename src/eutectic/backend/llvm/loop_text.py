"""Loops whose iterations are taken by whichever thread of a team runs, in LLVM.

All threads of `eutectic_run` execute the same code, and each counts the loops that it comes to: the count is the
loop's number, the same in every thread. Thread t has the iterations from ceil(n t / threads) on, so that caches keep
what they had, and they are cut into pieces. The cursor of t says how many of its pieces were taken in which loop: a
value of an earlier loop means none, one of a later loop means that this one is over. A thread takes its own pieces
first. Then it waits for a moment, as the others mostly end at nearly the same time: what it took of theirs would be far
from them in the next loop, and their cursors, too. If they do not, it takes what is left of theirs.

Nobody waits for a thread, only for iterations: `progress` counts those that are done since the run began, and every
thread knows how many its loops had. A thread without a processor delays the piece that it has begun, nothing else;
when it comes back it walks past the loops that are over. What is no loop is a loop of one iteration.

A number that is read from memory and decides where the code goes must be the same in all threads, the late ones too,
by whose time the memory may have changed: one thread reads it and tells it (`eutectic_tell`). The last `SLOTS` such
numbers are kept; a thread that comes too late for one takes no more iterations in this run.

The order of the atomics. What a piece writes comes before the addition to `progress` (release), and who goes on has
read a sum that contains it (acquire; additions are read-modify-write, so a later one carries on what the earlier ones
released). That orders the data of all loops, and so the cursors need no order, only that each piece is taken once:
they are monotonic. Whoever takes a piece has passed all loops before it. A thread that goes to sleep counts itself
(seq_cst) and then looks at `progress`, in the system call; one that adds to `progress` (seq_cst) then looks at that
count. In the one order of these four somebody comes second and sees the other.
"""

from __future__ import annotations

from typing import Final

from eutectic.runtime.team import MEMBER_BYTES, MEMBERS_AT, SLOT_BYTES, SLOTS, SLOTS_AT

_PATIENCE: Final = 80  # pauses before pieces of others are taken; about a microsecond
MOST_PIECES: Final = 8  # of one thread; two of unequal speed end within a sixteenth of the loop of each other

LOOP_VALUES: Final = {  # what `LOOP_TEXT` is filled with, beside the waiting
    "members_at": MEMBERS_AT,
    "member_bytes": MEMBER_BYTES,
    "most_pieces": MOST_PIECES,
    "patience": _PATIENCE,
    "last_slot": SLOTS - 1,
    "slots_at": SLOTS_AT,
    "slot_bytes": SLOT_BYTES,
}

LOOP_TEXT: Final = """
declare i64 @llvm.smax.i64(i64, i64)

; The two lines of a thread: what others see of it, with its cursor and, at 8, the number of a worker's thread; and what
; is its own.
define internal ptr @member(ptr %team, i64 %thread) alwaysinline nounwind {{
entry:
  %offset = mul i64 %thread, {member_bytes}
  %from = getelementptr i8, ptr %team, i64 {members_at}
  %member = getelementptr i8, ptr %from, i64 %offset
  ret ptr %member
}}

; The line of a thread's own: 0 number of its loop, 8 iterations until the end of it, 16 extent, 24 pieces, 32 what it
; did and has not told, 40 how many threads' pieces it has gone through, 48 whether it is lost, 56 whether it slept.
define internal ptr @own(ptr %team, i64 %thread) alwaysinline nounwind {{
entry:
  %member = call ptr @member(ptr %team, i64 %thread)
  %own = getelementptr i8, ptr %member, i64 64
  ret ptr %own
}}

; Comes to a loop of `extent` iterations, which are worth `worth` pieces.
define void @eutectic_begin(ptr %team, i64 %thread, i64 %threads, i64 %extent, i64 %worth) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 %thread)
  %count = call i64 @llvm.smax.i64(i64 %extent, i64 0)
  %extent.at = getelementptr i8, ptr %own, i64 16
  store i64 %count, ptr %extent.at, align 8
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %out, label %shared
shared:
  %lost.at = getelementptr i8, ptr %own, i64 48
  %lost = load i64, ptr %lost.at, align 8
  %number = load i64, ptr %own, align 8
  %next = add i64 %number, 1
  store i64 %next, ptr %own, align 8
  %total.at = getelementptr i8, ptr %own, i64 8
  %total = load i64, ptr %total.at, align 8
  %more = add i64 %total, %count
  store i64 %more, ptr %total.at, align 8
  %each = udiv i64 %worth, %threads
  %some = call i64 @llvm.smax.i64(i64 %each, i64 1)
  %pieces = call i64 @llvm.smin.i64(i64 %some, i64 {most_pieces})
  %pieces.at = getelementptr i8, ptr %own, i64 24
  store i64 %pieces, ptr %pieces.at, align 8
  %through.at = getelementptr i8, ptr %own, i64 40
  %is.lost = icmp ne i64 %lost, 0
  %through = select i1 %is.lost, i64 %threads, i64 0
  store i64 %through, ptr %through.at, align 8
  br label %out
out:
  ret void
}}

; The next iterations, from the first number up to the second one; none when the two are equal. What this thread did is
; told when its own pieces are done, and at the end.
define {{ i64, i64 }} @eutectic_next(ptr %team, i64 %thread, i64 %threads) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 %thread)
  %extent.at = getelementptr i8, ptr %own, i64 16
  %extent = load i64, ptr %extent.at, align 8
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %all, label %shared
all:
  store i64 0, ptr %extent.at, align 8
  br label %give
shared:
  %number = load i64, ptr %own, align 8
  %pieces.at = getelementptr i8, ptr %own, i64 24
  %pieces = load i64, ptr %pieces.at, align 8
  %mine.at = getelementptr i8, ptr %own, i64 32
  %through.at = getelementptr i8, ptr %own, i64 40
  %through.before = load i64, ptr %through.at, align 8
  %total.at = getelementptr i8, ptr %own, i64 8
  %total = load i64, ptr %total.at, align 8
  %progress.at = getelementptr i8, ptr %team, i64 576
  %less = sub i64 %threads, 1
  br label %search
search:
  %through = phi i64 [ %through.before, %shared ], [ %through.next, %further ]
  %left = icmp slt i64 %through, %threads
  br i1 %left, label %range, label %none
range: ; iterations from %low on of thread %whose, in %parts pieces
  %sum = add i64 %thread, %through
  %around = sub i64 %sum, %threads
  %beyond = icmp sge i64 %around, 0
  %whose = select i1 %beyond, i64 %around, i64 %sum
  %scaled = mul i64 %extent, %whose
  %low.raised = add i64 %scaled, %less
  %low = udiv i64 %low.raised, %threads
  %high.raised = add i64 %low.raised, %extent
  %high = udiv i64 %high.raised, %threads
  %length = sub i64 %high, %low
  %parts = call i64 @llvm.smin.i64(i64 %length, i64 %pieces)
  %offset = mul i64 %whose, {member_bytes}
  %from = getelementptr i8, ptr %team, i64 {members_at}
  %cursor.at = getelementptr i8, ptr %from, i64 %offset
  %first.look = load atomic i64, ptr %cursor.at monotonic, align 8
  br label %look
look:
  %cursor = phi i64 [ %first.look, %range ], [ %seen, %claim ]
  %of = lshr i64 %cursor, 16
  %same = icmp eq i64 %of, %number
  %taken.now = and i64 %cursor, 65535
  %taken = select i1 %same, i64 %taken.now, i64 0
  %later = icmp ugt i64 %of, %number
  %untaken = icmp slt i64 %taken, %parts
  br i1 %later, label %none, label %weigh
weigh:
  br i1 %untaken, label %claim, label %exhausted
exhausted:
  %are.own = icmp eq i64 %through, 0
  br i1 %are.own, label %finished, label %further
finished:
  call void @tell_done(ptr %team, ptr %own)
  br label %watch
watch:
  %waited = phi i64 [ 0, %finished ], [ %longer, %pause ]
  %done = load atomic i64, ptr %progress.at acquire, align 8
  %all.done = icmp sge i64 %done, %total
  br i1 %all.done, label %give, label %still
still:
  %patient = icmp slt i64 %waited, {patience}
  br i1 %patient, label %pause, label %further
pause:
  {pause}
  %longer = add i64 %waited, 1
  br label %watch
further:
  %through.next = add i64 %through, 1
  br label %search
claim:
  %tag = shl i64 %number, 16
  %at = or i64 %tag, %taken
  %following = add i64 %at, 1
  %exchanged = cmpxchg ptr %cursor.at, i64 %cursor, i64 %following monotonic monotonic
  %seen = extractvalue {{ i64, i1 }} %exchanged, 0
  %won = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %won, label %mark, label %look
mark:
  %begin.scaled = mul i64 %length, %taken
  %end.scaled = add i64 %begin.scaled, %length
  %begin.in = udiv i64 %begin.scaled, %parts
  %end.in = udiv i64 %end.scaled, %parts
  %begin.at = add i64 %low, %begin.in
  %end.at = add i64 %low, %end.in
  %size = sub i64 %end.at, %begin.at
  %mine = load i64, ptr %mine.at, align 8
  %mine.more = add i64 %mine, %size
  store i64 %mine.more, ptr %mine.at, align 8
  store i64 %through, ptr %through.at, align 8
  br label %give
none:
  call void @tell_done(ptr %team, ptr %own)
  br label %give
give:
  %begin = phi i64 [ 0, %all ], [ %begin.at, %mark ], [ 0, %watch ], [ 0, %none ]
  %end = phi i64 [ %extent, %all ], [ %end.at, %mark ], [ 0, %watch ], [ 0, %none ]
  %half = insertvalue {{ i64, i64 }} poison, i64 %begin, 0
  %run = insertvalue {{ i64, i64 }} %half, i64 %end, 1
  ret {{ i64, i64 }} %run
}}

; Adds to `progress` what a thread did and has not told, and wakes those who wait for it.
define internal void @tell_done(ptr %team, ptr %own) nounwind {{
entry:
  %mine.at = getelementptr i8, ptr %own, i64 32
  %mine = load i64, ptr %mine.at, align 8
  %did = icmp sgt i64 %mine, 0
  br i1 %did, label %tell, label %out
tell:
  store i64 0, ptr %mine.at, align 8
  %progress.at = getelementptr i8, ptr %team, i64 576
  %before = atomicrmw add ptr %progress.at, i64 %mine seq_cst
  %now = add i64 %before, %mine
  %total.at = getelementptr i8, ptr %own, i64 8
  %total = load i64, ptr %total.at, align 8
  %over = icmp sge i64 %now, %total
  br i1 %over, label %ask, label %out
ask:
  %asleep.at = getelementptr i8, ptr %team, i64 584
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %wake, label %out
wake:
  {wake_progress}
  br label %out
out:
  ret void
}}

; Waits until the iterations of all loops that this thread has come to are done.
define void @eutectic_meet(ptr %team, i64 %thread, i64 %threads) nounwind {{
entry:
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %out, label %shared
shared:
  %own = call ptr @own(ptr %team, i64 %thread)
  %lost.at = getelementptr i8, ptr %own, i64 48
  %lost = load i64, ptr %lost.at, align 8
  %total.at = getelementptr i8, ptr %own, i64 8
  %total = load i64, ptr %total.at, align 8
  %progress.at = getelementptr i8, ptr %team, i64 576
  %is.lost = icmp ne i64 %lost, 0
  br i1 %is.lost, label %out, label %wait
wait:
  %spins = phi i64 [ 0, %shared ], [ %more, %spin ], [ 0, %sleep ]
  %progress = load atomic i64, ptr %progress.at acquire, align 8
  %over = icmp sge i64 %progress, %total
  br i1 %over, label %out, label %still
{spin_wait}
sleep:
  %slept.at = getelementptr i8, ptr %own, i64 56
  store i64 1, ptr %slept.at, align 8
  %asleep.at = getelementptr i8, ptr %team, i64 584
  %s = atomicrmw add ptr %asleep.at, i32 1 seq_cst
  %progress.low = trunc i64 %progress to i32
  {sleep_progress}
  %w = atomicrmw sub ptr %asleep.at, i32 1 seq_cst
  br label %wait
out:
  ret void
}}

; The end of a run, when nobody is inside: a caller that was lost has not counted all loops, but the cursors show the
; last one, and the numbers of the next run must be above it.
define internal void @catch_up(ptr %team, i64 %threads) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 0)
  %lost.at = getelementptr i8, ptr %own, i64 48
  %lost = load i64, ptr %lost.at, align 8
  %was.lost = icmp ne i64 %lost, 0
  %from = getelementptr i8, ptr %team, i64 {members_at}
  %counted = load i64, ptr %own, align 8
  br i1 %was.lost, label %look, label %out
look:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %most = phi i64 [ %counted, %entry ], [ %more, %look ]
  %offset = mul i64 %i, {member_bytes}
  %cursor.at = getelementptr i8, ptr %from, i64 %offset
  %cursor = load atomic i64, ptr %cursor.at monotonic, align 8
  %number = lshr i64 %cursor, 16
  %more = call i64 @llvm.smax.i64(i64 %most, i64 %number)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %threads
  br i1 %again, label %look, label %store
store:
  store i64 %more, ptr %own, align 8
  br label %out
out:
  ret void
}}

; Where a number is kept that is told in a loop: 0 the loop's number, 8 the number told.
define internal ptr @slot(ptr %team, i64 %number) alwaysinline nounwind {{
entry:
  %place = and i64 %number, {last_slot}
  %offset = mul i64 %place, {slot_bytes}
  %from = getelementptr i8, ptr %team, i64 {slots_at}
  %slot = getelementptr i8, ptr %from, i64 %offset
  ret ptr %slot
}}

; Called within a loop of one iteration: keeps a number for all threads. The slot is nobody's in between, so that a late
; reader does not take a new number for an old one.
define void @eutectic_tell(ptr %team, i64 %thread, i64 %value) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 %thread)
  %number = load i64, ptr %own, align 8
  %slot = call ptr @slot(ptr %team, i64 %number)
  %value.at = getelementptr i8, ptr %slot, i64 8
  store atomic i64 -1, ptr %slot seq_cst, align 8
  store atomic i64 %value, ptr %value.at release, align 8
  store atomic i64 %number, ptr %slot release, align 8
  ret void
}}

; Called after that loop, when it is done: the number, and 1; or 0 and 0 when the number is gone and so the thread lost.
define {{ i64, i64 }} @eutectic_told(ptr %team, i64 %thread) nounwind {{
entry:
  %own = call ptr @own(ptr %team, i64 %thread)
  %number = load i64, ptr %own, align 8
  %slot = call ptr @slot(ptr %team, i64 %number)
  %value.at = getelementptr i8, ptr %slot, i64 8
  %before = load atomic i64, ptr %slot acquire, align 8
  %value = load atomic i64, ptr %value.at acquire, align 8
  %after = load atomic i64, ptr %slot acquire, align 8
  %was = icmp eq i64 %before, %number
  %is = icmp eq i64 %after, %number
  %known = and i1 %was, %is
  br i1 %known, label %out, label %lose
lose:
  %lost.at = getelementptr i8, ptr %own, i64 48
  store i64 1, ptr %lost.at, align 8
  br label %out
out:
  %number.told = phi i64 [ %value, %entry ], [ 0, %lose ]
  %flag = zext i1 %known to i64
  %half = insertvalue {{ i64, i64 }} poison, i64 %number.told, 0
  %both = insertvalue {{ i64, i64 }} %half, i64 %flag, 1
  ret {{ i64, i64 }} %both
}}
"""
