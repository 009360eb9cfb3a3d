"""A region as native code calls it: the loop over its primitives, in LLVM, and the record that the loop reads.

It comes with oneDNN's way to our team of threads. All of it is driven by tables, so the code is the same for every
region. A call takes an execution context (memory objects and argument rows) that is free, or makes one; after the
call nothing refers to the caller's tensors but bare addresses, which the next call replaces before anything reads
them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from eutectic.backend.dnnl.openmp_text import OPENMP_TEXT

SYMBOL: Final = "eutectic_dnnl_run"
RELEASE: Final = "eutectic_dnnl_release"
NOT_FINITE: Final = {"float32": 0x7F800000, "bfloat16": 0x7F80, "float16": 0x7C00}
"""For each dtype the number that the bits of infinity are; those of NaN are larger."""

OUT_OF_MEMORY: Final = 1000  # a status that oneDNN does not have


class Word(IntEnum):
    """Places in the record of a region, in words of eight bytes."""

    SPARE = 0  # a context that no call uses, or null
    ENGINE = 1
    STREAM = 2
    MEMORY_COUNT = 3
    MEMORIES = 4  # rows of three: descriptor, place, and the offset, number or address there
    CALL_COUNT = 5
    CALLS = 6  # rows of three: primitive, number of arguments, first row of arguments
    ROW_COUNT = 7
    ROWS = 8  # rows of two: argument number, memory number
    THREADS = 9
    FAILED_CALL = 10
    FAILED_STATUS = 11
    GUARD_COUNT = 12
    GUARDS = 13  # rows of three: number of a tensor that must be finite, its elements, what `NOT_FINITE` has for it
    LOST_THREAD = 14  # address of the thread whose OpenMP threads a fork took away, or of 0
    MEMORY_CREATE = 15
    SET_DATA_HANDLE = 16
    MEMORY_DESTROY = 17
    EXECUTE = 18
    GET_MAX_THREADS = 19
    SET_NUM_THREADS = 20


class Place(IntEnum):
    """Where a memory object's bytes are."""

    WORKSPACE = 0
    TENSOR = 1
    CONSTANT = 2


class Status(IntEnum):
    """What a call returns; the first two are those of `runtime.library`."""

    DONE = 0
    SPECIAL_VALUES = 1
    OTHER_THREAD = 2
    FAILED = 3
    NO_MEMORY = 4


def _load(name: str, word: Word, kind: str = "i64") -> str:
    return (
        f"  %{name}.at = getelementptr inbounds i64, ptr %record, i64 {word.value}\n"
        f"  %{name} = load {kind}, ptr %{name}.at, align 8"
    )


def native_text() -> str:
    """The LLVM module with `int32 run(void* record, void** tensors, void* workspace)`, and `release(record)`."""
    return (
        OPENMP_TEXT
        + _DECLARATIONS
        + _finite(32, 16)
        + _finite(16, 32)
        + _guards()
        + _rows()
        + _context()
        + _drop()
        + _bind()
        + _execute()
        + _can_run_here()
        + _run()
    )


_DECLARATIONS: Final = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @pthread_self()
"""


def _finite(bits: int, lanes: int) -> str:
    """Whether no element is infinite or NaN: without their signs all are below the number of the first of those."""
    vector, one = f"<{lanes} x i{bits}>", f"i{bits}"
    largest = f"v{lanes}i{bits}"
    sign = (1 << (bits - 1)) - 1
    return f"""
declare {one} @llvm.vector.reduce.umax.{largest}({vector})
declare {vector} @llvm.umax.{largest}({vector}, {vector})

