"""The OpenMP entry points that oneDNN was compiled against, on top of our team of threads, in LLVM.

oneDNN asks for a parallel region, runs its function with each thread's number, and ends it. Here such a region is
shared work of the process's team: the same threads that run our kernels, the same bounded waiting, and a thread
without a processor holds nobody up.

A thread's record, by byte: 0 its number in the region, 8 the region's threads (0 outside), 16 the most it may use (0:
the default), 24 whether the region is the team's (1) or its own (2), 32 how many regions are nested in it, 40 function
and 48 argument of the region, 56 begin, 64 end, 72 step, 80 chunk and 88 trips of the loop it shares.

Reference: libgomp's interface of GCC (GOMP_parallel_start, GOMP_loop_static_start), OpenMP 4.5 for the omp_ functions.
"""

from __future__ import annotations

from typing import Final

INTERPOSED: Final = (
    "GOMP_parallel_start",
    "GOMP_parallel_end",
    "GOMP_barrier",
    "GOMP_loop_static_start",
    "GOMP_loop_static_next",
    "GOMP_loop_end_nowait",
    "omp_get_max_threads",
    "omp_get_num_threads",
    "omp_get_thread_num",
    "omp_in_parallel",
    "omp_set_num_threads",
)
PREFIX: Final = "eutectic_"  # of our functions' names, as those of libgomp are in the process, too

