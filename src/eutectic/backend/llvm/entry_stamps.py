"""Times of steps, taken by the native function itself: for profiles, in which a call of each step would change it.

Reference: POSIX clock_gettime, CLOCK_MONOTONIC.
"""

from __future__ import annotations

from typing import Final

from eutectic.backend.llvm.function_text import FunctionText
from eutectic.runtime.native_code import STAMPS

_STAMP: Final = "stamp"
_MONOTONIC: Final = 1


def stamps_text(count: int) -> list[str]:
    """The variable with the times, in nanoseconds, of the beginning and of the end of each of some steps.

    With it the function that puts the time of now into one of its places.
    """
    return [
        f"@{STAMPS} = global [{count + 1} x i64] zeroinitializer",
        "declare i32 @clock_gettime(i32, ptr)",
        f"define internal void @{_STAMP}(i64 %number) noinline nounwind {{",
        "  %now = alloca [2 x i64], align 8",
        f"  %said = call i32 @clock_gettime(i32 {_MONOTONIC}, ptr %now)",
        "  %seconds = load i64, ptr %now, align 8",
        "  %behind = getelementptr inbounds i64, ptr %now, i64 1",
        "  %rest = load i64, ptr %behind, align 8",
        "  %whole = mul i64 %seconds, 1000000000",
        "  %time = add i64 %whole, %rest",
        f"  %place = getelementptr inbounds i64, ptr @{STAMPS}, i64 %number",
        "  store i64 %time, ptr %place, align 8",
        "  ret void",
        "}",
        "",
    ]


def stamp(text: FunctionText, number: int) -> None:
    """Take the time that so many steps have ended at."""
    text.do(f"call void @{_STAMP}(i64 {number})")


def stamp_by_first(text: FunctionText, number: int) -> None:
    """The same in code that all threads of the team run: its first one does it."""
    first, after = text.fresh("first"), text.fresh("stamped")
    text.branch(text.assign("icmp eq i64 %thread, 0"), first, after)
    text.start(first)
    stamp(text, number)
    text.jump(after)
    text.start(after)
