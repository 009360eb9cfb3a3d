"""Workers keep off the caller's processor, in LLVM.

A thread that is woken may be put where the one that wakes it runs. On a virtual machine that happens call after call:
an idle processor that the host has taken back counts as one that is not available (`available_idle_cpu` and
`vcpu_is_preempted` in Linux), and the worker waits behind the caller, or interrupts it, while another processor sleeps.
So before it wakes workers the caller leaves them the processors that it may use itself, without the one where it is.
That is a system call, and one for each worker when the answer has changed. A caller that may use one processor only
leaves the workers where they are.

The processors of the workers are in the team's record, one bit for each; a worker writes the number of its thread
behind its cursor. On a machine with more processors than there are bits nothing is done.
"""

from __future__ import annotations

from typing import Final

from eutectic.runtime.team import GETTID, PROCESSOR_BYTES, PROCESSORS_AT

_TEXT: Final = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A worker says which thread it is.
define internal void @introduce(ptr %team, i64 %worker) nounwind {{
entry:
  %wide = call i64 (i64, ...) @syscall(i64 {gettid})
  %number = trunc i64 %wide to i32
  %member = call ptr @member(ptr %team, i64 %worker)
  %number.at = getelementptr i8, ptr %member, i64 8
  store atomic i32 %number, ptr %number.at release, align 4
  ret void
}}

; The workers keep off the processor of the calling thread.
define internal void @keep_off(ptr %team) nounwind {{
entry:
  %mask = alloca [{mask_bytes} x i8], align 8
  %processor = call i32 @sched_getcpu()
  %small = icmp ult i32 %processor, {bits}
  br i1 %small, label %ask, label %out
ask:
  %failed = call i32 @sched_getaffinity(i32 0, i64 {mask_bytes}, ptr %mask)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %leave, label %out
leave:
  %byte = lshr i32 %processor, 3
  %place = zext i32 %byte to i64
  %byte.at = getelementptr i8, ptr %mask, i64 %place
  %all = load i8, ptr %byte.at, align 1
  %bit = and i32 %processor, 7
  %shift = trunc i32 %bit to i8
  %one = shl i8 1, %shift
  %others = xor i8 %one, -1
  %without = and i8 %all, %others
  store i8 %without, ptr %byte.at, align 1
  %masks.at = getelementptr i8, ptr %team, i64 {masks_at}
  %difference = call i32 @memcmp(ptr %mask, ptr %masks.at, i64 {mask_bytes})
  %same = icmp eq i32 %difference, 0
  br i1 %same, label %out, label %note
note:
  call void @llvm.memcpy.p0.p0.i64(ptr %masks.at, ptr %mask, i64 {mask_bytes}, i1 false)
  %workers.at = getelementptr i8, ptr %team, i64 224
  %workers = load i64, ptr %workers.at, align 8
  br label %each
each:
  %worker = phi i64 [ 1, %note ], [ %next, %after ]
  %more = icmp sle i64 %worker, %workers
  br i1 %more, label %look, label %out
look:
  %next = add i64 %worker, 1
  %member = call ptr @member(ptr %team, i64 %worker)
  %number.at = getelementptr i8, ptr %member, i64 8
  %number = load atomic i32, ptr %number.at acquire, align 4
  %begun = icmp ne i32 %number, 0
  br i1 %begun, label %set, label %later
later: ; zero would stand for the caller; no processors at all differ from any next time
  call void @llvm.memset.p0.i64(ptr %masks.at, i8 0, i64 {mask_bytes}, i1 false)
  br label %after
set: ; refused where no processor is left
  %refused = call i32 @sched_setaffinity(i32 %number, i64 {mask_bytes}, ptr %mask)
  br label %after
after:
  br label %each
out:
  ret void
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
_NOTHING: Final = """
define internal void @introduce(ptr %team, i64 %worker) alwaysinline nounwind {{
  ret void
}}
define internal void @keep_off(ptr %team) alwaysinline nounwind {{
  ret void
}}
"""


def apart_text(machine: str) -> str:
    """Functions of the team: `introduce`, for a worker at its beginning, and `keep_off`, for the caller.

    Args:
        machine: The processor's family, as `platform.machine` names it; where Linux is not known to number threads
            on it, the functions do nothing.
    """
    if machine not in GETTID:
        return _NOTHING.format()
    return _TEXT.format(
        gettid=GETTID[machine],
        masks_at=PROCESSORS_AT,
        mask_bytes=PROCESSOR_BYTES,
        bits=8 * PROCESSOR_BYTES,
    )