OPENMP_TEXT: Final = """
@openmp_key = global i64 0
@openmp_team = global ptr null
@openmp_default = global i64 1
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @calloc(i64, i64)
declare i64 @eutectic_open(ptr, ptr, ptr, i64)
declare void @eutectic_close(ptr)
declare void @eutectic_barrier(ptr, i64)

; The calling thread's record.
define internal ptr @me() nounwind {
entry:
  %wide = load i64, ptr @openmp_key, align 8
  %key = trunc i64 %wide to i32
  %found = call ptr @pthread_getspecific(i32 %key)
  %none = icmp eq ptr %found, null
  br i1 %none, label %make, label %out
make:
  %made = call ptr @calloc(i64 1, i64 96)
  %ignored = call i32 @pthread_setspecific(i32 %key, ptr %made)
  br label %out
out:
  %record = phi ptr [ %found, %entry ], [ %made, %make ]
  ret ptr %record
}

; One part of a region: the function with a number of its own. The caller's context is its record.
define internal void @member(ptr %context, i64 %number, i64 %count, ptr %team) nounwind {
entry:
  %record = call ptr @me()
  %before = load i64, ptr %record, align 8
  %count.at = getelementptr inbounds i64, ptr %record, i64 1
  %mode.at = getelementptr inbounds i64, ptr %record, i64 3
  %count.before = load i64, ptr %count.at, align 8
  %mode.before = load i64, ptr %mode.at, align 8
  store i64 %number, ptr %record, align 8
  store i64 %count, ptr %count.at, align 8
  store i64 1, ptr %mode.at, align 8
  %function.at = getelementptr inbounds i64, ptr %context, i64 5
  %function = load ptr, ptr %function.at, align 8
  %data.at = getelementptr inbounds i64, ptr %context, i64 6
  %data = load ptr, ptr %data.at, align 8
  call void %function(ptr %data)
  store i64 %before, ptr %record, align 8
  store i64 %count.before, ptr %count.at, align 8
  store i64 %mode.before, ptr %mode.at, align 8
  ret void
}

define void @eutectic_GOMP_parallel_start(ptr %function, ptr %data, i32 %wanted) nounwind {
entry:
  %record = call ptr @me()
  %mode.at = getelementptr inbounds i64, ptr %record, i64 3
  %mode = load i64, ptr %mode.at, align 8
  %inside = icmp ne i64 %mode, 0
  br i1 %inside, label %nest, label %outside
nest:
  %nested.at = getelementptr inbounds i64, ptr %record, i64 4
  %nested = load i64, ptr %nested.at, align 8
  %deeper = add i64 %nested, 1
  store i64 %deeper, ptr %nested.at, align 8
  ret void
outside:
  %function.at = getelementptr inbounds i64, ptr %record, i64 5
  store ptr %function, ptr %function.at, align 8
  %data.at = getelementptr inbounds i64, ptr %record, i64 6
  store ptr %data, ptr %data.at, align 8
  %open = icmp eq i32 %wanted, 0
  %most = call i32 @eutectic_omp_get_max_threads()
  %asked = select i1 %open, i32 %most, i32 %wanted
  %count = zext i32 %asked to i64
  %team = load ptr, ptr @openmp_team, align 8
  %got = call i64 @eutectic_open(ptr %team, ptr @member, ptr %record, i64 %count)
  %several = icmp sgt i64 %got, 1
  %kind = select i1 %several, i64 1, i64 2
  store i64 0, ptr %record, align 8
  %count.at = getelementptr inbounds i64, ptr %record, i64 1
  store i64 %got, ptr %count.at, align 8
  store i64 %kind, ptr %mode.at, align 8
  ret void
}

define void @eutectic_GOMP_parallel_end() nounwind {
entry:
  %record = call ptr @me()
  %nested.at = getelementptr inbounds i64, ptr %record, i64 4
  %nested = load i64, ptr %nested.at, align 8
  %deep = icmp sgt i64 %nested, 0
  br i1 %deep, label %rise, label %close
rise:
  %less = sub i64 %nested, 1
  store i64 %less, ptr %nested.at, align 8
  ret void
close:
  %count.at = getelementptr inbounds i64, ptr %record, i64 1
  %mode.at = getelementptr inbounds i64, ptr %record, i64 3
  %mode = load i64, ptr %mode.at, align 8
  %ours = icmp eq i64 %mode, 1
  br i1 %ours, label %team, label %done
team:
  %threads = load ptr, ptr @openmp_team, align 8
  call void @eutectic_close(ptr %threads)
  br label %done
done:
  store i64 0, ptr %record, align 8
  store i64 0, ptr %count.at, align 8
  store i64 0, ptr %mode.at, align 8
  ret void
}

define i32 @eutectic_omp_get_thread_num() nounwind {
entry:
  %record = call ptr @me()
  %nested.at = getelementptr inbounds i64, ptr %record, i64 4
  %nested = load i64, ptr %nested.at, align 8
  %alone = icmp sgt i64 %nested, 0
  %number = load i64, ptr %record, align 8
  %chosen = select i1 %alone, i64 0, i64 %number
  %short = trunc i64 %chosen to i32
  ret i32 %short
}

define i32 @eutectic_omp_get_num_threads() nounwind {
entry:
  %record = call ptr @me()
  %nested.at = getelementptr inbounds i64, ptr %record, i64 4
  %nested = load i64, ptr %nested.at, align 8
  %count.at = getelementptr inbounds i64, ptr %record, i64 1
  %count = load i64, ptr %count.at, align 8
  %outside = icmp eq i64 %count, 0
  %deep = icmp sgt i64 %nested, 0
  %alone = or i1 %outside, %deep
  %chosen = select i1 %alone, i64 1, i64 %count
  %short = trunc i64 %chosen to i32
  ret i32 %short
}

define i32 @eutectic_omp_in_parallel() nounwind {
entry:
  %record = call ptr @me()
  %mode.at = getelementptr inbounds i64, ptr %record, i64 3
  %mode = load i64, ptr %mode.at, align 8
  %ours = icmp eq i64 %mode, 1
  %short = zext i1 %ours to i32
  ret i32 %short
}

define i32 @eutectic_omp_get_max_threads() nounwind {
entry:
  %record = call ptr @me()
  %most.at = getelementptr inbounds i64, ptr %record, i64 2
  %most = load i64, ptr %most.at, align 8
  %unset = icmp eq i64 %most, 0
  %default = load i64, ptr @openmp_default, align 8
  %chosen = select i1 %unset, i64 %default, i64 %most
  %short = trunc i64 %chosen to i32
  ret i32 %short
}

define void @eutectic_omp_set_num_threads(i32 %count) nounwind {
entry:
  %record = call ptr @me()
  %most.at = getelementptr inbounds i64, ptr %record, i64 2
  %wide = sext i32 %count to i64
  store i64 %wide, ptr %most.at, align 8
  ret void
}

define void @eutectic_GOMP_barrier() nounwind {
entry:
  %count = call i32 @eutectic_omp_get_num_threads()
  %wide = zext i32 %count to i64
  %team = load ptr, ptr @openmp_team, align 8
  call void @eutectic_barrier(ptr %team, i64 %wide)
  ret void
}

; A loop whose iterations are dealt to the threads: in one run each, or in chunks by turns.
define i8 @eutectic_GOMP_loop_static_start(
    i64 %begin, i64 %end, i64 %step, i64 %chunk, ptr %first, ptr %last
) nounwind {
entry:
  %record = call ptr @me()
  %begin.at = getelementptr inbounds i64, ptr %record, i64 7
  store i64 %begin, ptr %begin.at, align 8
  %end.at = getelementptr inbounds i64, ptr %record, i64 8
  store i64 %end, ptr %end.at, align 8
  %step.at = getelementptr inbounds i64, ptr %record, i64 9
  store i64 %step, ptr %step.at, align 8
  %chunk.at = getelementptr inbounds i64, ptr %record, i64 10
  store i64 %chunk, ptr %chunk.at, align 8
  %trips.at = getelementptr inbounds i64, ptr %record, i64 11
  store i64 0, ptr %trips.at, align 8
  %more = call i8 @eutectic_GOMP_loop_static_next(ptr %first, ptr %last)
  ret i8 %more
}

define i8 @eutectic_GOMP_loop_static_next(ptr %first, ptr %last) nounwind {
entry:
  %record = call ptr @me()
  %number.short = call i32 @eutectic_omp_get_thread_num()
  %number = zext i32 %number.short to i64
  %threads.short = call i32 @eutectic_omp_get_num_threads()
  %threads = zext i32 %threads.short to i64
  %begin.at = getelementptr inbounds i64, ptr %record, i64 7
  %begin = load i64, ptr %begin.at, align 8
  %end.at = getelementptr inbounds i64, ptr %record, i64 8
  %end = load i64, ptr %end.at, align 8
  %step.at = getelementptr inbounds i64, ptr %record, i64 9
  %step = load i64, ptr %step.at, align 8
  %chunk.at = getelementptr inbounds i64, ptr %record, i64 10
  %chunk = load i64, ptr %chunk.at, align 8
  %trips.at = getelementptr inbounds i64, ptr %record, i64 11
  %trips = load i64, ptr %trips.at, align 8
  %more.trips = add i64 %trips, 1
  store i64 %more.trips, ptr %trips.at, align 8
  %span = sub i64 %end, %begin
  %up = icmp sgt i64 %step, 0
  %towards = select i1 %up, i64 -1, i64 1
  %inner = add i64 %step, %towards
  %reach = add i64 %span, %inner
  %count.raw = sdiv i64 %reach, %step
  %empty = icmp slt i64 %count.raw, 0
  %count = select i1 %empty, i64 0, i64 %count.raw
  %dealt = icmp sgt i64 %chunk, 0
  br i1 %dealt, label %by.turns, label %in.one
in.one:
  %done = icmp sgt i64 %trips, 0
  br i1 %done, label %none, label %share
share:
  %each = sdiv i64 %count, %threads
  %rest = srem i64 %count, %threads
  %larger = icmp slt i64 %number, %rest
  %extra = zext i1 %larger to i64
  %own = add i64 %each, %extra
  %shift = select i1 %larger, i64 0, i64 %rest
  %placed = mul i64 %own, %number
  %from.one = add i64 %placed, %shift
  %to.one = add i64 %from.one, %own
  br label %given
by.turns:
  %turn = mul i64 %trips, %threads
  %which = add i64 %turn, %number
  %from.turn = mul i64 %which, %chunk
  %over = add i64 %from.turn, %chunk
  %beyond = icmp sgt i64 %over, %count
  %to.turn = select i1 %beyond, i64 %count, i64 %over
  br label %given
given:
  %from = phi i64 [ %from.one, %share ], [ %from.turn, %by.turns ]
  %to = phi i64 [ %to.one, %share ], [ %to.turn, %by.turns ]
  %some = icmp slt i64 %from, %to
  br i1 %some, label %write, label %none
write:
  %from.steps = mul i64 %from, %step
  %at = add i64 %from.steps, %begin
  store i64 %at, ptr %first, align 8
  %to.steps = mul i64 %to, %step
  %until = add i64 %to.steps, %begin
  store i64 %until, ptr %last, align 8
  ret i8 1
none:
  ret i8 0
}

define void @eutectic_GOMP_loop_end_nowait() nounwind {
  ret void
}
"""
