"""Calls into the team's code by code that all of its threads go through: iterations to take, meetings, told numbers.

The functions that are called, and why they suffice, are described in `loop_text.py`. The code that is written here
relies on registers `%thread`, `%threads` and `%team`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.runtime.team import BEGIN, MEET, NEXT, TELL, TOLD

_TEAM: Final = ("ptr", "%team")
_THREAD: Final = ("i64", "%thread")
_THREADS: Final = ("i64", "%threads")
_BITS: Final = {"half": 16, "float": 32, "double": 64, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def can_be_told(kind: str) -> bool:
    """Whether values of an LLVM type can be told to the team: those of at most one word."""
    return kind in _BITS


def share_iterations(
    emitter: ExprEmitter, extent: str, worth: int, run: Callable[[str, str], None], note: str = ""
) -> None:
    """Write code in which the threads take the iterations of a loop.

    Args:
        emitter: Writes it, and forgets subexpressions where they do not dominate what follows.
        extent: How many there are, an i64; fewer than none count as none.
        worth: How many pieces they are worth.
        run: Writes what is done with some of them; takes registers with the first one and the one behind the last.
        note: What LLVM is told of the loop over what is taken, a node of metadata of the module. Without one it takes
            what a loop within that ends it says of itself, and warns where that cannot be done.
    """
    text = emitter.text
    head, some, over = (text.fresh(hint) for hint in ("take", "share", "shared"))
    text.call("void", BEGIN, [_TEAM, _THREAD, _THREADS, ("i64", extent), ("i64", str(worth))])
    text.jump(head)
    text.start(head)
    pair = text.call("{ i64, i64 }", NEXT, [_TEAM, _THREAD, _THREADS])
    begin, end = (text.assign(f"extractvalue {{ i64, i64 }} {pair}, {i}") for i in range(2))
    text.branch(text.assign(f"icmp slt i64 {begin}, {end}"), some, over)
    text.start(some)
    emitter.forget()
    run(begin, end)
    text.jump(head, note)
    text.start(over)
    emitter.forget()


def meet(text: FunctionText) -> None:
    """Write code that waits until all iterations so far are done."""
    text.call("void", MEET, [_TEAM, _THREAD, _THREADS])


def tell(text: FunctionText, kind: str, value: str) -> None:
    """Write, within a loop of one iteration, code that keeps a value for all threads."""
    bits = f"i{_BITS[kind]}"
    if kind != bits:
        value = text.assign(f"bitcast {kind} {value} to {bits}")
    if bits != "i64":
        value = text.assign(f"zext {bits} {value} to i64")
    text.call("void", TELL, [_TEAM, _THREAD, ("i64", value)])


def told(text: FunctionText, kind: str, passed: str) -> str:
    """Write, behind that loop and a meeting, code that goes to a label when the value is gone; gives its register."""
    bits, known = f"i{_BITS[kind]}", text.fresh("known")
    pair = text.call("{ i64, i64 }", TOLD, [_TEAM, _THREAD])
    value, flag = (text.assign(f"extractvalue {{ i64, i64 }} {pair}, {i}") for i in range(2))
    if bits != "i64":
        value = text.assign(f"trunc i64 {value} to {bits}")
    if kind != bits:
        value = text.assign(f"bitcast {bits} {value} to {kind}")
    text.branch(text.assign(f"icmp ne i64 {flag}, 0"), known, passed)
    text.start(known)
    return value