define internal i1 @finite{bits}(ptr %data, i64 %count, i64 %first) nounwind {{
entry:
  %limit = trunc i64 %first to {one}
  %whole = and i64 %count, -{lanes}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %most = phi {vector} [ zeroinitializer, %entry ], [ %larger, %body ]
  %more = icmp slt i64 %i, %whole
  br i1 %more, label %body, label %reduce
body:
  %at = getelementptr inbounds {one}, ptr %data, i64 %i
  %bits = load {vector}, ptr %at, align {bits // 8}
  %size = and {vector} %bits, splat ({one} {sign})
  %larger = call {vector} @llvm.umax.{largest}({vector} %most, {vector} %size)
  %next = add i64 %i, {lanes}
  br label %head
reduce:
  %top = call {one} @llvm.vector.reduce.umax.{largest}({vector} %most)
  %fine = icmp ult {one} %top, %limit
  br i1 %fine, label %rest, label %bad
rest:
  %j = phi i64 [ %whole, %reduce ], [ %j.next, %rest.good ]
  %rest.more = icmp slt i64 %j, %count
  br i1 %rest.more, label %rest.body, label %good
rest.body:
  %rest.at = getelementptr inbounds {one}, ptr %data, i64 %j
  %rest.bits = load {one}, ptr %rest.at, align {bits // 8}
  %rest.size = and {one} %rest.bits, {sign}
  %rest.fine = icmp ult {one} %rest.size, %limit
  br i1 %rest.fine, label %rest.good, label %bad
rest.good:
  %j.next = add i64 %j, 1
  br label %rest
good:
  ret i1 true
bad:
  ret i1 false
}}
"""


def _guards() -> str:
    return f"""
define internal i1 @all_finite(ptr %record, ptr %tensors) nounwind {{
entry:
{_load("count", Word.GUARD_COUNT)}
{_load("guards", Word.GUARDS, "ptr")}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %row = getelementptr inbounds [3 x i64], ptr %guards, i64 %i
  %number = load i64, ptr %row, align 8
  %size.at = getelementptr inbounds i64, ptr %row, i64 1
  %size = load i64, ptr %size.at, align 8
  %first.at = getelementptr inbounds i64, ptr %row, i64 2
  %first = load i64, ptr %first.at, align 8
  %data.at = getelementptr inbounds ptr, ptr %tensors, i64 %number
  %data = load ptr, ptr %data.at, align 8
  %narrow = icmp ult i64 %first, 65536
  br i1 %narrow, label %short, label %long
short:
  %short.fine = call i1 @finite16(ptr %data, i64 %size, i64 %first)
  br i1 %short.fine, label %good, label %no
long:
  %long.fine = call i1 @finite32(ptr %data, i64 %size, i64 %first)
  br i1 %long.fine, label %good, label %no
good:
  %next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _context() -> str:
    """A context: the workspace it was bound to last, a handle for each memory, then the argument rows."""
    return f"""
define internal ptr @make_context(ptr %record) nounwind {{
entry:
{_load("memories.count", Word.MEMORY_COUNT)}
{_load("rows.count", Word.ROW_COUNT)}
{_load("memories", Word.MEMORIES, "ptr")}
{_load("engine", Word.ENGINE, "ptr")}
{_load("create", Word.MEMORY_CREATE, "ptr")}
  %handles.words = add i64 %memories.count, 1
  %rows.words = shl i64 %rows.count, 1
  %words = add i64 %handles.words, %rows.words
  %bytes = shl i64 %words, 3
  %made = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %made, null
  br i1 %none, label %fail, label %start
start:
  store ptr null, ptr %made, align 8
  %handles = getelementptr inbounds i64, ptr %made, i64 1
  %table = getelementptr inbounds i64, ptr %made, i64 %handles.words
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %next, %created ]
  %more = icmp slt i64 %i, %memories.count
  br i1 %more, label %body, label %done
body:
  %memory = getelementptr inbounds [3 x i64], ptr %memories, i64 %i
  %descriptor = load ptr, ptr %memory, align 8
  %place.at = getelementptr inbounds i64, ptr %memory, i64 1
  %place = load i64, ptr %place.at, align 8
  %value.at = getelementptr inbounds i64, ptr %memory, i64 2
  %value = load ptr, ptr %value.at, align 8
  %fixed = icmp eq i64 %place, {Place.CONSTANT.value}
  %data = select i1 %fixed, ptr %value, ptr null
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %i
  %status = call i32 %create(ptr %handle.at, ptr %descriptor, ptr %engine, ptr %data)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %undo, label %created
created:
  %next = add i64 %i, 1
  br label %head
undo:
  call void @destroy(ptr %record, ptr %made, i64 %i)
  br label %fail
fail:
  ret ptr null
done:
  call void @fill_rows(ptr %record, ptr %handles, ptr %table)
  ret ptr %made
}}
"""


def _rows() -> str:
    """The argument rows of a context: numbers of memories become their handles."""
    return f"""
define internal void @fill_rows(ptr %record, ptr %handles, ptr %table) nounwind {{
entry:
{_load("count", Word.ROW_COUNT)}
{_load("rows", Word.ROWS, "ptr")}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %from = getelementptr inbounds [2 x i64], ptr %rows, i64 %i
  %to = getelementptr inbounds [2 x i64], ptr %table, i64 %i
  %arg = load i64, ptr %from, align 8
  store i64 %arg, ptr %to, align 8
  %number.at = getelementptr inbounds i64, ptr %from, i64 1
  %number = load i64, ptr %number.at, align 8
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %number
  %handle = load ptr, ptr %handle.at, align 8
  %to.memory = getelementptr inbounds i64, ptr %to, i64 1
  store ptr %handle, ptr %to.memory, align 8
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""


def _drop() -> str:
    return f"""
define internal void @destroy(ptr %record, ptr %context, i64 %count) nounwind {{
entry:
{_load("drop", Word.MEMORY_DESTROY, "ptr")}
  %handles = getelementptr inbounds i64, ptr %context, i64 1
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %i
  %handle = load ptr, ptr %handle.at, align 8
  %status = call i32 %drop(ptr %handle)
  %next = add i64 %i, 1
  br label %head
done:
  call void @free(ptr %context)
  ret void
}}

; Gives back the context that is kept for the next call.
define void @{RELEASE}(ptr %record) nounwind {{
entry:
  %kept = atomicrmw xchg ptr %record, ptr null acquire
  %none = icmp eq ptr %kept, null
  br i1 %none, label %done, label %drop
drop:
{_load("count", Word.MEMORY_COUNT)}
  call void @destroy(ptr %record, ptr %kept, i64 %count)
  br label %done
done:
  ret void
}}

"""


def _bind() -> str:
    return f"""
; Tells the memories of a context where tensors are; the workspace only when it moved.
define internal void @bind(ptr %record, ptr %context, ptr %tensors, ptr %workspace) nounwind {{
entry:
{_load("count", Word.MEMORY_COUNT)}
{_load("memories", Word.MEMORIES, "ptr")}
{_load("set", Word.SET_DATA_HANDLE, "ptr")}
  %last = load ptr, ptr %context, align 8
  %moved = icmp ne ptr %last, %workspace
  store ptr %workspace, ptr %context, align 8
  %handles = getelementptr inbounds i64, ptr %context, i64 1
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %after ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %memory = getelementptr inbounds [3 x i64], ptr %memories, i64 %i
  %place.at = getelementptr inbounds i64, ptr %memory, i64 1
  %place = load i64, ptr %place.at, align 8
  %value.at = getelementptr inbounds i64, ptr %memory, i64 2
  %value = load i64, ptr %value.at, align 8
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %i
  %handle = load ptr, ptr %handle.at, align 8
  switch i64 %place, label %after [ i64 {Place.WORKSPACE.value}, label %inner i64 {Place.TENSOR.value}, label %tensor ]
inner:
  br i1 %moved, label %move, label %after
move:
  %own = getelementptr inbounds i8, ptr %workspace, i64 %value
  %ignored = call i32 %set(ptr %handle, ptr %own)
  br label %after
tensor:
  %data.at = getelementptr inbounds ptr, ptr %tensors, i64 %value
  %data = load ptr, ptr %data.at, align 8
  %unused = call i32 %set(ptr %handle, ptr %data)
  br label %after
after:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""


def _execute() -> str:
    return f"""
define internal i32 @execute(ptr %record, ptr %context) nounwind {{
entry:
{_load("count", Word.CALL_COUNT)}
{_load("calls", Word.CALLS, "ptr")}
{_load("stream", Word.STREAM, "ptr")}
{_load("function", Word.EXECUTE, "ptr")}
{_load("memories.count", Word.MEMORY_COUNT)}
  %handles.words = add i64 %memories.count, 1
  %table = getelementptr inbounds i64, ptr %context, i64 %handles.words
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %call = getelementptr inbounds [3 x i64], ptr %calls, i64 %i
  %primitive = load ptr, ptr %call, align 8
  %nargs.at = getelementptr inbounds i64, ptr %call, i64 1
  %nargs.word = load i64, ptr %nargs.at, align 8
  %nargs = trunc i64 %nargs.word to i32
  %first.at = getelementptr inbounds i64, ptr %call, i64 2
  %first = load i64, ptr %first.at, align 8
  %args = getelementptr inbounds [2 x i64], ptr %table, i64 %first
  %status = call i32 %function(ptr %primitive, ptr %stream, i32 %nargs, ptr %args)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %stop, label %good
good:
  %next = add nuw nsw i64 %i, 1
  br label %head
stop:
  %failed.at = getelementptr inbounds i64, ptr %record, i64 {Word.FAILED_CALL.value}
  store atomic i64 %i, ptr %failed.at monotonic, align 8
  %status.at = getelementptr inbounds i64, ptr %record, i64 {Word.FAILED_STATUS.value}
  %status.word = sext i32 %status to i64
  store atomic i64 %status.word, ptr %status.at monotonic, align 8
  ret i32 {Status.FAILED.value}
done:
  ret i32 0
}}

"""


def _can_run_here() -> str:
    return f"""
; Whether the calling thread has the threads that it would start regions with.
define internal i1 @can_run_here(ptr %record) nounwind {{
entry:
{_load("lost", Word.LOST_THREAD, "ptr")}
  %gone = load atomic i64, ptr %lost monotonic, align 8
  %self = call i64 @pthread_self()
  %fine = icmp ne i64 %self, %gone
  ret i1 %fine
}}
"""


def _run() -> str:
    return f"""
define i32 @{SYMBOL}(ptr %record, ptr %tensors, ptr %workspace) nounwind {{
entry:
  %here = call i1 @can_run_here(ptr %record)
  br i1 %here, label %look, label %elsewhere
elsewhere:
  ret i32 {Status.OTHER_THREAD.value}
look:
  %fine = call i1 @all_finite(ptr %record, ptr %tensors)
  br i1 %fine, label %take, label %special
special:
  ret i32 {Status.SPECIAL_VALUES.value}
take:
  %kept = atomicrmw xchg ptr %record, ptr null acquire
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %ready
make:
  %made = call ptr @make_context(ptr %record)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %poor, label %ready
poor:
  %poor.at = getelementptr inbounds i64, ptr %record, i64 {Word.FAILED_STATUS.value}
  store atomic i64 {OUT_OF_MEMORY}, ptr %poor.at monotonic, align 8
  ret i32 {Status.NO_MEMORY.value}
ready:
  %context = phi ptr [ %kept, %take ], [ %made, %make ]
  call void @bind(ptr %record, ptr %context, ptr %tensors, ptr %workspace)
{_load("threads", Word.THREADS)}
{_load("get", Word.GET_MAX_THREADS, "ptr")}
{_load("set", Word.SET_NUM_THREADS, "ptr")}
  %wanted = trunc i64 %threads to i32
  %before = call i32 %get()
  %same = icmp eq i32 %before, %wanted
  br i1 %same, label %go, label %change
change:
  call void %set(i32 %wanted)
  br label %go
go:
  %status = call i32 @execute(ptr %record, ptr %context)
  br i1 %same, label %give, label %restore
restore:
  call void %set(i32 %before)
  br label %give
give:
  %other = atomicrmw xchg ptr %record, ptr %context release
  %alone = icmp eq ptr %other, null
  br i1 %alone, label %done, label %surplus
surplus:
{_load("count", Word.MEMORY_COUNT)}
  call void @destroy(ptr %record, ptr %other, i64 %count)
  br label %done
done:
  ret i32 %status
}}
"""
